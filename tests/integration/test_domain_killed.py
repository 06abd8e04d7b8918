"""Crawls of a domain over a changing library and site, each killed with -9 at a random moment.

Afterwards the ledger, the folder, the documents and the index have the same items.
"""

import asyncio
import random
from ipaddress import ip_network
from pathlib import Path

import pytest
from tests.integration.test_domain_crawl import Librarian, words
from tests.processes import worker_processes
from tests.sharepoint_content import StoredLibrary
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, running_sharepoint
from tests.site import Site, running_site
from tests.workshop import wait_until

from scrubjay.app import open_scrubjay
from scrubjay.domains.folders import EMBEDDED
from scrubjay.domains.maps import SHAREPOINT_MAP
from scrubjay.domains.orders import CRAWL_KIND, DomainCrawlMode, DomainCrawlOrder
from scrubjay.index.consistency import Consistency
from scrubjay.model.job import JobState
from scrubjay.model.plan import Fate
from scrubjay.settings import Settings
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.plans import Plans

ROUNDS = 30
PAGES = 8
WHERE = (("01_files", "source01"), ("04_web", "web"))
LONGEST_SECONDS = 2.5  # before the kill: while it starts, lists, downloads, uploads, waits, and sometimes after it


def change(library: StoredLibrary, names: set[str], chance: random.Random) -> None:
    for _ in range(chance.randrange(1, 5)):
        name = f"note{chance.randrange(10**6)}.txt"
        library.put(name, words(name))
        names.add(name)
    for name in chance.sample(sorted(names), 2):
        library.put(name, words(f"{name} anew, {chance.random()}"))
    gone = chance.choice(sorted(names))
    library.remove(gone)
    names.discard(gone)


def set_pages(site: Site, chance: random.Random) -> None:
    """A site of which pages come, change and go."""
    names = [f"/page{number}" for number in range(PAGES) if chance.random() < 0.7]
    links = "".join(f'<a href="{name}">{name}</a> ' for name in names)
    site.pages.clear()
    site.add("/", f"<html><title>Home</title><p>{words('home').decode()}</p>{links}</html>")
    for name in names:
        text = words(f"{name}, {chance.randrange(3)}").decode()
        site.add(name, f"<html><title>{name}</title><main><h1>{name}</h1><p>{text}</p></main></html>")


async def assert_equal(librarian: Librarian, number: int) -> None:
    """Ledger == documents == index == folder."""
    jay = librarian.jay
    async with jay.database.reading() as connection:
        plans = [plan for plan in await Plans(connection).all() if plan.ingestion_settings.keeps_files]
        known = {
            (plan.repository_type, entry.key)
            for plan in plans
            for entry in await Ledger(connection).listing(plan.id, fates=[Fate.PRESENT])
        }
        assert not [plan for plan in plans if plan.operation_id is not None], number
    listed = {("SharePoint", row["raw_url"]) for row in librarian.map(SHAREPOINT_MAP)}
    listed |= {("Web", row["raw_url"]) for row in librarian.map(SHAREPOINT_MAP, "04_web", "web")}
    assert known == listed, number
    documents = {url: each for url, each in (await librarian.documents()).items() if each.deleted_at is None}
    urls = [row["url"] for where in WHERE for row in librarian.map(SHAREPOINT_MAP, *where)]
    assert set(documents) == set(urls), number
    assert len(await librarian.stored()) == len(documents), number


@pytest.mark.repeat
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_thirty_crawls_killed_at_random_moments(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(20261117)
    async with running_sharepoint() as server, running_site() as site:
        monkeypatch.setenv("SCRUBJAY_SHAREPOINT_CLIENT_SECRET", CLIENT_SECRET)
        app = {
            "sharepoint_client_id": CLIENT_ID,
            "sharepoint_tenant_id": TENANT,
            "sharepoint_authority_url": server.url,
            "allowed_private_networks": (ip_network("127.0.0.0/8"),),
            "extract_processes": 1,
        }
        chosen = settings.model_copy(update=app)
        chosen.model_fields_set.update(app)
        set_pages(site, chance)
        library, names = server.add_site().documents, {f"first{number}.txt" for number in range(12)}
        for name in names:
            library.put(name, words(name))
        with worker_processes(chosen, tmp_path) as running:
            worker = running.start()
            async with open_scrubjay(chosen) as jay:
                librarian = Librarian(jay, await jay.access.open_as_admin(chosen.home), server, site)
                web = {"source_id": "web", "start_url": site.url}
                await librarian.found(file_sources=[librarian.file_source], web_sources=[web])
                for number in range(ROUNDS):
                    mode = DomainCrawlMode.FULL if chance.random() < 0.3 else DomainCrawlMode.INCREMENTAL
                    order = DomainCrawlOrder(domain_id="DOMAIN01", mode=mode).dump()
                    job = await jay.jobs.submit(librarian.who, CRAWL_KIND, order)
                    await asyncio.sleep(chance.uniform(0.0, LONGEST_SECONDS))
                    running.kill(worker)
                    worker = running.start()

                    async def over(job_id: str = job.id) -> bool:
                        return (await jay.jobs.get(librarian.who, job_id)).is_finished

                    await wait_until(over, "the crawl has ended", seconds=60)
                    ended = await jay.jobs.get(librarian.who, job.id)
                    assert ended.state is JobState.COMPLETED, (number, ended.error, running.logs())
                    assert (ended.result or {})["ok"], (ended.result, running.logs())
                    await librarian.agree()
                    await librarian.agree("04_web", "web")
                    assert librarian.files(EMBEDDED) == names, number
                    await assert_equal(librarian, number)
                    change(library, names, chance)
                    set_pages(site, chance)
        async with open_scrubjay(chosen, working=True) as jay:

            async def is_indexed() -> bool:
                jay.indexer.wake()
                return not (await Consistency(jay.database, jay.catalog).compare()).waiting

            await wait_until(is_indexed, "the index has caught up", seconds=60, pause=0.1)
            found = await Consistency(jay.database, jay.catalog).compare()
            assert (found.missing, found.different, found.extra) == (0, 0, [])
            assert found.points
