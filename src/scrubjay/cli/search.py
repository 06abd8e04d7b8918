"""`scrubjay search`: ranked passages with the words that were looked for."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperCommand

from scrubjay.cli.asking import ask_server
from scrubjay.cli.context import (
    PATIENCE_SECONDS,
    admin,
    cell,
    console,
    own_home,
    print_indented,
    print_json,
    quiet_settings,
    run,
)
from scrubjay.cli.document_options import InCollection, Json, TagNames, find_collection, find_tags
from scrubjay.cli.passages import shown_passage, shown_section
from scrubjay.errors import InvalidRequest
from scrubjay.model.ids import id_from_uuid
from scrubjay.model.search import SearchAnswer, SearchMode, SearchRequest, SearchResult
from scrubjay.settings import Settings

NOT = "\N{INVISIBLE SEPARATOR}"  # stands before a word to leave out, while options are told from words
EXCLUDED = re.compile(r"-(?!n\d+$)[^\W_]\S+$|-\"")
INDENT = 4  # of what is below a title
LEAST_SCORE = 0.01  # below that, words and meaning have nothing in common with the query


@dataclass(frozen=True, slots=True)
class _Shown:
    """An answer, whichever process gave it."""

    results: Sequence[dict[str, Any]]
    corrected_query: str | None
    notes: Sequence[str]
    latency_ms: float
    next_cursor: str | None


class QueryCommand(TyperCommand):
    """Takes `-word` as a word that must not occur, also where a short option begins like it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        return super().parse_args(
            ctx, [NOT + each if EXCLUDED.match(each) else each for each in args[:end]] + args[end:]
        )


COMMAND_CLASS = QueryCommand  # for `app.py`


def search(
    query: Annotated[
        list[str], typer.Argument(help='What to look for. "a phrase", -word and site:host work as elsewhere.')
    ],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Maximum number of results.")] = 10,
    mode: Annotated[SearchMode, typer.Option(help="By meaning and words, or by one of them.")] = SearchMode.HYBRID,
    collection: InCollection = None,
    tag: TagNames = None,
    host: Annotated[list[str] | None, typer.Option(help="Only this host or domain; may be repeated.")] = None,
    as_of: Annotated[
        str | None, typer.Option(help="Search what documents said at a moment, e.g. 2026-05-01 or 2026-05-01T12:00.")
    ] = None,
    min_score: Annotated[float, typer.Option(min=0, max=1, help="Leave out what scores less.")] = LEAST_SCORE,
    explain: Annotated[bool, typer.Option("--explain", help="Show each result's ranks and scores.")] = False,
    cursor: Annotated[str | None, typer.Option(help="Continue at the next page, as --json printed it.")] = None,
    as_json: Json = False,
) -> None:
    """Search what was crawled and added. Exits with 1 when nothing is found."""
    request = SearchRequest(
        query=" ".join(each.removeprefix(NOT) for each in query),
        mode=mode,
        hosts=tuple(each.lower() for each in host or ()),
        as_of=_read_moment(as_of),
        min_score=min_score,
        explain=explain,
        limit=limit,
        cursor=cursor,
    )
    shown = run(lambda: _search(request, collection, tag or []))
    if as_json:
        print_json(asdict(shown))
    else:
        _show(shown, explain=explain)
    if not shown.results:
        raise typer.Exit(1)


def _read_moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo else moment.astimezone()
    except (ValueError, OverflowError) as error:
        raise InvalidRequest("--as-of must be a date or a time, as 2026-05-01 or 2026-05-01T12:00.") from error


async def _search(request: SearchRequest, collection: str | None, tags: list[str]) -> _Shown:
    """In this process, or by asking the server that has the index."""
    settings = quiet_settings()
    async with own_home(settings, patience_seconds=PATIENCE_SECONDS) as jay:
        if jay is None:
            return await _ask_server(settings, request, collection, tags)
        who = await jay.access.open_as_admin(settings.home)
        await jay.indexer.drain()
        answer = await jay.search.search(who, await _filtered(jay, who, request, collection, tags))
    results = [asdict(result) for result in answer.results]
    return _Shown(results, answer.corrected_query, answer.notes, answer.latency_ms, answer.next_cursor)


