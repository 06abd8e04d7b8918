"""What a crawl brought, as files: a folder of Markdown, JSON lines, or a WARC."""

import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from scrubjay.errors import InvalidRequest
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.job import Job
from scrubjay.services.crawls import page_record

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

_UNSAFE = re.compile(r"[^\w.,+=@ -]+")
_MAX_SEGMENT = 80
_MAX_SEGMENTS = 12
_FRONT_MATTER = ("url", "title", "crawled_at", "changed_at", "content_type", "extraction_method", "content_sha256")


async def export_pages(
    jay: "Scrubjay", who: "Principal", job: Job, out: Path | None, jsonl: Path | None, warc: Path | None
) -> dict[str, int]:
    """Write every page of the job to the targets that are given; how many went to each."""
    counts: dict[str, int] = {}
    if out is not None:
        counts[str(out)] = await _export_folder(jay, who, job, out)
    if jsonl is not None:
        with _appearing(jsonl) as file:
            counts[str(jsonl)] = await _export_jsonl(jay, who, job, file)
    if warc is not None:
        with _appearing(warc) as file:
            counts[str(warc)] = await _export_warc(jay, who, job, file, compressed=warc.suffix == ".gz")
    return counts


async def _export_folder(jay: "Scrubjay", who: "Principal", job: Job, folder: Path) -> int:
    written = 0
    async for page in jay.crawls.pages(who, job.id):
        record = page_record(page)
        if not record["success"] or record["duplicate"]:
            continue
        with _appearing(folder / markdown_path(page.url)) as file:
            file.write(_front_matter(record).encode() + (record["markdown"] or "").encode("utf-8", "replace") + b"\n")
        written += 1
    return written


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


def _front_matter(record: dict[str, Any]) -> str:
    # Values are written as JSON, which is YAML too, whatever a page calls itself.
    facts = {name: record[name] for name in _FRONT_MATTER if record[name] is not None}
    for name in ("description", "author", "published_at", "language"):
        if record["metadata"].get(name):
            facts[name] = record["metadata"][name]
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in facts.items()]
    return "\n".join(["---", *lines, "---", "", ""])


async def _export_jsonl(jay: "Scrubjay", who: "Principal", job: Job, file: IO[bytes]) -> int:
    written = 0
    async for page in jay.crawls.pages(who, job.id):
        line = json.dumps(page_record(page), ensure_ascii=False, default=str)
        file.write(line.encode("utf-8", "replace") + b"\n")
        written += 1
    return written


async def _export_warc(jay: "Scrubjay", who: "Principal", job: Job, file: IO[bytes], *, compressed: bool) -> int:
    from warcio.warcwriter import WARCWriter

    writer = WARCWriter(file, gzip=compressed)
    writer.write_record(writer.create_warcinfo_record("crawl.warc", {"software": "Scrubjay", "format": "WARC/1.1"}))
    written = 0
    async for page in jay.crawls.pages(who, job.id):
        body = await jay.crawls.original(page)
        if body is not None:
            writer.write_record(_warc_record(writer, page, body))
            written += 1
    return written


def _warc_record(writer: Any, page: CrawledPage, body: bytes) -> Any:
    from warcio.statusandheaders import StatusAndHeaders

    headers = page_record(page)["headers"]
    # The body is kept as it reads, so what was said about its coding on the wire no longer holds.
    kept = [
        (name, value)
        for name, value in headers.items()
        if name.lower() not in ("content-encoding", "transfer-encoding", "content-length")
    ]
    http = StatusAndHeaders(
        f"{page.status or 200} OK", [*kept, ("Content-Length", str(len(body)))], protocol="HTTP/1.1"
    )
    moment = page.changed_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return writer.create_warc_record(
        page.url,
        "response",
        payload=BytesIO(body),
        length=len(body),
        http_headers=http,
        warc_headers_dict={"WARC-Date": moment},
    )


@contextmanager
def _appearing(path: Path) -> Iterator[IO[bytes]]:
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
