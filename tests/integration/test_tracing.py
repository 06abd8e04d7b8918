"""Traces, as a collector gets them: one for a request and all that came of it, in whatever process; no secrets."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.house import House, open_house
from tests.collector import ArrivedSpan, Collector, running_collector
from tests.plans import Planner, article, set_pages
from tests.site import Reply, Site, running_site
from tests.workshop import wait_until

from scrubjay.errors import ConfigurationError
from scrubjay.model.job import FINISHED_STATES, Job
from scrubjay.queue import control
from scrubjay.settings import Settings, load_settings
from scrubjay.telemetry import is_tracing, span, traceparent
from scrubjay.telemetry.tracing import open_tracing

pytestmark = pytest.mark.slow  # processes of their own

CLIENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def settings(home: Path, migrated_databases: list[Path]) -> Settings:
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    return Settings(home=home)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with running_collector() as running:
        yield running


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        running.add("/", article("house", "/jay", "/broken?token=hunter2"))
        running.add("/jay", article("jay"))
        running.add("/broken", Reply("out of order", status=404))
        yield running


def traced(settings: Settings, collector: Collector) -> Settings:
    return settings.model_copy(
        update={
            "otlp_endpoint": collector.endpoint,
            "allowed_private_networks": (ip_network("127.0.0.0/8"),),
            "extract_processes": 1,
        }
    )


async def finish(house: House) -> Job:
    """The only job, when it is over and its pages are found."""

    async def ended() -> Job | None:
        [job] = (await house.jay.jobs.page(house.admin)).items
        return job if job.state in FINISHED_STATES else None

    job: Job = await wait_until(ended, "the job is over", seconds=60)
    await house.jay.indexer.drain()
    return job


async def crawl(house: House, url: str, pages: int = 1, **headers: str) -> Job:
    key = await house.key()
    body = {"url": url, "max_pages": pages, "max_depth": 2}
    async with house.client(key, timeout=30) as client:
        answer = await client.post("/api/v1/crawl/deep", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return await finish(house)


def chain(collector: Collector, span: ArrivedSpan) -> list[str]:
    """The names from a span up to the first one of its trace."""
    by_id = {each.span_id: each for each in collector.spans}
    names = []
    at: ArrivedSpan | None = span
    while at is not None:
        names.append(at.name)
        at = by_id.get(at.parent_id)
    return names


async def test_one_trace_goes_from_request_to_job_to_fetch_to_index(
    settings: Settings, collector: Collector, site: Site
) -> None:
    async with open_house(traced(settings, collector), working=True) as house:
        job = await crawl(house, site.url, pages=3)
        await house.api("POST", "/search", await house.key(), json={"query": "jay"})

    [request] = collector.named("POST /api/v1/crawl/deep")
    mine = [each for each in collector.spans if each.trace_id == request.trace_id]
    names = {each.name for each in mine}
    assert names >= {"submit job", "job crawl", "crawl page", "fetch", "extract", "ingest", "embed", "index"}
    assert collector.services == {"scrubjay"}
    fetches = [each for each in mine if each.name == "fetch" and "crawl page" in chain(collector, each)]
    assert chain(collector, fetches[0]) == [
        "fetch", "crawl page", "job crawl", "submit job", "POST /api/v1/crawl/deep",
    ]  # fmt: skip
    [run] = [each for each in mine if each.name == "job crawl"]
    assert (run.attributes["job.id"], run.attributes["job.run"]) == (job.id, 1)
    assert request.attributes["http.route"] == "/api/v1/crawl/deep"
    assert request.attributes["http.response.status_code"] == 200
    assert {each.attributes.get("http.response.status_code") for each in fetches} >= {200, 404}
    [search] = collector.named("search")
    assert search.attributes["search.mode"] == "hybrid"
    assert chain(collector, search) == ["search", "POST /api/v1/search"]


async def test_a_client_s_own_trace_is_continued(settings: Settings, collector: Collector, site: Site) -> None:
    async with open_house(traced(settings, collector), working=True) as house:
        await crawl(house, site.url, traceparent=CLIENT)
    [request] = collector.named("POST /api/v1/crawl/deep")
    assert (request.trace_id, request.parent_id) == tuple(CLIENT.split("-")[1:3])
    assert {each.trace_id for each in collector.named("index")} == {request.trace_id}


@pytest.mark.parametrize("nonsense", ["", "00-xyz", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "é" * 400])
async def test_a_malformed_trace_begins_a_new_one(settings: Settings, collector: Collector, nonsense: str) -> None:
    async with open_house(traced(settings, collector)) as house, house.client(await house.key()) as client:
        answer = await client.get("/api/v1/health", headers={"traceparent": nonsense.encode()})
        assert answer.status_code == 200
    [request] = collector.named("GET /api/v1/health")
    assert request.parent_id == ""


async def test_what_nobody_asked_for_has_a_trace_from_its_submission_to_the_index(
    settings: Settings, collector: Collector, site: Site
) -> None:
    """As a schedule submits it."""
    set_pages(site, ["heron"])
    async with open_house(traced(settings, collector), working=True) as house:
        planner = Planner(house.jay, house.admin)
        await planner.run(await planner.plan(site.url))
        await house.jay.indexer.drain()
    [submission] = collector.named("submit job")
    assert submission.parent_id == ""
    for name in ("job crawl", "fetch", "ingest", "index"):
        assert {each.trace_id for each in collector.named(name)} >= {submission.trace_id}, name


async def test_a_trace_goes_on_in_another_process(settings: Settings, collector: Collector, site: Site) -> None:
    """What one process submits with its trace in the payload, a second one runs; here, one after the other."""
    async with open_house(traced(settings, collector)) as house:
        key = await house.key()
        await house.api("POST", "/crawl/deep", key, json={"url": site.url, "max_pages": 1})
    async with open_house(traced(settings, collector), working=True) as house:
        await finish(house)
    [request] = collector.named("POST /api/v1/crawl/deep")
    for name in ("job crawl", "fetch", "index"):
        assert {each.trace_id for each in collector.named(name)} == {request.trace_id}, name


async def test_no_secret_reaches_the_collector(settings: Settings, collector: Collector, site: Site) -> None:
    address = site.url.replace("http://", "http://jay:hunter2@")
    async with open_house(traced(settings, collector), working=True) as house:
        key = await house.key()
        await crawl(house, address, pages=3)
        await house.ask("GET", "/signin?token=hunter2")
        await house.ask("GET", "/hunter2/in/a/path", key)
    assert collector.named("fetch")
    everything = b"".join(collector.raw)
    assert b"hunter2" not in everything
    assert key.text.encode() not in everything


async def test_what_fails_is_marked_without_its_message(collector: Collector) -> None:
    close = open_tracing(collector.endpoint)
    with pytest.raises(ValueError, match="hunter2"), span("try", place="postgresql://jay:hunter2@db/x"):
        raise ValueError("hunter2")
    await asyncio.to_thread(close)
    [failed] = collector.named("try")
    assert failed.is_error
    assert failed.attributes["error.type"] == "ValueError"
    assert b"hunter2" not in b"".join(collector.raw)


@pytest.mark.slow
async def test_a_collector_that_is_away_holds_nothing_up(settings: Settings, site: Site) -> None:
    chosen = settings.model_copy(
        update={
            "otlp_endpoint": "http://127.0.0.1:9",
            "allowed_private_networks": (ip_network("127.0.0.0/8"),),
            "extract_processes": 1,
        }
    )
    async with open_house(chosen, working=True) as house:
        job = await crawl(house, site.url)
        assert job.error is None
        started = time.monotonic()
    assert time.monotonic() - started < 15
    assert not is_tracing()


async def test_without_an_endpoint_nothing_is_traced(settings: Settings, site: Site) -> None:
    chosen = settings.model_copy(update={"allowed_private_networks": (ip_network("127.0.0.0/8"),)})
    async with open_house(chosen, working=True) as house:
        job = await crawl(house, site.url, traceparent=CLIENT)
    assert "traceparent" not in job.payload
    assert span("x") is span("y")
    assert traceparent() is None


def test_without_an_endpoint_opentelemetry_is_not_even_imported(tmp_path: Path) -> None:
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from scrubjay.app import open_scrubjay\n"
        "from scrubjay.settings import Settings\n"
        "async def main():\n"
        "    async with open_scrubjay(Settings(home=Path(sys.argv[1]))): pass\n"
        "asyncio.run(main())\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry.sdk')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "home")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_endpoint_is_read_from_the_standard_variable_or_our_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://standard:4318")
    assert load_settings().otlp_endpoint == "http://standard:4318"
    monkeypatch.setenv("SCRUBJAY_OTLP_ENDPOINT", "http://own:4318")
    assert load_settings().otlp_endpoint == "http://own:4318"
    monkeypatch.setenv("SCRUBJAY_OTLP_ENDPOINT", "collector:4317")
    with pytest.raises(ConfigurationError, match="otlp_endpoint"):
        load_settings()


def test_a_missing_package_is_told_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigurationError, match=r"scrubjay\[otel\]"):
        open_tracing("http://127.0.0.1:9")


async def test_a_job_s_payload_is_otherwise_what_was_submitted(collector: Collector, settings: Settings) -> None:
    async with open_house(traced(settings, collector)) as house:
        given: dict[str, Any] = {"steps": 1}
        job = await house.jay.jobs.submit(house.admin, "diagnostic.steps", given)
    assert {name: value for name, value in job.payload.items() if name != "traceparent"} == given
    assert control._mode(job.payload) == "concurrent"
