"""The real client of the protocol's SDK, over HTTP and over standard input and output."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from tests.acceptance.control.asking import reached
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, until
from tests.site import Site

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = {
    "search", "get_document", "list_collections", "list_plans", "crawl_url", "run_plan", "job_status", "whats_new",
    "persist_article",
}  # fmt: skip
WRITING = {"crawl_url", "run_plan", "persist_article"}


@asynccontextmanager
async def connected(address: str, key: Key | None, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {} if key is None else {"Authorization": f"Bearer {key.text}"}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False) as http,
        Client(streamable_http_client(f"http://{address}/mcp", http_client=http), mode=mode) as client,  # type: ignore[arg-type]
    ):
        yield client


async def ask(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(tool, arguments)
    said: dict[str, Any] = json.loads(answer.content[0].text)  # type: ignore[union-attr]
    assert not answer.is_error, said
    assert answer.structured_content == said
    return said


async def refused(client: Client, tool: str, **arguments: Any) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    return str(json.loads(answer.content[0].text)["error"])  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_client_lists_and_calls_every_tool(
    library: House, owner: Key, site: Site, address: str, mode: str
) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "Birds"})
    text = "Scrub jays remember where they hid their acorns. " * 20
    url = "https://birds.example/jays"
    document = await add(library, owner, text, url=url, title="Jays", collection_id=collection["id"])
    source = {"name": "a site", "url_pattern": f"{site.url}/page/1", "schedule_cron": "0 0 1 1 *"}
    await library.api("POST", "/sources", owner, status=201, json=source)
    called = set()
    async with connected(address, owner, mode) as client:
        listed = (await client.list_tools()).tools
        assert {tool.name for tool in listed} == TOOLS
        assert all(tool.description and tool.input_schema["type"] == "object" for tool in listed)
        hints = {tool.name: tool.annotations.read_only_hint for tool in listed if tool.annotations}
        assert hints == {name: name not in WRITING for name in TOOLS}

        async def say(tool: str, **arguments: Any) -> dict[str, Any]:
            called.add(tool)
            return await ask(client, tool, **arguments)

        async def found() -> bool:
            return bool((await say("search", query="where do jays hide acorns"))["results"])

        await until(found, True)
        [collections] = (await say("list_collections"))["collections"]
        assert (collections["name"], collections["documents"]) == ("Birds", 1)
        passages = (await say("search", query="acorns", collection_ids=[collections["collection_id"]], limit=2))[
            "results"
        ]
        for passage in passages:
            assert (passage["url"], passage["title"]) == (url, "Jays")
            assert passage["crawled_at"]
        whole = await say("get_document", document_id=passages[0]["document_id"], max_characters=100)
        assert (whole["url"], len(whole["markdown"]), whole["next_start"]) == (url, 100, 100)
        rest = await say("get_document", url=url, start=whole["next_start"], max_characters=20_000)
        assert whole["markdown"] + rest["markdown"] == text.strip()
        assert passages[0]["text"] == (whole["markdown"] + rest["markdown"])[passages[0]["start"] : passages[0]["end"]]
        [change] = (await say("whats_new", since="2020-01-01"))["changes"]
        assert (change["change"], change["url"], change["title"]) == ("added", url, "Jays")
        [plan] = (await say("list_plans"))["plans"]
        assert (plan["name"], plan["start"]) == ("a site", f"{site.url}/page/1")
        for started in (
            await say("run_plan", plan="a site"),
            await say("crawl_url", url=f"{site.url}/page/2"),
        ):
            await reached(library, owner, started["job_id"], "completed")
            assert (await say("job_status", job_id=started["job_id"]))["status"] == "completed"
        stored = await say("persist_article", url="https://birds.example/news", content="A jay was seen today.")
        assert stored["inserted"] is True
        assert "query" in await refused(client, "search", query="")
        assert "There is no tool" in await refused(client, "juggle")
        assert "is not public" in await refused(client, "crawl_url", url="http://10.0.0.1/")
    assert called == TOOLS
    assert document["id"]


async def test_a_reader_cannot_call_what_writes_and_a_stranger_sees_nothing(
    library: House, owner: Key, address: str
) -> None:
    added = await add(library, owner, "Only for its own tenant.", url="https://own.example/")
    who, _ = await library.jay.access.authenticate(owner.text)
    record, text = await library.jay.access.create_key(who, name="reads", scopes=(Scope.READ,), rate_limit_rpm=1000)
    async with connected(address, Key(record, text)) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS - WRITING
        for tool, arguments in (
            ("crawl_url", {"url": "https://a.example/"}),
            ("run_plan", {"plan": "x"}),
            ("persist_article", {"url": "https://a.example/", "content": "x"}),
        ):
            assert "scope 'write'" in await refused(client, tool, **arguments)
    stranger = await library.key(tenant="strangers with models")
    async with connected(address, stranger) as client:
        assert (await ask(client, "search", query="only for its own tenant"))["results"] == []
        assert (await ask(client, "whats_new", since="2020-01-01"))["changes"] == []
        assert await refused(client, "get_document", url="https://own.example/")
    assert (await library.api("GET", "/documents", owner))["items"][0]["id"] == added["id"]


async def test_without_a_key_nothing_is_answered(library: House, address: str) -> None:
    for headers in ({}, {"Authorization": "Bearer sj_00000000_nonsense"}):
        answer = await library.ask("POST", "/mcp", headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (answer.status_code, answer.json()["code"]) == (401, "UNAUTHORIZED")


async def test_long_answers_are_bounded(library: House, owner: Key, address: str) -> None:
    text = "\n\n".join(f"Paragraph {number} speaks at length of the same matter." for number in range(5_000))
    await add(library, owner, text, url="https://long.example/")
    async with connected(address, owner) as client:
        answer = await ask(client, "get_document", url="https://long.example/")
        assert (len(answer["markdown"]), answer["total_characters"]) == (8_000, len(text))
        assert "less than or equal to 20000" in await refused(
            client, "get_document", url="https://long.example/", max_characters=50_000
        )


@pytest.mark.slow
async def test_the_same_tools_over_standard_input_and_output(tmp_path: Path, site: Site) -> None:
    """Without a server in the folder, and then beside one."""
    home = tmp_path / "home"
    environment = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "PATH": "/usr/bin:/bin"}
    program = str(Path(sys.executable).parent / "scrubjay")
    parameters = StdioServerParameters(command=program, args=["--home", str(home), "mcp"], env=environment)
    async with Client(parameters) as alone:
        assert {tool.name for tool in (await alone.list_tools()).tools} == TOOLS
        started = await ask(alone, "crawl_url", url=f"{site.url}/page/3")

        async def crawled() -> str:
            return str((await ask(alone, "job_status", job_id=started["job_id"]))["status"])

        await until(crawled, "completed")
        # The first one has the folder to itself, and serves whoever comes next.
        async with Client(parameters) as beside:

            async def found() -> bool:
                return bool((await ask(beside, "search", query="page"))["results"])

            await until(found, True)
            assert "query" in await refused(beside, "search", query="")
        command = await asyncio.create_subprocess_exec(
            program, "--home", str(home), "search", "page", env=environment, stdout=asyncio.subprocess.PIPE
        )
        shown, _ = await command.communicate()
        assert f"{site.url}/page/3" in shown.decode()
