"""A run of a plan, on one screen: list the source, compare with the ledger, take in, retire, finish (spec 000 §5.2.6).

Everything that a run must remember is in the database: the crawl's frontier, the operation's list of changes, the
ledger. So a run that is stopped or killed goes on where it was. The ledger alone decides what is new; a run that
did not see its whole source deletes nothing.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.host_slice import SLICE_KIND, SLICES_PER_WORKER
from scrubjay.errors import (
    BlobCorrupt,
    BlobMissing,
    Conflict,
    JobCancelRequested,
    JobFailedForGood,
    JobInterrupted,
    JobTakenOver,
    NotFound,
    ScrubjayError,
    Unavailable,
)
from scrubjay.model.clock import utc_now
from scrubjay.model.content import IngestOutcome, OutboxEvent
from scrubjay.model.plan import (
    ENDED_STATES,
    Change,
    Operation,
    OperationItem,
    OperationState,
    Plan,
    Trigger,
    WorkState,
)
from scrubjay.model.source import ItemProblem, SourceItem
from scrubjay.plans.begin import KIND, PREVIEW_KIND
from scrubjay.plans.comparing import WRITTEN_AT_ONCE, Comparison, work_item
from scrubjay.plans.delta import change_of
from scrubjay.plans.enumeration_file import EnumerationFiles, describe_item
from scrubjay.plans.filters import is_system_file, matches_filter
from scrubjay.plans.freshness import choose_keys
from scrubjay.plans.listing import SortedListing
from scrubjay.plans.report import ItemOutcome, ItemTally, RunReport, is_failed_object, state_of
from scrubjay.plans.retrieval import FolderSink, Retrieval, RunDependencies
from scrubjay.plans.rules import read_destination
from scrubjay.plans.sinks.export import PlanExports
from scrubjay.plans.timing import SLICES_PER_DAY
from scrubjay.queue.context import JobContext
from scrubjay.queue.kinds import JobKind
from scrubjay.sources.protocol import Connector, ConnectorType, Tools
from scrubjay.sources.registry import connector_type
from scrubjay.sources.web import forget_crawl
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.plans import Plans
from scrubjay.telemetry import get_logger

REVISITED_SHARE = 0.7  # of an adaptive run's requests; the rest is for pages that are new
RECOVERED = "Recovered during startup"
MESSAGE_LENGTH = 2000
LOGGED_PROBLEMS = 200  # in the job's log; the report has all of them
MAX_PROBLEMS = 20

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class FolderTarget:
    """Where a run of a domain's source gets its items from, and the folder that they go to."""

    type: ConnectorType
    connector: Any  # lists like a Connector; the sink fetches
    sink: FolderSink


