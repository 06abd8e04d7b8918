"""Crawls whose pages become documents (`plans/site_crawl.py`): while they run, when pages end, after a kill."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.site import Reply, Site, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.documents.chunking import cut
from scrubjay.errors import NotFound
from scrubjay.index.consistency import Consistency, Differences
from scrubjay.model.content import Document, DocumentSource, DocumentStatus
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES, Job, JobRequest, JobState
from scrubjay.model.search import SearchRequest
from scrubjay.model.tenant import Principal
from scrubjay.services.documents import DocumentQuery
from scrubjay.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

GONE = {
    "404": Reply("not here", status=404),
    "410": Reply("gone", status=410),
    "noindex": Reply("<html><head><meta name='robots' content='noindex'></head><body><p>hidden</p></body></html>"),
    "noindex header": Reply("<html><body><p>hidden</p></body></html>", headers={"X-Robots-Tag": "noindex"}),
}


def article(site: Site, bird: str, *links: str) -> str:
    """A page that no other site has: what two documents of a collection say alike is found once."""
    anchors = "".join(f"<a href='{link}'>{link}</a> " for link in links)
    text = f"The {bird} is watched from the hide at dawn, and what it does is written into the book of {site.url}."
    return (
        f"<html lang='en'><head><title>{bird}</title></head><body><article><h1>{bird}</h1>"
        f"<p>{text} {anchors}</p></article></body></html>"
    )


class Crawls:
    """An open Scrubjay, and short ways to crawl into documents with it."""

    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self.jay = jay
        self.who = who

    async def start(self, site: Site, destination: Destination | None = None, **spec: Any) -> Job:
        values = {"start_urls": [site.url], "delay_ms": 0, "use_sitemaps": False, **spec}
        return await self.jay.crawls.start(self.who, read_spec(values), destination=destination or Destination.to())

    async def finish(self, job: Job) -> Job:
        async def there() -> Job | None:
            now = await self.jay.jobs.get(self.who, job.id)
            return now if now.state in FINISHED_STATES else None

        found: Job = await wait_until(there, "the crawl is finished", seconds=90)
        return found

    async def crawl(self, site: Site, destination: Destination | None = None, **spec: Any) -> dict[str, int]:
        """How many documents were added, changed, removed …"""
        job = await self.finish(await self.start(site, destination, **spec))
        assert job.state is JobState.COMPLETED, job.error
        await self.jay.indexer.drain()
        return {name: count for name, count in (job.result or {})["documents"].items() if count}

    async def documents(self, site: Site, *, deleted: bool = False, **query: Any) -> dict[str, Document]:
        """A site's documents by path; a path that has two is a failure."""
        asked = DocumentQuery(deleted=deleted, limit=1000, **query)
        found = [
            each for each in (await self.jay.documents.page(self.who, asked)).items if each.url.startswith(site.url)
        ]
        counts = Counter(each.url for each in found)
        assert all(count == 1 for count in counts.values()), counts
        return {each.url.removeprefix(site.url): each for each in found}

    async def paths_found(self, words: str, site: Site) -> Sequence[str]:
        answer = await self.jay.search.search(self.who, SearchRequest(query=words, limit=50))
        return [each.url.removeprefix(site.url) for each in answer.results if each.url.startswith(site.url)]

    async def differences(self) -> Differences:
        await self.jay.indexer.drain()
        return await Consistency(self.jay.database, self.jay.catalog).compare()


def allowing_loopback(home: Path) -> Settings:
    return Settings(home=home, allowed_private_networks=(ip_network("127.0.0.0/8"),), extract_processes=1)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crawls(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Crawls]:
    home = tmp_path_factory.mktemp("site-crawl") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    async with open_scrubjay(allowing_loopback(home), working=True) as jay:
        yield Crawls(jay, await jay.access.open_as_admin(home))


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        running.add("/", article(running, "house", "/jay", "/owl"))
        running.add("/jay", article(running, "jay"))
        running.add("/owl", article(running, "owl"))
        yield running


async def test_every_page_is_a_document_that_is_found(crawls: Crawls, site: Site) -> None:
    counts = await crawls.crawl(site)

    documents = await crawls.documents(site)
    assert counts == {"added": 3}
    assert documents.keys() == {"/", "/jay", "/owl"}
    assert (documents["/jay"].title, documents["/jay"].source) == ("jay", DocumentSource.CRAWL)
    assert documents["/jay"].parent_url == f"{site.url}/"
    assert (await crawls.paths_found("what does the owl do at dawn", site))[0] == "/owl"
    assert (await crawls.differences()).none


