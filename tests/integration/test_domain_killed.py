"""Crawls of a domain over a changing library, each killed with -9 at a random moment: maps, disk and store agree."""

import asyncio
import random
from ipaddress import ip_network
from pathlib import Path

import pytest
from tests.integration.test_domain_crawl import Librarian, words
from tests.processes import worker_processes
from tests.sharepoint_content import StoredLibrary
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, running_sharepoint
from tests.site import running_site
from tests.workshop import wait_until

from scrubjay.bootstrap import open_scrubjay
from scrubjay.domains.folders import EMBEDDED
from scrubjay.domains.orders import CRAWL_KIND, CrawlMode, CrawlOrder
from scrubjay.model.job import JobState
from scrubjay.settings import Settings

ROUNDS = 20
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


@pytest.mark.repeat
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["sqlite"], indirect=True)
async def test_twenty_crawls_killed_at_random_moments(
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
        library, names = server.add_site().documents, {f"first{number}.txt" for number in range(12)}
        for name in names:
            library.put(name, words(name))
        with worker_processes(chosen, tmp_path) as running:
            worker = running.start()
            async with open_scrubjay(chosen) as jay:
                librarian = Librarian(jay, await jay.access.open_as_admin(chosen.home), server, site)
                await librarian.found(file_sources=[librarian.file_source])
                for number in range(ROUNDS):
                    mode = CrawlMode.FULL if chance.random() < 0.3 else CrawlMode.INCREMENTAL
                    order = CrawlOrder(domain_id="DOMAIN01", mode=mode).dump()
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
                    assert librarian.files(EMBEDDED) == names, number
                    assert len(await librarian.stored()) == len(names), number
                    change(library, names, chance)
