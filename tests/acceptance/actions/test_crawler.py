"""`/v2/crawler` and the Query API, on a domain with a web source: from one address to an answer with its sources."""

import asyncio
from html import escape
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.actions.asking import call, check_stream, job_files, reached, read_events, until
from tests.acceptance.house import House, Key
from tests.site import Site, running_site

pytestmark = pytest.mark.asyncio(loop_scope="module")
FACT = "The scrub jay hides acorns under the third oak behind the observatory."


def article(title: str, *paragraphs: str, links: tuple[str, ...] = ()) -> str:
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    found = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return (
        f"<html><head><title>{title}</title></head><body><article><h1>{title}</h1>{text}{found}</article></body></html>"
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def birds() -> Any:
    async with running_site() as site:
        site.pages.clear()
        filler = "A sentence about birds that is long enough to be taken for content of the page. " * 3
        site.add("/", article("Birds", filler, links=("/jay", "/owl")))
        site.add("/jay", article("Jay", FACT, filler))
        site.add("/owl", article("Owl", "Owls sleep by day and hunt voles at night in meadows.", filler))
        yield site


async def make_domain(house: House, key: Key, site: Site, domain_id: str = "BIRDS") -> dict[str, Any]:
    body = {
        "domain_id": domain_id,
        "name": "Birds",
        "description": "What jays do",
        "web_sources": [{"source_id": "w", "start_url": site.url, "max_pages": 10, "delay_ms": 0}],
    }
    return dict(await call(house, "POST", "domains/create", key, json=body))


async def crawl(house: House, key: Key, query: str) -> dict[str, Any]:
    answer = await house.ask("GET", f"/v2/crawler/crawl?{query}&format=stream", key, timeout=60)
    assert answer.status_code == 200, answer.text
    return check_stream(read_events(answer.text))


async def found_by(house: House, key: Key, text: str, vsid: str) -> dict[str, Any]:
    """Ask until the index has it; embedding is done a moment after the job."""
    for _ in range(100):
        answer = await house.ask("POST", "/query", key, json={"data": {"query": text, "vsid": vsid, "results": 3}})
        assert answer.status_code == 200, answer.text
        data: dict[str, Any] = answer.json()["data"]
        if data["sources"]:
            return data
        await asyncio.sleep(0.1)
    raise AssertionError("nothing was found")


async def test_a_domain_is_crawled_and_answers_queries(library: House, owner: Key, birds: Site) -> None:
    domain = await make_domain(library, owner, birds)
    end = await crawl(library, owner, "domain_id=BIRDS&mode=full")
    assert (end["state"], end["result"]["ok"]) == ("completed", True), end
    assert end["result"]["data"]["domain_id"] == "BIRDS"
    assert end["endpoint"] == "/v2/crawler/crawl?domain_id=BIRDS&mode=full&format=stream"
    files = await until(
        lambda: [path for path in job_files(library, owner, end["job_id"]) if path.suffix == ".completed"]
    )
    assert files[0].name.endswith(f"_[crawl]_[{end['job_id']}]_[BIRDS].completed")

    data = await found_by(library, owner, "where does the jay hide acorns", domain["vector_store_id"])
    assert data["source_markers"] == ["【", "】"]
    assert data["answer"].startswith("No language model is configured; these are the best passages.")
    assert "【1】" in data["answer"]
    best = data["sources"][0]
    assert FACT in best["data"]
    assert best["source"] == f"{birds.url}/jay"
    assert best["metadata"]["file_id"]
    assert 0 < best["metadata"]["score"] <= 1

    everywhere = (await library.ask("GET", "/query2?query=acorns&format=json", owner)).json()["data"]
    assert FACT in everywhere["sources"][0]["data"]
    page = await library.ask("GET", f"/query2?query=acorns&vsid={domain['vector_store_id']}&results=1", owner)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "third oak" in page.text


async def test_crawl_with_format_json_answers_with_the_job(library: House, owner: Key, birds: Site) -> None:
    await make_domain(library, owner, birds)
    job = await call(library, "GET", "crawler/crawl?domain_id=BIRDS&format=json", owner)
    assert job["state"] == "running"
    again = await call(library, "GET", "crawler/crawl?domain_id=BIRDS", owner, status=400)
    assert again == f"'BIRDS' is in use by running job '{job['job_id']}'; cancel it first."
    await reached(library, owner, job["job_id"], "completed")
    for step in ("download_data", "process_data", "embed_data"):
        page = await library.ask("GET", f"/v2/crawler/{step}?domain_id=BIRDS&mode=incremental&format=html", owner)
        assert page.status_code == 200, page.text
        (job, *_) = await call(library, "GET", "jobs?format=json", owner)
        assert f"/v2/crawler/{step}" in job["endpoint"]
        await reached(library, owner, job["job_id"], "completed")
    page = (await library.ask("GET", "/v2/crawler?format=ui", owner)).text
    assert "BIRDS" in page
    assert "Crawl changes" in page


async def test_the_buttons_of_the_page_crawl(library: House, owner: Key, birds: Site) -> None:
    """They are forms with POST that mean GET; any other POST is refused, as specified."""
    await make_domain(library, owner, birds)
    page = await library.ask("GET", "/v2/domains?format=ui", owner)
    action = "/v2/crawler/crawl?domain_id=BIRDS&mode=incremental&format=html"
    assert f'method="post" action="{escape(action)}"' in page.text
    refused = await library.ask("POST", action.replace("html", "json"), owner, data={"x": "y"})
    assert (refused.status_code, refused.json()["error"]) == (400, "HTTP method 'POST' not supported.")
    pressed = await library.ask("POST", action, owner, data={"_method": "GET"})
    assert pressed.status_code == 200, pressed.text
    (job,) = await call(library, "GET", "jobs?format=json", owner)
    assert job["endpoint"] == action
    assert f'<a href="{escape(job["monitor_url"])}">' in pressed.text
    await reached(library, owner, job["job_id"], "completed")


async def test_a_dry_run_of_a_crawl_changes_nothing(library: House, owner: Key, birds: Site) -> None:
    domain = await make_domain(library, owner, birds)
    end = await crawl(library, owner, "domain_id=BIRDS&dry_run=true")
    assert end["result"]["ok"], end
    store = domain["vector_store_id"]
    assert await call(library, "GET", f"inventory/vector_stores/files?vector_store_id={store}", owner) == []


async def test_what_is_wrong_with_an_order_is_said_at_once(library: House, owner: Key, birds: Site) -> None:
    await make_domain(library, owner, birds)
    for query, status, message in (
        ("domain_id=NONE", 404, "Domain 'NONE' not found."),
        ("domain_id=BIRDS&source_id=w", 400, "Parameter 'source_id' needs a 'scope' other than 'all'."),
        ("domain_id=BIRDS&scope=web&source_id=x", 404, "Source 'x' not found in domain 'BIRDS'."),
        ("domain_id=BIRDS&scope=files&source_id=w", 404, "Source 'w' not found in domain 'BIRDS'."),
        ("domain_id=BIRDS&mode=half", 400, "Parameter 'mode' must be one of: full, incremental."),
        ("mode=full", 400, "Missing 'domain_id' parameter."),
    ):
        for step in ("download_data", "process_data", "embed_data", "crawl"):
            for format_ in ("json", "stream"):
                error = await call(library, "GET", f"crawler/{step}?{query}&format={format_}", owner, status=status)
                assert error == message
    error = await call(library, "GET", "crawler/embed_data?domain_id=BIRDS&vector_store_id=vs_none", owner, status=404)
    assert error == "Vector store 'vs_none' not found."
    assert await call(library, "GET", "jobs?format=json", owner) == []


async def test_a_crawl_whose_result_is_not_ok_is_a_failed_job_at_every_door(library: House, owner: Key) -> None:
    body = {"domain_id": "GONE", "web_sources": [{"source_id": "w", "start_url": "http://127.0.0.1:1/"}]}
    await call(library, "POST", "domains/create", owner, json=body)
    end = await crawl(library, owner, "domain_id=GONE")
    assert (end["state"], end["result"]["ok"]) == ("failed", False)
    assert "web/w: Nothing was read. http://127.0.0.1:1/: " in end["result"]["error"]
    job_id = end["job_id"]
    assert await call(library, "GET", f"jobs/results?job_id={job_id}", owner) == end["result"]
    assert [job["state"] for job in await call(library, "GET", "jobs?format=json", owner)] == ["failed"]
    assert (await call(library, "GET", f"jobs/monitor?job_id={job_id}", owner))["state"] == "failed"
    (failed,) = (await library.ask("GET", "/api/v1/jobs/failed", owner)).json()["items"]
    assert failed["error"] == end["result"]["error"]
    await call(library, "GET", f"jobs/delete?job_id={job_id}", owner)
    assert await call(library, "GET", "jobs?format=json", owner) == []


async def test_retrying_a_failed_crawl_reads_the_sources_that_failed_again(
    library: House, owner: Key, birds: Site
) -> None:
    sources = [{"source_id": "w", "start_url": f"{birds.url}/wren"}, {"source_id": "good", "start_url": birds.url}]
    await call(library, "POST", "domains/create", owner, json={"domain_id": "BIRDS", "web_sources": sources})
    end = await crawl(library, owner, "domain_id=BIRDS")
    assert list(end["result"]["data"]["download"]["errors"]) == ["web/w"]
    good = end["result"]["data"]["embed"]["sources"]["web/good"]
    assert good["added"] > 0
    birds.add("/wren", article("Wren", "Wrens are small and loud, and nest in hedges near the water. " * 4))
    (known,) = (await library.ask("GET", "/jobs?kind=domain.crawl", owner)).json()["jobs"]
    assert (await library.ask("POST", f"/jobs/{known['job_id']}/retry", owner)).status_code == 200
    await reached(library, owner, end["job_id"], "completed")
    result = await call(library, "GET", f"jobs/results?job_id={end['job_id']}", owner)
    embedded = result["data"]["embed"]["sources"]
    assert result["ok"]
    assert embedded["web/w"]["added"] > 0
    assert embedded["web/good"] == good


async def test_describe_lists_domains(library: House, owner: Key, birds: Site) -> None:
    assert (await library.ask("POST", "/describe", owner)).json()["data"]["domains"] == []
    domain = await make_domain(library, owner, birds)
    answer = (await library.ask("POST", "/describe", owner)).json()
    assert set(answer) == {"data"}
    assert set(answer["data"]) == {"description", "domains", "content_root"}
    (described,) = answer["data"]["domains"]
    assert (described["name"], described["description"]) == ("Birds", "What jays do")
    assert described["vector_store_id"] == domain["vector_store_id"]
    assert answer["data"]["content_root"] == birds.url
    assert (await library.ask("GET", "/describe2?format=json", owner)).json() == answer
    page = await library.ask("GET", "/describe2", owner)
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "What jays do" in page.text


async def test_query2_explains_itself(library: House, owner: Key) -> None:
    answer = await library.ask("GET", "/query2", owner)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert "GET /query2?query={text}&vsid={vector_store_id}" in answer.text


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("vsid=x", "Missing 'query' parameter."),
        ("query=", "query"),
        ("query=%20", "query"),
        (f"query={'x' * 501}", "query"),
        ("query=x&results=0", "results"),
        ("query=x&results=51", "results"),
        ("query=x&results=many", "results"),
        ("query=x&format=xml", "format"),
    ],
)
async def test_bad_queries_are_400(library: House, owner: Key, query: str, words: str) -> None:
    answer = await library.ask("GET", f"/query2?{query}", owner)
    assert (answer.status_code, set(answer.json())) == (400, {"ok", "error", "data"})
    assert words in answer.json()["error"]


