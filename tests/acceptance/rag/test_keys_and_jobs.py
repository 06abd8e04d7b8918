"""`/api/v1` over HTTP: API keys, their scopes, limits and tenants, and jobs."""

import asyncio
import json
import time
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.rag.scopes import NEEDED, RANK
from tests.logbook import Logbook

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.tenant import Scope
from scrubjay.services.access import hash_key
from scrubjay.settings import Settings
from scrubjay.storage.keys import ApiKeyRow, ApiKeys

READ = Scope.READ

# What this file is about; `test_scopes_and_tenants.py` has the rest.
OWN = {
    place: scope
    for place, scope in NEEDED.items()
    if place.pattern.startswith(("/metrics", "/api/v1/api-keys", "/api/v1/jobs"))
}


@pytest.mark.parametrize("scope", RANK)
async def test_a_key_may_do_what_its_scope_allows_and_nothing_else(house: House, scope: Scope) -> None:
    key = await house.key(scope)
    allowed, expected = {}, {}
    for place, needed in OWN.items():
        job, other = await house.job(), await house.key()
        path = place.path({"job_id": job.id, "key_id": other.record.id, "request": "cancel"})
        body = {"json": {"name": "made by a test"}} if place.method in ("POST", "PATCH") else {}
        answer = await house.ask(place.method, path, key, **body)
        allowed[str(place)] = answer.status_code not in (401, 403)
        expected[str(place)] = RANK.index(scope) >= RANK.index(needed)
        if not allowed[str(place)]:
            assert (answer.status_code, answer.json()["code"]) == (403, "FORBIDDEN")
            assert needed in answer.json()["error"]
            assert (await house.jay.jobs.get(house.admin, job.id)).state == "pending"
            assert await house.jay.access.get_key(house.admin, other.record.id) == other.record
    assert allowed == expected


# --- The life of a key


async def test_a_key_is_made_shown_once_and_stored_as_a_hash(house: House, admin: Key, logbook: Logbook) -> None:
    made = await house.ask("POST", "/api/v1/api-keys", admin, json={"name": "reader", "rate_limit_rpm": 7})
    assert made.status_code == 201
    body = made.json()
    text = body.pop("key")
    assert (body["name"], body["scopes"], body["rate_limit_rpm"]) == ("reader", ["read"], 7)
    assert (body["is_active"], body["expires_at"]) == (True, None)
    made_with_it = await house.ask("GET", "/api/v1/jobs", headers={"X-Api-Key": text})
    assert (made_with_it.status_code, made_with_it.headers["x-ratelimit-remaining"]) == (200, "6")
    # Even what a failing request would log of it.
    await house.ask("GET", f"/api/v1/jobs/{text}", headers={"X-Api-Key": text})

    shown = [
        await house.ask("GET", f"/api/v1/api-keys/{body['id']}", admin),
        await house.ask("GET", "/api/v1/api-keys", admin),
        await house.ask("PATCH", f"/api/v1/api-keys/{body['id']}", admin, json={"name": "renamed"}),
    ]
    assert shown[0].json() == body
    assert body in shown[1].json()["items"]
    assert shown[2].json() == body | {"name": "renamed"}
    for answer in shown:
        assert text not in answer.text
        assert hash_key(text) not in answer.text

    async with house.jay.database.reading() as connection:
        rows = [row._mapping for row in await connection.execute(select(ApiKeyRow.__table__))]
    assert hash_key(text) in {row["key_hash"] for row in rows}
    assert text not in str(rows)
    stored = b"".join(path.read_bytes() for path in house.jay.settings.home.glob("scrubjay.db*"))
    assert hash_key(text).encode() in stored
    assert text.encode() not in stored

    assert [line["event"] for line in logbook.lines if "API key" in line["event"]] == [
        "API key created",
        "API key changed",
    ]
    assert not any(secret in logbook.text for secret in (text, admin.text, hash_key(text)))


