"""The frontier of a crawl: every URL it found, claimed in leased batches."""

import functools
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ForeignKey,
    Integer,
    Select,
    UniqueConstraint,
    bindparam,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawl_spec import CrawlStrategy
from scrubjay.model.crawling import FrontierItem, FrontierStatus
from scrubjay.storage.repository import BATCH, Base, Repository, batches, table_options
from scrubjay.storage.types import BIG, EnumText, Hash, Id, LongText, Name, UtcDateTime, partial_index


class FrontierRow(Base):
    __tablename__ = "frontier"
    __table_args__ = table_options(
        UniqueConstraint("job_id", "url_hash", name="uq_frontier_url"),
        partial_index("ix_frontier_depth", "job_id", "status", "depth", "id", where="status = 'pending'"),
        partial_index("ix_frontier_host", "job_id", "host", "status", where="status = 'pending'"),
        partial_index("ix_frontier_leases", "job_id", "status", "leased_until", where="status = 'leased'"),
    )

    id: Mapped[int] = mapped_column(BIG, primary_key=True, autoincrement=True)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    url_hash: Mapped[Hash]
    url: Mapped[LongText]
    host: Mapped[Name]
    depth: Mapped[int]
    redirects: Mapped[int] = mapped_column(server_default="0")
    score: Mapped[float]
    status: Mapped[FrontierStatus] = mapped_column(EnumText(FrontierStatus))
    parent_url: Mapped[LongText | None]
    lease_id: Mapped[Id | None]
    leased_until: Mapped[datetime | None] = mapped_column(UtcDateTime)
    attempts: Mapped[int]
    error: Mapped[LongText | None]
    discovered_at: Mapped[datetime] = mapped_column(UtcDateTime)


partial_index(
    "ix_frontier_best",
    FrontierRow.job_id,
    FrontierRow.status,
    FrontierRow.score.desc(),
    FrontierRow.id,
    where="status = 'pending'",
)