@pytest.mark.parametrize(
    "body", [{}, {"data": 5}, {"data": {}}, {"data": {"query": 5}}, {"data": {"query": "x", "results": 0}}, []]
)
async def test_bad_bodies_of_queries_are_400(library: House, owner: Key, body: Any) -> None:
    answer = await library.ask("POST", "/query", owner, json=body)
    assert (answer.status_code, set(answer.json())) == (400, {"ok", "error", "data"})


async def test_another_tenants_vector_store_is_not_searched(library: House, owner: Key, birds: Site) -> None:
    domain = await make_domain(library, owner, birds)
    stranger = await library.key(tenant="a stranger to queries")
    answer = await library.ask(
        "POST", "/query", stranger, json={"data": {"query": "acorns", "vsid": domain["vector_store_id"]}}
    )
    assert answer.status_code == 404
    assert (await library.ask("GET", "/query2?query=acorns&format=json", stranger)).json()["data"]["sources"] == []


async def test_an_old_crawl_that_is_retried_does_not_run_beside_a_new_one(
    library: House, owner: Key, birds: Site
) -> None:
    source = {"source_id": "w", "start_url": birds.url, "delay_ms": 2000}
    await call(library, "POST", "domains/create", owner, json={"domain_id": "BIRDS", "web_sources": [source]})
    old = await call(library, "GET", "crawler/crawl?domain_id=BIRDS", owner)
    (known,) = (await library.ask("GET", "/jobs?kind=domain.crawl", owner)).json()["jobs"]
    await call(library, "GET", f"jobs/control?job_id={old['job_id']}&action=cancel", owner)
    await reached(library, owner, old["job_id"], "cancelled")
    new = await call(library, "GET", "crawler/crawl?domain_id=BIRDS", owner)

    retried = await library.ask("POST", f"/jobs/{known['job_id']}/retry", owner)
    assert retried.status_code == 200, retried.text
    await reached(library, owner, old["job_id"], "failed")
    result = await call(library, "GET", f"jobs/results?job_id={old['job_id']}", owner)
    assert (result["ok"], result["error"]) == (False, f"'BIRDS' is in use by job '{new['job_id']}'.")
    assert (await call(library, "GET", f"jobs/get?job_id={new['job_id']}", owner))["state"] == "running"
    await call(library, "GET", f"jobs/control?job_id={new['job_id']}&action=cancel", owner)
    await reached(library, owner, new["job_id"], "cancelled")
