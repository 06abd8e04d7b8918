"""`scrubjay watch`: feeds, sitemaps and pages that are looked at cheaply and often."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column, Table
from rich.text import Text

from scrubjay.cli.context import (
    cell,
    console,
    id_column,
    local_time,
    plain_table,
    print_json,
    report_removal,
    run_as_admin,
)
from scrubjay.cli.document_options import CollectionName, Json
from scrubjay.cli.plan_options import find_plan
from scrubjay.cli.plan_values import read_duration
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.watching import ItemState, Story, ThrottleLevel, Watch, WatchItem, WatchKind

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

app = typer.Typer(
    help="Watch feeds, sitemaps and pages cheaply and often; what is news is crawled at once.", no_args_is_help=True
)
MOST_LISTED = 1000
HIDDEN = frozenset({"tenant_id", "memory", "lease", "etag", "last_modified", "last_fingerprint", "features"})
SCORE_FACTORS = ("terms", "recency", "source", "novelty")

WatchName = Annotated[str, typer.Argument(help="The watch's name, address or id (watch_…).")]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of rows.")]
Kind = Annotated[
    WatchKind | None,
    typer.Option(help="What it is. Default: detected from the address, otherwise page.", show_default=False),
]
Every = Annotated[
    str | None, typer.Option("--every", help="Time between polls, as 90s, 15m or 1h.", show_default="15m")
]
Budget = Annotated[
    int | None,
    typer.Option(
        "--budget", min=1, max=100_000, help="Requests a day, previews and redirects included.", show_default="200"
    ),
]
Threshold = Annotated[
    float | None,
    typer.Option(
        min=0, max=1, help="The least score that triggers a crawl. Default: the setting's.", show_default=False
    ),
]


@app.command("add")
def add(
    url: Annotated[str, typer.Argument(help="The address of a feed, a sitemap or a page.")],
    name: Annotated[str | None, typer.Option(help="Default: the address.", show_default=False)] = None,
    kind: Kind = None,
    every: Every = None,
    budget: Budget = None,
    weight: Annotated[
        float | None, typer.Option(min=0, max=10, help="How much the source counts.", show_default="1")
    ] = None,
    threshold: Threshold = None,
    collection: CollectionName = None,
    plan: Annotated[
        str | None, typer.Option(help="A plan, by name or id: news goes where its documents go.", show_default=False)
    ] = None,
    catch_up: Annotated[
        bool, typer.Option("--catch-up", help="What the source has already is news too, not only what comes.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Watch a source from now on. A server or worker polls it; `watch poll` does so at once."""

    async def main(jay: "Scrubjay", who: "Principal") -> Watch:
        return await jay.watches.create(
            who,
            url=url,
            name=name,
            kind=kind,
            poll_interval_seconds=None if every is None else _read_interval(every),
            daily_budget=budget,
            weight=weight,
            threshold=threshold,
            catch_up=catch_up or None,
            plan_id=None if plan is None else (await find_plan(jay, who, plan)).id,
            collection_id=None if collection is None else (await jay.collections.find_or_create(who, collection)).id,
        )

    watch = run_as_admin(main)
    if as_json:
        print_json(_facts(watch))
    else:
        console.print(watch.id, soft_wrap=True, highlight=False)
        pace = f"every {timedelta(seconds=watch.poll_interval_seconds)}, {watch.daily_budget:,} requests a day at most"
        console.print(Text(f"A {watch.kind}, looked at {pace}."))


@app.command("ls")
def list_watches(as_json: Json = False) -> None:
    """List watches, newest first."""
    watches = run_as_admin(lambda jay, who: jay.watches.page(who, limit=MOST_LISTED)).items
    if as_json:
        print_json([_facts(watch) for watch in watches])
        return
    if not watches:
        console.print("No watches yet; `scrubjay watch add URL` makes one.")
        return
    table = plain_table("name", "kind", "state", "last poll", "next poll", "requests today", id_column())
    for watch in watches:
        table.add_row(
            Text(cell(watch.name).plain, style="bold"),
            str(watch.kind),
            _state(watch),
            _moment(watch.last_polled_at),
            _moment(watch.next_poll_at) if watch.enabled else "",
            f"{watch.requests_today:,} of {watch.daily_budget:,}",
            watch.id,
        )
    console.print(table)


@app.command("show")
def show(name: WatchName, as_json: Json = False) -> None:
    """Print everything about a watch: how it is polled, what was wrong, and when it is looked at next."""
    watch = run_as_admin(lambda jay, who: find_watch(jay, who, name))
    if as_json:
        print_json(_facts(watch))
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    for key, value in _facts(watch).items():
        shown = local_time(value) if isinstance(value, datetime) else "" if value is None else str(value)
        table.add_row(Text(key.replace("_", " "), style="dim"), cell(shown))
    console.print(table)


@app.command("poll")
def poll(name: WatchName, as_json: Json = False) -> None:
    """Look at a source now, within its budget; exits with 1 if that fails. News is crawled by a server or worker."""

    async def main(jay: "Scrubjay", who: "Principal") -> dict[str, Any]:
        watch = await find_watch(jay, who, name)
        return (await jay.watches.poll(who, watch.id)).dump()

    outcome = run_as_admin(main)
    if as_json:
        print_json(outcome)
    elif outcome["error"] is not None:
        console.print(Text(cell(outcome["error"]).plain, style="red"), soft_wrap=True)
    else:
        names = ("new", "updated", "suppressed", "debounced", "triggered", "waiting", "breaking", "remembered")
        told = ", ".join(f"{outcome[each]} {each}" for each in names if outcome[each])
        status = outcome["status"].replace("_", " ")
        console.print(Text(f"{status}{f': {told}' if told else ''} ({outcome['requests']} requests)"))
    raise typer.Exit(1 if outcome["status"] == "failed" else 0)


