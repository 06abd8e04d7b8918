"""An open Scrubjay with all its doors, as clients meet it: keys to ask with, jobs to ask about, and every route."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI
from fastapi.routing import APIWebSocketRoute, iter_route_contexts
from starlette.datastructures import State

from scrubjay.api.app import app_around
from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.ids import new_id, uuid_from_id
from scrubjay.model.job import Job
from scrubjay.model.tenant import ApiKey, Principal, Scope
from scrubjay.settings import Settings

PLENTY_RPM = 10_000
# What anybody may ask without a key. A route that is not here must refuse whoever has none.
PUBLIC_PATHS = frozenset(
    {
        "/", "/signin", "/api/v1/health", "/api/v1/health/ready", "/openapi.json", "/ui/signin",
        "/ui/static/{asset}",
    }
)  # fmt: skip
# The doors that spec 002 describes: `tests/acceptance/actions` knows their scopes and shapes.
ACTION_PATHS = ("/v2/", "/describe", "/query")
# Pages for people, which only a session opens: `tests/acceptance/dashboard` walks them as somebody who signed in.
PAGES = "/ui/"


@dataclass(frozen=True, order=True)
class Place:
    """One method of one route."""

    method: str
    pattern: str

    def path(self, ids: Mapping[str, str]) -> str:
        return self.pattern.format_map(ids)

    def __str__(self) -> str:
        return f"{self.method} {self.pattern}"


@cache
def app_of_nobody() -> FastAPI:
    """The application around no Scrubjay: its routes and its OpenAPI document can be read, nothing can be asked."""
    return app_around(None)  # type: ignore[arg-type]


def app_with_shared_routes(jay: Scrubjay) -> FastAPI:
    """As `app_around`, with the routes of `app_of_nobody`: FastAPI builds them on an app's first request, for most of
    a second. The list of routes is a copy, so that a test can add its own.
    """
    app = copy(app_of_nobody())
    app.router = copy(app.router)
    app.router.routes = list(app.router.routes)
    app.router.middleware_stack = app.router.app
    app.middleware_stack = None
    app.state = State({"scrubjay": jay})
    return app


def places(app: FastAPI) -> list[Place]:
    """Every method of every route; a kind of route that this does not understand fails the test that asks."""
    found = []
    for route in iter_route_contexts(app.routes):
        if isinstance(route.route, APIWebSocketRoute):
            continue
        if not (route.path and route.methods):
            raise AssertionError(f"{route!r} needs a place in these tests")
        found += [Place(method, route.path) for method in route.methods]
    return sorted(found)


def sockets(app: FastAPI) -> list[str]:
    """The pattern of every route that opens a WebSocket."""
    routes = iter_route_contexts(app.routes)
    return sorted(route.path or "" for route in routes if isinstance(route.route, APIWebSocketRoute))


PREFIX_OF = {
    "assistant_id": "asst",
    "batch_id": "vsfb",
    "collection_id": "coll",
    "config_id": "ccfg",
    "delivery_id": "whd",
    "document_id": "adoc",
    "job_id": "job",
    "key_id": "cred",
    "operation_id": "cop",
    "plan_id": "cplan",
    "proxy_id": "prx",
    "rule_id": "irule",
    "source_id": "cplan",
    "story_id": "story",
    "tag_id": "tag",
    "vector_store_id": "vs",
    "watch_id": "watch",
    "webhook_id": "whk",
}


def some_ids() -> dict[str, str]:
    """A well-formed value for every parameter in a path; the ids are nobody's."""
    ids = {name: new_id(prefix) for name, prefix in PREFIX_OF.items()}
    return ids | {
        "file_id": new_id("file").replace("_", "-"),
        "response_id": "resp_nobody",
        "model": "nobody",
        "request": "pause",
        "domain_id": "NOBODY",
        "run_id": "jb_999999999",
        "host": "nobody.example",
        "agent_name": "nobody",
        "asset": "style.css",
    }


@dataclass(frozen=True)
class Key:
    """A key as its owner holds it."""

    record: ApiKey
    text: str

    @property
    def uuid(self) -> UUID:
        return uuid_from_id(self.record.id)


class House:
    def __init__(self, jay: Scrubjay, admin: Principal) -> None:
        self.jay = jay
        self.admin = admin
        self.app = app_with_shared_routes(jay)

    async def key(
        self, *scopes: Scope, tenant: str | None = None, rpm: int = PLENTY_RPM, expires_at: datetime | None = None
    ) -> Key:
        owner = self.admin if tenant is None else await self.jay.access.create_tenant(self.admin, tenant)
        record, text = await self.jay.access.create_key(
            owner, name="a key", scopes=scopes or (Scope.ADMIN,), rate_limit_rpm=rpm, expires_at=expires_at
        )
        return Key(record, text)

    async def job(self) -> Job:
        return await self.jay.jobs.submit(self.admin, "diagnostic.steps", {"steps": 1})

    def client(self, key: Key | None = None, **options: Any) -> httpx.AsyncClient:
        """A client of its own, with its own cookies; close it, or use it as a context."""
        headers = {} if key is None else {"Authorization": f"Bearer {key.text}"}
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(
            transport=transport, base_url="http://scrubjay.test", headers=headers, trust_env=False, **options
        )

    async def ask(self, method: str, path: str, key: Key | None = None, **options: Any) -> httpx.Response:
        async with self.client(key) as client:
            return await client.request(method, path, **options)

    async def api(self, method: str, path: str, key: Key, *, status: int = 200, **options: Any) -> Any:
        """What `/api/v1` answers, after a look at the status."""
        return await self._answer(method, f"/api/v1{path}", key, status, options)

    async def plans(self, method: str, path: str, key: Key, *, status: int = 200, **options: Any) -> Any:
        """What `/v1.0` answers, after a look at the status."""
        return await self._answer(method, f"/v1.0{path}", key, status, options)

    async def control(self, method: str, path: str, key: Key, *, status: int = 200, **options: Any) -> Any:
        """What the control door answers, after a look at the status."""
        return await self._answer(method, path, key, status, options)

    async def _answer(self, method: str, path: str, key: Key, status: int, options: Mapping[str, Any]) -> Any:
        answer = await self.ask(method, path, key, **options)
        assert answer.status_code == status, f"{method} {path}: {answer.status_code} {answer.text[:1000]}"
        return answer.json() if answer.content else None


@asynccontextmanager
async def open_house(settings: Settings, *, working: bool = False) -> AsyncIterator[House]:
    async with open_scrubjay(settings, working=working) as jay:
        yield House(jay, await jay.access.open_as_admin(settings.home))
