"""The bus: tool calls by agent and name. Our own tools answer here; other agents are asked at their address."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import stamina

from scrubjay.crawler.fetcher import FetchRequest, FetchResponse, Network
from scrubjay.errors import Conflict, FetchFailed, InvalidRequest, NotFound, Unavailable, UrlBlocked
from scrubjay.model.agent import Agent
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import parse_url
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.tools import ToolService
from scrubjay.storage.agents import AgentRow, Agents
from scrubjay.storage.database import Database
from scrubjay.telemetry import redact

OWN_NAMES = frozenset({"scrubjay", "crawler", "scout"})  # whatever name the callers before Scrubjay used
MAX_AGENTS = 100
TIMEOUT_SECONDS = 60.0
MAX_ANSWER_BYTES = 10 * 1024 * 1024
ATTEMPTS = 3
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_REFUSED_FOR_NOW = frozenset({429, 503})  # the agent says itself that it has not begun


class _NotBegun(Exception):
    """The agent did nothing, so asking it again repeats nothing."""


class BusService:
    def __init__(self, database: Database, tools: ToolService, network: Network) -> None:
        self._database = database
        self._tools = tools
        self._network = network

    async def register(self, principal: Principal, name: str, address: str) -> Agent:
        """Have calls for a name passed on to an address; registering it again moves it."""
        require(principal, Scope.ADMIN)
        if not _NAME.fullmatch(name):
            raise InvalidRequest("agent: letters, digits, dots and dashes, at most 64.", field="agent")
        if name in OWN_NAMES:
            raise Conflict(f"The name '{name}' is Scrubjay's own.")
        url = parse_url(address, field="address")
        if url.username is not None:
            raise InvalidRequest("address: must not contain a name or password.", field="address")
        self._network.guard.check_host(url.host)
        agent = Agent(tenant_id=principal.tenant_id, name=name, address=url.text.rstrip("/"))
        async with self._database.writing() as connection:
            agents = Agents(connection)
            await note_act(connection, principal, "agent.registered", name, host=url.host)
            if await agents.find(AgentRow.tenant_id == principal.tenant_id, AgentRow.name == name) is not None:
                return await agents.update(principal.tenant_id, name, address=agent.address)
            if await agents.count(AgentRow.tenant_id == principal.tenant_id) >= MAX_AGENTS:
                raise Conflict(f"There are {MAX_AGENTS} agents already; remove one first.")
            return await agents.add(agent)

    async def agents(self, principal: Principal) -> Page[Agent]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await Agents(connection).page(
                AgentRow.tenant_id == principal.tenant_id, limit=MAX_AGENTS, order=[AgentRow.name.asc()]
            )

    async def remove(self, principal: Principal, name: str) -> None:
        require(principal, Scope.ADMIN)
        async with self._database.writing() as connection:
            await Agents(connection).get(principal.tenant_id, name)
            await Agents(connection).delete(principal.tenant_id, name)
            await note_act(connection, principal, "agent.removed", name)

    async def call(
        self, principal: Principal, agent: str, tool: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """What a tool answers. Ours need their own scope; calls that leave the house need write."""
        if agent in OWN_NAMES:
            return await self._tools.call(principal, tool, self._named(tool, args, kwargs))
        require(principal, Scope.WRITE)
        async with self._database.reading() as connection:
            found = await Agents(connection).find(AgentRow.tenant_id == principal.tenant_id, AgentRow.name == agent)
        if found is None:
            raise NotFound(f"There is no agent '{agent[:64]}'.")
        if not _NAME.fullmatch(tool):
            raise InvalidRequest("tool: letters, digits, dots and dashes, at most 64.", field="tool")
        return await self._ask(found, tool, {"args": list(args), "kwargs": dict(kwargs)})

    def _named(self, tool: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments by position are the tool's parameters in their order."""
        names = list(self._tools.get(tool).parameters.model_fields)
        if len(args) > len(names):
            raise InvalidRequest(f"args: '{tool}' takes at most {len(names)}.", field="args")
        by_position = dict(zip(names, args, strict=False))
        twice = sorted(by_position.keys() & kwargs.keys())
        if twice:
            raise InvalidRequest(f"kwargs.{twice[0]}: is given in args too.", field=f"kwargs.{twice[0]}")
        return {**by_position, **kwargs}

    async def _ask(self, agent: Agent, tool: str, body: Mapping[str, Any]) -> Any:
        request = FetchRequest(
            url=f"{agent.address}/{tool}",
            method="POST",
            headers={"Content-Type": "application/json", "Accept": "application/json"},
            body=json.dumps(body).encode(),
            timeout_seconds=TIMEOUT_SECONDS,
            max_bytes=MAX_ANSWER_BYTES,
            follow_redirects=False,
        )
        try:
            response = await self._send(request)
        except (_NotBegun, FetchFailed, UrlBlocked) as error:
            raise Unavailable(f"The agent '{agent.name}' cannot be asked: {error}") from error
        if not 200 <= response.status < 300:
            said = redact(response.body[:200].decode(errors="replace"))
            raise Unavailable(f"The agent '{agent.name}' answered with HTTP status {response.status}: {said}")
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError) as error:
            raise Unavailable(f"The agent '{agent.name}' did not answer with JSON.") from error

    async def _send(self, request: FetchRequest) -> FetchResponse:
        """Only what is safe to repeat is repeated: a call that the agent cannot have begun."""
        async with self._network.fetcher() as fetcher:
            async for attempt in stamina.retry_context(on=_NotBegun, attempts=ATTEMPTS, wait_initial=0.2, timeout=None):
                with attempt:
                    try:
                        response = await fetcher.fetch(request)
                    except FetchFailed as error:
                        if error.never_sent:
                            raise _NotBegun(error.message) from error
                        raise
                    if response.status in _REFUSED_FOR_NOW:
                        raise _NotBegun(f"it answered with HTTP status {response.status}.")
        return response
