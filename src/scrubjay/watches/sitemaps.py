"""Sitemaps as sources: what is new by address, what changed by lastmod; of an index, only the files that changed."""

import asyncio
import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse
from scrubjay.crawler.sitemap_parsing import ParsedSitemap, parse_sitemap
from scrubjay.errors import FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.model.urls import hash_url, normal_form
from scrubjay.model.watching import Watch
from scrubjay.watches.budget import OVER_BUDGET
from scrubjay.watches.index_dates import read_index_dates
from scrubjay.watches.sources import Entry, Reader, WatchListing, hash_text, moved, plausible, require_ok, validator

MAX_SITEMAP_BYTES = 50 * 1024 * 1024
MAX_ENTRIES = 50_000  # of one poll
MAX_FILES = 500
FILES_PER_POLL = 10
SITEMAP_SECONDS = 60.0
_FATAL = frozenset({"not_a_sitemap", "xml_entities", "bad_xml", "bad_encoding"})
_Known = dict[str, Any]  # of one file: etag, last_modified, body_sha256, lastmod, read_at, is_old


@dataclass(slots=True)
class _SitemapPoll:
    """What one poll collects."""

    entries: dict[str, Entry] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    files: dict[str, _Known] = field(default_factory=dict)
    read_any: bool = False


async def read_sitemap(reader: Reader, watch: Watch) -> WatchListing:
    reading = _SitemapPoll(files={url: dict(known) for url, known in (watch.memory.get("files") or {}).items()})
    own: _Known = {
        "etag": watch.etag,
        "last_modified": watch.last_modified,
        "body_sha256": watch.memory.get("body_sha256"),
    }
    file = await _read_file(reader, watch.url, own, reading)
    if file is not None:
        _require_sitemap(file.parsed, watch.url)
        _note_children(file, reading, is_old=watch.last_success_at is None)
        _add(file.parsed, reading, reader.now, is_old=False)
    await _read_children(reader, reading)
    memory: dict[str, Any] = {**watch.memory, "body_sha256": own.get("body_sha256"), "files": reading.files}
    if not reading.read_any:
        return WatchListing(unchanged=True, memory=memory if reading.files else None)
    return WatchListing(
        entries=tuple(reading.entries.values()),
        etag=own.get("etag"),
        last_modified=own.get("last_modified"),
        memory=memory,
        problems=tuple(reading.problems),
    )


async def _read_children(reader: Reader, reading: _SitemapPoll) -> None:
    """Files whose lastmod is another than when they were read; of those that say none, the ones unread for longest."""
    files = reading.files
    waiting = sorted(
        (
            url
            for url, known in files.items()
            if known["lastmod"] is None or known["lastmod"] != known.get("read_lastmod")
        ),
        key=lambda url: _urgency(files[url]),
    )
    for url in waiting[:FILES_PER_POLL]:
        known = reading.files[url]
        try:
            file = await _read_file(reader, url, known, reading)
        except (FetchFailed, UrlBlocked, HostBlocked, UrlInvalid) as error:
            if isinstance(error, FetchFailed) and error.error_type == OVER_BUDGET:
                reading.problems.append("The day's budget did not suffice for all files of the index.")
                return
            reading.problems.append(f"{url}: {error.message}")
            known["read_at"] = reader.now.isoformat()
            continue
        is_old = bool(known.pop("is_old", False))
        known |= {"read_at": reader.now.isoformat(), "read_lastmod": known.get("lastmod")}
        if file is not None:
            _note_children(file, reading, is_old=is_old)
            _add(file.parsed, reading, reader.now, is_old=is_old)
    left = len(waiting) - FILES_PER_POLL
    if left > 0 and any(files[url].get("read_at") is None for url in waiting[FILES_PER_POLL:]):
        reading.problems.append(f"{left} files of the index are read at the next polls.")


def _urgency(known: Mapping[str, Any]) -> tuple[int, str, str]:
    changed = known.get("lastmod")
    if known.get("read_at") is None or changed is not None:
        # The newest first: ISO dates sort as text, and so does their complement.
        return 0, "".join(chr(0x7F - ord(each)) for each in str(changed or "")), ""
    return 1, "", str(known["read_at"])


