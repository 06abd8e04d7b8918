"""Webhooks from the event to the receiver: order, retries, endpoints that misbehave, circuits, rotation, replay."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from tests.receiver import Receiver, Told, running_receiver
from tests.workshop import on_every_database, wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.errors import Conflict, InvalidRequest, NotFound, UrlBlocked
from scrubjay.model.clock import utc_now
from scrubjay.model.content import OutboxEvent
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.job import Job, JobRequest, JobState
from scrubjay.model.tenant import Principal
from scrubjay.model.webhook import Delivery, DeliveryStatus, Webhook
from scrubjay.settings import Settings
from scrubjay.storage.deliveries import Deliveries, DeliveryRow
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.outbox import Outbox, OutboxRow
from scrubjay.storage.webhooks import Webhooks
from scrubjay.webhooks import dispatcher, verdict
from scrubjay.webhooks.publisher import Publisher

pytestmark = pytest.mark.timeout(120)
SECRET = "a secret that both know"
DOCUMENTS = ("document_created", "document_updated", "document_deleted")


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


@pytest.fixture
def open_settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={
            "allowed_private_networks": (ip_network("127.0.0.0/8"),),
            "extract_processes": 1,
            "webhook_timeout_seconds": 2.0,
        }
    )


class Office:
    """An open Scrubjay whose events a test makes up."""

    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self.jay = jay
        self.who = who

    async def webhook(self, url: str, *events: str, **values: Any) -> Webhook:
        values = {"secret": SECRET, **values}
        return (await self.jay.webhooks.create(self.who, url=url, events=events or DOCUMENTS, **values)).webhook

    async def happen(self, *numbers: int, topic: str = "document.created", **payload: Any) -> list[OutboxEvent]:
        events = [
            OutboxEvent(tenant_id=self.who.tenant_id, topic=topic, payload={"number": number, **payload})
            for number in numbers
        ]
        async with self.jay.database.writing() as connection:
            await Outbox(connection).add_many(events)
        return events

    async def deliveries(self, **filters: Any) -> list[Delivery]:
        """The oldest first."""
        return list((await self.jay.webhooks.deliveries(self.who, limit=1000, **filters)).items)[::-1]

    async def settled(self, number: int, **filters: Any) -> list[Delivery]:
        """All deliveries, once there are so many and none waits any more."""

        async def done() -> list[Delivery]:
            found = await self.deliveries(**filters)
            waiting = any(each.status is DeliveryStatus.PENDING for each in found)
            return found if len(found) >= number and not waiting else []

        found: list[Delivery] = await wait_until(done, f"{number} deliveries are settled")
        return found

    async def look(self, webhook: Webhook) -> Webhook:
        return await self.jay.webhooks.get(self.who, webhook.id)


@asynccontextmanager
async def open_office(settings: Settings, *, working: bool = True) -> AsyncIterator[Office]:
    async with open_scrubjay(settings, working=working) as jay:
        yield Office(jay, await jay.access.open_as_admin(settings.home))


@pytest.fixture
async def office(open_settings: Settings) -> AsyncIterator[Office]:
    async with open_office(open_settings) as office:
        yield office


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries in hundredths of the time."""
    monkeypatch.setattr(verdict, "RETRY_SECONDS", (0.01, 0.02, 0.04, 0.08, 0.16))


def numbers(told: list[Told]) -> list[int]:
    return [each.data["number"] for each in told]


