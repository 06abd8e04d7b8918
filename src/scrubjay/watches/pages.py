"""Pages as sources, and previews of pages that others list: a bounded look at an article's text."""

from dataclasses import dataclass

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse
from scrubjay.errors import ExtractionFailed, FetchFailed, HostBlocked, UrlBlocked, UrlInvalid
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.extraction import Extraction, Verdict
from scrubjay.model.urls import hash_url, normal_form, parse_url
from scrubjay.model.watching import Watch
from scrubjay.queue.context import storable
from scrubjay.watches.analysis import PREVIEW_CHARACTERS
from scrubjay.watches.fingerprint import FINGERPRINT_CHARACTERS, article_text, fingerprint, telling_fingerprint
from scrubjay.watches.sources import (
    MAX_TITLE_CHARACTERS,
    TIMEOUT_SECONDS,
    Entry,
    Reader,
    WatchListing,
    hash_text,
    is_unchanged,
    moved,
    validator,
)

PAGE_BYTES = 5 * 1024 * 1024
PREVIEW_BYTES = 128 * 1024  # of HTML, for 2 KB of what the article says
PREVIEW_SECONDS = 15.0
_HTML = ("text/html", "application/xhtml+xml")
_NO_HEAD = frozenset({400, 403, 404, 405, 501})


@dataclass(frozen=True, slots=True)
class Preview:
    title: str | None
    lead: str
    fingerprint: str | None


async def read_page(reader: Reader, watch: Watch) -> WatchListing:
    """The page itself is the only entry; it changed when what its article says changed."""
    url = parse_url(watch.url).text
    await reader.obey_robots(url)
    if watch.memory.get("ask_head") and await _is_same_by_head(reader, watch):
        return WatchListing(unchanged=True)
    answer = await reader.fetcher.fetch(
        FetchRequest(
            url=url,
            etag=watch.etag,
            last_modified=watch.last_modified,
            max_bytes=PAGE_BYTES,
            timeout_seconds=TIMEOUT_SECONDS,
        )
    )
    if is_unchanged(answer, watch):
        return WatchListing(unchanged=True)
    extraction = await _extract(reader.pool, answer)
    text = str(storable(extraction.markdown))[: 4 * FINGERPRINT_CHARACTERS]
    told = fingerprint(article_text(text))
    if told is None:
        raise FetchFailed(f"{answer.url} has no text that could be watched.", error_type="empty_page")
    title = None if extraction.title is None else str(storable(extraction.title))[:MAX_TITLE_CHARACTERS]
    entry = Entry(
        key_hash=hash_text(watch.url),
        url=url,
        url_hash=hash_url(normal_form(url)),
        title=title,
        text=text[:FINGERPRINT_CHARACTERS],
        entry_hash=told,
        fingerprint=told,
        published_at=reader.now,
    )
    return WatchListing(
        entries=(entry,),
        etag=validator(answer.etag),
        last_modified=validator(answer.last_modified),
        memory=_habits(watch, answer),
        problems=tuple(moved(answer)),
    )


def _habits(watch: Watch, answer: FetchResponse) -> dict[str, bool]:
    """A server that sends the same validator again with a whole page does not understand conditions: ask by HEAD."""
    same = (watch.etag, watch.last_modified) == (validator(answer.etag), validator(answer.last_modified))
    ignored = same and bool(watch.etag or watch.last_modified)
    return {"ask_head": True} if ignored or watch.memory.get("ask_head") else {}


async def _is_same_by_head(reader: Reader, watch: Watch) -> bool:
    answer = await reader.fetcher.fetch(FetchRequest(url=watch.url, method="HEAD", timeout_seconds=TIMEOUT_SECONDS))
    if answer.status in _NO_HEAD:
        return False
    said = validator(answer.etag), validator(answer.last_modified)
    return answer.status == 200 and any(said) and said == (watch.etag, watch.last_modified)


async def _extract(pool: ExtractionPool, answer: FetchResponse) -> Extraction:
    extraction = await pool.extract(answer.body, url=answer.url, content_type=answer.content_type, status=answer.status)
    if extraction.verdict is not Verdict.CONTENT:
        raise ExtractionFailed(extraction.verdict_reason, error_type=str(extraction.verdict))
    return extraction


async def look_at(reader: Reader, url: str) -> Preview | str:
    """The beginning of an article, or why it cannot be had."""
    request = FetchRequest(url=url, max_bytes=PREVIEW_BYTES, truncate=True, timeout_seconds=PREVIEW_SECONDS)
    try:
        await reader.obey_robots(url)
        answer = await reader.fetcher.fetch(request)
        if answer.status != 200:
            return f"It answered with HTTP status {answer.status}."
        if (answer.content_type or "text/html").partition(";")[0].strip().lower() not in _HTML:
            return "It is not a web page."
        extraction = await _extract(reader.pool, answer)
    except (FetchFailed, ExtractionFailed, UrlBlocked, HostBlocked, UrlInvalid) as error:
        return error.message
    text = article_text(str(storable(extraction.markdown))[:PREVIEW_BYTES])
    title = None if extraction.title is None else str(storable(extraction.title))[:MAX_TITLE_CHARACTERS]
    return Preview(title, " ".join(text.split())[:PREVIEW_CHARACTERS], telling_fingerprint(text[:PREVIEW_CHARACTERS]))
