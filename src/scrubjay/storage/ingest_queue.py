"""Crawled pages that wait to become documents, in the order in which they came."""

from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ForeignKey, Index, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import QueuedPage
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Hash, Id, UtcDateTime


class QueuedPageRow(Base):
    __tablename__ = "ingest_queue"
    __table_args__ = table_options(Index("ix_ingest_queue_job", "job_id", "id"))

    id: Mapped[Id] = mapped_column(primary_key=True)
    job_id: Mapped[Id] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    scope_id: Mapped[Id]
    url_hash: Mapped[Hash]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class IngestQueue(Repository[QueuedPage]):
    row = QueuedPageRow
    model = QueuedPage
    noun = "queued page"

    async def next(self, job_id: str, limit: int) -> Sequence[QueuedPage]:
        """The first pages of a job's queue."""
        return await self._items(
            select(*self._columns).where(QueuedPageRow.job_id == job_id).order_by(QueuedPageRow.id).limit(limit)
        )

    async def remove(self, page_ids: Collection[str]) -> None:
        await self.connection.execute(delete(QueuedPageRow).where(QueuedPageRow.id.in_(list(page_ids))))