async def test_every_key_is_different_and_recognisable(house: House) -> None:
    texts = {(await house.key()).text for _ in range(20)}
    assert len(texts) == 20
    assert all(text.startswith("sj_") and len(text) >= 50 for text in texts)


@pytest.fixture(params=["expired", "disabled", "deleted"])
def ending(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_key_that_has_ended_is_401(house: House, admin: Key, ending: str) -> None:
    key = await house.key(expires_at=utc_now() + timedelta(hours=1))
    assert (await house.ask("GET", "/api/v1/jobs", key)).status_code == 200
    if ending == "expired":
        async with house.jay.database.writing() as connection:
            await ApiKeys(connection).update(key.record.tenant_id, key.record.id, expires_at=utc_now())
    elif ending == "disabled":
        answer = await house.ask("PATCH", f"/api/v1/api-keys/{key.uuid}", admin, json={"is_active": False})
        assert answer.json()["is_active"] is False
    else:
        assert (await house.ask("DELETE", f"/api/v1/api-keys/{key.uuid}", admin)).status_code == 204
    answer = await house.ask("GET", "/api/v1/jobs", key)
    assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")


async def test_a_disabled_key_works_again_once_enabled(house: House, admin: Key) -> None:
    key = await house.key(READ)
    for is_active, status in ((False, 401), (True, 200)):
        await house.ask("PATCH", f"/api/v1/api-keys/{key.uuid}", admin, json={"is_active": is_active})
        assert (await house.ask("GET", "/api/v1/jobs", key)).status_code == status


async def test_a_change_of_scope_or_limit_holds_from_the_next_request(house: House, admin: Key) -> None:
    key, path = await house.key(READ), "/api/v1/api-keys"
    assert (await house.ask("GET", path, key)).status_code == 403
    await house.ask("PATCH", f"{path}/{key.uuid}", admin, json={"scopes": ["admin"], "rate_limit_rpm": 2})
    statuses = [(await house.ask("GET", path, key)).status_code for _ in range(2)]
    assert statuses == [200, 429]


async def test_a_key_cannot_disable_or_delete_itself(house: House, admin: Key) -> None:
    for spelling in (str(admin.uuid), admin.record.id):
        path = f"/api/v1/api-keys/{spelling}"
        disabled = await house.ask("PATCH", path, admin, json={"is_active": False})
        deleted = await house.ask("DELETE", path, admin)
        assert [answer.status_code for answer in (disabled, deleted)] == [409, 409]
        assert "itself" in disabled.json()["error"]
    assert (await house.ask("GET", f"/api/v1/api-keys/{admin.uuid}", admin)).json()["is_active"] is True


async def test_an_expiry_in_the_past_is_refused(house: House, admin: Key) -> None:
    body = {"name": "late", "expires_at": (utc_now() - timedelta(seconds=1)).isoformat()}
    answer = await house.ask("POST", "/api/v1/api-keys", admin, json=body)
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "expires_at"})


async def test_an_expiry_is_kept_to_the_moment(house: House, admin: Key) -> None:
    body = {"name": "until", "expires_at": "2090-02-03T04:05:06+02:00", "scopes": ["write", "read", "write"]}
    made = (await house.ask("POST", "/api/v1/api-keys", admin, json=body)).json()
    read = (await house.ask("GET", f"/api/v1/api-keys/{made['id']}", admin)).json()
    assert read["expires_at"] == "2090-02-03T02:05:06Z"
    assert read["scopes"] == ["read", "write"]


# --- The limit


