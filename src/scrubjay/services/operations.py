"""Operations as doors see them: the runs of a plan, their statistics and files, and what changed in its documents."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from sqlalchemy import case, func, select

from scrubjay.errors import Conflict, NotFound
from scrubjay.model.content import Document
from scrubjay.model.page import Page
from scrubjay.model.plan import ENDED_STATES, Operation, OperationState, Plan
from scrubjay.model.tenant import Principal, Scope
from scrubjay.plans.enumeration_file import EnumerationFiles
from scrubjay.plans.enumeration_reading import Enumeration, read_enumeration
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.reading import read_item, read_page
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.operations import OperationRow, Operations
from scrubjay.storage.plans import PlanRow, Plans
from scrubjay.storage.versions import DocumentVersionRow

LONGEST_RUN = timedelta(days=7)  # what began earlier is not looked through for what changed lately
CHANGES_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The least, the most and the mean of something over several runs."""

    least: int = 0
    most: int = 0
    mean: float = 0.0
    total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatistics:
    """What the runs of a plan, or one of them, amount to."""

    last_run: datetime | None
    next_run: datetime | None
    failed_runs: int
    successful_runs: int
    runtime_ms: Spread
    objects: Spread
    size_bytes: Spread


class ChangeKind(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChange:
    """One thing that happened to a document of a plan."""

    kind: ChangeKind
    at: datetime
    document: Document
    version: int
    operation_id: str | None


class OperationService:
    def __init__(self, database: Database, files: EnumerationFiles) -> None:
        self._database = database
        self._files = files

    async def page(
        self, principal: Principal, plan_id: str, *, limit: int = 100, offset: int = 0, newest_first: bool = True
    ) -> Page[Operation]:
        await self._plan(principal, plan_id)
        mine = OperationRow.plan_id == plan_id
        return await read_page(
            self._database, principal, Operations, mine, newest_first=newest_first, limit=limit, offset=offset
        )

    async def get(self, principal: Principal, plan_id: str, operation_id: str) -> Operation:
        await self._plan(principal, plan_id)
        async with self._database.reading() as connection:
            operation = await Operations(connection).of_plan(plan_id, operation_id)
        if operation is None:
            raise NotFound(f"Operation '{operation_id}' not found.")
        return operation

    async def delete(self, principal: Principal, plan_id: str, operation_id: str) -> None:
        """Remove an operation that is over, and its file. What it did to documents stays."""
        require(principal, Scope.ADMIN)
        operation = await self.get(principal, plan_id, operation_id)
        if operation.state not in ENDED_STATES:
            raise Conflict(f"Operation '{operation_id}' is still running; stop its plan first.")
        async with self._database.writing() as connection:
            await Operations(connection).delete(principal.tenant_id, operation_id)
            await note_act(connection, principal, "operation.deleted", operation_id, plan_id=plan_id)
        await asyncio.to_thread(self._files.remove, plan_id, operation_id)

    async def enumeration(self, principal: Principal, plan_id: str, operation_id: str) -> Path:
        """The file that says what an operation saw and did."""
        operation = await self.get(principal, plan_id, operation_id)
        path = self._files.path_of(plan_id, operation_id)
        if not await asyncio.to_thread(path.is_file):
            over = operation.state in ENDED_STATES
            reason = "has no enumeration file" if over else "is not over yet; its enumeration file comes at its end"
            raise NotFound(f"Operation '{operation_id}' {reason}.")
        return path

    async def enumerated(
        self,
        principal: Principal,
        plan_id: str,
        operation_id: str,
        section: str,
        *,
        contains: str = "",
        limit: int = 50,
        offset: int = 0,
    ) -> Enumeration:
        """What an operation saw and did: a part of one section of its file, and how long each section is."""
        path = await self.enumeration(principal, plan_id, operation_id)
        try:
            return await asyncio.to_thread(
                read_enumeration, path, section, contains=contains, offset=offset, limit=limit
            )
        except (OSError, ValueError) as error:
            raise NotFound(f"The enumeration file of operation '{operation_id}' cannot be read.") from error

    async def statistics(self, principal: Principal, plan_id: str) -> RunStatistics:
        plan = await self._plan(principal, plan_id)
        async with self._database.reading() as connection:
            facts = await Operations(connection).statistics(plan_id)
        states = facts["states"]
        counts = {state: int(number) for state, number, *_ in states}
        return RunStatistics(
            last_run=plan.last_crawl_start_at,
            next_run=plan.next_crawl_at,
            failed_runs=counts.get(OperationState.FAILED, 0),
            successful_runs=counts.get(OperationState.SUCCESS, 0),
            runtime_ms=_spread([_milliseconds(*times) for times in facts["times"]]),
            objects=_merge([(row[1], *row[2:5]) for row in states]),
            size_bytes=_merge([(row[1], *row[5:8]) for row in states]),
        )

    async def operation_statistics(self, principal: Principal, plan_id: str, operation_id: str) -> RunStatistics:
        plan = await self._plan(principal, plan_id)
        operation = await self.get(principal, plan_id, operation_id)
        runtime = []
        if operation.started_at is not None and operation.finished_at is not None:
            runtime = [_milliseconds(operation.started_at, operation.finished_at)]
        return RunStatistics(
            last_run=operation.started_at,
            next_run=plan.next_crawl_at,
            failed_runs=int(operation.state is OperationState.FAILED),
            successful_runs=int(operation.state is OperationState.SUCCESS),
            runtime_ms=_spread(runtime),
            objects=_spread([operation.objects_enumerated]),
            size_bytes=_spread([operation.bytes_enumerated]),
        )

    async def changes(
        self, principal: Principal, plan_id: str | None = None, *, since: datetime | None = None
    ) -> AsyncIterator[DocumentChange]:
        """What was added, changed and removed in the documents of a plan or all, oldest first; kept as long as they."""
        require(principal, Scope.READ)
        if plan_id is not None:
            await self._plan(principal, plan_id)
        found: list[DocumentChange] = []
        after = ""
        while True:
            async with self._database.reading() as connection:
                documents = (
                    await Documents(connection).page(
                        DocumentRow.tenant_id == principal.tenant_id,
                        *(() if plan_id is None else (DocumentRow.plan_id == plan_id,)),
                        DocumentRow.is_purging.is_(False),
                        DocumentRow.id > after,
                        *(() if since is None else (DocumentRow.updated_at >= since,)),
                        limit=CHANGES_AT_ONCE,
                    )
                ).items
                versions = await connection.execute(
                    select(
                        DocumentVersionRow.document_id,
                        DocumentVersionRow.version,
                        DocumentVersionRow.created_at,
                        DocumentVersionRow.operation_id,
                    ).where(
                        DocumentVersionRow.document_id.in_([each.id for each in documents]),
                        *(() if since is None else (DocumentVersionRow.created_at >= since,)),
                    )
                )
                by_id = {document.id: document for document in documents}
                for document_id, version, at, operation_id in versions:
                    kind = ChangeKind.ADDED if version == 1 else ChangeKind.CHANGED
                    found.append(
                        DocumentChange(
                            kind=kind, at=at, document=by_id[document_id], version=version, operation_id=operation_id
                        )
                    )
            if not documents:
                break
            found += [
                DocumentChange(
                    kind=ChangeKind.REMOVED, at=each.deleted_at, document=each, version=each.version, operation_id=None
                )
                for each in documents
                if each.deleted_at is not None and (since is None or each.deleted_at >= since)
            ]
            after = documents[-1].id
        for change in sorted(found, key=lambda change: (change.at, change.document.id, change.version)):
            yield change

    async def count_changes(
        self, principal: Principal, plan_ids: Sequence[str], *, since: datetime
    ) -> Mapping[str, Mapping[ChangeKind, int]]:
        """Plan id → how many of its documents its runs added, changed and removed."""
        require(principal, Scope.READ)
        row, version, run = DocumentRow, DocumentVersionRow, OperationRow
        found: dict[str, dict[ChangeKind, int]] = {}
        async with self._database.reading() as connection:
            owned = await connection.execute(
                select(PlanRow.id).where(PlanRow.tenant_id == principal.tenant_id, PlanRow.id.in_(plan_ids))
            )
            mine = owned.scalars().all()
            # From the runs, not from the documents: a plan may have a hundred thousand that did not change.
            written = (
                select(run.plan_id, func.sum(case((version.version == 1, 1), else_=0)), func.count())
                .join(version, version.operation_id == run.id)
                .where(run.plan_id.in_(mine), run.created_at > since - LONGEST_RUN, version.created_at >= since)
                .group_by(run.plan_id)
            )
            ended = (
                select(row.plan_id, func.count())
                .where(row.plan_id.in_(mine), row.deleted_at >= since, row.is_purging.is_(False))
                .group_by(row.plan_id)
            )
            for plan_id, first, count in await connection.execute(written):
                found[str(plan_id)] = {ChangeKind.ADDED: int(first), ChangeKind.CHANGED: int(count) - int(first)}
            for plan_id, count in await connection.execute(ended):
                found.setdefault(str(plan_id), {})[ChangeKind.REMOVED] = int(count)
        return found

    async def _plan(self, principal: Principal, plan_id: str) -> Plan:
        return await read_item(self._database, principal, Plans, plan_id)


def _milliseconds(start: datetime, end: datetime) -> int:
    return max(0, round((end - start).total_seconds() * 1000))


def _spread(values: Sequence[int]) -> Spread:
    if not values:
        return Spread()
    return Spread(least=min(values), most=max(values), mean=sum(values) / len(values), total=sum(values))


def _merge(groups: Sequence[tuple[int, int, int, int]]) -> Spread:
    """From the number, least, most and sum of several groups."""
    if not groups:
        return Spread()
    number, total = sum(group[0] for group in groups), int(sum(group[3] or 0 for group in groups))
    return Spread(
        least=min(int(group[1]) for group in groups),
        most=max(int(group[2]) for group in groups),
        mean=total / number,
        total=total,
    )
