"""What a name says about content: the media type that a listing tells before anything is read."""

import mimetypes
from pathlib import PurePosixPath

from scrubjay.extract.media import OFFICE_TYPES

# Python's own table without the machine's: a listing must say the same wherever it is made.
_KNOWN = mimetypes.MimeTypes()
_ENCODINGS = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_BY_SUFFIX = {f".{kind}": mime for kind, mime in OFFICE_TYPES.items()} | {
    ".atom": "application/atom+xml",
    ".jsonl": "application/jsonl",
    ".log": "text/plain",
    ".markdown": "text/markdown",
    ".md": "text/markdown",
    ".ndjson": "application/x-ndjson",
    ".rss": "application/rss+xml",
    ".rst": "text/plain",
}


def guess_content_type(name: str) -> str | None:
    """The media type that the last part of a path or key suggests."""
    path = PurePosixPath(name)
    ours = _BY_SUFFIX.get(path.suffix.lower())
    if ours is not None:
        return ours
    # With a slash before it, so that `data:x.html` is not taken for an address.
    found, encoding = _KNOWN.guess_type(f"/{path.name}")
    return found if encoding is None else _ENCODINGS.get(encoding, "application/octet-stream")