@on_every_database
async def test_events_are_told_once_in_order_and_signed(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a", headers={"X-Team": "jays", "X-Auth-Token": "hunter22"})
    events = await office.happen(*range(30))

    await office.settled(30)

    told = receiver.at("/a")
    assert numbers(told) == list(range(30))
    assert [each.id for each in told] == [str(uuid_from_id(event.id)) for event in events]
    assert all(each.is_signed_with(SECRET) and not each.is_signed_with("another") for each in told)
    first = told[0].headers
    assert (first["x-webhook-event"], first["content-type"]) == ("document_created", "application/json")
    assert (first["x-team"], first["x-auth-token"]) == ("jays", "hunter22")
    assert abs(int(first["x-webhook-timestamp"]) - time.time()) < 60
    after = await office.look(webhook)
    assert (after.next_attempt_at, after.lease_id, after.last_position) == (None, None, 30)
    assert "hunter22" not in repr(after)


async def test_what_is_announced_is_told_well_within_a_second(office: Office, receiver: Receiver) -> None:
    await office.webhook(f"{receiver.url}/a", "completed")
    job = await office.jay.jobs.submit(office.who, "diagnostic.steps", {"steps": 1})

    async def told() -> list[Told]:
        return receiver.at("/a")

    [first] = await wait_until(told, "the job's end is told")
    done = await office.jay.jobs.get(office.who, job.id)
    [delivery] = await office.settled(1)
    assert done.finished_at is not None
    assert delivery.last_attempt_at is not None
    assert delivery.last_attempt_at - done.finished_at < timedelta(seconds=0.5)
    assert first.data == {
        "job_id": str(uuid_from_id(job.id)),
        "kind": "diagnostic.steps",
        "status": "completed",
        "error": None,
        "result": done.result,
        "started_at": done.started_at.isoformat() if done.started_at else None,
        "completed_at": done.finished_at.isoformat(),
    }
    assert (delivery.job_id, delivery.job_type) == (job.id, "diagnostic.steps")


async def test_a_job_that_fails_is_told_and_one_that_is_cancelled_is_not(office: Office, receiver: Receiver) -> None:
    await office.webhook(f"{receiver.url}/a", "completed", "failed")
    fine = {"steps": 1}
    cancelled = await office.jay.jobs.submit(office.who, "diagnostic.steps", {"steps": 10_000, "seconds": 60})
    await office.jay.jobs.make_request(office.who, cancelled.id, JobRequest.CANCEL, force=True)
    failed = await office.jay.jobs.submit(
        office.who, "crawl", {"plan_id": "cplan_none", "operation_id": "cop_none"}, max_retries=0
    )
    done = await office.jay.jobs.submit(office.who, "diagnostic.steps", fine)

    told = await office.settled(2)

    assert {(each.event, each.job_id) for each in told} == {("failed", failed.id), ("completed", done.id)}
    [failure] = [each for each in receiver.told if each.event == "failed"]
    assert failure.data["error"]
    assert failure.data["source_id"] == "cplan_none"


async def test_only_what_a_webhook_listens_to_reaches_it(office: Office, receiver: Receiver) -> None:
    plan = await office.jay.crawl_settings.create_source(office.who, name="s", url_pattern="https://example.org/")
    await office.webhook(f"{receiver.url}/deleted", "document_deleted")
    await office.webhook(f"{receiver.url}/plan", *DOCUMENTS, "plan.changed", plan_id=plan.id)
    await office.webhook(f"{receiver.url}/off", is_active=False)
    await office.webhook(f"{receiver.url}/breaking", "watch.breaking")
    await office.happen(1, topic="document.created")
    await office.happen(2, topic="document.deleted")
    await office.happen(3, topic="document.updated", plan_id=plan.id)
    await office.happen(4, topic="plan.changed", plan_id=plan.id)
    await office.happen(5, topic="watch.breaking")
    await office.happen(6, topic="nobody.knows.this")

    await office.settled(4)

    assert numbers(receiver.at("/deleted")) == [2]
    assert numbers(receiver.at("/plan")) == [3, 4]
    assert receiver.at("/plan")[0].data["source_id"] == str(uuid_from_id(plan.id))
    assert numbers(receiver.at("/breaking")) == [5]
    assert receiver.at("/off") == []
    async with office.jay.database.reading() as connection:
        assert await Outbox(connection).count(OutboxRow.published_at.is_(None)) == 0


async def test_a_failed_attempt_is_repeated_before_anything_else_is_sent(
    office: Office, receiver: Receiver, hurried: None
) -> None:
    await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [500, 404, 302]
    await office.happen(1, 2, 3)

    first, second, _ = await office.settled(3)

    assert numbers(receiver.at("/a")) == [1, 1, 1, 1, 2, 3]
    assert len({each.id for each in receiver.at("/a")[:4]}) == 1
    assert len({each.body for each in receiver.at("/a")[:4]}) == 1
    assert all(each.is_signed_with(SECRET) for each in receiver.at("/a"))
    assert (first.status, first.attempts, first.response_status, first.error) == ("delivered", 4, 200, None)
    assert second.attempts == 1


@pytest.mark.slow
async def test_retries_come_after_1_2_4_8_and_16_seconds_and_then_it_has_failed(
    office: Office, receiver: Receiver
) -> None:
    await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [500] * 6
    await office.happen(1)
    await asyncio.sleep(25)

    async def failed() -> bool:
        return [each.status for each in await office.deliveries()] == [DeliveryStatus.FAILED]

    await wait_until(failed, "it is given up")
    moments = [each.at for each in receiver.at("/a")]
    gaps = [later - earlier for earlier, later in pairwise(moments)]
    assert gaps == pytest.approx([1, 2, 4, 8, 16], abs=0.5)
    [delivery] = await office.deliveries()
    assert (delivery.attempts, delivery.max_attempts, delivery.next_attempt_at) == (6, 6, None)
    assert delivery.error == "It answered with HTTP status 500."


async def test_an_endpoint_that_hangs_slows_no_other(office: Office, receiver: Receiver) -> None:
    async def hang(_: Told) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    receiver.answers["/hang"] = hang
    hanging = [await office.webhook(f"{receiver.url}/hang") for _ in range(3)]
    fine = await office.webhook(f"{receiver.url}/fine")
    started = asyncio.get_running_loop().time()
    await office.happen(*range(20))

    await office.settled(20, webhook_id=fine.id)

    assert numbers(receiver.at("/fine")) == list(range(20))
    assert receiver.at("/fine")[-1].at - started < 1.5
    assert set(numbers(receiver.at("/hang"))) == {0}
    waiting = await office.deliveries(webhook_id=hanging[0].id)
    assert {each.status for each in waiting} == {DeliveryStatus.PENDING}

    async def timed_out() -> bool:
        return (await office.deliveries(webhook_id=hanging[0].id))[0].attempts >= 1

    await wait_until(timed_out, "the attempt has timed out")
    assert (await office.deliveries(webhook_id=hanging[0].id))[0].error == "No complete answer in time."


async def test_one_host_never_takes_all_places(
    office: Office, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatcher, "AT_ONCE", 6)
    monkeypatch.setattr(dispatcher, "AT_ONCE_TO_HOST", 5)
    at_once, most = 0, 0

    async def hang(_: Told) -> web.StreamResponse:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        try:
            await asyncio.sleep(1.4)
        finally:
            at_once -= 1
        return web.Response()

    receiver.answers["/hang"] = hang
    hanging = [await office.webhook(f"{receiver.url}/hang") for _ in range(12)]
    elsewhere = receiver.url.replace("127.0.0.1", "localhost")
    fine = await office.webhook(f"{elsewhere}/fine")
    await office.happen(1)

    await wait_until(_is_told(receiver, "/fine"), "the other host is told", seconds=1.3)

    async def all_places() -> bool:
        return len(receiver.at("/hang")) == 5

    await wait_until(all_places, "five of them have a place", seconds=1.3)
    for webhook in (*hanging, fine):
        await office.settled(1, webhook_id=webhook.id)
    assert most == 5


def _is_told(receiver: Receiver, path: str) -> Any:
    async def told() -> bool:
        return bool(receiver.at(path))

    return told


async def test_redirects_are_not_followed_and_long_answers_are_cut(
    office: Office, receiver: Receiver, hurried: None
) -> None:
    async def redirect(_: Told) -> web.StreamResponse:
        return web.Response(status=307, headers={"Location": f"{receiver.url}/inside"}, text="over there")

    async def boast(_: Told) -> web.StreamResponse:
        return web.Response(body=b"\x00\xff" + b"x" * 10 * 1024 * 1024)

    receiver.answers |= {"/redirect": redirect, "/huge": boast}
    redirecting = await office.webhook(f"{receiver.url}/redirect")
    huge = await office.webhook(f"{receiver.url}/huge")
    await office.happen(1)

    [refused] = await office.settled(1, webhook_id=redirecting.id)
    [cut] = await office.settled(1, webhook_id=huge.id)

    assert receiver.at("/inside") == []
    assert (refused.status, refused.response_status, refused.attempts) == ("failed", 307, 6)
    assert refused.error == "Redirects are not followed."
    assert (cut.status, cut.response_status, len(cut.response_body or "")) == ("delivered", 200, 1024)
    assert "\0" not in (cut.response_body or "")


async def test_private_addresses_are_refused_when_given_and_when_dialled(
    open_settings: Settings, receiver: Receiver, hurried: None
) -> None:
    async with open_office(open_settings) as office:
        webhook = await office.webhook(f"{receiver.url}/a")
    closed = open_settings.model_copy(update={"allowed_private_networks": ()})
    async with open_office(closed) as office:
        for url in (f"{receiver.url}/b", "http://169.254.169.254/latest", "http://[::1]/", "http://0x7f000001/"):
            with pytest.raises(UrlBlocked):
                await office.webhook(url)
        named = await office.webhook(receiver.url.replace("127.0.0.1", "localhost"))
        await office.happen(1)
        for each in (webhook, named):
            [delivery] = await office.settled(1, webhook_id=each.id)
            assert (delivery.status, delivery.response_status) == ("failed", None)
            assert "127.0.0.1 is not public" in (delivery.error or "") or "::1 is not public" in (delivery.error or "")
    assert receiver.told == []


async def test_a_circuit_opens_probes_and_closes_and_costs_what_waits_nothing(
    office: Office, receiver: Receiver, hurried: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "CIRCUIT_FAILURES", 2)
    monkeypatch.setattr(verdict, "PROBE_SECONDS", (0.4, 0.4))
    webhook = await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [503] * (2 * 6 + 2)
    await office.happen(1, 2, 3, 4, 5)

    async def is_open() -> bool:
        return (await office.look(webhook)).circuit_opened_at is not None

    await wait_until(is_open, "the circuit is open")
    assert numbers(receiver.at("/a")) == [1] * 6 + [2] * 6
    done = await office.settled(5)

    assert numbers(receiver.at("/a")) == [1] * 6 + [2] * 6 + [3] * 3 + [4, 5]
    probes = [each.at for each in receiver.at("/a")][11:15]
    assert all(later - earlier > 0.35 for earlier, later in pairwise(probes))
    assert [each.status for each in done] == ["failed", "failed", "delivered", "delivered", "delivered"]
    assert done[2].attempts == 1
    after = await office.look(webhook)
    assert (after.failures, after.circuit_opened_at) == (0, None)


async def test_after_a_rotation_both_secrets_sign_for_a_while(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    made = await office.jay.webhooks.rotate(office.who, webhook.id)
    await office.happen(1)
    await office.settled(1)
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).change(webhook.id, previous_secret_until=utc_now() - timedelta(seconds=1))
    await office.happen(2)
    await office.settled(2)
    at_once = await office.jay.webhooks.rotate(office.who, webhook.id, secret="mine", grace_hours=0)
    await office.happen(3)
    await office.settled(3)

    first, second, third = receiver.at("/a")
    assert made.secret.startswith("whsec_")
    assert first.headers["x-webhook-signature"].count("sha256=") == 2
    assert first.is_signed_with(made.secret)
    assert first.is_signed_with(SECRET)
    assert second.is_signed_with(made.secret)
    assert not second.is_signed_with(SECRET)
    assert third.is_signed_with(at_once.secret)
    assert not third.is_signed_with(made.secret)


async def test_a_replay_sends_the_same_bytes_under_the_same_id(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    await office.happen(1)
    [delivered] = await office.settled(1)

    first = await office.jay.webhooks.replay(office.who, delivered.id)
    second = await office.jay.webhooks.replay(office.who, first.id)
    done = await office.settled(3)

    assert [each.id for each in done] == [delivered.id, first.id, second.id]
    assert [each.replay for each in done] == [0, 1, 2]
    assert len({(each.body, each.id, each.event) for each in receiver.at("/a")}) == 1
    assert len(receiver.at("/a")) == 3
    await office.jay.webhooks.change(office.who, webhook.id, is_active=False)
    with pytest.raises(Conflict, match="switched off"):
        await office.jay.webhooks.replay(office.who, delivered.id)


async def test_a_test_is_sent_at_once_past_the_queue_and_says_what_came_back(
    office: Office, receiver: Receiver
) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [503, 500]
    await office.happen(1)
    await wait_until(_is_told(receiver, "/a"), "the first attempt has failed")

    ping = await office.jay.webhooks.test(office.who, webhook.id)

    assert (ping.event, ping.status, ping.response_status, ping.attempts) == ("ping", "failed", 500, 1)
    again = await office.jay.webhooks.test(office.who, webhook.id)
    assert (again.status, again.response_body) == ("delivered", "thanks")
    [*_, told] = [each for each in receiver.at("/a") if each.event == "ping"]
    assert told.is_signed_with(SECRET)
    assert told.data == {"webhook_id": str(uuid_from_id(webhook.id))}
    assert (await office.look(webhook)).failures == 0


async def test_nothing_is_sent_to_a_webhook_that_is_switched_off_or_gone(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [500]
    await office.happen(1, 2)
    await wait_until(_is_told(receiver, "/a"), "the first attempt has failed")
    await office.jay.webhooks.change(office.who, webhook.id, is_active=False)
    await office.happen(3)
    done = await office.settled(2)
    assert [(each.status, each.error) for each in done] == [("failed", "The webhook was switched off.")] * 2
    await asyncio.sleep(1.2)
    assert numbers(receiver.at("/a")) == [1]

    await office.jay.webhooks.change(office.who, webhook.id, is_active=True)
    await office.happen(4)
    await office.settled(3)
    assert numbers(receiver.at("/a")) == [1, 4]
    await office.jay.webhooks.delete(office.who, webhook.id)
    await office.happen(5)
    assert await office.deliveries() == []
    with pytest.raises(NotFound):
        await office.look(webhook)


async def test_another_address_is_tried_at_once(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    await office.happen(1)
    await office.settled(1)
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).change(webhook.id, failures=9, circuit_opened_at=utc_now())
    await office.happen(2)

    async def waits() -> bool:
        return len(await office.deliveries(status=DeliveryStatus.PENDING)) == 1

    await wait_until(waits, "the second waits for the circuit")
    await office.jay.webhooks.change(office.who, webhook.id, url=f"{receiver.url}/b")
    await office.settled(2)
    assert (numbers(receiver.at("/a")), numbers(receiver.at("/b"))) == ([1], [2])


async def test_a_job_tells_the_address_that_it_was_started_with(office: Office, receiver: Receiver) -> None:
    told = office.jay.webhooks.of_job(office.who, f"{receiver.url}/job", {"Authorization": "Bearer hunter22"}, SECRET)
    job = await office.jay.jobs.submit(office.who, "diagnostic.steps", {"steps": 1, "webhook": told})
    plain = office.jay.webhooks.of_job(office.who, f"{receiver.url}/plain", None, None)
    await office.jay.jobs.submit(office.who, "diagnostic.steps", {"steps": 1, "webhook": plain})

    done = await office.settled(2)

    [first] = receiver.at("/job")
    assert first.data["job_id"] == str(uuid_from_id(job.id))
    assert "webhook" not in first.data
    assert first.is_signed_with(SECRET)
    assert first.headers["authorization"] == "Bearer hunter22"
    assert "x-webhook-signature" not in receiver.at("/plain")[0].headers
    assert (await office.jay.webhooks.page(office.who)).total == 0
    own = await office.jay.webhooks.get(office.who, next(each.webhook_id for each in done if each.job_id == job.id))
    assert own.job_id == job.id
    assert "hunter22" not in str(await office.jay.jobs.get(office.who, job.id))
    with pytest.raises(InvalidRequest, match="webhook_url"):
        office.jay.webhooks.of_job(office.who, None, {"X-A": "b"}, None)


async def test_what_is_old_is_forgotten(office: Office, receiver: Receiver) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    job = office.jay.webhooks.of_job(office.who, f"{receiver.url}/job", None, None)
    await office.happen(1, topic="job.completed", job_id="job_gone", kind="k", webhook=job)
    await office.happen(2)
    kept, old = sorted(await office.settled(2), key=lambda each: each.webhook_id != webhook.id)
    async with office.jay.database.writing() as connection:
        await Deliveries(connection).change(old.id, created_at=utc_now() - timedelta(days=31))
        await Webhooks(connection).change(old.webhook_id, created_at=utc_now() - timedelta(days=2))
        published = (await Outbox(connection).page(order=[OutboxRow.id.asc()])).items
        await Outbox(connection).update(
            office.who.tenant_id, published[0].id, published_at=utc_now() - timedelta(hours=2)
        )

    publisher = Publisher(office.jay.database, retention_days=30)
    assert not await publisher.tidy()
    await publisher.forget_jobs()

    assert [each.id for each in await office.deliveries()] == [kept.id]
    with pytest.raises(NotFound):
        await office.jay.webhooks.get(office.who, old.webhook_id)
    assert (await office.look(webhook)).id == webhook.id
    async with office.jay.database.reading() as connection:
        assert [each.id for each in (await Outbox(connection).page()).items] == [published[1].id]


async def test_a_command_that_works_leaves_its_events_in_the_queues(
    open_settings: Settings, receiver: Receiver
) -> None:
    async with open_scrubjay(open_settings, working=True, keeping_time=False) as jay:
        office = Office(jay, await jay.access.open_as_admin(open_settings.home))
        await office.webhook(f"{receiver.url}/a")
        await office.happen(1, 2)
    assert receiver.told == []
    async with open_office(open_settings, working=False) as office:
        assert [each.status for each in await office.deliveries()] == [DeliveryStatus.PENDING] * 2
    async with open_office(open_settings) as office:
        await office.settled(2)
    assert numbers(receiver.told) == [1, 2]


async def test_an_attempt_that_is_cut_off_by_a_stop_is_made_again(open_settings: Settings, receiver: Receiver) -> None:
    async def hang(_: Told) -> web.StreamResponse:
        await asyncio.sleep(60)
        return web.Response()

    receiver.answers["/a"] = hang
    async with open_office(open_settings.model_copy(update={"webhook_timeout_seconds": 60})) as office:
        await office.webhook(f"{receiver.url}/a")
        await office.happen(1)
        await wait_until(_is_told(receiver, "/a"), "it is being sent")
        stopping = time.monotonic()
    assert time.monotonic() - stopping < 5
    receiver.answers.clear()
    async with open_office(open_settings) as office:
        [delivery] = await office.settled(1)
    assert numbers(receiver.at("/a")) == [1, 1]
    assert delivery.attempts == 1


async def test_a_lease_that_was_lost_writes_nothing(office: Office, receiver: Receiver) -> None:
    gate = asyncio.Event()

    async def wait(_: Told) -> web.StreamResponse:
        await gate.wait()
        return web.Response()

    receiver.answers["/a"] = wait
    webhook = await office.webhook(f"{receiver.url}/a")
    await office.happen(1)
    await wait_until(_is_told(receiver, "/a"), "it is being sent")
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).change(
            webhook.id, lease_id="wrk_other", leased_until=utc_now() + timedelta(minutes=9)
        )
    gate.set()
    await asyncio.sleep(0.3)
    assert [each.status for each in await office.deliveries()] == [DeliveryStatus.PENDING]
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).change(webhook.id, leased_until=utc_now() - timedelta(seconds=1))
    await office.settled(1)
    assert numbers(receiver.at("/a")) == [1, 1]


@pytest.mark.parametrize(
    "backend",
    [pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("mysql", marks=pytest.mark.mysql)],
    indirect=True,
)
async def test_two_processes_tell_every_webhook_in_order_and_once(open_settings: Settings, receiver: Receiver) -> None:
    """Two dispatchers with an engine each, as two workers would have them."""
    async with open_office(open_settings) as first, open_office(open_settings, working=False) as second:
        jay = second.jay
        other = dispatcher.Dispatcher(
            jay.database,
            jay.webhooks._signals,
            jay.webhooks._network,
            Publisher(jay.database, 30),
            jay.webhooks._sender,
        )
        await other.start()
        try:
            for name in range(5):
                await first.webhook(f"{receiver.url}/{name}")
            for number in range(40):
                await (first if number % 2 else second).happen(number)
            await first.settled(200)
        finally:
            await other.stop()
    for name in range(5):
        assert numbers(receiver.at(f"/{name}")) == list(range(40))


async def test_a_key_that_is_lost_is_a_failure_in_words(office: Office, receiver: Receiver, hurried: None) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    other = await office.webhook(f"{receiver.url}/b")
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).change(webhook.id, sealed_secret=other.sealed_secret)
    await office.happen(1)

    [delivery] = await office.settled(1, webhook_id=webhook.id)

    assert (delivery.status, delivery.attempts) == ("failed", 6)
    assert "belongs to another place" in (delivery.error or "")
    assert receiver.at("/a") == []