@dataclass(frozen=True, slots=True)
class PlanRuns:
    """The job kinds `crawl`, `crawl_slice` and `preview`."""

    parts: RunDependencies
    tools: Tools
    files: EnumerationFiles
    exports: PlanExports
    spool_folder: Path | None = None

    @property
    def kinds(self) -> tuple[JobKind, ...]:
        return (
            JobKind(name=KIND, handler=self.run),
            JobKind(name=SLICE_KIND, handler=self.run_slice, worker_limit=SLICES_PER_WORKER, notifies=False),
            JobKind(name=PREVIEW_KIND, handler=self.preview, max_retries=0, is_waited_for=True, notifies=False),
        )

    async def preview(self, context: JobContext) -> Mapping[str, Any]:
        """List the beginning of a source, and change nothing: what a run would see."""
        limit = int(context.payload["limit"])
        plan = await self._plan(context)
        kind = connector_type(plan.repository_type)
        connector: Any = kind.open(plan, self.tools)
        objects: list[dict[str, Any]] = []
        try:
            async with aclosing(connector.enumerate(context, limit)) as items:
                async for item in items:
                    if item.problem is None and not (kind.skips_system_files and is_system_file(item.key)):
                        objects.append({**describe_item(item), "IsFolder": item.is_folder})
                    elif item.problem is not None and not item.problem.is_gone:
                        connector.problems.append(f"{item.key}: {item.problem.message}")
                    if len(objects) >= limit:
                        break
            if not objects and connector.problems:
                raise JobFailedForGood(f"The source could not be listed. {connector.problems[0]}")
            return {"objects": objects, "problems": connector.problems[:20]}
        except ScrubjayError as error:
            if isinstance(error, JobInterrupted | JobFailedForGood):
                raise
            raise JobFailedForGood(error.message) from error
        finally:
            await connector.close()

    async def run(self, context: JobContext) -> Mapping[str, Any]:
        plan = await self._plan(context)
        operation = await self._operation(context)
        if operation.state in ENDED_STATES:
            operation = await self._reopen(context, plan, operation)
        return await _Run(self, context, plan, operation).go()

    async def run_into(
        self, context: JobContext, plan: Plan, operation: Operation, target: FolderTarget
    ) -> Mapping[str, Any]:
        """A run inside another job, which fills a folder."""
        return await _Run(self, context, plan, operation, target).go()

    async def run_slice(self, context: JobContext) -> Mapping[str, Any]:
        """Some hosts of a crawl: the slice takes in the pages that it finds, and the crawl's own job does the rest."""
        plan = await self._plan(context)
        run = _Run(self, context, plan, await self._operation(context))
        connector: Any = connector_type(plan.repository_type).open(plan, self.tools)
        async with run.following(connector, to_the_end=True):
            summary: Mapping[str, Any] = await connector.crawl_slice(context)
        return summary

    async def _plan(self, context: JobContext) -> Plan:
        try:
            async with self.parts.database.reading() as connection:
                return await Plans(connection).get(context.job.tenant_id, str(context.payload["plan_id"]))
        except KeyError as error:
            raise JobFailedForGood("An older version queued this crawl; start it again.") from error
        except NotFound as error:
            raise JobFailedForGood(f"The plan of this run is gone: {error.message}") from error

    async def _operation(self, context: JobContext) -> Operation:
        try:
            async with self.parts.database.reading() as connection:
                return await Operations(connection).get(context.job.tenant_id, str(context.payload["operation_id"]))
        except NotFound as error:
            raise JobFailedForGood(f"The run is gone: {error.message}") from error

    async def _reopen(self, context: JobContext, plan: Plan, operation: Operation) -> Operation:
        """A run that failed or was cancelled goes on when its job is retried: from its frontier, or else anew."""
        if operation.state is OperationState.SUCCESS:
            raise JobFailedForGood("The run has succeeded; start the plan for another one.")
        changes: dict[str, Any] = {"state": OperationState.STARTING, "finished_at": None, "status_message": None}
        async with context.transaction() as connection:
            if not await Plans(connection).take(plan, operation.id, utc_now()):
                raise JobFailedForGood("The plan is running already; wait for that run, or stop it.")
            if context.state.get("phase") == "retrieving":
                await context.remember(connection, {})
                changes |= {"enumeration_started_at": None}
            await OperationItems(connection).clear_failed(operation.id)
            await Operations(connection).change(operation.id, updated_at=utc_now(), **changes)
        return replace(operation, **changes)