@app.command("rm")
def remove(
    name: WatchName,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: Json = False,
) -> None:
    """Remove a watch and what it has seen. The documents that came of it stay."""

    async def main(jay: "Scrubjay", who: "Principal") -> str | None:
        watch = await find_watch(jay, who, name)
        if not yes and not typer.confirm(f"Remove the watch '{cell(watch.name).plain}'?", err=True):
            return None
        await jay.watches.delete(who, watch.id)
        return watch.id

    report_removal(run_as_admin(main), as_json=as_json)


@app.command("enable")
def enable(name: WatchName) -> None:
    """Poll a watch again that was disabled."""
    _switch(name, True)


@app.command("disable")
def disable(name: WatchName) -> None:
    """Do not poll a watch until it is enabled again."""
    _switch(name, False)


def _switch(name: str, enabled: bool) -> None:
    async def main(jay: "Scrubjay", who: "Principal") -> Watch:
        return await jay.watches.change(who, (await find_watch(jay, who, name)).id, enabled=enabled)

    run_as_admin(main)
    console.print("Enabled." if enabled else "Disabled.")


@app.command("items")
def list_items(
    name: WatchName,
    state: Annotated[ItemState | None, typer.Option(help="Only items in this state.", show_default=False)] = None,
    limit: Most = 20,
    as_json: Json = False,
) -> None:
    """List what a watch has seen, the latest first, with the news score and its factors."""

    async def main(jay: "Scrubjay", who: "Principal") -> list[WatchItem]:
        watch = await find_watch(jay, who, name)
        return list((await jay.watches.items(who, watch.id, state=state, limit=limit)).items)

    items = run_as_admin(main)
    if as_json:
        print_json([_facts(item) for item in items])
        return
    table = plain_table("seen", "state", "score", *SCORE_FACTORS, Column("title", overflow="fold"))
    for item in items:
        score = "" if item.news_score is None else f"{item.news_score:.2f}"
        factors = [_factor(item, each) for each in SCORE_FACTORS]
        table.add_row(_moment(item.seen_at), str(item.state), score, *factors, cell(item.title or item.url))
    console.print(table if items else "It has seen nothing yet.")


@app.command("stories")
def list_stories(
    breaking: Annotated[bool, typer.Option("--breaking", help="Only stories that broke.")] = False,
    limit: Most = 20,
    as_json: Json = False,
) -> None:
    """List stories: the same news from several sources. What grew last comes first."""
    stories = run_as_admin(lambda jay, who: jay.watches.stories(who, breaking=breaking or None, limit=limit)).items
    if as_json:
        print_json([_facts(story) for story in stories])
        return
    table = plain_table("title", "sources", "breaking", "last seen", id_column())
    for story in stories:
        broke = "" if story.breaking_at is None else "ended" if story.ended_at is not None else "yes"
        table.add_row(cell(story.title), str(story.source_count), broke, _moment(story.last_seen_at), story.id)
    console.print(table if stories else "No stories yet.")


@app.command("throttle")
def throttle(
    level: Annotated[
        ThrottleLevel | None, typer.Argument(help="off, slow or stop. Without it, what holds now is printed.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Reason, shown to users.", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """The emergency brake of all watches: `stop` polls and triggers nothing, `slow` polls less often."""

    async def main(jay: "Scrubjay", who: "Principal") -> dict[str, Any]:
        held = await (jay.watches.throttle(who) if level is None else jay.watches.set_throttle(who, level, reason))
        return {"level": str(held.level), "reason": held.reason, "changed_at": held.changed_at}

    held = run_as_admin(main)
    if as_json:
        print_json(held)
    else:
        console.print(Text(held["level"] + (f": {cell(held['reason']).plain}" if held["reason"] else "")))


async def find_watch(jay: "Scrubjay", who: "Principal", name: str) -> Watch:
    """The watch of this id, name or address."""
    if name.startswith("watch_"):
        return await jay.watches.get(who, name)
    named = await jay.watches.page(who, name=name, limit=1)
    if named.items:
        return named.items[0]
    offset, found = 0, list[Watch]()
    while True:
        page = await jay.watches.page(who, limit=MOST_LISTED, offset=offset)
        found += [watch for watch in page.items if watch.url == name]
        if not page.has_more:
            break
        offset += MOST_LISTED
    if len(found) > 1:
        raise InvalidRequest(f"Several watches look at '{name[:200]}'; name one by its id.")
    if not found:
        raise NotFound(f"There is no watch '{name[:200]}'; `scrubjay watch ls` lists them.")
    return found[0]


def _state(watch: Watch) -> Text:
    if not watch.enabled:
        return Text("disabled", style="dim")
    if watch.failures:
        return Text(f"failing ({watch.failures})", style="red")
    is_escalated = watch.escalated_until is not None and watch.escalated_until > utc_now()
    return Text("escalated", style="yellow") if is_escalated else Text("ok", style="green")


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else local_time(moment)


def _factor(item: WatchItem, name: str) -> str:
    factor = item.factors.get(name)
    return f"{factor['value']:.2f}" if isinstance(factor, dict) and "value" in factor else ""


def _facts(thing: Watch | WatchItem | Story) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__ if name not in HIDDEN}


def _read_interval(text: str) -> int:
    """A time between polls, in seconds; a bare number means seconds."""
    return int(read_duration(f"{text}s" if text.strip().isdecimal() else text, "--every").total_seconds())
