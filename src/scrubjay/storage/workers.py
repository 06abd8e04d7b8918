"""Workers and their heartbeats."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import String, delete, update
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.job import Worker
from scrubjay.storage.repository import Base, Repository
from scrubjay.storage.types import Id, Name, UtcDateTime


class WorkerRow(Base):
    __tablename__ = "workers"

    id: Mapped[Id] = mapped_column(primary_key=True)
    host: Mapped[Name]
    pid: Mapped[int]
    concurrency: Mapped[int]
    version: Mapped[str] = mapped_column(String(64), server_default="")
    started_at: Mapped[datetime] = mapped_column(UtcDateTime)
    heartbeat_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Workers(Repository[Worker]):
    row = WorkerRow
    model = Worker
    noun = "worker"

    async def beat(self, worker_id: str, now: datetime) -> bool:
        """Say that a worker is alive; false when others already declared it gone."""
        return await self.changed(update(WorkerRow).where(WorkerRow.id == worker_id).values(heartbeat_at=now))

    async def all(self) -> Sequence[Worker]:
        return await self.every(order=[WorkerRow.id])

    async def remove(self, worker_ids: Sequence[str]) -> None:
        await self.connection.execute(delete(WorkerRow).where(WorkerRow.id.in_(worker_ids)))
