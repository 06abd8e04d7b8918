"""Common Crawl's index of the web: which addresses of a domain it saw in its newest crawl.

`collinfo.json` lists the crawls, newest first; each has a CDX server (pywb) that answers in pages of JSON lines.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote, urlencode

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse
from scrubjay.crawler.fetching import Fetching
from scrubjay.errors import FetchFailed

MAX_INDEX_PAGES = 50
MAX_PAGE_BYTES = 50 * 1024 * 1024
TIMEOUT_SECONDS = 60.0
TRIES = 4
FIRST_PAUSE_SECONDS = 1.0  # the index asks for patience: it answers 503 to whoever comes too quickly
_PATIENT_STATUSES = frozenset({429, 500, 502, 503, 504})
_FIELDS = "url,timestamp,status,mime"
_IN_THREAD_BYTES = 256 * 1024


async def list_captures(fetcher: Fetching, base_url: str, domain: str) -> AsyncIterator[dict[str, str]]:
    """Every successful HTML capture of a domain and its subdomains: url, timestamp, status, mime."""
    index = await _newest_index(fetcher, base_url)
    query = {"url": f"*.{domain}", "output": "json"}
    pages = min(await _count_pages(fetcher, index, query), MAX_INDEX_PAGES)
    query |= {"fl": _FIELDS, "filter": "=status:200"}
    for page in range(pages):
        response = await _get(fetcher, f"{index}?{_encode(query | {'page': str(page)})}")
        if response.status in (400, 404):
            return  # beyond the last page, or nothing left after the filter
        read = asyncio.to_thread if len(response.body) > _IN_THREAD_BYTES else _at_once
        for capture in await read(_read_lines, response):
            yield capture


async def _newest_index(fetcher: Fetching, base_url: str) -> str:
    response = await _get(fetcher, f"{base_url.rstrip('/')}/collinfo.json")
    crawls = _json(response)
    newest = crawls[0] if isinstance(crawls, list) and crawls else None
    address = newest.get("cdx-api") if isinstance(newest, dict) else None
    if not isinstance(address, str):
        raise _unexpected(response)
    return address


async def _count_pages(fetcher: Fetching, index: str, query: dict[str, str]) -> int:
    response = await _get(fetcher, f"{index}?{_encode(query | {'showNumPages': 'true'})}")
    if response.status == 404:
        return 0  # "No Captures found"
    told = _json(response)
    pages = told.get("pages") if isinstance(told, dict) else told
    if not isinstance(pages, int):
        raise _unexpected(response)
    return pages


async def _get(fetcher: Fetching, url: str) -> FetchResponse:
    request = FetchRequest(url=url, timeout_seconds=TIMEOUT_SECONDS, max_bytes=MAX_PAGE_BYTES)
    pause = FIRST_PAUSE_SECONDS
    for _ in range(TRIES - 1):
        response = await fetcher.fetch(request)
        if response.status not in _PATIENT_STATUSES:
            break
        await asyncio.sleep(pause)
        pause *= 2
    else:
        response = await fetcher.fetch(request)
    if response.status >= 400 and response.status not in (400, 404):
        raise FetchFailed(
            f"Common Crawl's index answered with {response.status}.", error_type=f"http_{response.status}"
        )
    return response


def _encode(query: dict[str, str]) -> str:
    return urlencode(query, quote_via=quote, safe="*,")


async def _at_once(read: Any, response: FetchResponse) -> Any:
    return read(response)


def _read_lines(response: FetchResponse) -> list[dict[str, str]]:
    captures = []
    for line in response.body.splitlines():
        if not line.strip():
            continue
        try:
            capture = json.loads(line)
        except ValueError:
            raise _unexpected(response) from None
        if isinstance(capture, dict) and isinstance(capture.get("url"), str):
            captures.append(capture)
    return captures


def _json(response: FetchResponse) -> Any:
    try:
        return json.loads(response.body)
    except ValueError:
        raise _unexpected(response) from None


def _unexpected(response: FetchResponse) -> FetchFailed:
    return FetchFailed(
        f"Common Crawl's index gave an answer that is not understood ({response.status}, {response.content_type}).",
        error_type="bad_answer",
    )
