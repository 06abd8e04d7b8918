"""The job room, opened by settings as `app` does it, but with the kinds of jobs that a test brings."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scrubjay.model.job import Job, JobEvent, JobRequest, JobState
from scrubjay.model.tenant import Principal
from scrubjay.queue.context import JobContext
from scrubjay.queue.engine import JobEngine
from scrubjay.queue.kinds import JobKind, JobKinds
from scrubjay.queue.live import EventHub
from scrubjay.queue.opening import open_engine
from scrubjay.queue.signals import JobSignals
from scrubjay.services.access import Access
from scrubjay.services.jobs import JobService
from scrubjay.settings import Settings
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.schema import require_current

PATIENCE_SECONDS = 30.0

_POSTGRES = pytest.param("postgres", marks=pytest.mark.postgres)
_MYSQL = pytest.param("mysql", marks=pytest.mark.mysql)
on_every_database = pytest.mark.parametrize("backend", ["sqlite", _POSTGRES, _MYSQL], indirect=True)
on_postgres = pytest.mark.parametrize("backend", [_POSTGRES], indirect=True)
on_sqlite = pytest.mark.parametrize("backend", ["sqlite"], indirect=True)


async def wait_until(
    condition: Callable[[], Awaitable[Any]], what: str, *, seconds: float = PATIENCE_SECONDS, pause: float = 0.01
) -> Any:
    """What the condition says once it says something true; a failure that names what did not happen."""
    deadline = asyncio.get_running_loop().time() + seconds
    while not (answer := await condition()):
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"within {seconds:g} seconds, not true: {what}")
        await asyncio.sleep(pause)
    return answer


class Workshop:
    """Everything a test needs to have jobs done; `working()` runs an engine, one at a time in a process."""

    def __init__(self, settings: Settings, database: Database, cache: Cache, kinds: JobKinds, who: Principal) -> None:
        self.settings = settings
        self.database = database
        self.cache = cache
        self.kinds = kinds
        self.who = who
        self.signals = JobSignals(cache)
        self.hub = EventHub(database, self.signals, poll_seconds=0.05)
        self.jobs = JobService(database, self.signals, kinds, self.hub)

    @asynccontextmanager
    async def working(self, **changes: Any) -> AsyncIterator[JobEngine]:
        """An engine for as long as the context lasts, with some settings changed for it."""
        settings = self.settings.model_copy(update=changes)
        engine = open_engine(settings, self.database, self.signals, self.kinds)
        await engine.start()
        try:
            yield engine
        finally:
            await engine.stop()

    async def submit(self, kind: str, payload: Mapping[str, Any] | None = None, **options: Any) -> Job:
        return await self.jobs.submit(self.who, kind, payload, **options)

    async def ask(self, job: Job, request: JobRequest, *, force: bool = False) -> Job:
        return await self.jobs.make_request(self.who, job.id, request, force=force)

    async def look(self, job: Job) -> Job:
        return await self.jobs.get(self.who, job.id)

    async def wait_for(self, job: Job, *states: JobState, seconds: float = PATIENCE_SECONDS) -> Job:
        """The job, once it is in one of the states."""

        async def there() -> Job | None:
            now = await self.look(job)
            return now if now.state in states else None

        try:
            found: Job = await wait_until(there, f"job is {' or '.join(states)}", seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {await self.look(job)}") from None
        return found

    async def events(self, job: Job, type_: str | None = None) -> Sequence[JobEvent]:
        """The whole log of a job, or its events of one type."""
        events = await self.jobs.events(self.who, job.id, limit=100_000)
        return [event for event in events if type_ in (None, event.type)]

    async def types(self, job: Job) -> list[str]:
        return [event.type for event in await self.events(job)]

    async def change(self, job: Job, **values: Any) -> None:
        """Change the row behind everybody's back."""
        async with self.database.writing() as connection:
            await Jobs(connection).change(job.id, **values)


@asynccontextmanager
async def open_workshop(settings: Settings, *kinds: JobKind) -> AsyncIterator[Workshop]:
    database, cache = open_database(settings), open_cache(settings)
    try:
        await require_current(database, auto_migrate=True)
        who = await Access(database, cache).open_as_admin(settings.home)
        yield Workshop(settings, database, cache, JobKinds(*kinds), who)
    finally:
        await cache.close()
        await database.close()


class Gate:
    """A handler waits here until the test lets it take its next step."""

    def __init__(self) -> None:
        self._steps = asyncio.Semaphore(0)
        self.waiting = 0

    def let(self, steps: int = 1) -> None:
        for _ in range(steps):
            self._steps.release()

    async def step(self) -> None:
        self.waiting += 1
        try:
            await self._steps.acquire()
        finally:
            self.waiting -= 1

    async def wait_until_reached(self, handlers: int = 1) -> None:
        async def reached() -> bool:
            return self.waiting >= handlers

        await wait_until(reached, f"{handlers} handlers wait at the gate")


class Steps:
    """A kind of job that takes `steps` steps through a gate, each checkpointed and told as one event."""

    def __init__(self, name: str = "test.steps", **options: Any) -> None:
        self.gate = Gate()
        self.taken: list[int] = []  # counted in memory, so that a repeated step shows
        self.kind = JobKind(name=name, handler=self._take, **options)

    async def take(self, steps: int) -> None:
        """Let one handler take so many steps, and come back once it waits for the next."""
        wanted = len(self.taken) + steps
        await self.gate.wait_until_reached()
        self.gate.let(steps)

        async def done() -> bool:
            return len(self.taken) == wanted and self.gate.waiting > 0

        await wait_until(done, f"{steps} steps are taken")

    async def _take(self, context: JobContext) -> Mapping[str, Any]:
        for step in range(context.state.get("done", 0) + 1, context.payload["steps"] + 1):
            await self.gate.step()
            self.taken.append(step)
            await context.checkpoint({"done": step}, events=[("test.step", {"step": step})])
        return {"steps": context.payload["steps"]}
