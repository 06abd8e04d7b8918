"""Metrics fed by real crawls, plans, searches and requests, read as Prometheus reads them."""

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families
from tests.acceptance.house import House, Key, open_house
from tests.plans import ONCE, Planner, article, set_pages
from tests.site import Reply, Site, running_site
from tests.workshop import wait_until

from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES
from scrubjay.model.plan import OperationState, RepositoryType
from scrubjay.services.plans import PlanValues
from scrubjay.settings import Settings
from scrubjay.storage.database import Database
from scrubjay.storage.jobs import Jobs

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Scrape:
    """One answer of `/metrics`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = len(text.splitlines())
        self.samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]

    def total(self, name: str, **labels: str) -> float:
        return sum(
            sample.value for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()
        )

    def lines_of(self, name: str, *shown: str, **labels: str) -> dict[tuple[str, ...], float]:
        """By the labels to be shown: the value of every line that has the other ones."""
        return {
            tuple(sample.labels[label] for label in shown): sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }


class Scraper:
    """Somebody who scrapes a house, crawls with it, and does not wait for what is cached."""

    def __init__(self, house: House, key: Key) -> None:
        self.house = house
        self.key = key

    async def scrape(self) -> Scrape:
        self.house.jay.metrics._quick_at = self.house.jay.metrics._slow_at = float("-inf")
        answer = await self.house.ask("GET", "/metrics", self.key)
        assert answer.status_code == 200, answer.text
        await self.house.jay.metrics.close()
        return Scrape((await self.house.ask("GET", "/metrics", self.key)).text)

    async def crawl(self, site: Site, **spec: Any) -> str:
        """The id of a crawl whose pages became documents and are found."""
        values = {"start_urls": [site.url], "delay_ms": 0, "use_sitemaps": False, "respect_robots": False, **spec}
        jay, who = self.house.jay, self.house.admin
        job = await jay.crawls.start(who, read_spec(values), destination=Destination.to())

        async def ended() -> bool:
            return (await jay.jobs.get(who, job.id)).state in FINISHED_STATES

        await wait_until(ended, "the crawl is over", seconds=60)
        await jay.indexer.drain()
        return job.id


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scraper(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Scraper]:
    home = tmp_path_factory.mktemp("metrics") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    settings = Settings(
        home=home,
        allowed_private_networks=(ip_network("127.0.0.0/8"),),
        extract_processes=1,
        file_roots=(home.parent / "files",),
    )
    async with open_house(settings, working=True) as house:
        yield Scraper(house, await house.key())


@pytest.fixture
def settings(home: Path, migrated_databases: list[Path]) -> Settings:
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    return Settings(home=home)


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site(hosts=2) as running:
        other = running.url_at(2)
        running.add("/", article("house", "/jay", "/owl", "/broken", f"{other}/far"))
        running.add("/jay", article("jay"))
        running.add("/owl", article("owl"))
        running.add("/far", article("far", text=f"What is far away from {other} is only seen on clear days. " * 6))
        running.add("/broken", Reply("out of order", status=404))
        yield running


async def test_a_crawl_is_counted_by_job_host_method_and_error(scraper: Scraper, site: Site) -> None:
    before = await scraper.scrape()
    job_id = await scraper.crawl(site, extent="anywhere")
    after = await scraper.scrape()

    processed = after.lines_of("crawler_articles_processed_total", "domain", "extraction_method", job_id=job_id)
    assert processed == {("127.0.0.1", "scrubjay"): 3, ("127.0.0.2", "scrubjay"): 1}
    inserted = after.lines_of("crawler_articles_inserted_total", "domain", job_id=job_id)
    assert inserted == {("127.0.0.1",): 3, ("127.0.0.2",): 1}
    errors = {"domain": "127.0.0.1", "error_type": "http_error"}
    name = "crawler_extract_errors_total"
    assert after.total(name, **errors) - before.total(name, **errors) == 1
    assert after.total("crawler_job_duration_seconds_count", job_id=job_id) == 1
    assert after.total("crawler_job_duration_seconds_bucket", job_id=job_id, le="+Inf") == 1
    submitted = {"mode": "concurrent", "priority": "normal"}
    name = "crawler_jobs_submitted_total"
    assert after.total(name, **submitted) - before.total(name, **submitted) == 1
    assert after.total("crawler_jobs_running_gauge") == 0
    assert after.total("crawler_queue_depth_gauge") == 0


async def test_what_a_crawl_finds_again_is_deduped(scraper: Scraper, site: Site) -> None:
    first = await scraper.crawl(site)
    again = await scraper.crawl(site)
    scrape = await scraper.scrape()
    assert scrape.total("crawler_articles_inserted_total", job_id=first) == 3
    assert scrape.total("crawler_articles_inserted_total", job_id=again) == 0
    assert scrape.lines_of("crawler_articles_deduped_total", "domain", job_id=again) == {("127.0.0.1",): 3}


async def test_the_way_of_a_page_is_counted_from_fetch_to_search(scraper: Scraper, site: Site) -> None:
    before = await scraper.scrape()
    await scraper.crawl(site)
    await scraper.house.api("POST", "/search", scraper.key, json={"query": "the page about the owl"})
    await scraper.house.api("POST", "/search", scraper.key, json={"query": "the page about the owl"})
    after = await scraper.scrape()

    def gained(name: str, **labels: str) -> float:
        return after.total(name, **labels) - before.total(name, **labels)

    assert gained("scrubjay_fetch_requests_total", outcome="2xx") == 3
    assert gained("scrubjay_fetch_requests_total", outcome="4xx") == 1
    assert gained("scrubjay_fetch_seconds_count") == 4
    assert gained("scrubjay_fetch_bytes_total") > 500
    assert gained("scrubjay_extract_pages_total", outcome="ok") >= 3
    assert gained("scrubjay_crawl_pages_total", outcome="processed") == 3
    assert gained("scrubjay_crawl_pages_total", outcome="failed") == 1
    assert gained("scrubjay_documents_ingested_total") == 3
    assert gained("scrubjay_index_documents_total", outcome="indexed") == 3
    assert gained("scrubjay_search_seconds_count", mode="hybrid") == 2
    assert gained("scrubjay_http_requests_total", door="rag", method="POST", status="200") == 2
    assert gained("scrubjay_http_request_seconds_count", door="rag") == 2
    assert gained("scrubjay_cache_requests_total", cache="query", outcome="hit") == 1
    assert gained("scrubjay_cache_requests_total", cache="query", outcome="miss") == 1
    assert gained("scrubjay_jobs_finished_total", kind="crawl", outcome="completed") == 1
    assert gained("scrubjay_job_run_seconds_count", kind="crawl") == 1
    assert after.total("scrubjay_index_chunks") >= 3
    assert after.total("scrubjay_index_backlog_documents") == 0
    assert after.total("scrubjay_extract_processes") >= 1
    assert after.total("scrubjay_build_info") == 1


async def test_a_run_of_a_plan_counts_as_a_crawl_and_its_staleness_is_shown(scraper: Scraper, site: Site) -> None:
    set_pages(site, ["heron", "crane"])
    planner = Planner(scraper.house.jay, scraper.house.admin)
    plan = await planner.plan(site.url)
    operation = await planner.run(plan)
    assert operation.state is OperationState.SUCCESS
    job_id = operation.job_id or ""
    scrape = await scraper.scrape()
    assert scrape.total("crawler_articles_processed_total", job_id=job_id) == 3
    assert scrape.total("crawler_articles_inserted_total", job_id=job_id, domain="127.0.0.1") == 3
    await scraper.house.jay.cache.delete("metrics:freshness")
    scrape = await scraper.scrape()
    assert 0 <= scrape.lines_of("scrubjay_plan_staleness_ratio", "plan_id")[(plan.id,)] < 1


async def test_files_of_a_plan_are_counted_under_their_kind_of_source(scraper: Scraper) -> None:
    [folder] = scraper.house.jay.settings.file_roots
    folder.mkdir()
    (folder / "note.txt").write_text("A note about the nuthatch, which goes down trunks head first. " * 4)
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 this is none")
    planner = Planner(scraper.house.jay, scraper.house.admin)
    values = PlanValues(
        repository_type=RepositoryType.FILE, repository_settings={"path": str(folder)}, schedule=ONCE, is_active=False
    )
    plan = await planner.jay.plans.create(planner.who, values)
    before = await scraper.scrape()
    operation = await planner.run(plan)
    scrape = await scraper.scrape()
    job_id = operation.job_id or ""
    processed = scrape.lines_of("crawler_articles_processed_total", "domain", "extraction_method", job_id=job_id)
    assert processed == {("file", "text"): 1}
    assert scrape.lines_of("crawler_articles_inserted_total", "domain", job_id=job_id) == {("file",): 1}
    gained = scrape.total("crawler_extract_errors_total", domain="file") - before.total(
        "crawler_extract_errors_total", domain="file"
    )
    assert gained == 1


async def test_queue_depth_is_what_waits_in_the_database_whoever_put_it_there(settings: Settings) -> None:
    async with open_house(settings) as house:
        scraper = Scraper(house, await house.key())
        for _ in range(3):
            await house.jay.jobs.submit(house.admin, "crawl", {"spec": {"mode": "sequential"}, "scope_id": "x"})
        await house.jay.jobs.submit(house.admin, "diagnostic.steps", {"steps": 1})
        scrape = await scraper.scrape()
        assert scrape.total("crawler_queue_depth_gauge") == 3
        assert scrape.total("scrubjay_jobs_pending", kind="diagnostic.steps") == 1
        assert scrape.total("crawler_jobs_submitted_total", mode="sequential", priority="normal") >= 3


async def test_many_scrapes_at_once_ask_the_database_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_house(settings) as house:
        asked = 0
        real = Jobs.pending_by_kind

        async def counting(jobs: Jobs) -> Any:
            nonlocal asked
            asked += 1
            return await real(jobs)

        await house.jay.metrics.refresh()
        await house.jay.metrics.close()
        monkeypatch.setattr(Jobs, "pending_by_kind", counting)
        await asyncio.gather(*(house.jay.metrics.exposition(house.admin) for _ in range(50)))
        assert asked == 0
        house.jay.metrics._quick_at = float("-inf")
        await asyncio.gather(*(house.jay.metrics.exposition(house.admin) for _ in range(50)))
        assert asked == 1


async def test_without_its_database_the_metrics_still_answer_and_say_that_they_do_not_know(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_house(settings) as house:
        await house.jay.jobs.submit(house.admin, "crawl", {"spec": {}, "scope_id": "x"})

        def away(*_: Any, **__: Any) -> Any:
            raise OSError("the database is away")

        monkeypatch.setattr(Database, "reading", away)
        scrape = Scrape((await house.jay.metrics.exposition(house.admin)).decode())
        await house.jay.metrics.close()
        depth = scrape.total("crawler_queue_depth_gauge")
        assert depth != depth  # not a number
        assert scrape.total("scrubjay_metrics_failures_total") >= 1
