"""One process with everything on one disk that gets full: it says so, loses nothing, and goes on when there is room."""

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests import servers
from tests.chaos import disks
from tests.chaos.arena import api_ready
from tests.chaos.disks import Disk
from tests.chaos.programs import Program
from tests.plans import Planner, set_pages
from tests.processes import LEASH, SCRUBJAY
from tests.site import running_site
from tests.workshop import wait_until

from scrubjay.app import open_scrubjay
from scrubjay.model.urls import normalize_url
from scrubjay.settings import Settings
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.home import ADMIN_KEY_FILE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

MEGABYTES = 200
PAGES = 40


@pytest.fixture
def disk() -> Iterator[Disk]:
    if reason := disks.why_not():
        pytest.skip(reason)
    disk = Disk("home", MEGABYTES)
    try:
        (disk.seen / "home").mkdir(mode=0o700)
        yield disk
    finally:
        disk.remove()


@pytest.fixture
async def server(disk: Disk, tmp_path: Path) -> AsyncIterator[tuple[Program, httpx.AsyncClient]]:
    (port,) = servers._free_ports(1)
    command = [*disk.inside, *LEASH, str(SCRUBJAY), "--home", str(disk.path / "home"), "serve", "--port", str(port)]
    settings = {"SCRUBJAY_EXTRACT_PROCESSES": "1", "SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"}
    program = Program(
        "serve", command, tmp_path, lambda: api_ready(port), environment={**os.environ, **settings}, cwd=tmp_path
    )
    try:
        await asyncio.to_thread(program.start)
        headers = {"Authorization": f"Bearer {(disk.seen / 'home' / ADMIN_KEY_FILE).read_text().strip()}"}
        address = f"http://127.0.0.1:{port}"
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=60, trust_env=False) as client:
            yield program, client
    except BaseException:
        print(program.tail(10_000))
        raise
    finally:
        program.end()


async def add_note(client: httpx.AsyncClient, number: int) -> httpx.Response:
    text = f"# Note {number}\n\nThis note says word{number}, and it says so in a whole sentence.\n"
    body = {"url": f"https://notes.example/{number}", "content": text, "content_type": "text/markdown"}
    return await client.post("/api/v1/documents", json=body)


async def use_what_is_left(client: httpx.AsyncClient) -> httpx.Response:
    """Write into the database alone until that has no room either."""
    for number in range(1000):
        answer = await client.post("/api/v1/collections", json={"name": f"c{number}", "description": "x" * 400})
        if answer.status_code != 201:
            return answer
    raise AssertionError("there is room without end")


async def test_a_full_disk_is_told_loses_nothing_and_is_over_when_there_is_room(
    disk: Disk, server: tuple[Program, httpx.AsyncClient], tmp_path: Path
) -> None:
    program, client = server
    assert (await add_note(client, 1)).status_code == 201

    async def found() -> bool:
        answers = [await client.post("/api/v1/search", json={"query": f"word{number}"}) for number in notes]
        return all(f"notes.example/{number}" in answer.text for number, answer in zip(notes, answers, strict=True))

    notes = [1]
    await wait_until(found, "the note is found", seconds=60, pause=0.1)
    async with running_site() as site:
        set_pages(site, [f"page{number}" for number in range(PAGES)])
        site.latency_seconds = 0.05
        order = {"domains": [site.url], "max_articles_per_site": 1000, "max_depth": 100}
        started = await client.post("/jobs", json=order)
        assert started.status_code == 202, started.text
        job = started.json()

        async def under_way() -> bool:
            return len(site.requests) > 10

        await wait_until(under_way, "the crawl is in its middle", pause=0.005)
        disk.fill()
        refused = await add_note(client, 2)
        assert refused.status_code == 503
        assert "No space left" in refused.json()["error"]
        refused = await use_what_is_left(client)
        assert (refused.status_code, refused.json()["code"]) == (503, "UNAVAILABLE")
        assert "no room left" in refused.json()["error"]
        # The index's engine may die of it. While it is away, searching is refused in words.
        answer = await client.post("/api/v1/search", json={"query": "word1"})
        assert "notes.example/1" in answer.text or "it is being started again" in answer.text, answer.text
        assert (await client.get("/api/v1/health/ready")).status_code == 503
        disk.free()
        assert (await add_note(client, 2)).status_code == 201

        notes.append(2)
        await wait_until(found, "both notes are found", seconds=60, pause=0.1)

        async def over() -> dict[str, Any] | None:
            now: dict[str, Any] = (await client.get(f"/jobs/{job['job_id']}")).json()
            return now if now["status"] in ("completed", "failed", "cancelled") else None

        ended = await wait_until(over, "the crawl is over", seconds=120, pause=0.1)
        assert ended["status"] == "completed", ended
        assert max(site.counts.values()) <= 3, site.counts.most_common(3)
        pages = {normalize_url(site.url + path) for path in site.pages}
    assert program.is_running
    await asyncio.to_thread(program.stop)
    # SQLite does not find its way through /proc, so this looks at a copy.
    home = Path(shutil.copytree(disk.seen / "home", tmp_path / "home", ignore=shutil.ignore_patterns("lock")))
    async with open_scrubjay(Settings(home=home), searching=True) as jay:
        planner = Planner(jay, await jay.access.open_as_admin(home))
        await planner.index_agrees()
        async with jay.database.reading() as connection:
            documents = await Documents(connection).page(DocumentRow.deleted_at.is_(None), limit=10_000)
    urls = Counter(document.url for document in documents.items)
    assert set(urls.values()) == {1}
    assert set(urls) == pages | {"https://notes.example/1", "https://notes.example/2"}
