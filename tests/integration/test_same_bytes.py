"""Identical bytes give identical text: no crawl makes a new version of a page that did not change."""

from collections.abc import AsyncIterator
from datetime import datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.site import Site, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.model.clock import utc_now
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.destination import Destination
from scrubjay.model.job import FINISHED_STATES, Job, JobState
from scrubjay.model.tenant import Principal
from scrubjay.services.documents import DocumentQuery
from scrubjay.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = 40
FOOTER = "".join(
    f"<p>Rule {number} of this site is printed under each of its articles, with the same words every time.</p>"
    for number in range(3)
)


class Reader:
    """Crawls a site in several ways, and reads the documents that come of it."""

    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self._jay = jay
        self._who = who

    async def crawl(self, *urls: str, **values: Any) -> dict[str, Any]:
        spec = read_spec({"start_urls": urls, "delay_ms": 0, "use_sitemaps": False, **values})
        job = await self._jay.crawls.start(self._who, spec, destination=Destination.to())

        async def finished() -> Job | None:
            now = await self._jay.jobs.get(self._who, job.id)
            return now if now.state in FINISHED_STATES else None

        done: Job = await wait_until(finished, "the crawl is finished", seconds=50)
        assert done.state is JobState.COMPLETED, done.error
        return dict(done.result or {})

    async def versions(self, site: Site) -> dict[str, int]:
        found = await self._jay.documents.page(self._who, DocumentQuery(limit=200))
        return {document.url: document.version for document in found.items if document.url.startswith(site.url)}

    async def changes(self, since: datetime) -> list[Any]:
        return [change async for change in self._jay.operations.changes(self._who, None, since=since)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def reader(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Reader]:
    home = tmp_path_factory.mktemp("same_bytes") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        (home / file.name).write_bytes(file.read_bytes())
    settings = Settings(home=home, allowed_private_networks=(ip_network("127.0.0.0/8"),), extract_processes=1)
    async with open_scrubjay(settings, working=True) as jay:
        yield Reader(jay, await jay.access.open_as_admin(home))


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    """A site whose pages end with the same words. The first pages are extracted before that can be noticed."""
    async with running_site() as running:
        for number in range(PAGES):
            running.add(path_of(number), article(number))
        yield running


def path_of(number: int) -> str:
    return f"/{number}" if number else "/"


def article(number: int, words: str = "acorns") -> str:
    told = "".join(
        f"<p>Jay number {number} hid {words} under tree {number * 31 + part}, and came back in week {part}.</p>"
        for part in range(6)
    )
    onward = f'<a href="{path_of(number + 1)}">Next</a>' if number + 1 < PAGES else ""
    head = f"<head><title>Jay {number}</title></head>"
    return f"<html>{head}<body><main><h1>Jay {number}</h1>{told}{FOOTER}{onward}</main></body></html>"


async def test_a_site_crawl_and_a_list_of_urls_alternate_without_new_versions(reader: Reader, site: Site) -> None:
    listed = [site.url + path_of(number) for number in range(0, PAGES, 3)]
    result = await reader.crawl(site.url, max_depth=PAGES)
    assert result["pages"] == PAGES
    since = utc_now()

    for _ in range(3):
        await reader.crawl(*listed, follow_links=False)
        await reader.crawl(site.url, max_depth=PAGES)

    assert set((await reader.versions(site)).values()) == {1}
    assert await reader.changes(since) == []


async def test_a_list_of_urls_comes_first_and_the_boilerplate_is_learned_later(reader: Reader, site: Site) -> None:
    listed = [site.url + path_of(number) for number in range(4)]
    await reader.crawl(*listed, follow_links=False)

    for _ in range(3):
        await reader.crawl(site.url, max_depth=PAGES)
        await reader.crawl(*listed, follow_links=False)

    versions = await reader.versions(site)
    assert (len(versions), set(versions.values())) == (PAGES, {1})


async def test_refresh_fetches_again_and_keeps_the_text_of_the_same_bytes(reader: Reader, site: Site) -> None:
    await reader.crawl(site.url, max_depth=PAGES)
    site.forget()

    result = await reader.crawl(site.url, max_depth=PAGES, refresh=True)

    assert (len(site.requests_for("/0")), len(site.requests_for("/1")), result["unchanged"]) == (0, 1, PAGES)
    assert set((await reader.versions(site)).values()) == {1}


async def test_a_page_that_changed_gets_one_new_version_whichever_crawl_fetches_it(reader: Reader, site: Site) -> None:
    listed = [site.url + path_of(number) for number in range(3)]
    await reader.crawl(site.url, max_depth=PAGES)
    await reader.crawl(*listed, follow_links=False)
    site.add("/1", article(1, words="peanuts"))

    for _ in range(2):
        await reader.crawl(*listed, follow_links=False)
        await reader.crawl(site.url, max_depth=PAGES)

    versions = await reader.versions(site)
    assert {url for url, version in versions.items() if version != 1} == {site.url + "/1"}
    assert versions[site.url + "/1"] == 2
