"""The files of an export: paths and front matter of Markdown, records of a WARC, and files that appear complete."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote, unquote, urlsplit

_UNSAFE = re.compile(r"[^\w.,+=@ -]+")
_MAX_SEGMENT = 80
_MAX_SEGMENT_BYTES = 200  # file systems allow 255, with what is added
_MAX_SEGMENTS = 12
_URL_CHARACTERS = "%/:?#[]@!$&'()*+,;="  # that are not escaped
_FRONT_MATTER = ("url", "title", "crawled_at", "changed_at", "content_type", "extraction_method", "content_sha256")


def markdown_path(url: str) -> Path:
    """Where a page's Markdown goes: its host and path, made of harmless names."""
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


def free_path(url: str, taken: set[str]) -> Path:
    """`markdown_path`, or a path with a hash where that is taken: `/a` and `/a.html` have the same. It is then taken.

    Case does not distinguish paths, so that an export can be copied to any file system.
    """
    path = first = markdown_path(url)
    seed = url
    while str(path).casefold() in taken:
        seed = hashlib.sha256(seed.encode()).hexdigest()
        path = first.with_stem(f"{first.stem}-{seed[:16]}")
    taken.add(str(path).casefold())
    return path


def _name(text: str) -> str:
    """A file name: no separators, no leading dot, not too long. Dots and blanks go together: `. ..` is not `..`."""
    short = _UNSAFE.sub("_", text).lstrip(". ")[:_MAX_SEGMENT].encode()[:_MAX_SEGMENT_BYTES].decode(errors="ignore")
    return short.rstrip() or "_"


def front_matter(record: dict[str, Any]) -> str:
    # Values are written as JSON, which is YAML too, whatever a page calls itself.
    facts = {name: record[name] for name in _FRONT_MATTER if record.get(name) is not None}
    for name in ("description", "author", "published_at", "language"):
        if record["metadata"].get(name):
            facts[name] = record["metadata"][name]
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in facts.items()]
    return "\n".join(["---", *lines, "---", "", ""])


def warc_record(
    writer: Any, url: str, body: bytes, moment: datetime, headers: Mapping[str, str], status: int | None
) -> Any:
    """The answer to a request, or the bytes alone if the URL is not of the web."""
    from warcio.statusandheaders import StatusAndHeaders

    date = {"WARC-Date": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}
    if not url.startswith(("http://", "https://")):
        address, kind = quote(url, safe=_URL_CHARACTERS), headers.get("Content-Type", "application/octet-stream")
        return writer.create_warc_record(
            address, "resource", BytesIO(body), length=len(body), warc_content_type=kind, warc_headers_dict=date
        )
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
        warc_headers_dict=date,
    )


@contextmanager
def appearing(path: Path, draft: Path | None = None) -> Iterator[IO[bytes]]:
    """A file that appears complete or not at all; until then it is at `draft`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = draft or path.with_name(f".{path.name[:40]}.{secrets.token_hex(4)}")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
