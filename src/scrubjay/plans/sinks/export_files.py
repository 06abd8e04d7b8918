"""The files of an export: paths and front matter of Markdown, records of a WARC, and files that appear complete."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from scrubjay.errors import InvalidRequest

_UNSAFE = re.compile(r"[^\w.,+=@ -]+")
_MAX_SEGMENT = 80
_MAX_SEGMENTS = 12
_FRONT_MATTER = ("url", "title", "crawled_at", "changed_at", "content_type", "extraction_method", "content_sha256")


def markdown_path(url: str) -> Path:
    """Where a page's Markdown goes: its host and path, made of harmless names. Other addresses give other paths."""
    parts = urlsplit(url)
    segments = [segment for segment in unquote(parts.path).split("/") if segment]
    names = [_name(segment) for segment in segments[:_MAX_SEGMENTS]]
    plain = "/".join(names) == "/".join(segments) and not parts.query and not parts.path.endswith("//")
    last = names.pop() if names and not parts.path.endswith("/") else "index"
    if any(name.endswith(".md") for name in names):  # a page may have that very name
        names, plain = [name + "_" if name.endswith(".md") else name for name in names], False
    if (not plain and segments) or parts.query:
        last += "-" + hashlib.sha256(url.encode()).hexdigest()[:8]
    return Path(_name(parts.netloc), *names, last.removesuffix(".html").removesuffix(".htm") + ".md")


def _name(text: str) -> str:
    """A file name: no separators, no leading dot, not too long. Dots and blanks go together: `. ..` is not `..`."""
    return _UNSAFE.sub("_", text).lstrip(". ")[:_MAX_SEGMENT].rstrip() or "_"


def front_matter(record: dict[str, Any]) -> str:
    # Values are written as JSON, which is YAML too, whatever a page calls itself.
    facts = {name: record[name] for name in _FRONT_MATTER if record[name] is not None}
    for name in ("description", "author", "published_at", "language"):
        if record["metadata"].get(name):
            facts[name] = record["metadata"][name]
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in facts.items()]
    return "\n".join(["---", *lines, "---", "", ""])


def warc_record(
    writer: Any, url: str, body: bytes, moment: datetime, headers: Mapping[str, str], status: int | None
) -> Any:
    from warcio.statusandheaders import StatusAndHeaders

    # The body is kept as it reads, so what was said about its coding on the wire no longer holds.
    kept = [
        (name, value)
        for name, value in headers.items()
        if name.lower() not in ("content-encoding", "transfer-encoding", "content-length")
    ]
    http = StatusAndHeaders(f"{status or 200} OK", [*kept, ("Content-Length", str(len(body)))], protocol="HTTP/1.1")
    return writer.create_warc_record(
        url,
        "response",
        payload=BytesIO(body),
        length=len(body),
        http_headers=http,
        warc_headers_dict={"WARC-Date": moment.strftime("%Y-%m-%dT%H:%M:%SZ")},
    )


@contextmanager
def appearing(path: Path) -> Iterator[IO[bytes]]:
    """A file that appears complete or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name[:40]}.", delete=False)  # noqa: SIM115
    except OSError as error:
        raise InvalidRequest(f"Cannot write {path}: {error.strerror}.", field="out") from error
    try:
        with draft:
            yield draft
        Path(draft.name).chmod(0o666 & ~_umask())
        Path(draft.name).replace(path)
    except OSError as error:
        Path(draft.name).unlink(missing_ok=True)
        raise InvalidRequest(f"Cannot write {path}: {error.strerror}.", field="out") from error
    except BaseException:
        Path(draft.name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
