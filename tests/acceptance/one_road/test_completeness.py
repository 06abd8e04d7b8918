"""A limit that cuts a run is recorded and deletes nothing; identical bytes make no version; the report is complete."""

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.control.asking import OVER, reached
from tests.acceptance.control.test_bus import call
from tests.acceptance.crawlplans.asking import make_plan, run
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.one_road.asking import crawl, crawl_site, documents, job
from tests.acceptance.one_road.conftest import MAX_LINKS_PER_PAGE
from tests.acceptance.rag.asking import finished
from tests.acceptance.rag.conftest import working_settings
from tests.plans import article
from tests.site import Reply, Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECTIONS = 7_000  # of two blocks each


# --- Limits


async def test_a_page_with_too_many_links_makes_the_run_incomplete_and_nothing_is_deleted(
    library: House, owner: Key, site: Site
) -> None:
    names = [f"/page{number}" for number in range(6)]
    for name in names:
        site.add(name, article(name))
    url = site.add("/", article("home", *names))
    plan = await make_plan(library, owner, url, web={"RecheckMissing": False}, ProcessDeletions=True)
    whole = await run(library, owner, plan)
    assert (whole["IsComplete"], whole["ObjectsAdded"], whole.get("Limits")) == (True, 7, None)
    ahead = [f"/elsewhere{number}#top" for number in range(MAX_LINKS_PER_PAGE)]
    site.pages |= {each.removesuffix("#top"): Reply(article(each)) for each in ahead}
    site.add("/", article("home", *ahead, *names))

    cut = await run(library, owner, plan, confirmDeletions=True)

    assert (cut["IsComplete"], cut["ObjectsDeleted"]) == (False, 0)
    assert cut["Limits"] == {"links_per_page": 1}
    kept = await documents(library, owner)
    assert {f"{site.url}{name}" for name in names} <= set(kept)


async def test_a_plan_of_exact_pages_whose_host_is_down_deletes_nothing(library: House, owner: Key, site: Site) -> None:
    names = [f"/page{number}" for number in range(4)]
    for name in names:
        site.add(name, article(name))
    url = site.add("/", article("home", *names))
    plan = await make_plan(library, owner, url, ProcessDeletions=True)
    assert (await run(library, owner, plan))["ObjectsAdded"] == 5
    web = {"RepositorySettings": {"StartUrl": url, "CrawlDelayMs": 0, "FollowLinks": False, "RecheckMissing": False}}
    await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json={**plan, **web})
    site.add("/", Reply("<h1>Busy</h1>", 503))

    down = await run(library, owner, plan, confirmDeletions=True)

    assert (down["IsComplete"], down["ObjectsDeleted"]) == (False, 0)
    assert len(await documents(library, owner)) == 5


async def test_a_crawl_that_its_page_budget_cut_names_the_limit(library: House, owner: Key, site: Site) -> None:
    names = [f"/page{number}" for number in range(6)]
    for name in names:
        site.add(name, article(name))

    ended = await crawl_site(library, owner, site.add("/", article("home", *names)), max_pages=3)

    report = await library.api("GET", f"/crawl/{ended['id']}/report", owner)
    assert (ended["status"], report["complete"], report["counts"]["added"]) == ("completed", False, 3)
    assert "max_pages" in report["limits"]
    assert report["problems"]
    cut = await library.api("GET", f"/crawl/{ended['id']}/report", owner, params={"outcome": "cut"})
    assert len(cut["items"]) == report["counts"]["cut"] == 4
    assert {(item["reason"], item["next_step"]) for item in cut["items"]} == {
        ("max_pages", "Raise max_pages, or retry what was cut.")
    }
    assert set(await documents(library, owner)).isdisjoint(item["url"] for item in cut["items"])


