"""Crawls that several workers share: the page budget, where the starts redirected to, and whether the crawl is over."""

from collections.abc import Sequence

from sqlalchemy import ForeignKey, delete, select, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import SharedCrawl
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import BIG, Id, Json


class SharedCrawlRow(Base):
    __tablename__ = "shared_crawls"
    __table_args__ = table_options()

    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    granted: Mapped[int] = mapped_column(BIG)
    is_over: Mapped[bool]
    roots: Mapped[Json]
    yielding: Mapped[Json]


class SharedCrawls(Repository[SharedCrawl]):
    row = SharedCrawlRow
    model = SharedCrawl
    noun = "shared crawl"
    key = ("job_id",)

    async def begin(self, crawl: SharedCrawl) -> None:
        """Add a crawl, in place of what an earlier try of its job left."""
        await self.connection.execute(delete(SharedCrawlRow).where(SharedCrawlRow.job_id == crawl.job_id))
        await self.add(crawl)

    async def find_by_job(self, job_id: str) -> SharedCrawl | None:
        return await self.find(SharedCrawlRow.job_id == job_id)

    async def grant(self, job_id: str, wanted: int, most: int) -> int:
        """Take up to `wanted` pages out of a budget of `most`; the row stays locked until the transaction ends."""
        statement = (
            select(SharedCrawlRow.granted)
            .where(SharedCrawlRow.job_id == job_id)
            .with_for_update()
            .with_hint(SharedCrawlRow, "WITH (UPDLOCK, ROWLOCK)", "mssql")
        )
        granted = (await self.connection.execute(statement)).scalar_one()
        given = max(0, min(wanted, most - int(granted)))
        await self.give_back(job_id, -given)
        return given

    async def give_back(self, job_id: str, pages: int) -> None:
        if pages:
            await self.connection.execute(
                update(SharedCrawlRow)
                .where(SharedCrawlRow.job_id == job_id)
                .values(granted=SharedCrawlRow.granted - pages)
            )

    async def change(self, job_id: str, *, is_over: bool, roots: Sequence[str], yielding: Sequence[str] = ()) -> None:
        changes = {"is_over": is_over, "roots": list(roots), "yielding": list(yielding)}
        await self.connection.execute(update(SharedCrawlRow).where(SharedCrawlRow.job_id == job_id).values(**changes))