@pytest.mark.parametrize("cache", ["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def test_of_200_concurrent_requests_exactly_the_limit_pass(
    settings: Settings, cache: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("redis_url") if cache == "redis" else None
    async with open_house(settings.model_copy(update={"cache_url": url})) as house:
        minutes: set[int] = set()
        # A run across the turn of a minute is done again: the new minute may let a few more through.
        while len(minutes) != 1:
            key = await house.key(READ, rpm=60)
            minutes = {int(time.time()) // 60}
            async with house.client(key) as client:
                answers = await asyncio.gather(*(client.get("/api/v1/jobs") for _ in range(200)))
            minutes.add(int(time.time()) // 60)
        passed = [answer for answer in answers if answer.status_code == 200]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert (len(passed), len(refused)) == (60, 140)
        assert sorted(int(answer.headers["x-ratelimit-remaining"]) for answer in passed) == list(range(60))
        for answer in refused:
            assert answer.headers["x-ratelimit-remaining"] == "0"
            assert 1 <= int(answer.headers["retry-after"]) <= 61  # the window slides
            assert answer.headers["x-ratelimit-reset"] == answer.headers["retry-after"]
            assert answer.json()["code"] == "RATE_LIMIT_EXCEEDED"
            assert answer.json()["details"]["limit"] == 60

        other = await house.key(READ, rpm=60)
        assert (await house.ask("GET", "/api/v1/jobs", other)).status_code == 200


# --- Tenants


async def test_another_tenants_things_do_not_exist(house: House, admin: Key) -> None:
    stranger = await house.key(tenant="strangers")
    job = await house.job()
    spellings = {
        "job_id": [job.id, str(uuid_from_id(job.id))],
        "key_id": [admin.record.id, str(admin.uuid)],
    }
    asked = 0
    for place in OWN:
        for name, ids in spellings.items():
            if f"{{{name}}}" not in place.pattern:
                continue
            for identifier in ids:
                path = place.path({name: identifier, "request": "cancel"})
                body = {"json": {"name": "stolen"}} if place.method == "PATCH" else {}
                answer = await house.ask(place.method, path, stranger, **body)
                assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (place, identifier)
                asked += 1
    assert asked == 16
    assert (await house.jay.jobs.get(house.admin, job.id)).state == "pending"
    assert (await house.jay.access.get_key(house.admin, admin.record.id)) == admin.record


async def test_another_tenant_lists_only_its_own_things(house: House) -> None:
    await house.job()
    stranger = await house.key(tenant="strangers")
    for path in ("/api/v1/jobs", "/api/v1/jobs/failed"):
        assert (await house.ask("GET", path, stranger)).json() == {
            "items": [],
            "total": 0,
            "limit": 100,
            "offset": 0,
            "has_more": False,
        }
    keys = (await house.ask("GET", "/api/v1/api-keys", stranger)).json()
    assert [item["id"] for item in keys["items"]] == [str(stranger.uuid)]


async def test_a_key_that_a_tenant_makes_belongs_to_that_tenant(house: House) -> None:
    stranger = await house.key(tenant="strangers")
    made = await house.ask("POST", "/api/v1/api-keys", stranger, json={"name": "x", "scopes": ["admin"]})
    job = await house.job()
    answer = await house.ask("GET", f"/api/v1/jobs/{job.id}", headers={"X-Api-Key": made.json()["key"]})
    assert answer.status_code == 404


# --- Jobs


async def test_a_job_is_the_same_in_both_spellings_of_its_id(house: House, admin: Key) -> None:
    job = await house.job()
    uuid = str(uuid_from_id(job.id))
    answers = [(await house.ask("GET", f"/api/v1/jobs/{spelling}", admin)).json() for spelling in (job.id, uuid)]
    assert answers[0] == answers[1]
    assert (answers[0]["id"], answers[0]["kind"], answers[0]["status"]) == (uuid, "diagnostic.steps", "pending")


async def test_a_job_is_steered_and_its_log_tells_of_it(house: House, admin: Key) -> None:
    job = await house.job()
    path = f"/api/v1/jobs/{job.id}"
    states = [
        (await house.ask("POST", f"{path}/{request}", admin)).json()["status"]
        for request in ("pause", "resume", "cancel", "retry", "cancel")
    ]
    assert states == ["paused", "pending", "cancelled", "pending", "cancelled"]
    events = (await house.ask("GET", f"{path}/events", admin)).json()
    assert [event["sequence"] for event in events] == list(range(1, 7))
    assert [event["type"] for event in events][:3] == ["job.submitted", "job.pause_requested", "job.resume_requested"]
    assert (await house.ask("GET", f"{path}/events?after=4&limit=1", admin)).json() == events[4:5]

    assert (await house.ask("DELETE", path, admin)).status_code == 204
    assert (await house.ask("GET", path, admin)).status_code == 404


async def test_what_makes_no_sense_for_a_job_now_is_409_and_changes_nothing(house: House, admin: Key) -> None:
    job = await house.job()
    for method, path in (("POST", "/resume"), ("POST", "/retry"), ("DELETE", "")):
        answer = await house.ask(method, f"/api/v1/jobs/{job.id}{path}", admin)
        assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")
        assert answer.json()["details"] == {"state": "pending"}
    assert await house.jay.jobs.get(house.admin, job.id) == job


async def test_lists_are_pages_newest_first_and_can_be_filtered(house: House, admin: Key) -> None:
    jobs = [await house.job() for _ in range(5)]
    await house.ask("POST", f"/api/v1/jobs/{jobs[2].id}/cancel", admin)

    async def page(query: str) -> tuple[list[int], int, bool]:
        body = (await house.ask("GET", f"/api/v1/jobs?{query}", admin)).json()
        order = [str(uuid_from_id(job.id)) for job in jobs]
        return [order.index(item["id"]) for item in body["items"]], body["total"], body["has_more"]

    assert await page("") == ([4, 3, 2, 1, 0], 5, False)
    assert await page("limit=2") == ([4, 3], 5, True)
    assert await page("limit=2&offset=4") == ([0], 5, False)
    assert await page("status=cancelled") == ([2], 1, False)
    assert await page("kind=diagnostic.steps&limit=1") == ([4], 5, True)
    assert await page("kind=other") == ([], 0, False)


# --- Bad input


def sending(**body: Any) -> dict[str, Any]:
    return {"json": body}


def raw(content: bytes) -> dict[str, Any]:
    return {"content": content, "headers": {"Content-Type": "application/json"}}


BAD_KEYS: dict[str, dict[str, Any]] = {
    "no body": {},
    "malformed JSON": raw(b'{"name": "x"'),
    "not UTF-8": raw(b'{"name": "\xff"}'),
    "a lone surrogate": raw(rb'{"name": "\ud800"}'),
    "a lone surrogate as a field": raw(rb'{"name": "x", "\ud800": 1}'),
    "deep nesting": raw(b"[" * 100_000),
    "an endless number": raw(b'{"name": "x", "rate_limit_rpm": ' + b"9" * 5000 + b"}"),
    "a list": {"json": [1]},
    "null": {"json": None},
    "another media type": {"content": b'{"name": "x"}', "headers": {"Content-Type": "text/plain"}},
    "no name": sending(),
    "an empty name": sending(name=""),
    "a blank name": sending(name="  \t "),
    "a number as name": sending(name=7),
    "a name that is too long": sending(name="x" * 101),
    "a name of a megabyte": sending(name="x" * 1_000_000),
    "a NUL in the name": sending(name="a\x00b"),
    "an escape code in the name": sending(name="\x1b[31mred"),
    "an unknown field": sending(name="x", tenant_id="ten_0"),
    "an unknown scope": sending(name="x", scopes=["root"]),
    "no scope": sending(name="x", scopes=[]),
    "scopes as text": sending(name="x", scopes="admin"),
    "a limit of zero": sending(name="x", rate_limit_rpm=0),
    "a huge limit": sending(name="x", rate_limit_rpm=10_001),
    "a limit as text": sending(name="x", rate_limit_rpm="sixty"),
    "a limit as a truth value": sending(name="x", rate_limit_rpm=True),
    "a limit that is not a number": raw(b'{"name": "x", "rate_limit_rpm": NaN}'),
    "an expiry without a time zone": sending(name="x", expires_at="2090-01-01T00:00:00"),
    "an expiry that is no time": sending(name="x", expires_at="soon"),
    "an expiry beyond the calendar": sending(name="x", expires_at="9999-12-31T23:59:59-23:59"),
}


@pytest.mark.parametrize("case", BAD_KEYS)
async def test_a_key_is_not_made_from(house: House, admin: Key, case: str) -> None:
    answer = await house.ask("POST", "/api/v1/api-keys", admin, **BAD_KEYS[case])
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.text
    assert answer.json()["error"]
    assert len(answer.text) < 1000, "what was sent is not played back"
    assert (await house.jay.access.list_keys(house.admin)).total == 2


@pytest.mark.parametrize(
    "body",
    [
        {"name": "\x00"},
        {"name": ""},
        {"scopes": ["x"]},
        {"is_active": "no"},
        {"key_hash": "x"},
        {"expires_at": None},
        1,
    ],
    ids=json.dumps,
)
async def test_a_key_is_not_changed_by_nonsense(house: House, admin: Key, body: Any) -> None:
    key = await house.key(READ)
    answer = await house.ask("PATCH", f"/api/v1/api-keys/{key.uuid}", admin, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert await house.jay.access.get_key(house.admin, key.record.id) == key.record


async def test_the_error_names_the_field_that_is_wrong(house: House, admin: Key) -> None:
    cases = {
        "body": raw(b"{"),
        "scopes.1": sending(name="x", scopes=["read", "root"]),
        "rate_limit_rpm": sending(name="x", rate_limit_rpm=-1),
        "surprise": sending(name="x", surprise=1),
    }
    for field, options in cases.items():
        answer = await house.ask("POST", "/api/v1/api-keys", admin, **options)
        assert [item["field"] for item in answer.json()["details"]["fields"]] == [field]
        assert answer.json()["error"].startswith(f"{field}: ")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=-1", "limit=1001", "limit=ten", "limit=1e3", "limit=", "limit=" + "9" * 400,
        "offset=-1", "offset=2147483648", "offset=" + "9" * 5000, "offset=NaN",
        "status=sleeping", "status=", "kind=%00", "kind=" + "k" * 65, "kind=a%20b", "kind=%ff", "kind=",
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_400(house: House, admin: Key, query: str) -> None:
    answer = await house.ask("GET", f"/api/v1/jobs?{query}", admin)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert answer.json()["details"]["fields"][0]["field"] == query.partition("=")[0]


ODD_IDS = [
    "%00", "job_%00", "%F0%9F%A6%9C", "x" * 5000, "..%2F..%2Fetc%2Fpasswd", "%2e%2e", "%ff", "job_", "JOB_1", "null",
    "0", "%0a", "cred_" + "0" * 27, "job_" + "z" * 28, "job_" + "0" * 28, "job_" + "v" * 28, "{job_id}",
    "%27%20OR%201=1--", "01a1e1d0-854c-7389-9dd5-0123456789ab", "00000000-0000-0000-0000-000000000000", "%D9%A3" * 32,
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD_IDS, ids=lambda odd: odd[:24])
async def test_an_odd_id_is_404_wherever_an_id_is_asked_for(house: House, admin: Key, odd: str) -> None:
    for place in OWN:
        if "_id}" not in place.pattern:
            continue
        path = place.path({"job_id": odd, "key_id": odd, "request": "pause"})
        body = {"json": {}} if place.method == "PATCH" else {}
        answer = await house.ask(place.method, path, admin, **body)
        assert (answer.status_code, answer.json()["code"]) == (404, "NOT_FOUND"), (place, answer.text)
        assert len(answer.text) < 400


async def test_an_unknown_request_to_a_job_is_400_and_names_the_known_ones(house: House, admin: Key) -> None:
    job = await house.job()
    for odd in ("dance", "PAUSE", "%00", "x" * 5000):
        answer = await house.ask("POST", f"/api/v1/jobs/{job.id}/{odd}", admin)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
        assert "'pause', 'resume', 'cancel' or 'retry'" in answer.json()["error"]
