"""A crawl in host slices in one process (`crawler/sliced_crawl.py`); `test_cluster.py` has several."""

from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.many_hosts import many_hosts
from tests.site import redirect, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES, Job, JobState
from scrubjay.model.tenant import Principal
from scrubjay.services.documents import DocumentQuery
from scrubjay.settings import Settings
from scrubjay.storage.jobs import Jobs

pytestmark = pytest.mark.asyncio(loop_scope="module")


class House:
    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self.jay = jay
        self.who = who

    async def crawl(self, start_urls: list[str], destination: Destination | None = None, **values: Any) -> Job:
        spec = {"start_urls": start_urls, "delay_ms": 0, "use_sitemaps": False, "max_depth": 100, **values}
        job = await self.jay.crawls.start(self.who, read_spec(spec), destination=destination)

        async def finished() -> Job | None:
            now = await self.jay.jobs.get(self.who, job.id)
            return now if now.state in FINISHED_STATES else None

        found: Job = await wait_until(finished, "the crawl is finished", seconds=50)
        assert found.state is JobState.COMPLETED, found.error
        return found

    async def slices(self, job: Job) -> int:
        async with self.jay.database.reading() as connection:
            return len(await Jobs(connection).parts(job.id))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[House]:
    home = tmp_path_factory.mktemp("slices") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    settings = Settings(
        home=home, allowed_private_networks=(ip_network("127.0.0.0/8"),), extract_processes=1, crawl_sharing="always"
    )
    async with open_scrubjay(settings, working=True) as jay:
        yield House(jay, await jay.access.open_as_admin(home))


async def test_pages_of_all_slices_become_documents_once_and_are_told_of_by_the_crawl(house: House) -> None:
    async with many_hosts(6, 4, answer_seconds=0.1) as site:
        job = await house.crawl(site.start_urls[:1], Destination.to(), extent="anywhere")
        assert set(site.counts.values()) == {1}
        result = job.result or {}
        assert (result["pages"], result["documents"]["added"]) == (24, 24)
        assert result["slices"] > 0
        assert await house.slices(job) == 0
        assert {host["pages"] for host in result["hosts"].values()} == {4}
        found = await house.jay.documents.page(house.who, DocumentQuery(limit=100))
        assert len([each for each in found.items if each.url.startswith(tuple(site.start_urls))]) == 24
        pages = [page.url async for page in house.jay.crawls.pages(house.who, job.id)]
        assert len(pages) == len(set(pages)) == 24
        events = await house.jay.jobs.events(house.who, job.id, limit=1000)
        assert sorted(e.payload["url"] for e in events if e.type == "article.processed") == sorted(pages)
        of_all, _ = await house.jay.jobs.events_of_all(house.who, after=0, limit=1000)
        assert len([each for each in of_all if each.event.type == "article.processed"]) == 24
        assert {each.event.job_id for each in of_all} == {job.id}


async def test_a_budget_of_pages_is_used_up_exactly(house: House) -> None:
    async with many_hosts(5, 6, answer_seconds=0.05) as site:
        job = await house.crawl(site.start_urls, max_pages=17)
        assert len(site.visits) == 17 == (job.result or {})["pages"]
        left = (job.result or {})["left_in_queue"]
        assert left > 0
        assert (job.result or {})["limits"] == {"max_pages": left}


async def test_a_start_that_redirects_to_a_host_of_a_slice_is_followed_there(house: House) -> None:
    async with running_site(hosts=3) as site:
        away = site.url_at(3)
        site.add("/", redirect(f"{away}/home"))
        site.add("/home", f"<html><body><p>The larder is full.</p><a href='{away}/next'>on</a></body></html>")
        site.add("/next", "<html><body><p>The jay has been here before.</p></body></html>")
        job = await house.crawl([site.url_at(2), site.url])
        assert [site.counts["/home"], site.counts["/next"]] == [1, 1]
        assert (job.result or {})["pages"] == 2


async def test_a_crawl_of_one_host_has_no_slices(house: House) -> None:
    async with many_hosts(1, 12, answer_seconds=0.05) as site:
        job = await house.crawl(site.start_urls)
        result = job.result or {}
        assert (result["pages"], result.get("slices")) == (12, None)


async def test_pages_of_each_host_are_limited_exactly(house: House) -> None:
    async with many_hosts(5, 8, answer_seconds=0.05) as site:
        job = await house.crawl(site.start_urls, max_pages_per_host=3)
        assert {host: len(visits) for host, visits in site.by_host().items()} == dict.fromkeys(site.by_host(), 3)
        assert len(site.by_host()) == 5
        assert set((job.result or {})["limits"]) == {"max_pages_per_host"}


async def test_a_crawl_that_runs_out_of_time_ends_its_slices(house: House) -> None:
    async with many_hosts(6, 400, answer_seconds=0.05) as site:
        job = await house.crawl(site.start_urls, max_seconds=1.5)
        result = job.result or {}
        assert "max_seconds" in result["limits"]
        assert result["slices"] > 0
        assert result["pages"] == len({(visit.host, visit.path) for visit in site.visits})
        assert await house.slices(job) == 0


async def test_depth_first_best_first_and_sequential_crawls_are_not_shared(house: House) -> None:
    async with many_hosts(4, 4) as site:
        for values in ({"strategy": "dfs"}, {"strategy": "best_first"}, {"mode": "sequential"}):
            site.visits.clear()
            job = await house.crawl(site.start_urls, refresh=True, **values)
            assert ((job.result or {})["pages"], "slices" in (job.result or {})) == (16, False)
