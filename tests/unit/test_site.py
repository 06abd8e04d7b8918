"""The site that other tests crawl: what it promises to them."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import aiohttp
import pytest
from tests.site import Site, running_site
from tests.site_faults import BOMB_BYTES, brotli_bomb, gzip_bomb, zstd_bomb
from tests.site_pages import GeneratedPages

ROOT = Path(__file__).parents[2]


async def get(site: Site, path: str, **headers: str) -> tuple[int, bytes, aiohttp.ClientResponse]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.get(site.url + path, headers=names, allow_redirects=False) as response,
    ):
        return response.status, await response.read(), response


async def test_every_generated_page_is_reached_by_links_from_the_home_page() -> None:
    async with running_site(pages=120) as site:
        assert site.generated is not None
        waiting, seen, found = ["/"], {"/"}, {}
        while waiting:
            path = waiting.pop()
            status, body, _ = await get(site, path)
            found[path] = status
            for link in re.findall(rb'<a href="([^"]+)"', body):
                if link.decode() not in seen:
                    seen.add(link.decode())
                    waiting.append(link.decode())
        assert {path for path, status in found.items() if status == 200} >= set(site.generated.paths)
        assert {path for path, status in found.items() if status == 404} == set(site.generated.dead)
        assert found["/old/10"] == 301
        assert found["/copy/25"] == found["/mirror/25"] == 200


async def test_a_copy_has_the_bytes_of_its_page_and_a_mirror_only_its_text() -> None:
    async with running_site(pages=30) as site:
        page, copy, mirror = [(await get(site, f"/{kind}/25"))[1] for kind in ("page", "copy", "mirror")]
    assert page == copy != mirror
    assert page.partition(b"<main>")[2] == mirror.partition(b"<main>")[2]


async def test_the_same_seed_makes_the_same_site_and_a_changed_page_another_etag() -> None:
    async with running_site(pages=5, seed=7) as site, running_site(pages=5, seed=7) as twin:
        assert (await get(site, "/page/3"))[1] == (await get(twin, "/page/3"))[1]
        etag = (await get(site, "/page/3"))[2].headers["ETag"]
        assert (await get(site, "/page/3", If_None_Match=etag))[0] == 304
        assert isinstance(site.generated, GeneratedPages)
        site.generated.changed.add("/page/3")
        assert (await get(site, "/page/3", If_None_Match=etag))[0] == 200


async def test_requests_are_recorded_with_the_most_that_were_answered_at_once() -> None:
    async with running_site(pages=5) as site:
        site.latency_seconds = 0.1
        await asyncio.gather(*(get(site, "/page/1") for _ in range(8)))
        assert site.max_in_flight == 8
        assert site.counts == {"/page/1": 8}
        assert site.requests[0].headers["host"] == f"127.0.0.1:{site.port}"
        assert all(gap < 0.1 for gap in site.gaps())


async def test_a_site_can_stand_for_several_hosts() -> None:
    async with running_site(pages=5, hosts=3) as site:
        for host in (1, 2, 3):
            await asyncio.to_thread(lambda url: urlopen(url).close(), site.url_at(host))
        assert {request.host for request in site.requests} == {f"127.0.0.{host}:{site.port}" for host in (1, 2, 3)}


@pytest.mark.parametrize("make", [gzip_bomb, brotli_bomb, zstd_bomb])
def test_a_bomb_is_a_thousand_times_larger_than_it_looks(make) -> None:
    assert len(make()) * 1000 < BOMB_BYTES


def test_the_site_runs_as_a_process_and_writes_its_record(tmp_path: Path) -> None:
    record = tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "tests.site", "--pages", "10", "--record", str(record)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with urlopen(f"{url}/page/3") as answer:
                assert answer.status == 200
            assert '"target": "/page/3"' in record.read_text()
        finally:
            process.kill()
