"""`scrubjay watch`, through real processes, on a real feed."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.command_line import run
from tests.newsroom import Article, publish
from tests.site import Site, running_site

from scrubjay.model.clock import utc_now

pytestmark = pytest.mark.slow

LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1", "COLUMNS": "250"}


@pytest_asyncio.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


class Desk:
    def __init__(self, home: Path) -> None:
        self._home = home

    async def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(run, "watch", *arguments, home=self._home, **LOOPBACK)

    async def good(self, *arguments: str) -> str:
        result = await self.run(*arguments)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    async def json(self, *arguments: str) -> Any:
        return json.loads(await self.good(*arguments, "--json"))


@pytest.fixture
def desk(home: Path) -> Desk:
    return Desk(home)


async def test_a_feed_is_watched_from_the_command_line(desk: Desk, site: Site) -> None:
    assert "No watches yet" in await desk.good("ls")
    feed = publish(site, "/feed", [Article("/old", "An old thing")])
    made = await desk.json("add", feed, "--name", "the feed", "--every", "120", "--budget", "9", "--collection", "news")
    assert (made["kind"], made["poll_interval_seconds"], made["daily_budget"]) == ("feed", 120, 9)
    assert made["collection_id"].startswith("coll_")
    assert "1 remembered" in await desk.good("poll", "the feed")

    publish(site, "/feed", [Article("/wreck", "Ferry runs aground at Ashford", published_at=utc_now())])
    outcome = await desk.json("poll", feed)
    assert (outcome["new"], outcome["triggered"]) == (1, 1)
    items = await desk.json("items", made["id"], "--state", "queued")
    assert [item["title"] for item in items] == ["Ferry runs aground at Ashford"]
    assert "Ferry runs aground at Ashford" in await desk.good("items", "the feed")
    assert [story["source_count"] for story in await desk.json("stories")] == [1]
    assert "2 of 9" in await desk.good("ls")
    assert "requests today" in await desk.good("show", "the feed")

    await desk.good("disable", "the feed")
    assert "disabled" in await desk.good("ls")
    await desk.good("throttle", "stop", "--reason", "Too loud.")
    refused = await desk.run("poll", "the feed")
    assert refused.returncode != 0
    assert "Too loud." in refused.stderr
    assert (await desk.json("throttle", "off"))["level"] == "off"
    assert "Removed." in await desk.good("rm", "the feed", "--yes")
    assert await desk.json("ls") == []


async def test_what_goes_wrong_is_said_in_a_sentence(desk: Desk, site: Site) -> None:
    made = await desk.json("add", site.url + "/nothing.rss")
    failed = await desk.run("poll", made["id"])
    assert failed.returncode == 1
    assert "HTTP status 404" in failed.stdout
    for arguments, said in (
        (("show", "nobody"), "There is no watch 'nobody'"),
        (("add", "not an address"), "not a web address"),
        (("add", "http://10.0.0.1/feed"), "10.0.0.1"),
        (("add", site.url + "/nothing.rss", "--plan", "nobody"), "nobody"),
    ):
        result = await desk.run(*arguments)
        assert result.returncode != 0, arguments
        assert said in result.stderr
        assert "Traceback" not in result.stderr