class Frontier(Repository[FrontierItem]):
    row = FrontierRow
    model = FrontierItem
    noun = "frontier item"

    async def add_new(
        self, items: Sequence[FrontierItem], *, raise_scores: bool = False, is_shared: bool = False
    ) -> int:
        """Add the URLs that the crawl has not seen; returns how many were new.

        In a crawl that `is_shared`, other jobs may add the same URLs at the same time.
        With `raise_scores`, a URL that is still pending gets the score of a link that scores higher.
        """
        added = 0
        for start in range(0, len(items), BATCH):
            batch: dict[str, FrontierItem] = {}
            for item in items[start : start + BATCH]:
                first = batch.setdefault(item.url_hash, item)
                if raise_scores and item.score > first.score:
                    batch[item.url_hash] = item
            job_id = items[start].job_id
            known = await self.connection.execute(_KNOWN, {"of_job": job_id, "of_urls": list(batch)})
            again = [batch.pop(url_hash) for (url_hash,) in known]
            raised = [
                {"of_job": job_id, "of_url": item.url_hash, "now_score": item.score} for item in again if item.score > 0
            ]
            if raise_scores and raised:
                await self.connection.execute(_RAISE_SCORE, raised)
            if batch and is_shared and self.connection.dialect.name == "postgresql":
                # Sorted, so that two jobs that insert the same URLs never wait for each other.
                values = [self._values(batch[url_hash]) for url_hash in sorted(batch)]
                added += len((await self.connection.execute(_INSERT_UNLESS_KNOWN, values)).all())
            elif batch:
                await self.connection.execute(self._insert, [self._values(item) for item in batch.values()])
                added += len(batch)
        return added

    async def known(self, job_id: str, hashes: Collection[str]) -> set[str]:
        """Which of these URLs, by hash, the job has in its frontier."""
        found: set[str] = set()
        for batch in batches(hashes):
            found.update((await self.connection.execute(_KNOWN, {"of_job": job_id, "of_urls": batch})).scalars())
        return found

    async def lease(
        self,
        job_id: str,
        lease_id: str,
        *,
        limit: int,
        now: datetime,
        until: datetime,
        strategy: CrawlStrategy = CrawlStrategy.BFS,
        avoid_hosts: Collection[str] = (),
        only_hosts: Collection[str] | None = None,
    ) -> Sequence[FrontierItem]:
        """Take the next URLs of a job: first those whose lease ran out, then pending ones.

        What is leased under the same id is still held by whoever asks, however long ago that was.
        """
        values: dict[str, Any] = {"of_job": job_id, "other_than": lease_id, "now": now, "most": limit}
        if avoid_hosts:
            values["avoided"] = list(avoid_hosts)
        if only_hosts is not None:
            values["allowed"] = list(only_hosts)
        limits = (bool(avoid_hosts), only_hosts is not None)
        chosen = list((await self.connection.execute(_choice(None, *limits), values)).scalars())
        if len(chosen) < limit:
            values["most"] = limit - len(chosen)
            chosen += (await self.connection.execute(_choice(strategy, *limits), values)).scalars()
        if not chosen:
            return []
        await self.connection.execute(_LEASE, {"chosen": chosen, "by": lease_id, "until": until})
        return await self._items(_CHOSEN[strategy], {"chosen": chosen})

    async def pending_urls(self, job_id: str, limit: int) -> Sequence[tuple[str, str]]:
        """Hash and URL of what was never requested."""
        waiting = (FrontierRow.job_id == job_id, FrontierRow.status == FrontierStatus.PENDING)
        rows = await self.connection.execute(
            select(FrontierRow.url_hash, FrontierRow.url).where(*waiting).order_by(FrontierRow.id).limit(limit)
        )
        return [(url_hash, url) for url_hash, url in rows]

    async def clear(self, job_id: str) -> None:
        """Forget a crawl's URLs: it is over."""
        await self.connection.execute(delete(FrontierRow).where(FrontierRow.job_id == job_id))

    async def leased_hosts(self, job_id: str) -> Sequence[str]:
        """The hosts that whoever leased something may be asking."""
        leased = [FrontierRow.job_id == job_id, FrontierRow.status == FrontierStatus.LEASED]
        return list((await self.connection.execute(select(FrontierRow.host).where(*leased).distinct())).scalars())

    async def release(
        self, job_id: str, *, only_hosts: Collection[str] | None = None, but_hosts: Collection[str] = ()
    ) -> None:
        """Make leased URLs pending again, whoever leased them: for the one job that these hosts belong to."""
        conditions = [FrontierRow.job_id == job_id, FrontierRow.status == FrontierStatus.LEASED]
        if only_hosts is not None:
            conditions.append(FrontierRow.host.in_(list(only_hosts)))
        if but_hosts:
            conditions.append(FrontierRow.host.not_in(list(but_hosts)))
        await self.connection.execute(
            update(FrontierRow)
            .where(*conditions)
            .values(status=FrontierStatus.PENDING, lease_id=None, leased_until=None)
        )

    async def waiting_hosts(self, job_id: str) -> Mapping[str, int]:
        """The hosts that have pending URLs, with their number."""
        waiting = (FrontierRow.job_id == job_id, FrontierRow.status == FrontierStatus.PENDING)
        counted = select(FrontierRow.host, func.count()).where(*waiting).group_by(FrontierRow.host)
        return {host: int(count) for host, count in await self.connection.execute(counted)}

    async def give_back(self, job_id: str, hashes: Collection[str]) -> None:
        """Unlease URLs whose turn it is not, as if they had not been chosen."""
        if hashes:
            await self.connection.execute(
                update(FrontierRow)
                .where(FrontierRow.job_id == job_id, FrontierRow.url_hash.in_(list(hashes)))
                .values(
                    status=FrontierStatus.PENDING,
                    lease_id=None,
                    leased_until=None,
                    attempts=FrontierRow.attempts - 1,
                )
            )

    async def settle(self, job_id: str, settled: Sequence[tuple[str, FrontierStatus, str | None]]) -> None:
        """Mark URLs, by hash, as done with: for the one run that holds the job."""
        plain = [url_hash for url_hash, status, error in settled if status is FrontierStatus.COMPLETED and not error]
        for batch in batches(plain):
            await self.connection.execute(_COMPLETE, {"of_job": job_id, "of_urls": batch})
        others = [
            {"of_job": job_id, "of_url": url_hash, "now_status": status, "now_error": error}
            for url_hash, status, error in settled
            if status is not FrontierStatus.COMPLETED or error
        ]
        if others:
            await self.connection.execute(_SETTLE, others)

    async def note_of(self, job_id: str, url_hash: str) -> str | None:
        """What was noted when a URL was settled: why it failed, or where it redirects to."""
        note: str | None = await self.connection.scalar(
            select(FrontierRow.error).where(FrontierRow.job_id == job_id, FrontierRow.url_hash == url_hash)
        )
        return note

    async def tally(self, job_id: str) -> Mapping[FrontierStatus, int]:
        """How many URLs of a job are in each state."""
        rows = await self.connection.execute(
            select(FrontierRow.status, func.count()).where(FrontierRow.job_id == job_id).group_by(FrontierRow.status)
        )
        return {status: int(count) for status, count in rows}

    async def finish(
        self, job_id: str, url_hash: str, lease_id: str, status: FrontierStatus, error: str | None = None
    ) -> bool:
        """Settle a leased URL; false when the lease had moved to somebody else."""
        return await self.changed(
            update(FrontierRow)
            .where(
                FrontierRow.job_id == job_id,
                FrontierRow.url_hash == url_hash,
                FrontierRow.lease_id == lease_id,
            )
            .values(status=status, error=error, leased_until=None)
        )


