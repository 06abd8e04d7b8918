"""`scrubjay discover` and `scrubjay robots`, through real processes, on a real site."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.acceptance.command_line import run, the_sentence
from tests.common_crawl import CommonCrawl
from tests.site import Reply, Site, running_site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


async def call(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    settings = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8"} | settings
    return await asyncio.to_thread(run, *arguments, home=home, **settings)


async def test_robots_says_yes_and_what_else_the_host_says(site: Site, home: Path) -> None:
    site.robots = "User-agent: *\nDisallow: /private\nCrawl-delay: 2.5\nSitemap: https://a.example/s.xml\n"
    result = await call(home, "robots", f"{site.url}/page", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout) == {
        "url": f"{site.url}/page",
        "allowed": True,
        "reason": "allowed",
        "message": None,
        "robots_txt": f"{site.url}/robots.txt",
        "status": 200,
        "user_agent": "scrubjay",
        "crawl_delay_seconds": 2.5,
        "sitemaps": ["https://a.example/s.xml"],
    }


async def test_robots_says_no_with_its_exit_code(site: Site, home: Path) -> None:
    site.robots = "User-agent: *\nDisallow: /\n\nUser-agent: friend\nAllow: /\n"
    refused = await call(home, "robots", f"{site.url}/page")
    assert refused.returncode == 1
    assert "no (robots_disallowed)" in refused.stdout
    assert (await call(home, "robots", f"{site.url}/page", "--user-agent", "Friend/2.0")).returncode == 0


async def test_robots_tells_in_a_sentence_what_cannot_be_asked(home: Path) -> None:
    the_sentence(await call(home, "robots", "file:///etc/passwd"), "file:")
    the_sentence(await call(home, "robots", "http://169.254.169.254/"), "not public")


async def test_discover_prints_one_address_a_line(site: Site, home: Path) -> None:
    site.sitemap = Reply(f"{site.url}/acorn\n{site.url}/oak\n", content_type="text/plain")
    result = await call(home, "discover", site.url)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines() == [f"{site.url}/acorn", f"{site.url}/oak"]


async def test_discover_filters_scores_and_asks_common_crawl(site: Site, home: Path) -> None:
    index = CommonCrawl(site)
    for name in ("acorn", "acorn/storage", "login"):
        index.add(f"{site.url}/{name}")
    options = ["--source", "common_crawl", "--pattern", "acorn", "--query", "acorn storage", "--json"]
    result = await call(home, "discover", site.url, *options, SCRUBJAY_COMMON_CRAWL_URL=index.base_url)
    found = json.loads(result.stdout)
    assert (result.returncode, found["seen"], found["problems"]) == (0, 3, [])
    assert [(one["url"], one["score"]) for one in found["urls"]] == [
        (f"{site.url}/acorn/storage", 1.0),
        (f"{site.url}/acorn", 0.75),
    ]


async def test_discover_tells_what_it_could_not_read_and_fails_when_nothing_is_left(site: Site, home: Path) -> None:
    site.robots = "Sitemap: /missing.xml\n"
    result = await call(home, "discover", site.url)
    assert (result.returncode, result.stdout) == (1, "")
    assert "http_404" in result.stderr


async def test_discover_names_the_option_that_is_wrong(home: Path) -> None:
    the_sentence(await call(home, "discover", "not a domain"), "domain")
    the_sentence(await call(home, "discover", "a.example", "--pattern", "("), "pattern", "unclosed group")
