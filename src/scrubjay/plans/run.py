"""A run of a plan, on one screen: list the source, compare with the ledger, take in, retire, finish (spec 000 §5.2.6).

Everything that a run must remember is in the database: the crawl's frontier, the operation's list of changes, the
ledger. So a run that is stopped or killed goes on where it was. The ledger alone decides what is new; a run that
did not see its whole source deletes nothing.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.connectors.registry import connector_type
from scrubjay.connectors.source import Connector, ConnectorType, Tools
from scrubjay.connectors.web_source import forget_crawl
from scrubjay.errors import (
    Conflict,
    JobCancelRequested,
    JobFailedForGood,
    JobInterrupted,
    JobTakenOver,
    NotFound,
    ScrubjayError,
    Unavailable,
)
from scrubjay.jobs.context import JobContext
from scrubjay.jobs.kinds import JobKind
from scrubjay.model.clock import utc_now
from scrubjay.model.content import OutboxEvent
from scrubjay.model.plan import (
    ENDED_STATES,
    Change,
    Fate,
    LedgerEntry,
    Operation,
    OperationItem,
    OperationState,
    Plan,
    Trigger,
    WorkState,
)
from scrubjay.model.source import SourceItem
from scrubjay.operations.begin import KIND, LOOK_KIND
from scrubjay.operations.delta import Findings, compare
from scrubjay.operations.enumeration_file import EnumerationFiles, describe_item
from scrubjay.operations.filters import is_system_file, matches_filter
from scrubjay.operations.freshness import choose_keys
from scrubjay.operations.listing import SortedListing
from scrubjay.operations.retrieval import Parts, Retrieval
from scrubjay.operations.rules import read_destination
from scrubjay.operations.timing import SLICES_PER_DAY
from scrubjay.storage.ledger import Ledger, LedgerState
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.plans import Plans
from scrubjay.telemetry import get_logger

REVISITED_SHARE = 0.7  # of an adaptive run's requests; the rest is for pages that are new
RECOVERED = "Recovered during startup"
MESSAGE_LENGTH = 2000
WRITTEN_AT_ONCE = 1000  # rows of one transaction, which others wait for
Tally = Mapping[tuple[Change, WorkState], tuple[int, int]]  # → how many items, and their bytes

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PlanRuns:
    """The job kind `operation`."""

    parts: Parts
    tools: Tools
    files: EnumerationFiles
    spool_folder: Path | None = None

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        look = JobKind(name=LOOK_KIND, handler=self.look, max_retries=0, is_waited_for=True, notifies=False)
        return (JobKind(name=KIND, handler=self.run), look)

    async def look(self, context: JobContext) -> Mapping[str, Any]:
        """List the beginning of a source, and change nothing: what a run would see."""
        limit = int(context.payload["limit"])
        try:
            async with self.parts.database.reading() as connection:
                plan = await Plans(connection).get(context.job.tenant_id, str(context.payload["plan_id"]))
        except NotFound as error:
            raise JobFailedForGood(error.message) from error
        kind = connector_type(plan.repository_type)
        connector: Any = kind.open(plan, self.tools)
        objects: list[dict[str, Any]] = []
        try:
            async with aclosing(connector.enumerate(context, limit)) as items:
                async for item in items:
                    if item.unreadable is None and not (kind.skips_system_files and is_system_file(item.key)):
                        objects.append({**describe_item(item), "IsFolder": item.is_folder})
                    if len(objects) >= limit:
                        break
            return {"objects": objects, "problems": connector.problems[:20]}
        except ScrubjayError as error:
            if isinstance(error, JobInterrupted):
                raise
            raise JobFailedForGood(error.message) from error
        finally:
            await connector.close()

    async def run(self, context: JobContext) -> Mapping[str, Any]:
        try:
            async with self.parts.database.reading() as connection:
                plan = await Plans(connection).get(context.job.tenant_id, str(context.payload["plan_id"]))
                operation = await Operations(connection).get(
                    context.job.tenant_id, str(context.payload["operation_id"])
                )
        except NotFound as error:
            raise JobFailedForGood(f"There is nothing to run any more: {error.message}") from error
        if operation.state in ENDED_STATES:
            raise JobFailedForGood("The run is over; start the plan for another one.")
        return await _Run(self, context, plan, operation).go()


class _Run:
    def __init__(self, runs: PlanRuns, context: JobContext, plan: Plan, operation: Operation) -> None:
        self._runs = runs
        self._context = context
        self._plan = plan
        self._operation = operation
        self._type: ConnectorType = connector_type(plan.repository_type)
        self._messages: list[str] = list(context.state.get("messages") or [])
        self._is_partial = operation.trigger is Trigger.ADAPTIVE

    async def go(self) -> Mapping[str, Any]:
        """The whole run, and how it ends: well, stopped by somebody, put off until something is back, or failed."""
        try:
            await self._begin()
            connector = self._type.open(self._plan, self._runs.tools)
            try:
                if self._context.state.get("phase") != "retrieving":
                    await self._enumerate(connector)
                await self._retrieve(connector)
            finally:
                await connector.close()
            return await self._finish()
        except JobTakenOver:
            raise
        except JobCancelRequested:
            await self._end(OperationState.CANCELED, "Canceled on request.")
            raise
        except (JobInterrupted, Conflict, DBAPIError, Unavailable) as error:
            if isinstance(error, JobInterrupted) or self._context.job.retry_count < self._context.job.max_retries:
                raise  # it goes on later, from where it is
            await self._end(OperationState.FAILED, f"Given up after several tries: {error}")
            raise
        except Exception as error:
            if not isinstance(error, ScrubjayError):
                log.exception("a run failed", plan_id=self._plan.id)
            message = error.message if isinstance(error, ScrubjayError) else f"{type(error).__name__}: {error}"
            await self._end(OperationState.FAILED, message)
            # Not tried again: the plan stands still by now, and its next run begins anew.
            raise JobFailedForGood(message) from error

    async def _begin(self) -> None:
        if self._operation.started_at is None:
            await self._change(state=OperationState.STARTING, started_at=utc_now())
        elif self._context.job.crashes:
            self._say(RECOVERED)

    async def _enumerate(self, connector: Connector) -> None:
        """List everything, and note what differs from the ledger as the work of this operation."""
        if self._operation.enumeration_started_at is None:
            await self._change(state=OperationState.ENUMERATING, enumeration_started_at=utc_now())
        listing = SortedListing(self._runs.spool_folder)
        try:
            objects, size = await self._list(connector, listing)
            is_complete = self._type.lists_everything and not self._is_partial and not connector.problems
            for problem in connector.problems[:5]:
                self._say(problem)
            await self._compare(
                listing,
                objects_enumerated=objects,
                bytes_enumerated=size,
                is_complete=is_complete,
                enumeration_finished_at=utc_now(),
            )
        finally:
            listing.close()

    async def _list(self, connector: Connector, listing: SortedListing) -> tuple[int, int]:
        objects, size = 0, 0
        async with aclosing(self._items(connector)) as items:
            async for item in items:
                if item.is_folder or (self._type.skips_system_files and is_system_file(item.key)):
                    continue
                if item.unreadable is None:
                    objects += 1
                    size += item.content_length or 0
                    if not matches_filter(item, self._plan.filter):
                        continue
                if listing.add(item):
                    await listing.spill()
        return objects, size

    async def _items(self, connector: Any) -> AsyncGenerator[SourceItem]:
        items: AsyncGenerator[SourceItem]
        if self._is_partial:
            plan = self._plan
            budget = max(1, (plan.schedule.requests_per_day or SLICES_PER_DAY) // SLICES_PER_DAY)
            number = max(1, int(budget * REVISITED_SHARE))
            chosen = await choose_keys(self._runs.parts.database, plan.id, plan.last_complete_at, utc_now(), number)
            items = connector.revisit(self._context, chosen, budget)
        else:
            items = connector.enumerate(self._context)
        async with aclosing(items):
            async for item in items:
                yield item

    async def _compare(self, listing: SortedListing, **counts: Any) -> None:
        """Write the operation's list of changes, and decide about what is missing."""
        complete = bool(counts["is_complete"])
        async with self._context.transaction() as connection:
            await OperationItems(connection).clear(self._operation.id)
        known = fresh = unchanged = unreadable = 0
        async for found in compare(listing.rows(), self._ledger_pages(), self._recall):
            known += found.known
            unchanged += len(found.unchanged)
            unreadable += found.unreadable
            fresh += sum(1 for _, _, missing_runs, _ in found.missing if missing_runs == 0)
            await self._note_findings(found, may_delete=complete or self._is_partial)
            await self._context.checkpoint()
        if unreadable:
            self._say(f"{unreadable} objects could not be read this time; what they said before is kept.")
        withheld = self._withholding(known, fresh, listing.count) if complete or self._is_partial else None
        if withheld is not None:
            self._say(withheld)
        await self._settle_missing(withheld is not None, nothing_seen=not listing.count)
        await self._switch_phase(objects_unchanged=unchanged, **counts)

    async def _ledger_pages(self) -> AsyncIterator[Sequence[LedgerState]]:
        after, asked_by = "", self._context.job.id if self._is_partial else None
        while True:
            async with self._runs.parts.database.reading() as connection:
                page = await Ledger(connection).states(self._plan.id, after=after, asked_by=asked_by)
            if not page:
                return
            yield page
            after = page[-1][0]

    async def _recall(self, hashes: Collection[str]) -> Mapping[str, LedgerEntry]:
        async with self._runs.parts.database.reading() as connection:
            return await Ledger(connection).by_hashes(self._plan.id, hashes)

    async def _note_findings(self, found: Findings, *, may_delete: bool) -> None:
        rows = [self._work(change, item) for change, item in found.changes]
        missing = found.missing if may_delete else []
        if not (rows or missing or found.returned or (self._is_partial and found.unchanged)):
            return
        async with self._context.transaction() as connection:
            ledger = Ledger(connection)
            await ledger.set_fate(self._plan.id, found.returned, Fate.PRESENT, missing_runs=0)
            if self._is_partial:
                await ledger.note_unchanged(self._plan.id, found.unchanged, utc_now())
            entries = await ledger.by_hashes(self._plan.id, {key_hash for key_hash, *_ in missing})
            for key_hash, _, missing_runs, _ in missing:
                entry = entries[key_hash]
                # Missing for the first time: whether that is believed depends on how many are.
                first = missing_runs == 0 or missing_runs < self._plan.deletion.grace_runs
                rows.append(
                    OperationItem(
                        operation_id=self._operation.id,
                        key_hash=entry.key_hash,
                        tenant_id=entry.tenant_id,
                        key=entry.key,
                        change=Change.DELETED,
                        state=WorkState.SKIPPED if first else WorkState.PENDING,
                        content_type=entry.content_type,
                        content_length=entry.content_length,
                        etag=entry.etag,
                        content_sha256=entry.content_sha256,
                        last_modified_at=entry.last_modified_at,
                        document_id=entry.document_id,
                    )
                )
        for start in range(0, len(rows), WRITTEN_AT_ONCE):
            async with self._context.transaction() as connection:
                await OperationItems(connection).add_many(rows[start : start + WRITTEN_AT_ONCE])

    def _work(self, change: Change, item: SourceItem) -> OperationItem:
        return OperationItem(
            operation_id=self._operation.id,
            key_hash=item.key_hash,
            tenant_id=self._plan.tenant_id,
            key=item.key,
            change=change,
            content_type=(item.content_type or "")[:255] or None,
            content_length=item.content_length,
            etag=item.etag,
            content_sha256=item.sha256,
            content_sha1=item.sha1,
            content_md5=item.md5,
            text_sha256=item.text_sha256,
            last_modified_at=item.last_modified_at,
        )

    def _withholding(self, known: int, fresh: int, seen: int) -> str | None:
        """Why nothing is deleted now although much is missing: an outage looks the same."""
        if not fresh or self._context.payload.get("confirm_deletions"):
            return None
        settings = self._plan.deletion
        if not seen:
            return (
                f"Deletions are withheld: the listing is empty, where {known} objects are known. "
                "Run the plan with confirmed deletions if they are really gone."
            )
        if fresh > max(settings.min_missing_items, settings.max_missing_share * known):
            return (
                f"Deletions are withheld: {fresh} of {known} objects are missing at once. "
                "They are deleted when the next complete run misses them too, or deletions are confirmed."
            )
        return None

    async def _settle_missing(self, is_withheld: bool, *, nothing_seen: bool) -> None:
        """Believe that what is missing for the first time is gone, unless that is withheld or has to last longer."""
        confirmed = bool(self._context.payload.get("confirm_deletions"))
        async with self._context.transaction() as connection:
            if confirmed or (not is_withheld and self._plan.deletion.grace_runs == 0):
                await OperationItems(connection).unskip(self._operation.id, Change.DELETED)
            elif is_withheld and nothing_seen:
                await OperationItems(connection).skip(self._operation.id, Change.DELETED)

    async def _switch_phase(self, **counts: Any) -> None:
        """From here on, what was listed is not listed again; the same transaction notes what stays missing."""
        operation_id = self._operation.id
        async with self._context.transaction() as connection:
            if not self._plan.process_deletions:
                await OperationItems(connection).skip(operation_id, Change.DELETED)
            tally = await OperationItems(connection).tally(operation_id)
            withheld = tally.get((Change.DELETED, WorkState.SKIPPED), (0, 0))[0]
            if counts["objects_enumerated"]:
                await Ledger(connection).note_missing(self._plan.id, operation_id)
            changes = {**counts, "objects_withheld": withheld, "retrieval_started_at": utc_now()}
            await Operations(connection).change(
                operation_id, state=OperationState.RETRIEVING, updated_at=utc_now(), **changes
            )
            if self._plan.repository_type == "Web":
                await forget_crawl(
                    connection, self._plan.id, self._context.job.id, complete=bool(counts["is_complete"])
                )
            state: dict[str, Any] = {"phase": "retrieving", "messages": self._messages}
            if "tally" in self._context.state:  # what the crawl did at each host, for those who look at the run later
                state["tally"] = self._context.state["tally"]
            await self._context.remember(connection, state)
        self._operation = replace(self._operation, state=OperationState.RETRIEVING, **changes)

    async def _retrieve(self, connector: Connector) -> None:
        destination, rule_id = await read_destination(self._runs.parts.database, self._plan)
        await Retrieval(
            self._context, self._plan, self._operation.id, connector, destination, rule_id, self._runs.parts
        ).run()
        await self._change(retrieval_finished_at=utc_now())

    async def _finish(self) -> Mapping[str, Any]:
        async with self._runs.parts.database.reading() as connection:
            tally = await OperationItems(connection).tally(self._operation.id)
        failed = sum(count for (_, state), (count, _) in tally.items() if state is WorkState.FAILED)
        if failed:
            self._say(f"{failed} objects failed; they are tried again in the next run.")
        return await self._end(OperationState.FAILED if failed else OperationState.SUCCESS, None)

    async def _end(self, state: OperationState, message: str | None) -> Mapping[str, Any]:
        """The last word: counts, the enumeration file, and the plan stands still again."""
        if message:
            self._say(message)
        path = await self._write_file()
        now = utc_now()
        async with self._context.transaction() as connection:
            tally = await OperationItems(connection).tally(self._operation.id)
            changes: dict[str, Any] = {
                **count_changes(tally),
                "state": state,
                "status_message": " ".join(self._messages)[:MESSAGE_LENGTH] or None,
                "enumeration_file": path,
                "finished_at": now,
                "updated_at": now,
            }
            await Operations(connection).change(self._operation.id, **changes)
            plan_changes: dict[str, Any] = {
                "last_crawl_finish_at": now,
                "last_crawl_success": state is OperationState.SUCCESS,
            }
            if self._operation.is_complete and state in (OperationState.SUCCESS, OperationState.FAILED):
                plan_changes["last_complete_at"] = self._operation.enumeration_started_at or now
            await Plans(connection).end_run(self._plan.id, self._operation.id, **plan_changes)
            await self._tell(connection, tally)
        return {"operation_id": self._operation.id, **{name: changes[name] for name in sorted(changes)}}

    async def _tell(self, connection: AsyncConnection, tally: Tally) -> None:
        """Others hear of a run that changed something; what failed to be taken in does not count."""
        changed = {
            name: tally.get((change, WorkState.DONE), (0, 0))[0]
            for name, change in (("added", Change.ADDED), ("changed", Change.CHANGED), ("removed", Change.DELETED))
        }
        if any(changed.values()):
            facts = {"plan_id": self._plan.id, "name": self._plan.name, "operation_id": self._operation.id, **changed}
            event = OutboxEvent(tenant_id=self._plan.tenant_id, topic="plan.changed", payload=facts)
            await Outbox(connection).add(event)

    async def _write_file(self) -> str | None:
        try:
            return str(await self._runs.files.write(self._operation))
        except OSError as error:
            self._say(f"The enumeration file could not be written: {error.strerror or error}.")
            return None

    async def _change(self, **changes: Any) -> None:
        async with self._context.transaction() as connection:
            await Operations(connection).change(self._operation.id, updated_at=utc_now(), **changes)
        self._operation = replace(self._operation, **changes)

    def _say(self, message: str) -> None:
        if message not in self._messages:
            self._messages.append(message)
            self._context.note("job.log", level="info", message=message)


def count_changes(tally: Tally) -> dict[str, int]:
    """An operation's counters, from what became of its items."""
    counts: dict[str, int] = {}

    def put(name: str, *wanted: tuple[Change, WorkState]) -> None:
        found = [tally.get(each, (0, 0)) for each in wanted]
        counts[f"objects_{name}"] = sum(number for number, _ in found)
        counts[f"bytes_{name}"] = sum(size for _, size in found)

    tried = (WorkState.PENDING, WorkState.DONE, WorkState.FAILED)
    put("added", *((Change.ADDED, state) for state in tried))
    put("updated", *((Change.CHANGED, state) for state in tried))
    put("deleted", (Change.DELETED, WorkState.DONE))
    put("success", (Change.ADDED, WorkState.DONE), (Change.CHANGED, WorkState.DONE))
    put("failed", *((change, WorkState.FAILED) for change in Change))
    return counts