async def test_a_file_whose_text_was_cut_is_named_and_its_run_deletes_nothing(
    tmp_path: Path, migrated_databases: list[Path]
) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    (shelf / "short.txt").write_text("A short note about acorns.")
    limits = {"max_characters_per_page": 10_000, "file_roots": str(shelf)}
    async with open_house(working_settings(tmp_path / "home", migrated_databases, **limits), working=True) as house:
        key = await house.key()
        plan = await make_plan(
            house, key, RepositoryType="File", RepositorySettings={"Path": str(shelf)}, ProcessDeletions=True
        )
        whole = await run(house, key, plan)
        (shelf / "short.txt").unlink()
        (shelf / "long.txt").write_text("Beetles and acorns. " * 1_000)

        cut = await run(house, key, plan, confirmDeletions=True)
        report = await house.plans("GET", f"/crawlplans/{plan['Id']}/operations/{cut['Id']}/report", key)
        later = await run(house, key, plan, confirmDeletions=True)

    assert (whole["State"], whole["IsComplete"], whole.get("Limits")) == ("Success", True, None)
    assert (cut["State"], cut["IsComplete"], cut["Limits"]) == ("Success", False, {"characters_per_page": 1})
    assert (cut["ObjectsAdded"], cut["ObjectsDeleted"]) == (1, 0)
    (item,) = [item for item in report["Objects"] if item["Outcome"] == "added"]
    assert (item["Key"].endswith("long.txt"), item["Reason"]) == (True, "characters_per_page")
    assert "max_characters_per_page" in item["NextStep"]
    assert (later["IsComplete"], later["ObjectsDeleted"]) == (True, 1)


async def test_a_page_of_more_than_12_000_blocks_is_kept_whole(library: House, owner: Key, site: Site) -> None:
    sections = "".join(f"<h2>Section {number}</h2><p>Tree {number} bears nuts.</p>" for number in range(SECTIONS))
    url = site.add("/", f"<html><head><title>Trees</title></head><body><main>{sections}</main></body></html>")

    ended = await crawl(library, owner, url)

    assert ended["status"] == "completed", ended["error"]
    report = await library.api("GET", f"/crawl/{ended['id']}/report", owner)
    document = (await documents(library, owner))[url]
    content = (await library.api("GET", f"/documents/{document['id']}", owner))["content"]
    assert (report["complete"], report["limits"]) == (True, {})
    assert content.count("bears nuts.") == SECTIONS


# --- Identical bytes


async def test_a_site_crawl_and_a_job_of_urls_alternate_without_new_versions(
    library: House, owner: Key, site: Site
) -> None:
    footer = "<p>This rule is printed under each article of this site, with the same words every time.</p>" * 3
    names = [f"/page{number}" for number in range(14)]
    for name in names:
        site.add(name, article(name).replace("</main>", f"{footer}</main>"))
    url = site.add("/", article("home", *names))
    urls = [f"{site.url}{name}" for name in names]
    await crawl_site(library, owner, url)
    since = datetime.now(UTC) + timedelta(microseconds=1)

    for _ in range(2):
        targeted = await job(library, owner, urls=urls)
        assert (targeted["status"], targeted["documents"]["changed"]) == ("completed", 0)
        again = await crawl_site(library, owner, url)
        assert (again["status"], again["documents"]["changed"]) == ("completed", 0)

    assert {each["version"] for each in (await documents(library, owner)).values()} == {1}
    news = await call(library, owner, "whats_new", since=since.isoformat())
    assert news == {"changes": [], "total": 0}


# --- The report


