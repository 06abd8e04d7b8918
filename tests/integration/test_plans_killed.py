"""Runs of a plan over a changing site, each killed with -9 at a random moment: nothing is lost, nothing is doubled."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path

import pytest
from tests.plans import Planner, article
from tests.processes import WorkerProcesses
from tests.site import Reply, Site, running_site

from scrubjay.app import open_scrubjay
from scrubjay.model.plan import ExportFormat, IngestionSettings, OperationState
from scrubjay.plans.sinks.export import MANIFEST, read_manifest
from scrubjay.settings import Settings

OPERATIONS = 30
LONGEST_SECONDS = 1.6  # before the kill: in all phases of a run, and sometimes after it


class ChangingSite:
    """Pages that come, change and go; what it has is known."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self._site = site
        self._chance = chance
        self._number = 0
        self.texts: dict[str, str] = {}
        for _ in range(25):
            self._add()
        self._publish()

    def _add(self) -> None:
        self._number += 1
        self.texts[f"page{self._number}"] = self._write(self._number)

    def _write(self, number: int) -> str:
        word = f"word{self._chance.randrange(10**9)}"
        return f"Page {number} says {word}, and it says {word} in a sentence that is long enough to be read. " * 4

    def change(self) -> None:
        for _ in range(self._chance.randrange(4)):
            self._add()
        for name in self._chance.sample(sorted(self.texts), self._chance.randrange(4)):
            self.texts[name] = self._write(int(name.removeprefix("page")))
        for name in self._chance.sample(sorted(self.texts), self._chance.randrange(3)):
            del self.texts[name]
        self._publish()

    def _publish(self) -> None:
        self._site.pages.clear()
        self._site.add("/", article("home", *(f"/{name}" for name in self.texts)))
        for name, text in self.texts.items():
            self._site.add(f"/{name}", Reply(article(name, "/", text=text), headers={"ETag": f'"{hash(text)}"'}))


def exported(folder: Path) -> dict[str, str]:
    """URL → text of every file of an export in Markdown. There are no other files, and no empty folders."""
    files = read_manifest(folder)
    assert {folder / file.path for file in files} | {folder / MANIFEST} == set(filter(Path.is_file, folder.rglob("*")))
    assert all(any(path.iterdir()) for path in folder.rglob("*") if path.is_dir())
    texts = {file.url: (folder / file.path).read_text().split("\n---\n\n", 1)[1].removesuffix("\n") for file in files}
    assert len(texts) == len(files)
    return texts


async def export_begins(folder: Path) -> bool:
    """Wait until the manifest names a file that is not finished, which is a moment before it is; False if none does."""
    for _ in range(int(LONGEST_SECONDS * 1000)):
        if (folder / MANIFEST).exists() and '"version":0' in (folder / MANIFEST).read_text():
            return True
        await asyncio.sleep(0.001)
    return False


@contextmanager
def workers(settings: Settings, folder: Path) -> Iterator[WorkerProcesses]:
    running = WorkerProcesses(settings, folder)
    try:
        yield running
    finally:
        for process in running.alive.values():
            running.kill(process)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "backend", ["sqlite", pytest.param("postgres", marks=[pytest.mark.postgres, pytest.mark.repeat])], indirect=True
)
async def test_thirty_runs_killed_at_random_moments_leave_exactly_what_the_site_says(
    settings: Settings, tmp_path: Path
) -> None:
    chance = random.Random(20261117)
    chosen = settings.model_copy(
        update={"allowed_private_networks": (ip_network("127.0.0.0/8"),), "extract_processes": 1}
    )
    chosen.model_fields_set.update({"allowed_private_networks", "extract_processes"})
    async with running_site() as site:
        pages = ChangingSite(site, chance)
        with workers(chosen, tmp_path) as running:
            async with open_scrubjay(chosen) as jay:
                planner = Planner(jay, await jay.access.open_as_admin(chosen.home))
                plan = await planner.plan(site.url, ingestion_settings=IngestionSettings(export=ExportFormat.MARKDOWN))
                worker, unfinished = running.start(), 0
                for number in range(OPERATIONS):
                    operation = await planner.start(plan)
                    if number % 2:
                        await asyncio.sleep(chance.uniform(0.0, LONGEST_SECONDS))
                    else:
                        unfinished += await export_begins(jay.settings.resolved_export_folder / plan.id)
                    running.kill(worker)
                    worker = running.start()
                    ended = await planner.finish(plan, operation)
                    assert ended.state is OperationState.SUCCESS, (number, ended.status_message, running.logs())
                    if number < OPERATIONS - 1:
                        pages.change()
                said = await planner.documents(plan)
                paths = await planner.paths(plan)
                files = exported(jay.settings.resolved_export_folder / plan.id)
            running.kill(worker)
        async with open_scrubjay(chosen, searching=True) as jay:
            await Planner(jay, await jay.access.open_as_admin(chosen.home)).index_agrees()
    assert paths == {"/", *(f"/{name}" for name in pages.texts)}
    assert files == said
    assert unfinished > 3, "too few kills were in the middle of an export"
    for url, text in said.items():
        name = url.rsplit("/", 1)[1]
        if name:
            assert pages.texts[name].split(",")[0] in text, url
