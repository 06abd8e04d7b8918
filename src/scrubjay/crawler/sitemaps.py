"""The addresses that a site lists of itself: its sitemaps, read one after the other, indexes followed.

A sitemap that is missing, broken or hostile becomes one recorded problem; the others are read all the same.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from scrubjay.crawler.fetcher import FetchRequest
from scrubjay.crawler.fetching import Fetching
from scrubjay.crawler.sitemap_parsing import (
    MAX_SITEMAP_BYTES,
    ParsedSitemap,
    SitemapEntry,
    SitemapProblem,
    parse_sitemap,
)
from scrubjay.errors import FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.model.urls import normalize_url

__all__ = ["SitemapEntry", "SitemapLimits", "SitemapProblem", "read_sitemaps"]

_IN_THREAD_BYTES = 64 * 1024  # parsing this much takes longer than other work should wait
_ENTRIES_PER_TURN = 500


@dataclass(frozen=True, slots=True)
class SitemapLimits:
    max_urls: int = 1_000_000  # of all files together
    max_files: int = 500
    max_levels: int = 3  # indexes of indexes of indexes
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class _Waiting:
    url: str
    ancestors: tuple[str, ...] = ()


async def read_sitemaps(
    fetcher: Fetching,
    start_urls: Iterable[str],
    *,
    problems: list[SitemapProblem],
    limits: SitemapLimits | None = None,
) -> AsyncIterator[SitemapEntry]:
    """Every address once, in the order of the files. What went wrong is appended to `problems`."""
    limits = limits or SitemapLimits()
    waiting = deque(_Waiting(url) for url in start_urls)
    files: set[str] = set()
    seen: set[int] = set()  # hashes: a million addresses would weigh more than all else
    while waiting:
        item = waiting.popleft()
        key = _key(item.url)
        if key in files:
            continue
        if len(files) >= limits.max_files:
            problems.append(
                SitemapProblem(item.url, "too_many_files", f"Only the first {limits.max_files} sitemaps were read.")
            )
            return
        files.add(key)
        parsed = await _read_one(fetcher, item.url, limits)
        problems += parsed.problems
        waiting.extend(_children(item, key, parsed, limits, problems))
        for number, entry in enumerate(parsed.entries):
            if number % _ENTRIES_PER_TURN == _ENTRIES_PER_TURN - 1:
                await asyncio.sleep(0)
            if hash(entry.url) not in seen:
                if len(seen) >= limits.max_urls:
                    message = f"Only the first {limits.max_urls:,} URLs of the sitemaps were read."
                    problems.append(SitemapProblem(item.url, "too_many_urls", message))
                    return
                seen.add(hash(entry.url))
                yield entry


async def _read_one(fetcher: Fetching, url: str, limits: SitemapLimits) -> ParsedSitemap:
    # Over the limit is cut off, not refused: what a sitemap lists first is often what is newest.
    request = FetchRequest(
        url=url, timeout_seconds=limits.timeout_seconds, max_bytes=MAX_SITEMAP_BYTES, truncate=True, spool=True
    )
    try:
        response = await fetcher.fetch(request)
    except UrlInvalid as error:
        return ParsedSitemap(problems=[SitemapProblem(url, "invalid_url", error.message)])
    except (FetchFailed, UrlBlocked, HostBlocked) as error:
        return ParsedSitemap(problems=[SitemapProblem(url, error.error_type, error.message)])
    try:
        if not 200 <= response.status < 300:
            message = f"The sitemap answered with {response.status}."
            return ParsedSitemap(problems=[SitemapProblem(url, f"http_{response.status}", message)])
        source = response.body if response.file is None else response.file
        # A few KB of gzip are not a few KB to parse.
        small = response.size <= _IN_THREAD_BYTES and not response.body.startswith(b"\x1f\x8b")
        if small:
            return parse_sitemap(source, response.url, truncated=response.truncated)
        return await asyncio.to_thread(parse_sitemap, source, response.url, truncated=response.truncated)
    finally:
        if response.file is not None:
            response.file.unlink(missing_ok=True)


def _children(
    item: _Waiting, key: str, parsed: ParsedSitemap, limits: SitemapLimits, problems: list[SitemapProblem]
) -> list[_Waiting]:
    if not parsed.children:
        return []
    if len(item.ancestors) >= limits.max_levels:
        message = f"Indexes are nested deeper than {limits.max_levels} levels; the rest was left out."
        problems.append(SitemapProblem(item.url, "nested_too_deep", message))
        return []
    ancestors = (*item.ancestors, key)
    circles = [child for child in parsed.children if _key(child) in ancestors]
    if circles:
        problems.append(SitemapProblem(item.url, "sitemap_loop", "The index leads back to an index that lists it."))
    return [_Waiting(child, ancestors) for child in parsed.children if child not in circles]


def _key(url: str) -> str:
    try:
        return normalize_url(url)
    except UrlInvalid:
        return url
