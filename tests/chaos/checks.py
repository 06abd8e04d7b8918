"""Does everything agree once it has settled? Site, ledger, documents, index, blobs, event logs and webhooks."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

from sqlalchemy import func, select
from tests.chaos.arena import Arena
from tests.chaos.traffic import Traffic

from scrubjay.errors import Unavailable
from scrubjay.index.consistency import Consistency
from scrubjay.model.content import DocumentStatus
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.job import FINISHED_STATES
from scrubjay.model.plan import ENDED_STATES, Fate, Operation, OperationState, PlanState
from scrubjay.model.urls import normalize_url
from scrubjay.model.webhook import DeliveryStatus
from scrubjay.storage.deliveries import DeliveryRow
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.job_events import JobEventRow
from scrubjay.storage.jobs import JobRow
from scrubjay.storage.outbox import OutboxRow

SETTLE_SECONDS = 150.0
RUNS = 3  # of the plan, until one finds the site as it is: the first may begin while a circuit is open

T = TypeVar("T")


async def persist(ask: Callable[[], Awaitable[T]], what: str, seconds: float = SETTLE_SECONDS) -> T:
    """What is true in the end, asked again while the database is away."""
    deadline = time.monotonic() + seconds
    last: object = "it never was"
    while True:
        try:
            answer = await asyncio.wait_for(ask(), 20)
            if answer:
                return answer
            last = answer
        except (Unavailable, TimeoutError, OSError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"within {seconds:g} seconds, not true: {what} ({last!r})")
        await asyncio.sleep(0.1)


async def start_run(arena: Arena) -> Operation:
    async def start() -> Operation:
        return await arena.planner.start(arena.plan)

    return await persist(start, "a run begins")


async def finish_run(arena: Arena, operation: Operation) -> Operation:
    async def over() -> Operation | None:
        now = await arena.jay.operations.get(arena.planner.who, arena.plan.id, operation.id)
        plan = await arena.jay.plans.get(arena.planner.who, arena.plan.id)
        return now if now.state in ENDED_STATES and plan.state is PlanState.STOPPED else None

    found = await persist(over, "the run is over")
    assert found is not None
    return found


def saw_everything(ended: Operation) -> bool:
    """A run goes well although pages could not be read: it keeps what they said before, and says so."""
    said = ended.status_message or ""
    return ended.state is OperationState.SUCCESS and "could not be read" not in said and "left unread" not in said


async def settle(arena: Arena) -> None:
    """No job is under way, the index owes nothing, everybody was told everything."""

    async def quiet() -> bool:
        async with arena.jay.database.reading() as connection:
            jobs = await connection.scalar(
                select(func.count()).select_from(JobRow).where(JobRow.state.not_in(FINISHED_STATES))
            )
            due = await Documents(connection).count(DocumentRow.index_due_at.is_not(None))
            unpublished = await connection.scalar(
                select(func.count()).select_from(OutboxRow).where(OutboxRow.published_at.is_(None))
            )
            undelivered = await connection.scalar(
                select(func.count()).select_from(DeliveryRow).where(DeliveryRow.status == DeliveryStatus.PENDING)
            )
        return not (jobs or due or unpublished or undelivered)

    await persist(quiet, "everything has settled")


async def compare(arena: Arena, traffic: Traffic) -> None:
    """Ledger == documents == index == what was added; every event is there; everybody was told, in order."""
    await _compare_ledger(arena)
    found = await Consistency(arena.jay.database, arena.jay.catalog).compare()
    assert found.none, found.describe()
    assert not found.waiting, f"{found.waiting} documents wait for the index"
    await _compare_notes(arena, traffic)
    await _compare_events(arena)
    await _compare_deliveries(arena)
    wrong = {answer: count for answer, count in traffic.answers.items() if answer.endswith(" 500")}
    assert not wrong, f"the API broke: {wrong}"


async def nothing_is_gone(arena: Arena, pages: set[str]) -> None:
    """Pages that the site had all the time are documents all the time, whether or not a run went well."""
    documents = {urlsplit(url).path.removeprefix("/") for url in await arena.planner.documents(arena.plan)}
    lost = (pages & arena.pages.texts.keys()) - documents
    assert not lost, f"documents are gone that the site still has: {sorted(lost)[:5]}"


async def compare_with_site(arena: Arena) -> None:
    """Exactly the site's pages are documents and in the ledger, each as the site has it."""
    await arena.planner.paths(arena.plan)
    said = await arena.planner.documents(arena.plan)
    by_name = {urlsplit(url).path.removeprefix("/"): text for url, text in said.items()}
    assert len(by_name) == len(said)
    assert by_name.keys() == {"", *arena.pages.texts}, _difference(set(by_name), {"", *arena.pages.texts})
    for name, text in arena.pages.texts.items():
        assert text.split(",")[0] in by_name[name], f"{name} is not as the site has it"


