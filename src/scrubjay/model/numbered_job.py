"""Jobs as the `/v2` door knows them: by a number that grows, with the address that started them."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from scrubjay.model.clock import utc_now

_NUMBER = re.compile(r"jb_([1-9][0-9]{0,17})")


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedJob:
    number: int = 0  # given by the database
    tenant_id: str
    job_id: str
    endpoint: str  # the address with its query that started the job
    folder: str  # of its job file, as the resource's path: `crawler`, `inventory/vector_stores`
    action: str
    object_id: str | None = None
    is_filed: bool = False  # the job file has all of it, with its end
    created_at: datetime = field(default_factory=utc_now)

    @property
    def id(self) -> str:
        return f"jb_{self.number}"


def job_number(text: str) -> int | None:
    """The number in `jb_N`; None for any other text."""
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None