# A depth-first crawl adds a page's links in reverse, so that both orders run along an index.
_ORDERS: Mapping[CrawlStrategy, tuple[str, Sequence[Any]]] = {
    CrawlStrategy.BFS: ("ix_frontier_depth", [FrontierRow.depth, FrontierRow.id]),
    CrawlStrategy.DFS: ("ix_frontier_depth", [FrontierRow.depth.desc(), FrontierRow.id.desc()]),
    CrawlStrategy.BEST_FIRST: ("ix_frontier_best", [FrontierRow.score.desc(), FrontierRow.id]),
}
_LONGEST_LEASED: Sequence[Any] = [FrontierRow.leased_until]
_CHOSEN: Mapping[CrawlStrategy, Select[Any]] = {
    strategy: select(*Frontier._columns).where(FrontierRow.id.in_(bindparam("chosen", expanding=True))).order_by(*order)
    for strategy, (_, order) in _ORDERS.items()
}
_LEASE = (
    update(FrontierRow)
    .where(FrontierRow.id.in_(bindparam("chosen", expanding=True)))
    .values(
        status=FrontierStatus.LEASED,
        lease_id=bindparam("by"),
        leased_until=bindparam("until"),
        attempts=FrontierRow.attempts + 1,
    )
    .execution_options(synchronize_session=False)
)


@functools.cache
def _choice(strategy: CrawlStrategy | None, avoids_hosts: bool, names_hosts: bool) -> Select[Any]:
    """Lock a job's first rows, in a strategy's order or, without one, of leases that ran out, that nobody else has
    locked.

    MariaDB and MySQL lock every row that they look at, so they are told which index has the order already.
    """
    statement = select(FrontierRow.id).where(FrontierRow.job_id == bindparam("of_job"))
    if strategy is None:
        index, order = "ix_frontier_leases", _LONGEST_LEASED
        statement = statement.where(
            FrontierRow.status == FrontierStatus.LEASED,
            FrontierRow.leased_until < bindparam("now", type_=UtcDateTime()),
            FrontierRow.lease_id != bindparam("other_than"),
        )
    else:
        index, order = _ORDERS[strategy]
        statement = statement.where(FrontierRow.status == FrontierStatus.PENDING)
    if avoids_hosts:
        statement = statement.where(FrontierRow.host.not_in(bindparam("avoided", expanding=True)))
    if names_hosts:
        statement = statement.where(FrontierRow.host.in_(bindparam("allowed", expanding=True)))
    return (
        statement.order_by(*order)
        .limit(bindparam("most", type_=Integer()))
        .with_for_update(skip_locked=True)
        .with_hint(FrontierRow, "WITH (UPDLOCK, READPAST, ROWLOCK)", "mssql")
        .with_hint(FrontierRow, f"FORCE INDEX ({index})", "mysql")
    )


_KNOWN = select(FrontierRow.url_hash).where(
    FrontierRow.job_id == bindparam("of_job"), FrontierRow.url_hash.in_(bindparam("of_urls", expanding=True))
)
_INSERT_UNLESS_KNOWN = (
    postgresql.insert(FrontierRow).on_conflict_do_nothing(constraint="uq_frontier_url").returning(FrontierRow.url_hash)
)
_SETTLE = (
    update(FrontierRow)
    .where(FrontierRow.job_id == bindparam("of_job"), FrontierRow.url_hash == bindparam("of_url"))
    .values(status=bindparam("now_status"), error=bindparam("now_error"), leased_until=None)
    .execution_options(synchronize_session=False)
)
_RAISE_SCORE = (
    update(FrontierRow)
    .where(
        FrontierRow.job_id == bindparam("of_job"),
        FrontierRow.url_hash == bindparam("of_url"),
        FrontierRow.status == FrontierStatus.PENDING,
        FrontierRow.score < bindparam("now_score"),
    )
    .values(score=bindparam("now_score"))
    .execution_options(synchronize_session=False)
)
_COMPLETE = (
    update(FrontierRow)
    .where(FrontierRow.job_id == bindparam("of_job"), FrontierRow.url_hash.in_(bindparam("of_urls", expanding=True)))
    .values(status=FrontierStatus.COMPLETED, error=None, leased_until=None)
    .execution_options(synchronize_session=False)
)