async def test_a_report_is_paged_and_downloaded_and_its_failures_are_retried(
    library: House, owner: Key, site: Site
) -> None:
    dead = [f"/dead{number}" for number in range(5)]
    url = site.add("/", article("home", *dead, "/there"))
    site.add("/there", article("there"))
    ended = await crawl_site(library, owner, url)
    assert (ended["status"], ended["pages_failed"]) == ("completed", 5)
    path = f"/crawl/{ended['id']}"

    first, second = [
        await library.api("GET", f"{path}/report", owner, params={"outcome": "failed", "limit": 3, "offset": offset})
        for offset in (0, 3)
    ]
    assert (first["total"], first["has_more"], second["has_more"]) == (5, True, False)
    listed = [item["url"] for item in (*first["items"], *second["items"])]
    assert sorted(listed) == [f"{site.url}{name}" for name in dead]
    (known,) = (await library.control("GET", "/jobs", owner))["jobs"]
    download = await library.ask("GET", f"/jobs/{known['job_id']}/report?format=jsonl", owner)
    assert download.headers["content-disposition"].startswith("attachment")
    lines = [json.loads(line) for line in download.text.splitlines()]
    assert {line["key"] for line in lines} == {url, f"{site.url}/there", *listed}
    assert {line["outcome"] for line in lines} == {"added", "failed"}

    for name in dead:
        site.add(name, article(name))
    site.forget()
    started = await library.api("POST", f"{path}/retry-failed", owner)
    healed = await finished(library, owner, started["job_id"])

    assert healed["status"] == "completed", healed
    pages = {name: number for name, number in site.counts.items() if name != "/robots.txt"}
    assert pages == dict.fromkeys(dead, 1)
    assert set(listed) <= set(await documents(library, owner))
    report = await library.api("GET", f"/crawl/{started['job_id']}/report", owner)
    assert (report["counts"]["added"], report["counts"]["failed"]) == (5, 0)
    refused = await library.ask("POST", f"/api/v1/crawl/{started['job_id']}/retry-failed", owner)
    assert (refused.status_code, refused.json()["error"]) == (409, "Nothing failed in this run.")


# --- Runs of addresses, one-off plans, order


async def test_a_job_of_urls_that_a_plan_owns_is_a_run_of_that_plan(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home", "/there"))
    site.add("/there", article("there"))
    plan = await make_plan(library, owner, url, IsActive=True)
    await run(library, owner, plan)
    site.add("/there", article("there", text="The page says something else now, and at some length. " * 5))

    ended = await job(library, owner, urls=[f"{site.url}/there"])

    assert ended["status"] == "completed"
    operations = await library.plans("GET", f"/crawlplans/{plan['Id']}/operations", owner)
    newest = operations["Objects"][0]
    assert (operations["TotalRecords"], newest["Trigger"], newest["JobId"]) == (2, "targeted", ended["job_id"])
    assert (newest["ObjectsUpdated"], newest["ObjectsDeleted"]) == (1, 0)
    assert {each["version"] for each in (await documents(library, owner)).values()} == {1, 2}


async def test_a_one_off_crawl_is_no_plan_of_any_list(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home"))

    await crawl(library, owner, url)
    await crawl_site(library, owner, url)
    await job(library, owner, urls=[url])

    assert (await library.plans("GET", "/crawlplans", owner))["TotalRecords"] == 0
    assert (await library.api("GET", "/sources", owner))["total"] == 0


@pytest.mark.parametrize("path", ["/api/v1/crawl", "/api/v1/crawl/deep", "/api/v1/crawl/batch", "/jobs"])
async def test_sequential_mode_is_accepted_at_every_crawl_door(
    library: House, owner: Key, site: Site, path: str
) -> None:
    url = site.add("/", article("home"))
    where: dict[str, Any] = {"url": url} if path in ("/api/v1/crawl", "/api/v1/crawl/deep") else {"urls": [url]}

    answer = await library.ask("POST", path, owner, json={**where, "mode": "sequential"})

    assert answer.status_code in (200, 202), answer.text
    (known,) = (await library.control("GET", "/jobs", owner))["jobs"]
    assert known["mode"] == "sequential"
    assert (await reached(library, owner, known["job_id"], *OVER))["status"] == "completed"
    refused = await library.ask("POST", path, owner, json={**where, "mode": "sideways"})
    assert refused.status_code in (400, 422)


async def test_sequential_depth_first_reads_a_branch_to_its_end_within_the_budget(
    library: House, owner: Key, site: Site
) -> None:
    url = site.add("/", article("home", *(f"/b{branch}" for branch in range(6))))
    for branch in range(6):
        names = [f"/b{branch}", *(f"/b{branch}-{word}" for word in ("twig", "leaf", "bud", "nut"))]
        for name, following in pairwise(names):
            site.add(name, article(name, following))

    ended = await crawl_site(library, owner, url, strategy="dfs", max_depth=5, max_pages=5, mode="sequential")

    assert ended["status"] == "completed", (ended["error"], ended["failed_items"])
    branches = {each.split("/")[3][:2] for each in await documents(library, owner) if each != url}
    assert len(branches) == 1, branches
