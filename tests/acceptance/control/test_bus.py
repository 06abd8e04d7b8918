"""The bus: our own tools by name, agents elsewhere at their addresses, and what is asked of them again."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.control.asking import reached
from tests.acceptance.house import House, Key
from tests.site import Reply, Site, SiteRequest, running_site

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def agent() -> AsyncIterator[Site]:
    """A program that takes calls: it answers with what it was called with."""
    async with running_site() as site:

        def echo(request: SiteRequest) -> Reply:
            return Reply(request.body, content_type="application/json")

        site.pages["/tools/echo"] = echo
        yield site


async def call(
    library: House, key: Key, tool: str, *args: Any, status: int = 200, agent: str = "scrubjay", **kwargs: Any
) -> Any:
    body = {"agent": agent, "tool": tool, "args": list(args), "kwargs": kwargs}
    answer = await library.control("POST", "/call", key, status=status, json=body)
    if status == 200:
        assert (answer.keys(), answer["status"]) == ({"status", "data"}, "success")
        return answer["data"]
    return answer


async def test_persisting_an_article_twice_stores_it_once(library: House, owner: Key) -> None:
    article = {"url": "https://news.example/a?b=2&a=1#top", "title": "News", "content": "Something happened today."}
    first = await call(library, owner, "persist_article", agent="crawler", **article)
    assert first["inserted"] is True
    again = await call(library, owner, "persist_article", agent="scout", **article)
    assert again == {"inserted": False, "article_id": first["article_id"]}
    # The same address in other words, and by the address that it calls its own.
    for url in ("https://NEWS.example:443/a?a=1&b=2", "https://mirror.example/x"):
        same = {"url": url, "canonical": "https://news.example/a?a=1&b=2", "content": article["content"]}
        assert await call(library, owner, "persist_article", **same) == again
    changed = await call(library, owner, "persist_article", **{**article, "content": "Something else happened."})
    assert changed == again
    documents = await library.api("GET", "/documents", owner)
    assert documents["total"] == 1
    [document] = documents["items"]
    assert document["version"] == 2


async def test_an_article_with_tracking_parameters_is_the_same_article(library: House, owner: Key) -> None:
    urls = [f"https://tracked.example/a{query}" for query in ("?utm_source=mail", "", "?fbclid=1")]
    article = {"title": "News", "content": "Something else happened today."}
    answers = [await call(library, owner, "persist_article", url=url, **article) for url in urls]
    assert [each["inserted"] for each in answers] == [True, False, False]
    assert len({each["article_id"] for each in answers}) == 1
    document = await library.api("GET", f"/documents/{answers[0]['article_id']}", owner)
    assert (document["url"], document["version"]) == ("https://tracked.example/a", 1)


async def test_tools_are_called_by_position_or_by_name(library: House, owner: Key, site: Site) -> None:
    by_position = await call(library, owner, "unified_production_crawl", [site.url], 2)
    by_name = await call(library, owner, "unified_production_crawl", domains=[site.url], max_articles_per_site=2)
    for started in (by_position, by_name):
        assert (await reached(library, owner, started["job_id"], "completed"))["result"]["pages"] == 2
    status = await call(library, owner, "job_status", by_name["job_id"])
    assert (status["status"], status["progress"]["pages"]) == ("completed", 2)


async def test_a_wrong_call_says_what_is_wrong(library: House, owner: Key) -> None:
    for tool, kwargs, status, said in (
        ("juggle", {}, 404, "There is no tool 'juggle'."),
        ("search", {}, 400, "query: Field required."),
        ("search", {"query": "x", "limit": 1000}, 400, "limit: "),
        ("search", {"query": "x", "colour": "blue"}, 400, "colour: "),
        ("get_document", {}, 400, "Give document_id or url."),
        ("get_document", {"document_id": "adoc_nonsense"}, 404, ""),
        ("run_plan", {"plan": "no such plan"}, 404, "There is no plan 'no such plan'."),
        ("whats_new", {"since": "yesterday"}, 400, "since: "),
        ("crawl_url", {"url": "http://10.0.0.1/"}, 403, ""),
    ):
        answer = await call(library, owner, tool, status=status, **kwargs)
        assert answer["error"].startswith(said), answer
    answer = await call(library, owner, "search", "x", status=400, query="y")
    assert answer["details"]["field"] == "kwargs.query"
    answer = await call(library, owner, "job_status", "a", "b", status=400)
    assert answer["details"]["field"] == "args"


async def test_a_tool_needs_its_own_scope(library: House, owner: Key) -> None:
    who, _ = await library.jay.access.authenticate(owner.text)
    record, text = await library.jay.access.create_key(who, name="reads", scopes=(Scope.READ,), rate_limit_rpm=1000)
    reader = Key(record, text)
    listed = await library.control("GET", "/tools", reader)
    assert {tool["scope"] for tool in listed["tools"]} == {"read"}
    all_of_them = await library.control("GET", "/tools", owner)
    writing = {tool["name"] for tool in all_of_them["tools"]} - {tool["name"] for tool in listed["tools"]}
    assert writing == {"crawl_url", "run_plan", "persist_article", "unified_production_crawl"}
    for tool in writing:
        assert (await call(library, reader, tool, status=403))["code"] == "FORBIDDEN"
    assert await call(library, reader, "search", "anything") == {"results": []}
    await library.control("POST", "/register", reader, status=403, json={"agent": "a", "address": "https://a.example"})


async def test_calls_are_passed_on_to_registered_agents(library: House, owner: Key, agent: Site) -> None:
    registered = await library.control(
        "POST", "/register", owner, status=201, json={"agent": "echoer", "address": f"{agent.url}/tools/"}
    )
    assert registered["address"] == f"{agent.url}/tools"
    answer = await call(library, owner, "echo", 1, agent="echoer", two=2)
    assert answer == {"args": [1], "kwargs": {"two": 2}}
    assert [each["agent"] for each in (await library.control("GET", "/agents", owner))["agents"]] == ["echoer"]
    stranger = await library.key(tenant="strangers on the bus")
    assert (await library.control("GET", "/agents", stranger))["agents"] == []
    await call(library, stranger, "echo", agent="echoer", status=404)
    await library.control("DELETE", "/agents/echoer", stranger, status=404)
    await library.control("DELETE", "/agents/echoer", owner, status=204)
    await call(library, owner, "echo", agent="echoer", status=404)


async def test_only_what_was_not_begun_is_asked_again(library: House, owner: Key, agent: Site) -> None:
    await library.control("POST", "/register", owner, status=201, json={"agent": "moody", "address": agent.url})
    answers = {
        "/busy": [Reply(status=503), Reply(status=429), Reply('{"at": "last"}', content_type="application/json")],
        "/broken": [Reply("oh", status=500), Reply('{"never": "asked"}', content_type="application/json")],
        "/odd": [Reply("<html>not JSON</html>")],
        "/elsewhere": [Reply(status=302, headers={"Location": f"{agent.url}/busy"})],
    }
    for path, replies in answers.items():
        agent.pages[path] = lambda _, replies=replies: replies.pop(0)  # type: ignore[misc]
    assert await call(library, owner, "busy", agent="moody") == {"at": "last"}
    for tool in ("broken", "odd", "elsewhere"):
        assert (await call(library, owner, tool, agent="moody", status=503))["code"] == "UNAVAILABLE"
    assert {path: agent.counts[path] for path in answers} == {"/busy": 3, "/broken": 1, "/odd": 1, "/elsewhere": 1}
    await agent.stop()
    assert "cannot be asked" in (await call(library, owner, "busy", agent="moody", status=503))["error"]


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"agent": "scrubjay", "address": "https://a.example"}, 409, "Scrubjay's own"),
        ({"agent": "../x", "address": "https://a.example"}, 400, "agent"),
        ({"agent": "a", "address": "file:///etc/passwd"}, 400, ""),
        ({"agent": "a", "address": "https://user:secret@a.example"}, 400, "address"),
        ({"agent": "a", "address": "http://169.254.169.254/"}, 403, ""),
        ({"agent": "a", "address": "http://[::ffff:10.0.0.1]/"}, 403, ""),
        ({"agent": "a"}, 400, "address"),
    ],
)
async def test_an_agent_cannot_be_registered_anywhere(
    library: House, owner: Key, body: dict[str, Any], status: int, said: str
) -> None:
    answer = await library.control("POST", "/register", owner, status=status, json=body)
    assert said in answer["error"]
    assert "secret" not in json.dumps(answer)
