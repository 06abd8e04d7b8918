"""Links on their way from one shard of a crawl to another: written by whoever found them, taken by their owner.

Only its own shard writes a URL into a frontier, so two shards that find the same link at the same moment never wait
for each other.
"""

from collections.abc import Sequence

from sqlalchemy import Index, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import MailedLink
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, LongText


class FrontierMailRow(Base):
    __tablename__ = "frontier_mail"
    __table_args__ = table_options(Index("ix_frontier_mail_job", "job_id", "id"))

    id: Mapped[Id] = mapped_column(primary_key=True)
    # No foreign key: checking it would make a shard wait for whoever writes the other's job, in a circle.
    job_id: Mapped[Id]
    url: Mapped[LongText]
    depth: Mapped[int]
    redirects: Mapped[int]
    score: Mapped[float]
    parent_url: Mapped[LongText | None]


class FrontierMail(Repository[MailedLink]):
    row = FrontierMailRow
    model = MailedLink
    noun = "mailed link"

    async def take(self, job_id: str, limit: int) -> Sequence[MailedLink]:
        """The oldest links for a shard, which are gone with this transaction: for the one run that holds its job."""
        links = await self.every(FrontierMailRow.job_id == job_id, order=[FrontierMailRow.id], limit=limit)
        if links:
            taken = [link.id for link in links]
            await self.connection.execute(delete(FrontierMailRow).where(FrontierMailRow.id.in_(taken)))
        return links

    async def is_there_any(self, job_id: str) -> bool:
        statement = select(FrontierMailRow.id).where(FrontierMailRow.job_id == job_id).limit(1)
        return (await self.connection.execute(statement)).first() is not None
