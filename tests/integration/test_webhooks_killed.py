"""Receivers and workers killed with -9: every event is told at least once, in order, and none is queued twice."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
from tests.processes import worker_processes
from tests.receiver import ReceiverProcess, Told, receiver_process
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.content import OutboxEvent
from scrubjay.model.tenant import Principal
from scrubjay.model.webhook import DeliveryStatus
from scrubjay.settings import Settings
from scrubjay.storage.outbox import Outbox

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
SECRET = "a secret that both know"
PATIENCE_SECONDS = 90.0


@pytest.fixture
def chosen(settings: Settings) -> Settings:
    chosen = settings.model_copy(
        update={
            "allowed_private_networks": (ip_network("127.0.0.0/8"),),
            "extract_processes": 1,
            "webhook_timeout_seconds": 2.0,
        }
    )
    chosen.model_fields_set.update({"allowed_private_networks", "extract_processes", "webhook_timeout_seconds"})
    return chosen


async def happen(jay: Scrubjay, who: Principal, number: int) -> None:
    event = OutboxEvent(tenant_id=who.tenant_id, topic="document.created", payload={"number": number})
    async with jay.database.writing() as connection:
        await Outbox(connection).add(event)


@asynccontextmanager
async def told_office(
    settings: Settings, receiver: ReceiverProcess, *, working: bool
) -> AsyncIterator[tuple[Scrubjay, Principal]]:
    """An open Scrubjay with two webhooks at the receiver."""
    async with open_scrubjay(settings, working=working) as jay:
        who = await jay.access.open_as_admin(settings.home)
        for name in ("a", "b"):
            await jay.webhooks.create(who, url=f"{receiver.url}/{name}", events=["document_created"], secret=SECRET)
        yield jay, who


async def all_delivered(jay: Scrubjay, who: Principal, number: int) -> None:
    """Every event was queued once for each webhook, and all of them have arrived."""

    async def done() -> bool:
        page = await jay.webhooks.deliveries(who, status=DeliveryStatus.DELIVERED, limit=1)
        return page.total >= 2 * number

    await wait_until(done, "everything is delivered", seconds=PATIENCE_SECONDS, pause=0.1)
    everything = (await jay.webhooks.deliveries(who, limit=1000)).items
    assert len(everything) == 2 * number
    assert len({(each.webhook_id, each.event_id) for each in everything}) == 2 * number


def check(told: list[Told], number: int) -> None:
    for path in ("/a", "/b"):
        received = [each for each in told if each.path == path]
        order = [each.data["number"] for each in received]
        assert set(order) == set(range(number))
        assert order == sorted(order), "an event came after a later one"
        assert all(each.is_signed_with(SECRET) for each in received)
        assert len({(each.id, each.body) for each in received}) == number, "the same event was told in other words"


async def test_a_receiver_killed_and_restarted_is_told_everything_in_order(chosen: Settings, tmp_path: Path) -> None:
    chance, number = random.Random(6), 60
    with receiver_process(tmp_path) as receiver:
        async with told_office(chosen, receiver, working=True) as (jay, who):
            for each in range(number):
                await happen(jay, who, each)
                if each % 15 == 7:
                    await asyncio.sleep(chance.uniform(0, 0.05))
                    receiver.kill()
                if each % 15 == 12:
                    await asyncio.sleep(chance.uniform(0.5, 3.0))
                    receiver.start()
                await asyncio.sleep(chance.uniform(0, 0.03))
            await all_delivered(jay, who, number)
        check(receiver.told, number)


@pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.repeat])], indirect=True
)
async def test_a_worker_killed_between_events_and_deliveries_loses_and_doubles_nothing(
    chosen: Settings, tmp_path: Path
) -> None:
    chance, number = random.Random(7), 80
    with receiver_process(tmp_path) as receiver, worker_processes(chosen, tmp_path) as workers:
        async with told_office(chosen, receiver, working=False) as (jay, who):
            worker = workers.start()
            for each in range(number):
                await happen(jay, who, each)
                if each % 20 == 10:
                    # It is starting, publishing or sending: at any moment of that it is gone.
                    await asyncio.sleep(chance.uniform(0.0, 4.0))
                    workers.kill(worker)
                    worker = workers.start()
                await asyncio.sleep(chance.uniform(0, 0.02))
            await all_delivered(jay, who, number)
        check(receiver.told, number)