async def _read_file(reader: Reader, url: str, known: _Known, reading: _SitemapPoll) -> "_File | None":
    """What a file lists, or nothing if it is as before; what is known of it is brought up to date."""
    answer = await reader.fetcher.fetch(
        FetchRequest(
            url=url,
            etag=known.get("etag"),
            last_modified=known.get("last_modified"),
            max_bytes=MAX_SITEMAP_BYTES,
            truncate=True,
            spool=True,
            timeout_seconds=SITEMAP_SECONDS,
        )
    )
    try:
        if answer.not_modified and (known.get("etag") or known.get("last_modified")):
            return None
        require_ok(answer)
        file = await asyncio.to_thread(_parse, answer)
    finally:
        if answer.file is not None:
            answer.file.unlink(missing_ok=True)
    reading.read_any = True
    if file.sha256 == known.get("body_sha256"):
        return None
    reading.problems += moved(answer)
    known |= {
        "etag": validator(answer.etag),
        "last_modified": validator(answer.last_modified),
        "body_sha256": file.sha256,
    }
    return file


@dataclass(frozen=True, slots=True)
class _File:
    sha256: str
    parsed: ParsedSitemap
    dates: Mapping[str, datetime]  # of the files that an index lists


def _parse(answer: FetchResponse) -> _File:
    source = answer.body if answer.file is None else answer.file
    data = source if isinstance(source, bytes) else source.read_bytes()
    parsed = parse_sitemap(source, answer.url, truncated=answer.truncated)
    dates = read_index_dates(_unpacked(data), answer.url) if parsed.children else {}
    return _File(hashlib.sha256(data).hexdigest(), parsed, dates)


def _unpacked(data: bytes) -> bytes:
    """The parser has read it by now, so it is well-formed, and no larger than a sitemap may be."""
    return zlib.decompressobj(31).decompress(data, MAX_SITEMAP_BYTES) if data.startswith(b"\x1f\x8b") else data


def _require_sitemap(parsed: ParsedSitemap, url: str) -> None:
    if parsed.entries or parsed.children:
        return
    for problem in parsed.problems:
        if problem.error_type in _FATAL:
            raise FetchFailed(f"There is no sitemap at {url}: {problem.message}", error_type=problem.error_type)


def _note_children(file: _File, reading: _SitemapPoll, *, is_old: bool) -> None:
    """Files that were there from the beginning list what is old; one that appears later lists what is new."""
    for url in file.parsed.children:
        if url not in reading.files and len(reading.files) >= MAX_FILES:
            reading.problems.append(f"Only the first {MAX_FILES} files of the index are looked at.")
            return
        known = reading.files.setdefault(url, {"is_old": True} if is_old else {})
        changed = file.dates.get(url)
        known["lastmod"] = None if changed is None else changed.isoformat()


def _add(parsed: ParsedSitemap, reading: _SitemapPoll, now: datetime, *, is_old: bool) -> None:
    reading.problems += [problem.message for problem in parsed.problems]
    for each in parsed.entries:
        if len(reading.entries) >= MAX_ENTRIES:
            reading.problems.append(f"Only the first {MAX_ENTRIES:,} addresses are looked at.")
            return
        url_hash = hash_url(normal_form(each.url))
        reading.entries.setdefault(
            url_hash,
            Entry(
                key_hash=url_hash,
                url=each.url,
                url_hash=url_hash,
                entry_hash=None if each.lastmod is None else hash_text(each.lastmod.isoformat()),
                published_at=plausible(each.lastmod, now),
                is_old=is_old,
            ),
        )


def forget_reading(memory: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The same, as if nothing had been read now: not all of what it brought was dealt with."""
    read_at = now.isoformat()
    of_file = ("etag", "last_modified", "body_sha256", "read_lastmod")
    files = {
        url: {name: value for name, value in known.items() if known.get("read_at") != read_at or name not in of_file}
        for url, known in (memory.get("files") or {}).items()
    }
    kept = {name: value for name, value in memory.items() if name != "body_sha256"}
    return {**kept, "files": files} if files else kept