async def _filtered(
    jay: Any, who: Any, request: SearchRequest, collection: str | None, tags: list[str]
) -> SearchRequest:
    collection_ids = () if collection is None else (await find_collection(jay, who, collection),)
    return replace(request, collection_ids=collection_ids, tag_ids=await find_tags(jay, who, tags))


async def _ask_server(settings: Settings, request: SearchRequest, collection: str | None, tags: list[str]) -> _Shown:
    async with admin() as (jay, who):
        asked = await _filtered(jay, who, request, collection, tags)
    body = {
        "query": asked.query, "collection_ids": list(asked.collection_ids) or None,
        "tag_ids": list(asked.tag_ids) or None, "domains": list(asked.hosts) or None, "min_score": asked.min_score,
        "explain": asked.explain, "limit": asked.limit, "cursor": asked.cursor,
        "as_of": asked.as_of.isoformat() if asked.as_of else None,
    }  # fmt: skip
    answer = await ask_server(
        settings, "/api/v1/search" + ("" if asked.mode is SearchMode.HYBRID else f"/{asked.mode}"), body
    )
    results = [_own_words(result) for result in answer["results"]]
    return _Shown(results, answer["corrected_query"], answer["notes"], answer["latency_ms"], answer["next_cursor"])


def _own_words(result: dict[str, Any]) -> dict[str, Any]:
    """A result as the server's dialect has it, with our names and ids."""
    known = result | {"found_by": result["source"], "crawled_at": datetime.fromisoformat(result["crawled_at"])}
    for name, prefix in (("document_id", "adoc"), ("chunk_id", "chnk"), ("collection_id", "coll")):
        if known[name] is not None:
            known[name] = id_from_uuid(prefix, UUID(known[name]))
    return {field.name: known.get(field.name) for field in fields(SearchResult)}


def show_answer(answer: SearchAnswer) -> None:
    results = [asdict(result) for result in answer.results]
    _show(_Shown(results, answer.corrected_query, answer.notes, answer.latency_ms, answer.next_cursor), explain=False)


def _show(shown: _Shown, *, explain: bool) -> None:
    for note in shown.notes:
        console.print(Text(note, style="yellow"))
    if shown.corrected_query:
        corrected = cell(shown.corrected_query).plain
        console.print(Text.assemble("No document has these words; showing results for ", (corrected, "bold")))
    for number, result in enumerate(shown.results, 1):
        _show_result(number, result)
        if explain:
            print_indented(Text(_explanation(result), style="dim"), INDENT)
    if not shown.results:
        console.print("Nothing found.")
    else:
        noun = "result" if len(shown.results) == 1 else "results"
        more = "; there is more, see --limit" if shown.next_cursor else ""
        facts = f"{len(shown.results)} {noun} in {shown.latency_ms:.0f} ms{more}"
        console.print(Text(facts, style="dim"))


def _show_result(number: int, result: dict[str, Any]) -> None:
    title = cell(result["title"] or result["url"]).plain
    section = cell(shown_section(result["section_header"], result["title"])).plain
    head = Table.grid(Column(width=INDENT, no_wrap=True), Column())
    path = f" › {section}" if section else ""
    head.add_row(f"{number:>2}.", Text.assemble((title, "bold"), path, (f"  {result['score']:.2f}", "dim")))
    console.print(head)
    # An address stays in one piece, for copying; the terminal breaks it where it must.
    console.print(Text(f"    {cell(result['url']).plain}", style="cyan"), soft_wrap=True)
    passage = shown_passage(result["content"], result.get("highlights") or (), result["section_header"])
    print_indented(passage, INDENT)
    console.print(Text(f"    {result['document_id']}", style="dim"))


def _explanation(result: dict[str, Any]) -> str:
    facts = result.get("explanation") or {}
    halves = (
        f"{name}: rank {facts[f'{name}_rank']}, score {result[f'{name}_score']:.3f}"
        if facts.get(f"{name}_rank") is not None
        else f"{name}: not found by it"
        for name in ("vector", "keyword")
    )
    return "; ".join((*halves, f"together {facts.get('fused_score') or 0:.3f}", f"version {facts.get('version')}"))
