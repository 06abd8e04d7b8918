"""Sharded crawls: what their shards share, which is the budget of pages, the starts, and whether it is over."""

from collections.abc import Sequence
from dataclasses import fields

from sqlalchemy import ForeignKey, exists, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import ShardedCrawl, ShardsSeen
from scrubjay.model.job import Job
from scrubjay.storage.frontier_mail import FrontierMailRow
from scrubjay.storage.jobs import JobRow, Jobs
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, Json


class ShardedCrawlRow(Base):
    __tablename__ = "sharded_crawls"
    __table_args__ = table_options()

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    granted: Mapped[int] = mapped_column(BIG)
    is_over: Mapped[bool]
    roots: Mapped[Json]


class ShardedCrawls(Repository[ShardedCrawl]):
    row = ShardedCrawlRow
    model = ShardedCrawl
    noun = "sharded crawl"
    key = ("job_id",)

    async def find_by_job(self, job_id: str) -> ShardedCrawl | None:
        return await self.find(ShardedCrawlRow.job_id == job_id)

    async def grant(self, job_id: str, wanted: int, most: int) -> int:
        """Take up to `wanted` pages out of a budget of `most`; the row stays locked until the transaction ends."""
        statement = (
            select(ShardedCrawlRow.granted)
            .where(ShardedCrawlRow.job_id == job_id)
            .with_for_update()
            .with_hint(ShardedCrawlRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )
        granted = (await self.connection.execute(statement)).scalar_one()
        given = max(0, min(wanted, most - int(granted)))
        if given:
            await self._add(job_id, given)
        return given

    async def give_back(self, job_id: str, pages: int) -> None:
        if pages:
            await self._add(job_id, -pages)

    async def _add(self, job_id: str, pages: int) -> None:
        await self.connection.execute(
            update(ShardedCrawlRow)
            .where(ShardedCrawlRow.job_id == job_id)
            .values(granted=ShardedCrawlRow.granted + pages)
        )

    async def change(self, job_id: str, *, is_over: bool, roots: Sequence[str]) -> None:
        await self.connection.execute(
            update(ShardedCrawlRow).where(ShardedCrawlRow.job_id == job_id).values(is_over=is_over, roots=list(roots))
        )

    async def look(self, job_id: str) -> ShardsSeen:
        """Every shard, whether links are on their way between them, and what is granted: all at one moment.

        It is one statement because the end is read off it. A shard that is idle begins again only by taking mail, and
        mail is only sent by shards that are not idle; so a moment with neither is the end, and stays it.
        """
        on_their_way = exists().where(
            FrontierMailRow.job_id.in_(select(_parts.c.id).where(_parts.c.parent_id == job_id))
        )
        statement = (
            select(*Jobs._columns, on_their_way.label("mailed"), ShardedCrawlRow.granted.label("granted"))
            .join(ShardedCrawlRow, ShardedCrawlRow.job_id == JobRow.parent_id)
            .where(JobRow.parent_id == job_id)
            .order_by(JobRow.id)
        )
        rows = (await self.connection.execute(statement)).all()
        return ShardsSeen(
            jobs=tuple(Job(**{each.name: row._mapping[each.name] for each in fields(Job)}) for row in rows),
            mailed=any(row.mailed for row in rows),
            granted=int(rows[0].granted) if rows else 0,
        )


_parts = JobRow.__table__.alias("parts")
