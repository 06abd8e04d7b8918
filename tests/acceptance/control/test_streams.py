"""Live events over real connections: SSE and WebSockets that resume without loss, and listeners that do not listen."""

import asyncio
import json
import socket as sockets_of_the_system
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.acceptance.control.asking import events, look, reached, start
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import PATIENCE_SECONDS, until
from tests.site import Site
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job
from scrubjay.model.tenant import Scope
from scrubjay.queue import live
from scrubjay.queue.live import MAX_QUEUED
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def sse(address: str, key: Key, path: str, **options: Any) -> AsyncIterator[tuple[int, str, dict[str, Any]]]:
    """The events of a stream until it ends, each with its id and type."""
    headers = {"Authorization": f"Bearer {key.text}", "Accept": "text/event-stream", **options.pop("headers", {})}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_SECONDS) as client,
        client.stream("GET", f"http://{address}{path}", headers=headers, **options) as answer,
    ):
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
        current: dict[str, str] = {}
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                current[name] = value
            elif "data" in current:
                yield int(current["id"]), current["event"], json.loads(current["data"])
                current = {}


def dial(address: str, path: str, key: Key | None, **options: Any) -> connect:
    given = {} if key is None else {"Authorization": f"Bearer {key.text}"}
    return connect(f"ws://{address}{path}", additional_headers=given, proxy=None, **options)


async def received(socket: ClientConnection) -> list[dict[str, Any]]:
    return [json.loads(message) async for message in socket]


class Talker:
    """A job of nobody's, whose log a test writes as it likes."""

    def __init__(self, library: House, job: Job) -> None:
        self._library = library
        self.id = job.id

    @classmethod
    async def make(cls, library: House, key: Key) -> "Talker":
        who, _ = await library.jay.access.authenticate(key.text)
        job = Job(tenant_id=who.tenant_id, kind="test.talk", due_at=utc_now().replace(year=9000))
        async with library.jay.database.writing() as connection:
            await Jobs(connection).add(job)
        return cls(library, job)

    async def say(self, count: int, **payload: Any) -> None:
        async with self._library.jay.database.writing() as connection:
            job = await Jobs(connection).find_by_id(self.id)
            assert job is not None
            await Jobs(connection).change(self.id, event_count=job.event_count + count)
            await JobEvents(connection).append(self.id, [("test.said", payload, utc_now())] * count)


async def test_sse_and_socket_tell_the_same_and_end_with_the_job(
    library: House, owner: Key, site: Site, address: str
) -> None:
    job_id = await start(library, owner, site.url, max_articles_per_site=3)
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, f"/ws/jobs/{job_id}", owner) as socket:
        told = [event async for event in sse(address, owner, f"/jobs/{job_id}/events")]
        heard = await received(socket)
        assert socket.close_code == 1000
    assert heard == [event for _, _, event in told] == await events(library, owner, job_id)
    assert [number for number, _, _ in told] == list(range(1, len(told) + 1))
    assert {kind for _, kind, _ in told} >= {"job.progress", "article.processed", "domain.metrics", "job.complete"}
    assert all(kind == event["type"] and event["job_id"] == job_id for _, kind, event in told)

    for options in ({"params": {"after": 2}}, {"headers": {"Last-Event-ID": "2"}}):
        again = [event async for event in sse(address, owner, f"/jobs/{job_id}/events", **options)]
        assert again == told[2:]
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, f"/ws/jobs/{job_id}?after=2", owner) as socket:
        assert await received(socket) == heard[2:]
    assert [event async for event in sse(address, owner, f"/jobs/{job_id}/events", params={"after": len(told)})] == []


async def test_whoever_is_cut_off_again_and_again_misses_nothing_and_hears_nothing_twice(
    library: House, owner: Key, address: str
) -> None:
    talker = await Talker.make(library, owner)

    async def talk() -> None:
        for _ in range(60):
            await talker.say(10)
            await asyncio.sleep(0.01)

    talking = asyncio.create_task(talk())
    heard: list[int] = []
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(heard) < 600:
            after = heard[-1] if heard else 0
            # A client that leaves with messages unread does not see the server say goodbye.
            async with dial(address, f"/ws/jobs/{talker.id}?after={after}", owner, close_timeout=0.05) as socket:
                for _ in range(97):
                    heard.append(json.loads(await socket.recv())["sequence"])
                    if len(heard) == 600:
                        break
    await talking
    assert heard == list(range(1, 601))