async def catch_up(arena: Arena) -> int:
    """Run the plan until a run has seen the whole site; how many that took."""
    states: list[str] = []
    for number in range(1, RUNS + 1):
        ended = await finish_run(arena, await start_run(arena))
        if saw_everything(ended):
            return number
        states.append(f"{ended.state}: {ended.status_message}")
    raise AssertionError(f"no run went well: {states}")


def fetched_at_most(arena: Arena, since: int, times: int) -> None:
    counts = Counter(arena.fetches()[since:])
    often = {page: count for page, count in counts.items() if count > times}
    assert not often, f"fetched more than {times} times: {often}"


async def _compare_ledger(arena: Arena) -> None:
    """What the ledger says is there is a document, once. Of a key whose retrieval failed there may be one or not."""
    fates = {normalize_url(key): fate for key, fate in (await arena.planner.ledger(arena.plan)).items()}
    documents = {normalize_url(url) for url in await arena.planner.documents(arena.plan)}
    there = {key for key, fate in fates.items() if fate in (Fate.PRESENT, Fate.MISSING)}
    known = {key for key, fate in fates.items() if fate is not Fate.RETIRED}
    assert there <= documents, f"in the ledger, but no documents: {sorted(there - documents)[:5]}"
    assert documents <= known, f"documents that the ledger does not have: {sorted(documents - known)[:5]}"


async def _compare_notes(arena: Arena, traffic: Traffic) -> None:
    async with arena.jay.database.reading() as connection:
        page = await Documents(connection).page(
            DocumentRow.plan_id.is_(None), DocumentRow.deleted_at.is_(None), limit=100_000
        )
    urls = Counter(document.url for document in page.items)
    assert set(urls) == set(traffic.acknowledged), _difference(set(urls), set(traffic.acknowledged))
    assert set(urls.values()) <= {1}, "a note is there twice"
    for document in page.items:
        assert document.status is not DocumentStatus.FAILED, document
        _, text = await arena.jay.documents.content(arena.planner.who, document.id)
        assert traffic.acknowledged[document.url] in text, f"{document.url} is not as it was said last"


async def _compare_events(arena: Arena) -> None:
    """No job's log has a gap, and each says as many events as its job counted."""
    numbers = (
        select(
            JobEventRow.job_id,
            func.count().label("number"),
            func.min(JobEventRow.sequence).label("first"),
            func.max(JobEventRow.sequence).label("last"),
        )
        .group_by(JobEventRow.job_id)
        .subquery()
    )
    async with arena.jay.database.reading() as connection:
        rows = await connection.execute(
            select(JobRow.id, JobRow.event_count, numbers.c.number, numbers.c.first, numbers.c.last).join(
                numbers, numbers.c.job_id == JobRow.id, isouter=True
            )
        )
        for row in rows:
            assert (row.number, row.first, row.last) == (row.event_count, 1, row.event_count), f"events are lost: {row}"


async def _compare_deliveries(arena: Arena) -> None:
    async with arena.jay.database.reading() as connection:
        rows = await connection.execute(select(DeliveryRow.event_id, DeliveryRow.status).order_by(DeliveryRow.position))
        queued = [(row.event_id, row.status) for row in rows]
        events = await connection.scalar(
            select(func.count()).select_from(OutboxRow).where(OutboxRow.topic.like("document.%"))
        )
    assert len(queued) == events, f"{events} events, but {len(queued)} deliveries"
    assert {status for _, status in queued} <= {DeliveryStatus.DELIVERED}
    place = {str(uuid_from_id(event_id)): position for position, (event_id, _) in enumerate(queued)}
    told = [place[each.id] for each in arena.receiver.told]
    assert set(told) == set(place.values()), f"{len(place) - len(set(told))} events were never told"
    assert told == sorted(told), "an event was told after a later one"


def _difference(have: set[str], want: set[str]) -> str:
    return f"missing: {sorted(want - have)[:5]}, too many: {sorted(have - want)[:5]}"
