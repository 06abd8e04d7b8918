"""`scrubjay crawl` and `plan run` exit with 0 when everything was read, 3 when something failed, 4 when nothing was.

Also what else the command line shows of runs: reports and one-off plans.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.acceptance.command_line import run
from tests.plans import article
from tests.site import Reply, Site, running_site

LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1"}
QUICK = ("--delay-ms", "0", "--no-sitemaps")
BROKEN_PDF = Reply(b"%PDF-1.7 this is none", content_type="application/pdf")


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        yield running


async def call(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(run, *arguments, home=home, **LOOPBACK)


async def test_a_crawl_of_nothing_exits_with_4_and_says_why(site: Site, home: Path) -> None:
    site.add("/", Reply("<h1>Who are you?</h1>", 401))

    result = await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet")

    assert result.returncode == 4, result
    assert "The crawl failed: Nothing was read." in result.stdout
    assert f"denied {site.url}/" in result.stdout
    assert "Next step: Give credentials" in result.stdout
    listed = json.loads((await call(home, "jobs", "ls", "--json")).stdout)
    assert [(each["state"], each["error"] is None) for each in listed] == [("failed", False)]


async def test_a_dead_link_is_a_warning_that_jobs_report_lists(site: Site, home: Path) -> None:
    site.add("/", article("home", "/gone", "/there"))
    site.add("/there", article("there"))

    result = await call(home, "crawl", f"{site.url}/", *QUICK, "--json")

    assert result.returncode == 0, result
    summary = json.loads(result.stdout)
    assert (summary["state"], summary["error"]) == ("completed", None)
    assert (summary["report"]["counts"]["added"], summary["report"]["counts"]["failed"]) == (2, 1)
    told = await call(home, "jobs", "report", summary["job_id"])
    assert told.returncode == 0
    assert "2 added, 1 failed" in told.stdout
    assert f"failed   {site.url}/gone (http_404)" in told.stdout
    assert "Fix or remove the link to it." in told.stdout
    facts = json.loads((await call(home, "jobs", "report", summary["job_id"], "--all", "--json")).stdout)
    assert {item["key"]: item["outcome"] for item in facts["items"]} == {
        f"{site.url}/": "added", f"{site.url}/there": "added", f"{site.url}/gone": "failed",
    }  # fmt: skip


async def test_a_crawl_with_a_broken_file_exits_with_3(site: Site, home: Path) -> None:
    site.add("/", article("home", "/broken.pdf"))
    site.pages["/broken.pdf"] = BROKEN_PDF

    result = await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet", "--max-failed-share", "1")

    assert result.returncode == 3, result
    assert f"failed {site.url}/broken.pdf" in result.stdout


async def test_a_crawl_that_read_everything_exits_with_0(site: Site, home: Path) -> None:
    site.add("/", article("home", "/there"))
    site.add("/there", article("there"))

    first = await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet")
    again = await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet")

    assert (first.returncode, again.returncode) == (0, 0), (first, again)


async def test_a_plan_exits_with_3_for_a_broken_file_and_with_4_when_its_site_is_gone(site: Site, home: Path) -> None:
    site.add("/", article("home", "/broken.pdf", "/there"))
    site.add("/there", article("there"))
    site.pages["/broken.pdf"] = BROKEN_PDF
    added = await call(home, "plan", "add", f"{site.url}/", "--name", "jays", "--delay-ms", "0")
    assert added.returncode == 0, added

    partly = await call(home, "plan", "run", "jays", "--json")
    site.pages.clear()
    site.add("/", Reply("<h1>Oops</h1>", 404))
    site.add("/robots.txt", Reply("User-agent: *\nDisallow: /", content_type="text/plain"))
    nothing = await call(home, "plan", "run", "jays", "--json")

    assert partly.returncode == 3, partly
    assert json.loads(partly.stdout)["state"] == "Failed"
    assert nothing.returncode == 4, nothing
    assert json.loads(nothing.stdout)["state"] == "Failed"


async def test_refused_pages_exit_with_3_and_a_plan_that_takes_in_nothing_new_exits_with_0(
    site: Site, home: Path
) -> None:
    site.add("/", article("home", "/members", "/there"))
    site.add("/there", article("there"))
    site.add("/members", Reply("<h1>Forbidden</h1>", 403))
    refused = await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet", "--no-index")
    added = await call(home, "plan", "add", f"{site.url}/there", "--name", "t", "--delay-ms", "0", "--no-additions")
    assert added.returncode == 0, added

    unwanted = await call(home, "plan", "run", "t", "--json")

    assert refused.returncode == 3, refused
    assert (unwanted.returncode, json.loads(unwanted.stdout)["state"]) == (0, "Success"), unwanted


async def test_a_one_off_crawl_is_listed_with_all_and_kept_as_a_plan(site: Site, home: Path) -> None:
    site.add("/", article("home"))
    assert (await call(home, "crawl", f"{site.url}/", *QUICK, "--quiet")).returncode == 0

    assert json.loads((await call(home, "plan", "ls", "--json")).stdout) == []
    (one_off,) = json.loads((await call(home, "plan", "ls", "--all", "--json")).stdout)
    kept = await call(home, "plan", "keep", one_off["id"], "--every", "6h", "--name", "The home page")

    assert kept.returncode == 0, kept
    assert "Kept as 'The home page'" in kept.stdout
    (plan,) = json.loads((await call(home, "plan", "ls", "--json")).stdout)
    assert (plan["id"], plan["name"]) == (one_off["id"], "The home page")
    site.add("/", article("home", text="The home page says something else now. " * 5))
    result = await call(home, "plan", "run", "The home page", "--json")
    assert result.returncode == 0, result
    assert json.loads(result.stdout)["objects_updated"] == 1
    again = await call(home, "plan", "keep", one_off["id"])
    assert (again.returncode, "kept already" in again.stderr) == (1, True)