class _Run:
    def __init__(
        self,
        runs: PlanRuns,
        context: JobContext,
        plan: Plan,
        operation: Operation,
        target: FolderTarget | None = None,
    ) -> None:
        self._runs = runs
        self._context = context
        self._plan = plan
        self._operation = operation
        self._target = target
        self._sink = None if target is None else target.sink
        self._type: ConnectorType = connector_type(plan.repository_type) if target is None else target.type
        self._messages: list[str] = list(context.state.get("messages") or [])
        self._is_partial = operation.trigger in (Trigger.ADAPTIVE, Trigger.TARGETED)
        self._keeps_items = plan.ingestion_settings.keeps_items
        self._gone = 0  # items that the source says do not exist
        self._logged = 0

    async def go(self) -> Mapping[str, Any]:
        """The whole run, and how it ends: well, stopped by somebody, put off until something is back, or failed."""
        try:
            await self._begin()
            connector = self._open()
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
            await self._end(OperationState.FAILED, f"Failed after {self._context.job.max_retries + 1} tries: {error}")
            raise
        except _RunFailed as error:
            raise JobFailedForGood(error.message, result=error.result) from error
        except Exception as error:
            if not isinstance(error, ScrubjayError):
                log.exception("a run failed", plan_id=self._plan.id)
            message = error.message if isinstance(error, ScrubjayError) else f"{type(error).__name__}: {error}"
            result = await self._end(OperationState.FAILED, message)
            # Not tried again: the plan stands still by now, and its next run begins anew.
            raise JobFailedForGood(message, result=result) from error

    def _open(self) -> Connector:
        if self._target is not None:
            connector: Connector = self._target.connector
            return connector
        return self._type.open(self._plan, self._runs.tools)

    async def _begin(self) -> None:
        if self._operation.started_at is None:
            await self._change(state=OperationState.STARTING, started_at=utc_now())
        elif self._context.job.crashes:
            self._say(RECOVERED)

    async def _enumerate(self, connector: Any) -> None:
        """List everything, and note what differs from the ledger as the work of this run."""
        if self._operation.enumeration_started_at is None:
            await self._change(state=OperationState.ENUMERATING, enumeration_started_at=utc_now())
        async with self._context.transaction() as connection:
            await OperationItems(connection).clear_undone(self._operation.id, with_work=not self._type.streams)
        if self._type.streams and self._sink is None:
            connector.may_share = True
        listing = SortedListing(self._runs.spool_folder)
        try:
            async with self.following(connector):
                objects, size = await self._list(connector, listing)
            for problem in connector.problems[:5]:
                self._say(problem)
            is_complete = self._type.lists_everything and not self._is_partial and not connector.problems
            if self._sink is not None:
                await self._sink.listed(is_complete=is_complete)
            await self._compare(
                connector,
                listing,
                objects_enumerated=objects,
                bytes_enumerated=size,
                is_complete=is_complete,
                enumeration_finished_at=utc_now(),
            )
        finally:
            listing.close()

    @asynccontextmanager
    async def following(self, connector: Any, *, to_the_end: bool = False) -> AsyncIterator[None]:
        """Meanwhile, pages become documents as the crawl finds them."""
        if self._sink is not None or not (self._type.streams and self._keeps_items):
            yield
            return
        connector.found = self._note_found
        retrieval = await self._retrieval(connector)
        following = asyncio.create_task(retrieval.follow())
        try:
            yield
            if to_the_end:
                await retrieval.drain(following)
        finally:
            # Not cancelled: a cancellation can be lost in a library, and a batch that has begun is finished anyway.
            retrieval.stop()
            with suppress(JobTakenOver):
                await following

    async def _note_found(self, connection: AsyncConnection, items: Sequence[SourceItem]) -> None:
        """Put pages that are new or changed on the list, in the transaction that stores them."""
        wanted = [item for item in items if matches_filter(item, self._plan.filter)]
        known = await Ledger(connection).by_hashes(self._plan.id, {item.key_hash for item in wanted})
        part_id, rows = self._context.job.id, []
        for item in wanted:
            change = change_of(item, known.get(item.key_hash))
            if change is not None:
                rows.append(replace(work_item(self._operation, change, item), part_id=part_id))
        await OperationItems(connection).put(rows)

    async def _list(self, connector: Connector, listing: SortedListing) -> tuple[int, int]:
        objects, size = 0, 0
        problems: list[OperationItem] = []
        async with aclosing(self._items(connector)) as items:
            async for item in items:
                if item.is_folder or (self._type.skips_system_files and is_system_file(item.key)):
                    continue
                if item.problem is not None:
                    problems.append(self._unread(item, item.problem))
                    if len(problems) >= WRITTEN_AT_ONCE:
                        await self._write_problems(problems)
                    if item.problem.is_gone:
                        self._gone += 1
                        continue
                else:
                    objects += 1
                    size += item.content_length or 0
                    if not matches_filter(item, self._plan.filter):
                        continue
                if listing.add(item):
                    await listing.spill()
        await self._write_problems(problems)
        return objects, size

    def _unread(self, item: SourceItem, problem: ItemProblem) -> OperationItem:
        return replace(
            work_item(self._operation, Change.UNREAD, item),
            state=state_of(problem),
            reason=problem.reason[:64],
            error=problem.message[:MESSAGE_LENGTH],
            http_status=problem.http_status,
            attempts=problem.attempts,
        )

    async def _write_problems(self, problems: list[OperationItem]) -> None:
        if problems:
            async with self._context.transaction() as connection:
                await OperationItems(connection).put(problems)
        for item in problems[: max(0, LOGGED_PROBLEMS - self._logged)]:
            self._context.note(
                "job.log", level="warning", message=f"{item.key}: {item.error}", reason=item.reason, state=item.state
            )
        self._logged += len(problems)
        problems.clear()

    async def _items(self, connector: Any) -> AsyncGenerator[SourceItem]:
        items: AsyncGenerator[SourceItem]
        if self._operation.trigger is Trigger.ADAPTIVE:
            plan = self._plan
            budget = max(1, (plan.schedule.requests_per_day or SLICES_PER_DAY) // SLICES_PER_DAY)
            number = max(1, int(budget * REVISITED_SHARE))
            chosen = await choose_keys(self._runs.parts.database, plan.id, plan.last_complete_at, utc_now(), number)
            items = connector.revisit(self._context, chosen, budget)
        elif self._operation.trigger is Trigger.TARGETED:
            items = connector.visit(self._context, list(self._context.payload["urls"]))
        else:
            items = connector.enumerate(self._context)
        async with aclosing(items):
            async for item in items:
                yield item

    async def _compare(self, connector: Any, listing: SortedListing, **counts: Any) -> None:
        """Write the run's list of changes, and decide about what is missing."""
        comparison = Comparison(
            self._context, self._plan, self._operation, self._runs.parts.database, is_partial=self._is_partial
        )
        if self._keeps_items:  # pages that become nothing are not in the ledger
            await comparison.note(listing, is_complete=bool(counts["is_complete"]), gone=self._gone)
        for message in comparison.messages:
            self._say(message)
        async with self._runs.parts.database.reading() as connection:
            taken = await OperationItems(connection).count_taken(self._operation.id)
        # What was taken in while it was listed is as the ledger says by now.
        counts["objects_unchanged"] = max(0, comparison.unchanged - taken)
        if not self._keeps_items:
            counts["objects_unchanged"] = int(connector.summary.get("unchanged") or 0)
        await self._switch_phase(connector, **counts)

    async def _switch_phase(self, connector: Any, **counts: Any) -> None:
        """From here on, what was listed is not listed again; the same transaction notes what stays missing."""
        operation_id = self._operation.id
        async with self._context.transaction() as connection:
            if not self._plan.process_deletions:
                await OperationItems(connection).skip(operation_id, Change.DELETED)
            tally = await OperationItems(connection).tally(operation_id)
            withheld = _sum(tally, (Change.DELETED, WorkState.SKIPPED))[0]
            if withheld and not self._plan.process_deletions:
                self._say(
                    f"Missing objects: {withheld:,}. Their documents stay, because the plan processes no deletions."
                )
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
            state: dict[str, Any] = {
                "phase": "retrieving",
                "messages": self._messages,
                "problems": connector.problems[:MAX_PROBLEMS],
                "limits": dict(getattr(connector, "limits", {})),
                "crawl": dict(getattr(connector, "summary", {})),
            }
            if "tally" in self._context.state:  # what the crawl did at each host, for those who look at the run later
                state["tally"] = self._context.state["tally"]
            await self._context.remember(connection, state)
        self._operation = replace(self._operation, state=OperationState.RETRIEVING, **changes)

    async def _retrieval(self, connector: Connector) -> Retrieval:
        destination, rule_id = await read_destination(self._runs.parts.database, self._plan)
        more = tuple(tag for tag in self._context.payload.get("tags") or () if tag not in destination.tags)
        destination = replace(destination, tags=(*destination.tags, *more))
        facts = crawl_facts(self._context.state.get("crawl") or {})
        return Retrieval(
            self._context,
            self._plan,
            self._operation.id,
            connector,
            destination,
            rule_id,
            self._runs.parts,
            facts,
            self._sink,
        )

    async def _retrieve(self, connector: Connector) -> None:
        if self._keeps_items:
            await (await self._retrieval(connector)).run()
        await self._change(retrieval_finished_at=utc_now())

    async def _finish(self) -> Mapping[str, Any]:
        if self._sink is not None:
            await self._sink.finish(self._operation.id)
        elif self._plan.ingestion_settings.keeps_documents:
            await self._export()
        report, first = await self._report()
        # Specification 000 does not count links that answer with an error; that is for operations of plans.
        failure = report.failure(self._plan.max_failed_share, first, counts_warnings=self._plan.is_one_off)
        if self._sink is not None and first is None and self._operation.is_complete:
            failure = None  # a library may well be empty
        if report.objects_failed:
            self._say(f"Failed objects: {report.objects_failed:,}. The next run requests them again.")
        if report.warnings:
            self._say(f"Links that answered with an error: {report.warnings:,}.")
        state = OperationState.FAILED if failure or report.objects_failed else OperationState.SUCCESS
        result = await self._end(state, failure)
        if failure is not None:
            raise _RunFailed(failure, result)
        return result

    async def _report(self) -> tuple[RunReport, OperationItem | None]:
        """What became of everything so far, and the first item that was not taken in."""
        async with self._runs.parts.database.reading() as connection:
            items = OperationItems(connection)
            tally = await items.tally(self._operation.id)
            problems = await items.problems(self._operation.id, limit=1)
        state = self._context.state
        report = RunReport.read(
            tally,
            unchanged=self._operation.objects_unchanged,
            limits=dict(state.get("limits") or {}),
            is_complete=self._operation.is_complete,
            problems=tuple(state.get("problems") or ()),
        )
        if not self._keeps_items:
            crawl = state.get("crawl") or state.get("tally") or {}
            new = int(crawl.get("pages") or 0) - int(crawl.get("unchanged") or 0)
            report = replace(report, counts={**report.counts, ItemOutcome.ADDED: new})
        return report, problems[0] if problems else None

    async def _end(self, state: OperationState, message: str | None) -> Mapping[str, Any]:
        """The last word: the report, the counts, the enumeration file, and the plan stands still again."""
        if message:
            self._say(message)
        report, _ = await self._report()
        self._context.note("job.log", level="info", message=f"The run ends: {report.summary()}.")
        path = await self._write_file()
        now = utc_now()
        async with self._context.transaction() as connection:
            tally = await OperationItems(connection).tally(self._operation.id)
            changes: dict[str, Any] = {
                **count_changes(tally),
                "objects_unchanged": report.counts[ItemOutcome.UNCHANGED],
                "state": state,
                "status_message": " ".join(self._messages)[:MESSAGE_LENGTH] or None,
                "enumeration_file": path,
                "report": report.dump(),
                "is_complete": report.is_complete,
                "finished_at": now,
                "updated_at": now,
            }
            await Operations(connection).change(self._operation.id, **changes)
            plan_changes: dict[str, Any] = {
                "last_crawl_finish_at": now,
                "last_crawl_success": state is OperationState.SUCCESS,
            }
            if report.is_complete and state in (OperationState.SUCCESS, OperationState.FAILED):
                plan_changes["last_complete_at"] = self._operation.enumeration_started_at or now
            await Plans(connection).end_run(self._plan.id, self._operation.id, **plan_changes)
            await self._tell(connection, report)
        counted = {name: changes[name] for name in sorted(changes) if name.startswith(("objects_", "bytes_"))}
        return {
            **self._crawl_result(report, tally),
            "plan_id": self._plan.id,
            "operation_id": self._operation.id,
            **counted,
            "message": changes["status_message"],
            "report": changes["report"],
        }

    def _crawl_result(self, report: RunReport, tally: ItemTally) -> dict[str, Any]:
        """What a crawl counted, in the words of those who follow its job."""
        state = self._context.state
        crawl = {**(state.get("tally") or {}), **(state.get("crawl") or {})}
        if self._keeps_items:
            failed = _sum(tally, (Change.ADDED, WorkState.FAILED), (Change.CHANGED, WorkState.FAILED))[0]
            counts = {str(outcome): report.counts.get(ItemOutcome(outcome), 0) for outcome in IngestOutcome}
            crawl["documents"] = {**counts, str(IngestOutcome.FAILED): failed}
        return crawl

    async def _tell(self, connection: AsyncConnection, report: RunReport) -> None:
        """Webhooks hear of a run that changed something."""
        changes = (ItemOutcome.ADDED, ItemOutcome.CHANGED, ItemOutcome.REMOVED)
        changed = {str(outcome): report.counts.get(outcome, 0) for outcome in changes}
        if any(changed.values()) and self._keeps_items and not self._plan.is_one_off:
            facts = {"plan_id": self._plan.id, "name": self._plan.name, "operation_id": self._operation.id, **changed}
            event = OutboxEvent(tenant_id=self._plan.tenant_id, topic="plan.changed", payload=facts)
            await Outbox(connection).add(event)

    async def _write_file(self) -> str | None:
        try:
            return str(await self._runs.files.write(self._operation))
        except OSError as error:
            self._say(f"The enumeration file could not be written: {error.strerror or error}.")
            return None

    async def _export(self) -> None:
        """Bring the plan's export in line with its documents."""
        try:
            message = await self._runs.exports.write(self._context, self._plan)
        except OSError as error:
            message = f"The export could not be written: {error.strerror or error}."
        except (BlobMissing, BlobCorrupt) as error:
            message = f"The export could not be written: {error.message}"
        if message is not None:
            self._say(message)

    async def _change(self, **changes: Any) -> None:
        async with self._context.transaction() as connection:
            await Operations(connection).change(self._operation.id, updated_at=utc_now(), **changes)
        self._operation = replace(self._operation, **changes)

    def _say(self, message: str) -> None:
        if message not in self._messages:
            self._messages.append(message)
            self._context.note("job.log", level="info", message=message)


class _RunFailed(ScrubjayError):
    """The run has ended and got nothing, or too little."""

    def __init__(self, message: str, result: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.result = result


def crawl_facts(crawl: Mapping[str, Any]) -> dict[str, Any]:
    """What the progress of a crawl goes on to say while its pages are taken in."""
    names = ("pages", "failed", "skipped", "unchanged", "duplicates", "discovered", "bytes", "depth", "errors")
    return {name: crawl[name] for name in names if name in crawl}


def _sum(tally: ItemTally, *wanted: tuple[Change, WorkState]) -> tuple[int, int]:
    found = [numbers for (change, state, _), numbers in tally.items() if (change, state) in wanted]
    return sum(number for number, _ in found), sum(size for _, size in found)


def count_changes(tally: ItemTally) -> dict[str, int]:
    """An operation's counters, from what became of its items."""
    counts: dict[str, int] = {}

    def put(name: str, found: tuple[int, int]) -> None:
        counts[f"objects_{name}"], counts[f"bytes_{name}"] = found

    tried = (WorkState.PENDING, WorkState.DONE, WorkState.FAILED)
    put("added", _sum(tally, *((Change.ADDED, state) for state in tried)))
    put("updated", _sum(tally, *((Change.CHANGED, state) for state in tried)))
    put("deleted", _sum(tally, (Change.DELETED, WorkState.DONE)))
    put("success", _sum(tally, (Change.ADDED, WorkState.DONE), (Change.CHANGED, WorkState.DONE)))
    failed = [numbers for (_, state, reason), numbers in tally.items() if is_failed_object(state, reason)]
    put("failed", (sum(number for number, _ in failed), sum(size for _, size in failed)))
    return counts