async def test_a_time_that_only_a_wrong_clock_could_have_meant_is_not_waited_for(
    office: Office, receiver: Receiver
) -> None:
    webhook = await office.webhook(f"{receiver.url}/a")
    receiver.statuses["/a"] = [500]
    await office.happen(1)
    await wait_until(_is_told(receiver, "/a"), "the first attempt has failed")
    [delivery] = await office.deliveries()
    far = utc_now() + timedelta(days=400)
    async with office.jay.database.writing() as connection:
        await Webhooks(connection).lock([webhook.id])
        await Webhooks(connection).change(webhook.id, next_attempt_at=far, lease_id="wrk_gone", leased_until=far)
        await Deliveries(connection).change(delivery.id, next_attempt_at=far)

    await office.settled(1)

    assert numbers(receiver.at("/a")) == [1, 1]


async def test_a_job_that_is_given_up_because_its_workers_die_is_told(office: Office, receiver: Receiver) -> None:
    await office.webhook(f"{receiver.url}/a", "failed")
    job = Job(
        tenant_id=office.who.tenant_id, kind="of a killer", state=JobState.RUNNING, crashes=9, worker_id="wrk_dead"
    )
    async with office.jay.database.writing() as connection:
        await Jobs(connection).add(job)

    [delivery] = await office.settled(1)

    assert (delivery.job_id, delivery.status) == (job.id, "delivered")
    assert "died 10 times" in receiver.at("/a")[0].data["error"]


async def test_the_unique_key_keeps_an_event_from_being_queued_twice(office: Office, receiver: Receiver) -> None:
    await office.webhook(f"{receiver.url}/a")
    await office.happen(1)
    [delivery] = await office.settled(1)
    with pytest.raises(Conflict):
        async with office.jay.database.writing() as connection:
            await Deliveries(connection).add(replace(delivery, id="whd_another"))
    async with office.jay.database.reading() as connection:
        assert await Deliveries(connection).count(DeliveryRow.event_id == delivery.event_id) == 1
