"""Who carries the runs of jobs: DBOS, which keeps a record of each (`carrier.py`), or this process alone.

What jobs are, and what became of them, is in our own tables either way. docs/adr/0016 says who needs the records.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from scrubjay.settings import Settings
from scrubjay.storage.database import sqlite_path

Runner = Callable[[str, int], Awaitable[str]]


class Carrying(Protocol):
    def launch(self, runner: Runner) -> None:
        """Make ready to carry; may block for a moment."""

    async def carry(self, job_id: str, run: int) -> str:
        """Run it and wait for its end."""

    async def forget(self, workflow_ids: Sequence[str]) -> None:
        """Delete the records of runs that no longer matter."""

    async def close(self) -> None:
        """Stop carrying."""


def workflow_id(job_id: str, run: int) -> str:
    """The name of a run's record."""
    return f"{job_id}:{run}"


def open_carrier(settings: Settings, worker_id: str, *, recorded: bool) -> Carrying:
    return _open_recorder(settings, worker_id) if recorded else BareCarrier(settings, worker_id)


def _open_recorder(settings: Settings, worker_id: str) -> Carrying:
    # Imported here because DBOS takes longer to import and to start than many a command takes to do its work.
    from scrubjay.jobs.carrier import DbosCarrier

    return DbosCarrier(settings, worker_id)


class BareCarrier:
    """For commands: they end before anybody could ask for a record of what they ran."""

    def __init__(self, settings: Settings, worker_id: str) -> None:
        self._settings = settings
        self._worker_id = worker_id
        self._runner: Runner | None = None
        self._forgetting: asyncio.Task[None] | None = None

    def launch(self, runner: Runner) -> None:
        self._runner = runner

    async def carry(self, job_id: str, run: int) -> str:
        return "no worker" if self._runner is None else await self._runner(job_id, run)

    async def forget(self, workflow_ids: Sequence[str]) -> None:
        """A server may have kept records of runs that this command throws away or takes over."""
        if workflow_ids and self._has_records():
            # Not to be cut off: DBOS would stay half started.
            self._forgetting = asyncio.create_task(self._delete_records(workflow_ids))
            await asyncio.shield(self._forgetting)

    async def _delete_records(self, workflow_ids: Sequence[str]) -> None:
        recorder = _open_recorder(self._settings, self._worker_id)
        await asyncio.to_thread(recorder.launch, self.carry)
        try:
            await recorder.forget(workflow_ids)
        finally:
            await recorder.close()

    def _has_records(self) -> bool:
        path = sqlite_path(self._settings.resolved_jobs_database_url)
        return path is None or path.exists()

    async def close(self) -> None:
        if self._forgetting is not None:
            await asyncio.wait([self._forgetting])
        self._runner = None
