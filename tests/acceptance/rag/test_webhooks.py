"""Webhooks over `/api/v1`: registered, told, rotated, replayed; jobs with an address of their own; bad input."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, finished, until
from tests.receiver import Receiver, Told, running_receiver
from tests.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOBODYS = "01890a5d-ac96-774b-bcce-b302099a8057"
SECRET = "a secret that both know"


@pytest_asyncio.fixture(loop_scope="module")
async def receiver() -> AsyncIterator[Receiver]:
    async with running_receiver() as receiver:
        yield receiver


async def made(library: House, key: Key, url: str, path: str = "/webhooks", **body: Any) -> dict[str, Any]:
    answer: dict[str, Any] = await library.api("POST", path, key, status=201, json={"url": url, **body})
    return answer


async def told(receiver: Receiver, path: str, number: int) -> list[Told]:
    """What a path was told, once it is so much."""

    async def count() -> int:
        return len(receiver.at(path))

    await until(count, number)
    return receiver.at(path)


async def log(library: House, key: Key, **filters: str) -> list[dict[str, Any]]:
    """Deliveries, the oldest first."""
    answer = await library.api("GET", "/webhooks/deliveries", key, params=filters)
    assert answer["total"] == len(answer["items"])
    return list(reversed(answer["items"]))


async def delivered(library: House, key: Key, number: int, **filters: str) -> list[dict[str, Any]]:
    async def statuses() -> list[str]:
        return [each["status"] for each in await log(library, key, **filters)]

    await until(statuses, ["delivered"] * number)
    return await log(library, key, **filters)


async def test_a_document_is_told_when_it_comes_changes_and_goes(
    library: House, owner: Key, receiver: Receiver
) -> None:
    events = ["document_created", "document_updated", "document_deleted"]
    webhook = await made(library, owner, f"{receiver.url}/d", events=events, headers={"X-Api-Key": "hunter22"})
    document = await add(library, owner, "Jays hide acorns.", url="https://jays.example/")
    await add(library, owner, "Jays hide acorns, and find them.", url="https://jays.example/")
    await library.api("DELETE", f"/documents/{document['id']}", owner, status=204)

    received = await told(receiver, "/d", 3)

    assert [each.event for each in received] == events
    assert {each.data["document_id"] for each in received} == {document["id"]}
    assert [each.data.get("version") for each in received] == [1, 2, None]
    assert all(each.is_signed_with(webhook["secret"]) for each in received)
    assert received[0].headers["x-api-key"] == "hunter22"
    deliveries = await delivered(library, owner, 3)
    assert [each["event_id"] for each in deliveries] == [each.id for each in received]
    assert deliveries[0]["payload"]["data"]["url"] == "https://jays.example/"
    one = await library.api("GET", f"/webhooks/deliveries/{deliveries[1]['id']}", owner)
    assert (one["response_status"], one["response_body"], one["attempts"]) == (200, "thanks", 1)
    assert [each["id"] for each in await log(library, owner, event="document_updated")] == [one["id"]]
    assert await log(library, owner, status="failed") == []
    assert len(await log(library, owner, webhook_id=webhook["id"])) == 3


async def test_the_secret_is_shown_once_and_nothing_secret_ever_again(
    library: House, owner: Key, receiver: Receiver
) -> None:
    headers = {"Authorization": "Bearer hunter22", "X-Team": "jays"}
    webhook = await made(library, owner, f"{receiver.url}/a", headers=headers, secret=SECRET)
    path = f"/webhooks/{webhook['id']}"
    assert webhook["secret"] == SECRET
    assert webhook["headers"] == {"Authorization": "[hidden]", "X-Team": "jays"}
    assert (webhook["events"], webhook["is_active"]) == (["completed", "failed"], True)
    for answer in (
        await library.ask("GET", f"/api/v1{path}", owner),
        await library.ask("GET", "/api/v1/webhooks", owner),
        await library.ask("PUT", f"/api/v1{path}", owner, json={"headers": webhook["headers"]}),
    ):
        assert answer.status_code == 200
        assert "hunter22" not in answer.text
        assert SECRET not in answer.text
        assert "whsec" not in answer.text
    ping = await library.api("POST", f"{path}/test", owner)
    assert (ping["status"], ping["event"], ping["webhook_id"]) == ("delivered", "ping", webhook["id"])
    [received] = await told(receiver, "/a", 1)
    assert received.headers["authorization"] == "Bearer hunter22", "'[hidden]' keeps what was there"


async def test_put_changes_what_is_given_and_delete_removes(library: House, owner: Key, receiver: Receiver) -> None:
    source = await library.api(
        "POST", "/sources", owner, status=201, json={"name": "s", "url_pattern": "https://s.example/"}
    )
    webhook = await made(library, owner, f"{receiver.url}/a", source_id=source["id"])
    path = f"/webhooks/{webhook['id']}"
    changed = await library.api("PUT", path, owner, json={"events": ["failed"], "is_active": False})
    assert (changed["events"], changed["is_active"], changed["url"], changed["source_id"]) == (
        ["failed"], False, f"{receiver.url}/a", source["id"],
    )  # fmt: skip
    assert (await library.api("PUT", path, owner, json={}))["events"] == ["failed"]
    everything = await library.api("PUT", path, owner, json={"source_id": None, "is_active": True})
    assert (everything["source_id"], everything["is_active"]) == (None, True)
    await library.api("DELETE", path, owner, status=204)
    for method, place in (("GET", path), ("PUT", path), ("DELETE", path), ("POST", f"{path}/test")):
        await library.api(method, place, owner, status=404, **({"json": {}} if method == "PUT" else {}))
    assert (await library.api("GET", "/webhooks", owner))["items"] == []


async def test_a_sources_webhooks_hear_of_its_runs_and_of_nothing_else(
    library: House, owner: Key, receiver: Receiver, site: Site
) -> None:
    source, other = [
        await library.api(
            "POST", "/sources", owner, status=201, json={"name": name, "url_pattern": f"{site.url}/{name}"}
        )
        for name in ("page/3", "page/4")
    ]
    events = ["completed", "plan.changed", "document_created"]
    path = f"/sources/{source['id']}/webhooks"
    webhook = await made(library, owner, f"{receiver.url}/s", path, events=events)
    assert webhook["source_id"] == source["id"]
    assert [each["id"] for each in (await library.api("GET", path, owner))["items"]] == [webhook["id"]]
    assert (await library.api("GET", f"/sources/{other['id']}/webhooks", owner))["total"] == 0
    await add(library, owner, "Not of the source.", url="https://not.example/")

    started = await library.api("POST", f"/sources/{source['id']}/trigger", owner)
    job = await finished(library, owner, started["job_id"])

    assert job["status"] == "completed", job

    async def ended() -> bool:
        return any(each.event == "completed" for each in receiver.at("/s"))

    await until(ended, True)
    received = receiver.at("/s")
    assert [each.event for each in received][-2:] == ["plan.changed", "completed"]
    assert {each.event for each in received[:-2]} == {"document_created"}
    assert {each.data["source_id"] for each in received} == {source["id"]}
    assert received[-1].data["job_id"] == started["job_id"]
    change = received[-2].data
    assert (change["added"], change["changed"], change["removed"]) == (len(received) - 2, 0, 0)
    assert change["name"] == "page/3"

    # Looked at again, nothing has changed: that the run ended is told, and no change.
    receiver.told.clear()
    await library.api("POST", f"/sources/{source['id']}/trigger", owner)
    assert [each.event for each in await told(receiver, "/s", 1)] == ["completed"]
    await library.api("DELETE", f"/sources/{source['id']}", owner, status=204)
    assert (await library.api("GET", "/webhooks", owner))["total"] == 0, "they go with their source"


async def test_a_crawl_a_batch_and_a_discovery_tell_their_own_address(
    library: House, owner: Key, receiver: Receiver, site: Site
) -> None:
    address = {
        "webhook_url": f"{receiver.url}/own",
        "webhook_headers": {"X-Token": "hunter22"},
        "webhook_secret": SECRET,
    }
    crawl = await library.api("POST", "/crawl", owner, json={"url": f"{site.url}/page/1", **address})
    deep = {"url": f"{site.url}/page/2", "max_depth": 0, "webhook_url": f"{receiver.url}/deep"}
    deep_job = await library.api("POST", "/crawl/deep", owner, json=deep)
    batch = {"urls": [f"{site.url}/page/5", f"{site.url}/page/6"], "webhook_url": f"{receiver.url}/batch"}
    batch_jobs = await library.api("POST", "/crawl/batch", owner, json=batch)

    [own] = await told(receiver, "/own", 1)
    [after_deep] = await told(receiver, "/deep", 1)
    after_batch = await told(receiver, "/batch", 2)

    assert (own.event, own.data["job_id"]) == ("completed", crawl["jobs"][0]["job_id"])
    assert own.data["result"]["pages"] == 1
    assert own.is_signed_with(SECRET)
    assert own.headers["x-token"] == "hunter22"
    assert after_deep.data["job_id"] == deep_job["job_id"]
    assert {each.data["job_id"] for each in after_batch} == {each["job_id"] for each in batch_jobs["jobs"]}
    assert "x-webhook-signature" not in after_deep.headers
    assert (await library.api("GET", "/webhooks", owner))["total"] == 0
    deliveries = await delivered(library, owner, 4)
    assert {each["job_type"] for each in deliveries} == {"crawl"}
    webhook = await library.api("GET", f"/webhooks/{deliveries[0]['webhook_id']}", owner)
    assert (webhook["job_id"], webhook["is_active"]) == (deliveries[0]["job_id"], True)
    discovery = {"domain": site.url, "webhook_url": f"{receiver.url}/found"}
    found = await library.api("POST", "/discover", owner, json=discovery)
    [after_discovery] = await told(receiver, "/found", 1)
    assert (after_discovery.data["job_id"], after_discovery.data["kind"]) == (found["job_id"], "discovery")


async def test_rotating_signs_with_both_and_a_replay_is_a_delivery_of_its_own(
    library: House, owner: Key, receiver: Receiver
) -> None:
    webhook = await made(library, owner, f"{receiver.url}/r", events=["document_created"])
    await add(library, owner, "Something to tell.", url="https://tell.example/")
    [first] = await delivered(library, owner, 1)

    rotated = await library.api("POST", f"/webhooks/{webhook['id']}/rotate", owner)
    again = await library.api("POST", f"/webhooks/deliveries/{first['id']}/replay", owner, status=201)

    before, after = await told(receiver, "/r", 2)
    assert rotated["secret"] != webhook["secret"]
    assert rotated["previous_secret_until"] is not None
    assert (before.id, before.body) == (after.id, after.body)
    assert not before.is_signed_with(rotated["secret"])
    assert after.is_signed_with(webhook["secret"])
    assert after.is_signed_with(rotated["secret"])
    assert (again["replay"], again["event_id"]) == (1, first["event_id"])
    assert again["id"] != first["id"]
    at_once = await library.api("POST", f"/webhooks/{webhook['id']}/rotate", owner, json={"grace_hours": 0})
    await library.api("POST", f"/webhooks/{webhook['id']}/test", owner)
    last = (await told(receiver, "/r", 3))[-1]
    assert last.is_signed_with(at_once["secret"])
    assert not last.is_signed_with(rotated["secret"])


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "url"),
    ({"url": "ftp://example.org/"}, "url"),
    ({"url": "https://user:pass@example.org/"}, "url"),
    ({"url": "https://example.org/", "events": []}, "events"),
    ({"url": "https://example.org/", "events": ["exploded"]}, "events"),
    ({"url": "https://example.org/", "events": "completed"}, "events"),
    ({"url": "https://example.org/", "headers": {"Host": "x"}}, "headers"),
    ({"url": "https://example.org/", "headers": {"X-A": "a\nb"}}, "headers"),
    ({"url": "https://example.org/", "headers": {"X-Webhook-Id": "mine"}}, "headers"),
    ({"url": "https://example.org/", "secret": ""}, "secret"),
    ({"url": "https://example.org/", "secret": "x" * 501}, "secret"),
    ({"url": "https://example.org/", "source_id": "x"}, "source_id"),
    ({"url": "https://example.org/", "is_active": "yes"}, "is_active"),
    ({"url": "https://example.org/", "colour": "blue"}, "colour"),
]


@pytest.mark.parametrize(("body", "field"), BAD)
async def test_a_bad_webhook_is_400_and_names_the_field(
    library: House, owner: Key, body: dict[str, Any], field: str
) -> None:
    answer = await library.ask("POST", "/api/v1/webhooks", owner, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert field in answer.text
    assert (await library.api("GET", "/webhooks", owner))["total"] == 0


async def test_addresses_inside_and_unknown_sources_are_refused(library: House, owner: Key) -> None:
    blocked = await library.ask("POST", "/api/v1/webhooks", owner, json={"url": "http://10.0.0.1/"})
    assert (blocked.status_code, blocked.json()["code"]) == (403, "URL_BLOCKED")
    body = {"url": "https://example.org/", "source_id": NOBODYS}
    await library.api("POST", "/webhooks", owner, status=404, json=body)
    await library.api("GET", "/webhooks/deliveries", owner, status=400, params={"webhook_id": "x"})
    await library.api("GET", "/webhooks/deliveries", owner, status=400, params={"status": "lost"})
    await library.api("GET", "/webhooks/deliveries", owner, status=404, params={"webhook_id": NOBODYS})
    webhook = await made(library, owner, "https://example.org/")
    rotate = f"/webhooks/{webhook['id']}/rotate"
    for grace in (-1, 169, "long"):
        await library.api("POST", rotate, owner, status=400, json={"grace_hours": grace})
    blocked = await library.ask("PUT", f"/api/v1/webhooks/{webhook['id']}", owner, json={"url": "http://[::1]/"})
    assert blocked.status_code == 403


@pytest.mark.parametrize(
    ("extra", "status", "word"),
    [
        ({"webhook_url": "http://192.168.0.1/"}, 403, "192.168.0.1"),
        ({"webhook_url": "nonsense"}, 400, "webhook_url"),
        ({"webhook_headers": {"X-A": "b"}}, 400, "webhook_url"),
        ({"webhook_url": "https://example.org/", "webhook_headers": {"Host": "x"}}, 400, "webhook_headers"),
    ],
)
@pytest.mark.parametrize("path", ["/crawl", "/crawl/batch", "/crawl/deep", "/discover"])
async def test_a_job_with_a_bad_address_is_not_begun(
    library: House, owner: Key, path: str, extra: dict[str, Any], status: int, word: str
) -> None:
    start: dict[str, Any] = {"url": "https://example.org/"}
    start = {"/crawl/batch": {"urls": ["https://example.org/"]}, "/discover": {"domain": "example.org"}}.get(
        path, start
    )
    answer = await library.ask("POST", f"/api/v1{path}", owner, json={**start, **extra})
    assert answer.status_code == status, answer.text
    assert word in answer.text
    assert (await library.api("GET", "/jobs", owner))["total"] == 0
