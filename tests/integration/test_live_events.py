"""Following the log of all jobs where several transactions write at once: late ones are waited for, none is missed."""

import asyncio
from contextlib import aclosing, suppress

import pytest
from tests.workshop import Workshop, on_every_database, on_postgres, open_workshop

from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job
from scrubjay.queue import live
from scrubjay.queue.live import EventHub
from scrubjay.settings import Settings
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs


class _Undone(Exception):
    """Ends a transaction without its being committed."""


async def talker(shop: Workshop) -> Job:
    job = Job(tenant_id=shop.who.tenant_id, kind="test.talk", due_at=utc_now().replace(year=9000))
    async with shop.database.writing() as connection:
        await Jobs(connection).add(job)
    return job


async def say(connection: object, job: Job, number: int) -> None:
    await Jobs(connection).change(job.id, event_count=number)  # type: ignore[arg-type]
    await JobEvents(connection).append(job.id, [("test.said", {"number": number}, utc_now())])  # type: ignore[arg-type]


@on_every_database
async def test_nobody_misses_anything_however_many_write_at_once(settings: Settings) -> None:
    async with open_workshop(settings) as shop:
        hub = EventHub(shop.database, shop.signals, poll_seconds=0.05)
        jobs = [await talker(shop) for _ in range(8)]
        seen: dict[str, list[int]] = {job.id: [] for job in jobs}
        positions: list[int] = []

        async def follow() -> None:
            async with aclosing(hub.follow_tenant(shop.who.tenant_id)) as batches:
                async for batch in batches:
                    for told in batch:
                        positions.append(told.position)
                        seen[told.event.job_id].append(told.event.sequence)
                    if all(len(numbers) == 40 for numbers in seen.values()):
                        return

        async def talk(job: Job) -> None:
            for number in range(1, 41):
                async with shop.database.writing() as connection:
                    await say(connection, job, number)
                    await asyncio.sleep(0.001 * (number % 3))  # some commit after others that began later
                await shop.signals.event(job.id)

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.2)
        async with asyncio.timeout(40):
            await asyncio.gather(*(talk(job) for job in jobs))
            await following
        await hub.close()
        assert all(numbers == list(range(1, 41)) for numbers in seen.values())
        assert positions == sorted(set(positions))


@on_postgres
async def test_a_transaction_that_ends_late_is_waited_for(settings: Settings) -> None:
    async with open_workshop(settings) as shop:
        hub = EventHub(shop.database, shop.signals, poll_seconds=0.05)
        early, late = await talker(shop), await talker(shop)
        heard: list[str] = []

        async def follow() -> None:
            async with aclosing(hub.follow_tenant(shop.who.tenant_id)) as batches:
                async for batch in batches:
                    heard.extend(told.event.job_id for told in batch)
                    if len(heard) >= 2:
                        return

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.3)
        async with shop.database.writing() as slow:
            await say(slow, late, 1)  # takes its position, and keeps others waiting for it
            async with shop.database.writing() as quick:
                await say(quick, early, 1)
            await asyncio.sleep(0.5)
            assert heard == []
        async with asyncio.timeout(20):
            await following
        await hub.close()
        assert heard == [late.id, early.id]


@on_postgres
async def test_a_transaction_that_is_undone_is_not_waited_for_without_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "SETTLE_SECONDS", 0.5)
    async with open_workshop(settings) as shop:
        hub = EventHub(shop.database, shop.signals, poll_seconds=0.05)
        undone, done = await talker(shop), await talker(shop)
        with suppress(_Undone):
            async with shop.database.writing() as connection:
                await say(connection, undone, 1)
                raise _Undone
        following = aiter(hub.follow_tenant(shop.who.tenant_id))
        waiting = asyncio.ensure_future(anext(following))
        await asyncio.sleep(0.2)
        async with shop.database.writing() as connection:
            await say(connection, done, 1)
        async with asyncio.timeout(20):
            [told] = await waiting
        assert told.event.job_id == done.id
        await hub.close()
