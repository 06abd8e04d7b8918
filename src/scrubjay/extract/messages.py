"""What goes between the extraction pool and its worker processes: length-prefixed frames of plain tuples.

Marshal and not pickle: it is faster for tuples of text, and reading it runs no code that the other side names.
"""

import marshal
import struct
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import Any, TypeVar

from scrubjay.errors import ExtractionFailed, InvalidRequest
from scrubjay.model.extraction import Anchor, Extraction, ExtractOptions, MarkdownBlock, Verdict

REQUEST_HEADER = struct.Struct("<II")  # lengths of the description and of the body
ANSWER_HEADER = struct.Struct("<I")
# Version 4 shares equal objects, which costs more than it saves here.
_MARSHAL_VERSION = 2

READY = 0  # the worker has imported everything
DONE = 1
FAILED = 2  # with a message and an error_type
INVALID = 3  # the options were wrong
LEAVING = 4  # the worker ends itself between two pages
_DONE_PARTS, _OTHER_PARTS = 11, 3

MALFORMED = (ValueError, EOFError, TypeError, IndexError)  # what reading a broken answer raises

Row = TypeVar("Row", Anchor, MarkdownBlock)
Request = tuple[str, str | None, int, str, dict[str, str], bool, tuple[int, ...], str | None]


def encode_request(
    data: bytes | Path, url: str, content_type: str | None, status: int, options: ExtractOptions
) -> tuple[bytes, bytes]:
    """The frame's head and its body. A path is sent as such, and the worker reads the file."""
    path, body = (str(data), b"") if isinstance(data, Path) else (None, data)
    request: Request = (
        url,
        content_type,
        status,
        options.strategy,
        dict(options.fields),
        options.contexts,
        tuple(options.limits),
        path,
    )
    description = marshal.dumps(request, _MARSHAL_VERSION)
    return REQUEST_HEADER.pack(len(description), len(body)) + description, body


def decode_request(description: bytes) -> Request:
    request: Request = marshal.loads(description)  # noqa: S302 - written by our own parent process
    return request


def encode_done(extraction: Extraction) -> bytes:
    anchors, blocks = list(map(tuple, extraction.anchors)), list(map(tuple, extraction.blocks))
    rest = (
        extraction.markdown,
        extraction.method,
        extraction.title,
        extraction.metadata,
        extraction.fields,
        extraction.verdict.value,
        extraction.verdict_reason,
        list(extraction.cuts),
    )
    try:
        return _frame((DONE, *rest, anchors, blocks))
    except ValueError:
        # Marshal takes exact types only: no enums, no dates, no subclasses of text.
        return _frame((DONE, *(_plain(part) for part in rest), anchors, blocks))


def encode_other(kind: int, message: str = "", error_type: str = "") -> bytes:
    return _frame((kind, message, error_type))


def decode_answer(frame: bytes | bytearray | memoryview) -> tuple[Any, ...]:
    answer = marshal.loads(frame)  # noqa: S302 - see the module's docstring
    if not isinstance(answer, tuple) or len(answer) != (_DONE_PARTS if answer[0] == DONE else _OTHER_PARTS):
        raise ValueError("not an answer")
    return answer


def read_answer(answer: tuple[Any, ...], url: str) -> Extraction:
    """The extraction that an answer carries, or the error."""
    try:
        return _read_answer(answer, url)
    except MALFORMED as error:
        message = "The page made its extraction process answer nonsense."
        raise ExtractionFailed(message, error_type="extraction_crashed", url=url) from error


def _read_answer(answer: tuple[Any, ...], url: str) -> Extraction:
    if answer[0] == DONE:
        _, markdown, method, title, metadata, fields, verdict, reason, cuts, anchors, blocks = answer
        return Extraction(
            markdown=markdown,
            method=method,
            title=title,
            metadata=metadata,
            anchors=_rows(Anchor, anchors),
            blocks=_rows(MarkdownBlock, blocks),
            fields=fields,
            verdict=Verdict(verdict),
            verdict_reason=reason,
            cuts=tuple(cuts),
        )
    _, message, error_type = answer
    if answer[0] == INVALID:
        raise InvalidRequest(message, field="strategy")
    raise ExtractionFailed(message, error_type=error_type, url=url)


def _rows(kind: type[Row], rows: list[tuple[Any, ...]]) -> tuple[Row, ...]:
    """Hundreds a page: `_make` would be a call in Python for each."""
    return tuple(map(tuple.__new__, repeat(kind), rows))


def _frame(answer: tuple[Any, ...]) -> bytes:
    body = marshal.dumps(answer, _MARSHAL_VERSION)
    return ANSWER_HEADER.pack(len(body)) + body


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, bool | int | float):
        return float(value) if isinstance(value, float) else int(value)
    return str.__str__(value) if isinstance(value, str) else str(value)
