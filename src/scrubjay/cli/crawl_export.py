"""What a crawl brought, as files: a folder of Markdown, JSON lines, or a WARC."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from scrubjay.errors import InvalidRequest
from scrubjay.model.job import Job
from scrubjay.plans.sinks.export_files import appearing, free_path, front_matter, warc_record
from scrubjay.services.crawls import page_record

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal


async def export_pages(
    jay: "Scrubjay", who: "Principal", job: Job, out: Path | None, jsonl: Path | None, warc: Path | None
) -> dict[str, int]:
    """Write every page of the job to the targets that are given; how many went to each."""
    counts: dict[str, int] = {}
    if out is not None:
        counts[str(out)] = await _export_folder(jay, who, job, out)
    if jsonl is not None:
        with _explained(jsonl), appearing(jsonl) as file:
            counts[str(jsonl)] = await _export_jsonl(jay, who, job, file)
    if warc is not None:
        with _explained(warc), appearing(warc) as file:
            counts[str(warc)] = await _export_warc(jay, who, job, file, compressed=warc.suffix == ".gz")
    return counts


async def _export_folder(jay: "Scrubjay", who: "Principal", job: Job, folder: Path) -> int:
    written, taken = 0, set[str]()
    async for page in jay.crawls.pages(who, job.id):
        record = page_record(page)
        if not record["success"] or record["duplicate"]:
            continue
        path = folder / free_path(page.url, taken)
        with _explained(path), appearing(path) as file:
            file.write(front_matter(record).encode() + (record["markdown"] or "").encode("utf-8", "replace") + b"\n")
        written += 1
    return written


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
            headers = page_record(page)["headers"]
            writer.write_record(warc_record(writer, page.url, body, page.changed_at, headers, page.status))
            written += 1
    return written


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InvalidRequest(f"Cannot write {path}: {error.strerror}.", field="out") from error
