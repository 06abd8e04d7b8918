"""Cursors: where the next page begins, and of which query and which moment. Opaque, and useless elsewhere."""

import base64
import binascii
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime

from scrubjay.errors import InvalidRequest

MAX_OFFSET = 10_000


@dataclass(frozen=True, slots=True)
class Cursor:
    """Later pages look at the index as of the first one's moment, so that nothing moves between them."""

    offset: int
    as_of: datetime

    def encode(self, request: str) -> str:
        """`request` is the canonical text of everything that was asked but the cursor."""
        body = json.dumps([self.offset, self.as_of.isoformat(), _mark(request)])
        return base64.urlsafe_b64encode(body.encode()).decode().rstrip("=")


def read_cursor(text: str, request: str) -> Cursor:
    """The cursor, or InvalidRequest when it is none of ours or belongs to another query."""
    try:
        offset, moment, mark = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        cursor = Cursor(int(offset), datetime.fromisoformat(moment))
    except (ValueError, TypeError, OverflowError, binascii.Error, RecursionError):
        raise InvalidRequest("cursor is not one that this search gave.", field="cursor") from None
    if mark != _mark(request):
        raise InvalidRequest("cursor belongs to another query.", field="cursor")
    if not 0 <= cursor.offset <= MAX_OFFSET or cursor.as_of.tzinfo is None:
        raise InvalidRequest("cursor is not one that this search gave.", field="cursor")
    return cursor


def _mark(request: str) -> str:
    return hashlib.sha256(request.encode()).hexdigest()[:16]