async def test_all_jobs_are_followed_over_one_stream(library: House, owner: Key, site: Site, address: str) -> None:
    stranger = await library.key(tenant="strangers at the stream")
    theirs = await Talker.make(library, stranger)
    seen: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, "/ws/jobs", owner) as socket:
        jobs = [await start(library, owner, site.url, max_articles_per_site=1) for _ in range(3)]
        await theirs.say(5, secret="of a stranger")
        while sum(event["type"] == "job.complete" for event in seen) < 3:
            seen.append(json.loads(await socket.recv()))
    assert {event["job_id"] for event in seen} == set(jobs)
    positions = [event["sequence"] for event in seen]
    assert positions == sorted(set(positions))
    for job_id in jobs:
        own = [event for event in seen if event["job_id"] == job_id]
        assert [event["job_sequence"] for event in own] == list(range(1, len(own) + 1))
        assert [event["type"] for event in own] == [event["type"] for event in await events(library, owner, job_id)]

    middle = positions[len(positions) // 2]
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, f"/ws/jobs?after={middle}", owner) as socket:
        rest = [json.loads(await socket.recv()) for _ in positions[len(positions) // 2 + 1 :]]
    assert rest == [event for event in seen if event["sequence"] > middle]
    streamed = []
    async for number, _, event in sse(address, owner, "/jobs/events", headers={"Last-Event-ID": str(middle)}):
        assert number == event["sequence"]
        streamed.append(event)
        if len(streamed) == len(rest):
            break
    assert streamed == rest
    listed = await library.control("GET", "/jobs/events", owner, params={"after": middle})
    assert [event["sequence"] for event in listed["events"]] == [event["sequence"] for event in rest]
    latest = await library.control("GET", "/jobs/events", owner, params={"limit": 1000})
    assert [event["sequence"] for event in latest["events"]][-1] == positions[-1]
    assert "of a stranger" not in json.dumps(latest)


async def test_a_point_beyond_the_end_is_refused(library: House, owner: Key, address: str) -> None:
    talker = await Talker.make(library, owner)
    await talker.say(3)
    for path in (f"/jobs/{talker.id}/events", "/jobs/events"):
        for headers in ({}, {"Accept": "text/event-stream"}):
            answer = await library.ask("GET", path, owner, params={"after": 10**9}, headers=headers)
            assert (answer.status_code, answer.json()["details"]["field"]) == (400, "after"), path
    for path in (f"/ws/jobs/{talker.id}?after=4", "/ws/jobs?after=1000000000", "/ws/jobs?after=-1"):
        with pytest.raises(InvalidStatus) as refusal:
            async with dial(address, path, owner):
                pass
        assert refusal.value.response.status_code == 400, path
    answer = await library.ask("GET", f"/jobs/{talker.id}/events", owner, headers={"Last-Event-ID": "x"})
    assert (answer.status_code, answer.json()["details"]["field"]) == (400, "Last-Event-ID")


async def test_sockets_ask_for_a_key_of_the_tenant_before_they_open(library: House, owner: Key, address: str) -> None:
    talker = await Talker.make(library, owner)
    stranger = await library.key(Scope.READ, tenant="strangers at the control socket")
    for key, path, status in (
        (None, f"/ws/jobs/{talker.id}", 401),
        (None, "/ws/jobs", 401),
        (stranger, f"/ws/jobs/{talker.id}", 404),
        (owner, f"/ws/jobs/{new_id('job')}", 404),
        (owner, "/ws/jobs/nonsense", 404),
    ):
        with pytest.raises(InvalidStatus) as refusal:
            async with asyncio.timeout(PATIENCE_SECONDS), dial(address, path, key):
                pass
        assert refusal.value.response.status_code == status, path


@pytest.mark.slow
async def test_a_listener_that_does_not_take_what_it_is_sent_is_let_go_and_others_are_not_slowed(
    library: House, owner: Key, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrubjay.api.streams.SEND_SECONDS", 1.0)
    talker = await Talker.make(library, owner)
    host, _, port = address.partition(":")
    lazy = sockets_of_the_system.create_connection((host, int(port)))
    lazy.setsockopt(sockets_of_the_system.SOL_SOCKET, sockets_of_the_system.SO_RCVBUF, 4096)
    lazy.sendall(
        f"GET /jobs/{talker.id}/events HTTP/1.1\r\nHost: {address}\r\nAccept: text/event-stream\r\n"
        f"Authorization: Bearer {owner.text}\r\n\r\n".encode()
    )
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, f"/ws/jobs/{talker.id}", owner) as socket:
        total = 0
        while total < 3_000:
            await talker.say(100, text="x" * 3_000)  # far more than buffers between two processes hold
            for _ in range(100):
                total += 1
                assert json.loads(await socket.recv())["sequence"] == total

        async def followers() -> int:
            hub = library.jay.jobs._hub
            return len(hub._jobs[talker.id].followers)

        await until(followers, 1)  # only the one that listens
    lazy.close()


async def test_a_follower_that_falls_too_far_behind_is_told_where_it_was() -> None:
    follower = live.Follower(0)
    for number in range(1, MAX_QUEUED + 2):
        follower.hand(live.Told(live.JobEvent(job_id="j", sequence=number, type="t"), number))
    with pytest.raises(live.FollowerTooSlow) as refusal:
        async for _ in follower.batches():
            pass
    assert refusal.value.position == 0  # nothing of what was queued has been taken
    assert "after=0" in refusal.value.message


async def test_a_job_that_is_deleted_ends_the_following(library: House, owner: Key, site: Site, address: str) -> None:
    job_id = await start(library, owner, site.url, max_articles_per_site=1)
    await reached(library, owner, job_id, "completed")
    assert (await look(library, owner, job_id))["event_count"] > 0
    talker = await Talker.make(library, owner)
    async with asyncio.timeout(PATIENCE_SECONDS), dial(address, f"/ws/jobs/{talker.id}", owner) as socket:
        async with library.jay.database.writing() as connection:
            who, _ = await library.jay.access.authenticate(owner.text)
            await Jobs(connection).delete(who.tenant_id, talker.id)
        assert await received(socket) == []
