"""Every route of every door, asked by nobody, by keys that may too little, and by an admin of another tenant.

Made of the application's own routes: a new one must say which scope it needs before these tests pass again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from tests.acceptance.dashboard.browsing import Browser, sign_in
from tests.acceptance.house import PAGES, PUBLIC_PATHS, House, Key, Place, app_of_nobody, places, sockets
from tests.security.walking import MARK, RANK, Asked, asked, give_everything, needed_scope, snapshot

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = app_of_nobody()
GUARDED = [place for place in places(APP) if place.pattern not in PUBLIC_PATHS]
SIGN_OUT = Place("POST", "/ui/signout")
# What goes on for as long as somebody listens; whoever may not is refused before it begins.
STREAMS = ("/stream", "/live", "/jobs/events", "/jobs/{job_id}/events")
ONE_REQUEST_SECONDS = 20.0
OPERATORS_OWN = {"/metrics"}  # they speak of every tenant


@dataclass(frozen=True)
class Walked:
    house: House
    owner: Key
    ids: dict[str, str]

    async def unchanged(self) -> dict[str, list[str]]:
        return await snapshot(self.house, self.owner.record.tenant_id, self.ids)


class Visitor:
    """Somebody with a key: programs send it, pages are opened with the session that it signed in to."""

    def __init__(self, house: House, key: Key, browser: Browser) -> None:
        self.house, self.key, self.browser = house, key, browser

    async def ask(self, wanted: Asked) -> httpx.Response:
        method, path, options = wanted.place.method, wanted.path, wanted.options
        async with asyncio.timeout(ONE_REQUEST_SECONDS):
            if path.startswith(PAGES) and method == "POST":
                return await self.browser.post(path)
            if path.startswith(PAGES):
                return await self.browser.get(path)
            return await self.house.ask(method, path, self.key, **options)


Come = Callable[..., Awaitable[Visitor]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def walked(still_house: House) -> Walked:
    owner = await still_house.key(tenant="the walked tenant")
    return Walked(still_house, owner, await give_everything(still_house, owner))


@pytest_asyncio.fixture(loop_scope="module")
async def come(walked: Walked) -> AsyncIterator[Come]:
    opened: list[Visitor] = []

    async def visit(scope: Scope, tenant: str) -> Visitor:
        key = await walked.house.key(scope, tenant=tenant)
        opened.append(Visitor(walked.house, key, await sign_in(walked.house, key)))
        return opened[-1]

    yield visit
    for visitor in opened:
        await visitor.browser.client.aclose()


async def test_every_route_is_in_a_table_of_scopes() -> None:
    needed = {place: needed_scope(place) for place in GUARDED}
    assert len(needed) > 300
    assert {place.pattern for place, scope in needed.items() if scope is Scope.ADMIN} >= {
        "/api/v1/api-keys", "/api/v1/audit", "/ui/settings/audit", "/v2/domains/delete", "/v1.0/crawlplans/{plan_id}",
        "/openai/v1/vector_stores/{vector_store_id}", "/register",
    }  # fmt: skip


async def test_every_kind_of_thing_in_a_path_is_one_that_the_walked_tenant_has(walked: Walked) -> None:
    parameters = {part.split("}")[0] for place in GUARDED for part in place.pattern.split("{")[1:]}
    assert parameters - set(walked.ids) == set()
    assert not [name for name in parameters if "nobody" in walked.ids[name] and name != "model"]


async def test_nobody_without_a_key_gets_anything(walked: Walked) -> None:
    before = await walked.unchanged()
    for place in GUARDED:
        wanted = asked(place, walked.ids)
        answer = await walked.house.ask(place.method, wanted.path, **wanted.options)
        assert answer.status_code == 401, (place, answer.text)
        assert _unsaid(wanted, answer.text), (place, answer.text)
    assert await walked.unchanged() == before


@pytest.mark.parametrize("scope", RANK)
async def test_a_key_of_the_tenant_may_what_its_scope_says_and_not_more(
    walked: Walked, come: Come, scope: Scope
) -> None:
    visitor = await come(scope, "the walked tenant")
    before = await walked.unchanged()
    refused = 0
    for place in GUARDED:
        wanted, needed = asked(place, walked.ids), needed_scope(place)
        if RANK.index(needed) > RANK.index(scope):
            answer = await visitor.ask(wanted)
            expected = {400, 403} if wanted.is_misdirected else {403}
            assert answer.status_code in expected, (place, answer.text)
            refused += 1
        elif place.method == "GET" and needed is Scope.READ and not place.pattern.endswith(STREAMS):
            answer = await visitor.ask(wanted)
            if place.pattern in OPERATORS_OWN:
                assert answer.status_code == 403, "this tenant is not the operator's"
                continue
            assert answer.status_code not in (401, 403), (place, answer.text)
            assert answer.status_code < 500, (place, answer.text)
    assert (scope, refused > 0) in ((Scope.READ, True), (Scope.WRITE, True), (Scope.ADMIN, False))
    assert await walked.unchanged() == before


async def test_an_admin_of_another_tenant_finds_and_changes_nothing(walked: Walked, come: Come) -> None:
    stranger = await come(Scope.ADMIN, "strangers")
    before = await walked.unchanged()
    walked_through = 0
    for place in GUARDED:
        wanted = asked(place, walked.ids)
        if place == SIGN_OUT or (place.pattern.endswith(STREAMS) and not wanted.names_things):
            continue
        if wanted.names_things and place.pattern not in HOSTS:
            answer = await stranger.ask(wanted)
            expected = {400, 404} if wanted.is_misdirected else {404}
            if place.pattern == "/mcp":
                assert answer.json()["result"]["isError"] is True
                expected = {200}  # errors of tools are answers of this protocol
            assert answer.status_code in expected, (place, answer.status_code, answer.text)
            assert _unsaid(wanted, answer.text), (place, answer.text)
            walked_through += 1
        elif place.method == "GET":
            answer = await stranger.ask(wanted)
            assert answer.status_code < 500, (place, answer.text)
            assert _unsaid(wanted, answer.text), (place, answer.text)
    assert walked_through > 190
    assert await walked.unchanged() == before


# Settings of a host are each tenant's own: whoever asks for a host gets their own, which says nothing.
HOSTS = {"/api/v1/domains/{host}", "/api/v1/domains/{host}/block", "/api/v1/domains/{host}/unblock"}


def _unsaid(wanted: Asked, text: str) -> bool:
    """Whether an answer says nothing of the walked tenant that the question did not say."""
    for said in (wanted.path, *_texts(wanted.options), *wanted.path.split("/")):
        text = text.replace(said, "") if MARK in said.lower() else text
    return MARK not in text.lower()


def _texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    if isinstance(value, list | tuple):
        return [text for each in value for text in _texts(each)]
    return [str(value)]


async def test_host_settings_of_one_tenant_are_not_the_others(walked: Walked, come: Come) -> None:
    stranger = await come(Scope.ADMIN, "strangers with hosts")
    before = await walked.unchanged()
    for pattern in HOSTS:
        for place in (each for each in GUARDED if each.pattern == pattern):
            wanted = asked(place, walked.ids)
            assert (await stranger.ask(wanted)).status_code == 200
    assert await walked.unchanged() == before


async def test_no_tool_of_the_bus_knows_another_tenants_things(walked: Walked, come: Come) -> None:
    stranger = await come(Scope.ADMIN, "strangers with tools")
    before = await walked.unchanged()
    for tool, arguments in (
        ("get_document", {"document_id": walked.ids["document_id"]}),
        ("run_plan", {"plan": walked.ids["plan_id"]}),
        ("run_plan", {"plan": MARK}),
        ("job_status", {"job_id": walked.ids["job_id"]}),
        ("whats_new", {"since": "2026-01-01", "plan": walked.ids["plan_id"]}),
        ("search", {"query": "text", "collection_ids": [walked.ids["collection_id"]]}),
    ):
        body = {"agent": "scrubjay", "tool": tool, "kwargs": arguments}
        answer = await walked.house.ask("POST", "/call", stranger.key, json=body)
        assert answer.status_code in (400, 404), (tool, answer.text)
        assert "unknown" not in answer.text.lower(), "an argument that is not known proves nothing"
    for tool in ("list_plans", "list_collections", "search"):
        body = {"agent": "scrubjay", "tool": tool, "kwargs": {"query": "text"} if tool == "search" else {}}
        answer = await walked.house.ask("POST", "/call", stranger.key, json=body)
        assert (answer.status_code, MARK in answer.text) == (200, False), (tool, answer.text)
    assert (await walked.house.ask("POST", "/call", stranger.key, json={"agent": MARK, "tool": "x"})).status_code == 404
    assert await walked.unchanged() == before


@pytest.mark.parametrize("pattern", sockets(APP))
async def test_no_socket_opens_for_nobody_and_none_for_a_stranger(walked: Walked, come: Come, pattern: str) -> None:
    path = pattern.format_map(walked.ids)
    stranger = await come(Scope.ADMIN, "strangers at sockets")
    assert await _dial(walked.house, path, []) == 401
    session = stranger.browser.client.cookies["scrubjay_session"].encode()
    foreign = [(b"cookie", b"scrubjay_session=" + session), (b"origin", b"https://evil.example"), (b"host", b"here")]
    assert await _dial(walked.house, path, foreign) == 401
    if "{" in pattern:
        key = [(b"authorization", f"Bearer {stranger.key.text}".encode())]
        assert await _dial(walked.house, path, key) == 404


async def _dial(house: House, path: str, headers: list[tuple[bytes, bytes]]) -> int:
    """The status with which a socket is refused; 101 for one that opens."""
    told: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.disconnect" if told else "websocket.connect", "code": 1000}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {
        "type": "websocket", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers,
        "subprotocols": [], "scheme": "ws", "client": ("127.0.0.1", 1), "server": ("here", 80), "root_path": "",
        "http_version": "1.1", "asgi": {"version": "3.0"}, "extensions": {"websocket.http.response": {}},
    }  # fmt: skip
    async with asyncio.timeout(ONE_REQUEST_SECONDS):
        await house.app(scope, receive, send)
    return int(told[0].get("status", 101))