async def test_a_page_that_trips_us_fails_by_itself_and_says_why(
    crawls: Crawls, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trip(text: str, *arguments: Any) -> Any:
        if "# owl" in text:
            raise ValueError("the owl bit us")
        return cut(text, *arguments)

    monkeypatch.setattr("scrubjay.documents.ingester.cut", trip)
    assert await crawls.crawl(site) == {"added": 2, "failed": 1}
    documents = await crawls.documents(site)
    assert (documents["/owl"].status, documents["/owl"].error) == (DocumentStatus.FAILED, "ValueError: the owl bit us")
    assert documents["/jay"].status is DocumentStatus.COMPLETED


async def test_pages_become_documents_while_the_crawl_runs(crawls: Crawls) -> None:
    async with running_site(pages=60) as site:
        site.latency_seconds = 0.05
        job = await crawls.start(site, concurrency=2)

        async def some() -> bool:
            return any(each.is_found for each in (await crawls.documents(site)).values())

        await wait_until(some, "a page is found")
        assert not (await crawls.jay.jobs.get(crawls.who, job.id)).is_finished
        await crawls.finish(await crawls.jay.jobs.make_request(crawls.who, job.id, JobRequest.CANCEL))

        assert len(await crawls.documents(site)) < 60
        assert (await crawls.differences()).none


async def test_an_unchanged_crawl_changes_nothing(crawls: Crawls, site: Site) -> None:
    await crawls.crawl(site)
    before = await crawls.documents(site)

    counts = await crawls.crawl(site)

    assert counts.keys() <= {"unchanged"}
    assert await crawls.documents(site) == before


async def test_a_changed_page_is_a_new_version_of_its_document(crawls: Crawls, site: Site) -> None:
    await crawls.crawl(site)
    before = await crawls.documents(site)
    site.add("/jay", article(site, "magpie"))

    counts = await crawls.crawl(site, refresh=True)

    after = await crawls.documents(site)
    assert counts.get("changed") == 1
    assert (after["/jay"].id, after["/jay"].version, after["/jay"].title) == (before["/jay"].id, 2, "magpie")
    assert "magpie" in (await crawls.jay.documents.diff(crawls.who, after["/jay"].id)).unified
    assert "/jay" in await crawls.paths_found("magpie", site)
    assert (await crawls.differences()).none


@pytest.mark.parametrize("why", GONE)
async def test_a_page_that_is_gone_ends_its_document_and_restore_brings_it_back(
    crawls: Crawls, site: Site, why: str
) -> None:
    await crawls.crawl(site)
    site.add("/owl", GONE[why])

    counts = await crawls.crawl(site, refresh=True)

    assert counts.get("removed") == 1
    assert (await crawls.documents(site)).keys() == {"/", "/jay"}
    [(path, document)] = (await crawls.documents(site, deleted=True)).items()
    assert (path, "/owl" in await crawls.paths_found("owl at dawn", site)) == ("/owl", False)

    await crawls.jay.documents.restore(crawls.who, document.id)
    await crawls.jay.indexer.drain()
    assert "/owl" in await crawls.paths_found("owl at dawn", site)
    assert (await crawls.differences()).none


async def test_a_page_that_comes_back_is_the_same_document(crawls: Crawls, site: Site) -> None:
    await crawls.crawl(site)
    known = (await crawls.documents(site))["/owl"]
    site.add("/owl", GONE["404"])
    await crawls.crawl(site, refresh=True)
    site.add("/owl", article(site, "owl"))

    await crawls.crawl(site, refresh=True)

    again = (await crawls.documents(site))["/owl"]
    assert (again.id, again.is_found, again.deleted_at) == (known.id, True, None)
    assert (await crawls.differences()).none


async def test_a_site_in_trouble_ends_no_document(crawls: Crawls, site: Site) -> None:
    await crawls.crawl(site)
    for path in ("/jay", "/owl"):
        site.add(path, Reply("trouble", status=500))

    await crawls.crawl(site, refresh=True, retries=0, max_failed_share=1)

    assert (await crawls.documents(site)).keys() == {"/", "/jay", "/owl"}


async def test_a_crawl_goes_into_its_collection_with_its_tags(crawls: Crawls, site: Site) -> None:
    await crawls.crawl(site)
    birds = await crawls.jay.collections.create(crawls.who, name=f"birds {site.url[-5:]}".replace(":", ""))

    counts = await crawls.crawl(site, Destination.to(birds.id, ("watched",)))

    found = await crawls.documents(site, collection_id=birds.id)
    tags = await crawls.jay.documents.tags_of(crawls.who, [each.id for each in found.values()])
    assert counts == {"added": 3}  # also those that had not changed since the other crawl
    assert {tag.name for each in tags.values() for tag in each} == {"watched"}
    assert len(tags) == 3


async def test_an_unknown_collection_is_told_before_anything_is_fetched(crawls: Crawls, site: Site) -> None:
    with pytest.raises(NotFound):
        await crawls.start(site, Destination.to("coll_001k7hiia17emv9aro7pqc9a9sk"))

    assert site.requests == []


@pytest.mark.slow
async def test_a_crawl_killed_again_and_again_makes_every_page_a_document_once(
    tmp_path: Path, migrated_databases: list[Path]
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    async with running_site(pages=60) as site:
        site.latency_seconds = 0.03
        for kill_at in (20, 45):
            await _crawl_until_killed(home, site, kill_at, resume=kill_at > 20)
        assert len(site.requests) < 60
        site.latency_seconds = 0.0
        finishing = await _start_crawl(home, site, resume=True)
        assert await finishing.wait() == 0
        async with open_scrubjay(allowing_loopback(home), searching=True) as jay:
            crawls = Crawls(jay, await jay.access.open_as_admin(home))
            found = await crawls.differences()
            documents = await crawls.documents(site)
        assert site.generated is not None
        assert set(site.generated.paths) <= documents.keys() <= site.counts.keys()
        assert all(each.is_found and each.version == 1 for each in documents.values())
        assert (found.none, found.waiting) == (True, 0)


async def _start_crawl(home: Path, site: Site, *, resume: bool) -> asyncio.subprocess.Process:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
    options = ("--delay-ms", "0", "--quiet", "--no-sitemaps", "--concurrency", "4")
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "scrubjay.cli", "--home", str(home), "crawl", site.url, *options),
        *(("--resume",) if resume else ()),
        stdout=subprocess.DEVNULL,
        env=environment
        | {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1", "TERM": "dumb"},
    )


async def _crawl_until_killed(home: Path, site: Site, requests: int, *, resume: bool) -> None:
    process = await _start_crawl(home, site, resume=resume)

    async def reached() -> bool:
        assert process.returncode is None
        return len(site.requests) >= requests

    await wait_until(reached, f"{requests} requests", seconds=60)
    process.send_signal(signal.SIGKILL)
    await process.wait()
