"""Searching: what was found and where, what narrows it, and why each result is where it is."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from markupsafe import Markup, escape
from starlette.responses import Response

from scrubjay.dashboard.identifiers import AnyId, Words
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking
from scrubjay.errors import InvalidRequest, Unavailable
from scrubjay.index.passages import find_passage, plain_text
from scrubjay.model.clock import utc_now
from scrubjay.model.search import SearchAnswer, SearchMode, SearchRequest, SearchResult

router = APIRouter(include_in_schema=False)

RESULTS = 10
MAX_QUERY = 500
EXCERPT = 420
PERIODS = {"day": 1, "week": 7, "month": 31, "year": 366}
MODES = {"hybrid": "Meaning and words", "vector": "Meaning only", "keyword": "Words only"}


@dataclass(frozen=True, slots=True)
class Shown:
    """A result as the page shows it."""

    result: SearchResult
    excerpt: Markup
    citation: str

    @property
    def address(self) -> str:
        return f"/ui/documents/{self.result.document_id}?view=chunks#chunk-{self.result.chunk_index}"


@router.get("/search")
async def search(
    request: Request,
    jay: Jay,
    visitor: Looking,
    q: Annotated[str, Query(max_length=MAX_QUERY)] = "",
    mode: str = "hybrid",
    collection: AnyId = "",
    host: Words = "",
    tag: AnyId = "",
    period: str = "",
    explain: bool = False,
    cursor: Annotated[str, Query(max_length=1000)] = "",
) -> Response:
    """Search everything that was taken in."""
    who = visitor.who
    answer, problem = None, None
    if q.strip():
        wanted = SearchRequest(
            query=q,
            mode=SearchMode(mode) if mode in MODES else SearchMode.HYBRID,
            collection_ids=(collection,) if collection else (),
            hosts=(host.lower(),) if host else (),
            tag_ids=(tag,) if tag else (),
            crawled_from=utc_now().replace(second=0, microsecond=0) - timedelta(days=PERIODS[period])
            if period in PERIODS
            else None,
            explain=explain,
            limit=RESULTS,
            cursor=cursor or None,
        )
        try:
            answer = await jay.search.search(who, wanted)
        except (InvalidRequest, Unavailable) as error:
            problem = error.message
    return show(
        request,
        "search.html",
        visitor,
        q=q,
        mode=mode,
        modes=MODES,
        periods=tuple(PERIODS),
        explain=explain,
        answer=answer,
        problem=problem,
        shown=[Shown(each, excerpt(each), cite(each)) for each in answer.results] if answer else [],
        collections=await jay.collections.all(who),
        collection_counts=await jay.collections.document_counts(who),
        tags=await jay.collections.list_tags(who),
        hosts=_hosts(answer),
    )


def _hosts(answer: SearchAnswer | None) -> Sequence[tuple[str, int]]:
    if answer is None:
        return ()
    found = Counter(urlsplit(each.url).hostname or "" for each in answer.results)
    return [(host, count) for host, count in found.most_common() if host]


def excerpt(result: SearchResult) -> Markup:
    """The part of the text around what was found, with it marked; everything else is plain text."""
    passage = find_passage(result.content, result.highlights, result.section_header, characters=EXCERPT)
    pieces, at = ["…" if passage.begins_late else ""], 0
    for begin, end in sorted(passage.marked):
        if begin >= at:
            pieces += [escape(passage.text[at:begin]), Markup("<mark>{}</mark>").format(passage.text[begin:end])]
            at = end
    pieces += [escape(passage.text[at:]), "…" if passage.ends_early else ""]
    return Markup("").join(pieces)


def cite(result: SearchResult) -> str:
    """One line that says where something is from, for a text or a ticket."""
    quote = plain_text(result.content)
    quote = quote if len(quote) <= 200 else f"{quote[:199].rstrip()}…"
    return f"“{quote}” — {result.title or result.url}, {result.url} (read {result.crawled_at:%Y-%m-%d})"
