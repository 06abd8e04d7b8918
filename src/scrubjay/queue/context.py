"""What a job's handler gets: its payload, checkpoints, progress, log and events, and fenced transactions."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, NoReturn

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import JobInterrupted, JobTakenOver, ScrubjayError, Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.model.content import OutboxEvent
from scrubjay.model.job import Job, JobRequest
from scrubjay.queue.signals import JobSignals
from scrubjay.storage.database import Database
from scrubjay.storage.job_events import JobEvents, NewEvent
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.outbox import Outbox
from scrubjay.telemetry import get_logger, redact

FLUSH_SECONDS = 0.2  # log lines and progress are written together, at most this late


class JobContext:
    """One run of one job. After another run has taken over, nothing this one does can be committed."""

    def __init__(
        self, job: Job, database: Database, signals: JobSignals, *, is_unheard: Callable[[], bool] | None = None
    ) -> None:
        self.job = job
        self.when_resting: Callable[[], None] | None = None  # called when the job begins to rest
        self._rests = False
        self.has_parts = False
        self._is_unheard = is_unheard  # whether others may have declared this worker gone by now
        self.payload: Mapping[str, Any] = job.payload
        self.state: Mapping[str, Any] = job.checkpoint or {}
        self._section: tuple[str, Mapping[str, Any]] | None = None  # its name, and the state of the job around it
        self._database = database
        self._signals = signals
        self._interruption: type[JobInterrupted] | None = None
        self._events: list[NewEvent] = []
        self._progress: dict[str, Any] = dict(job.progress)
        self._progress_written = self._progress
        self._progress_at = utc_now()
        self._flushing = asyncio.Lock()
        self._flusher: asyncio.Task[None] | None = None
        self._log = get_logger("scrubjay.job").bind(kind=job.kind)

    @contextmanager
    def section(self, name: str, payload: Mapping[str, Any]) -> Iterator[None]:
        """A part of the job with a payload of its own, and a state of its own that is kept under `name`."""
        outer, outer_payload = self.state, self.payload
        self._section = (name, outer)
        self.state, self.payload = outer.get(name) or {}, payload
        try:
            yield
        finally:
            self._section = None
            self.state, self.payload = {**outer, name: dict(self.state)}, outer_payload

    def _whole(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The job's state, of which `state` is the part that the current section may change."""
        return dict(state) if self._section is None else {**self._section[1], self._section[0]: dict(state)}

    @property
    def rests(self) -> bool:
        """Whether the job only waits for other jobs; then it takes no place in its worker."""
        return self._rests

    @rests.setter
    def rests(self, rests: bool) -> None:
        self._rests = rests
        if rests and self.when_resting is not None:
            self.when_resting()

    def interrupt(self, interruption: type[JobInterrupted]) -> None:
        """Make the next checkpoint raise; being taken over outweighs everything else."""
        if self._interruption is not JobTakenOver:
            self._interruption = interruption

    @property
    def is_interrupted(self) -> bool:
        return self._interruption is not None

    def withdraw_interruption(self, interruption: type[JobInterrupted]) -> None:
        if self._interruption is interruption:
            self._interruption = None

    def require_hold(self) -> None:
        """Unavailable when this run may have lost its job without knowing: then it must touch nothing outside.

        A transaction finds out by itself; this is for what no transaction can take back, such as asking a host.
        """
        if self._interruption is JobTakenOver or (self._is_unheard is not None and self._is_unheard()):
            raise Unavailable("The database was not reached for so long that others may have taken this job over.")

    async def checkpoint(
        self, state: Mapping[str, Any] | None = None, *, events: Sequence[tuple[str, Mapping[str, Any]]] = ()
    ) -> None:
        """Remember `state` durably, if given; then stop here if somebody asked for it.

        `events` are written in the same transaction, so they happen exactly as often as the state does.
        Without a state this costs nothing, so that a handler can call it as often as it likes.
        """
        if state is not None:
            now = utc_now()
            certain = [(type_, redact(storable(payload)), now) for type_, payload in events]
            async with self._pending() as pending, self._database.writing() as connection:
                if not await self._write(connection, [*pending, *certain], checkpoint=self._whole(state), crashes=0):
                    self._lost()
            self.state = dict(state)
            await self._signals.event(self.job.id)
        else:
            await asyncio.sleep(0)
        if self._interruption is not None:
            raise self._interruption

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that commits only while this run holds the job: work and checkpoint in one."""
        async with self._database.writing() as connection:
            if not await Jobs(connection).change_held(self.job.id, self.job.run):
                self._lost()
            yield connection

    def _lost(self) -> NoReturn:
        self._interruption = JobTakenOver
        raise JobTakenOver

    async def remember(self, connection: AsyncConnection, state: Mapping[str, Any]) -> None:
        """Store `state` inside a transaction of this context, so that it commits with the work itself."""
        await Jobs(connection).change(self.job.id, checkpoint=self._whole(state), crashes=0)
        self.state = dict(state)

    async def tell(self, connection: AsyncConnection, events: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Append events inside a transaction of this context: they happen exactly as often as the work does."""
        if not events:
            return
        now = utc_now()
        certain = [(type_, redact(storable(payload)), now) for type_, payload in events]
        if not await Jobs(connection).change_held(self.job.id, self.job.run, new_events=len(certain)):
            self._lost()
        await JobEvents(connection).append(self.job.id, certain)

    async def announce(self) -> None:
        """Let those who follow the job know that something was told."""
        await self._signals.event(self.job.id)

    async def announce_work(self) -> None:
        """Let workers know that jobs were queued, or that something is asked of them."""
        await self._signals.control()
        await self._signals.work()

    async def progress(self, current: int, total: int | None = None, message: str | None = None, **facts: Any) -> None:
        progress = {"current": current, "total": total, "message": message, **facts}
        self._progress = redact(storable(progress))
        self._progress_at = utc_now()
        self._flush_soon()

    async def log(self, message: str, *, level: str = "info", **facts: Any) -> None:
        self._log.log(_LEVELS.get(level, 20), message, **facts)
        await self.emit("job.log", level=level, message=message, **facts)

    async def emit(self, type_: str, **payload: Any) -> None:
        """Append an event to the job's log; it is written soon, and in any case with the next checkpoint."""
        self.note(type_, **payload)

    def note(self, type_: str, **payload: Any) -> None:
        self._events.append((type_, redact(storable(payload)), utc_now()))
        self._flush_soon()

    async def flush(self) -> None:
        """Write what is pending now; nothing is written once another run holds the job."""
        async with self._pending() as events:
            if not events and self._progress is self._progress_written:
                return
            async with self._database.writing() as connection:
                await self._write(connection, events)
        await self._signals.event(self.job.id)

    async def requested(self) -> JobRequest | None:
        """What is asked of the job at this moment, whether or not this run was told."""
        async with self._database.reading() as connection:
            asked = await Jobs(connection).requests_of([self.job.id])
        return asked[self.job.id][2] if self.job.id in asked else None

    async def finish(self, closing: NewEvent, told: OutboxEvent | None = None, **changes: Any) -> bool:
        """End the run: everything pending, the closing event, the job's new state and what others are told of it.

        False when another run has the job by now; then nothing is written.
        """
        async with self._pending() as events, self._database.writing() as connection:
            held = await self._write(connection, [*events, closing], **changes)
            if held and told is not None:
                await Outbox(connection).add(told)
            return held

    @asynccontextmanager
    async def _pending(self) -> AsyncIterator[list[NewEvent]]:
        """The events not yet written; they stay pending when writing them fails.

        Always entered before a transaction, never inside one: SQLite has one writer, and two tasks that take
        the two locks in different order would wait for each other.
        """
        async with self._flushing:
            events, self._events = self._events, []
            try:
                yield events
            except BaseException:
                self._events = events + self._events
                raise

    async def _write(self, connection: AsyncConnection, events: Sequence[NewEvent], **changes: Any) -> bool:
        """Change the job and append events to its log, unless another run has it by now."""
        progress = self._progress
        if progress is not self._progress_written:
            events = sorted([*events, ("job.progress", progress, self._progress_at)], key=lambda event: event[2])
            changes["progress"] = progress
        held = await Jobs(connection).change_held(self.job.id, self.job.run, new_events=len(events), **changes)
        if held:
            await JobEvents(connection).append(self.job.id, events)
            self._progress_written = progress
        return held

    def _flush_soon(self) -> None:
        if self._flusher is None or self._flusher.done():
            self._flusher = asyncio.create_task(self._flush_later())

    async def _flush_later(self) -> None:
        await asyncio.sleep(FLUSH_SECONDS)
        try:
            await self.flush()
        except (ScrubjayError, SQLAlchemyError) as error:
            self._log.warning("events not written yet", reason=str(error))

    async def close(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)


def storable(value: Any) -> Any:
    """The value as every database can keep it in JSON: what a handler says must not keep its job from ending."""
    if isinstance(value, str):
        if value.isascii() and "\0" not in value:  # nearly always, and found out at once
            return value
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, Mapping):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [storable(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return storable(str(value))


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")  # JSON can write them, PostgreSQL refuses to read them
_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
