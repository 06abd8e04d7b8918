"""Runs of plans over a real site that changes: what they add, change, retire, withhold and remember."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from ipaddress import ip_network
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio
from tests.plans import Planner, article, set_pages
from tests.site import Reply, Site, redirect, running_site
from tests.workshop import wait_until

from scrubjay.app import open_scrubjay
from scrubjay.documents.ingester import Ingester
from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.plan import DeletionSettings, Fate, FilterSettings, OperationState, PlanState
from scrubjay.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = [f"page{number}" for number in range(8)]
GUARD = DeletionSettings(max_missing_share=0.3, min_missing_items=2)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def planner(settings: Settings, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Planner]:
    monkeypatch.setattr("scrubjay.app.resources.open_pool", lambda _: nullcontext(pool))
    chosen = settings.model_copy(update={"allowed_private_networks": (ip_network("127.0.0.0/8"),)})
    async with open_scrubjay(chosen, working=True) as jay:
        yield Planner(jay, await jay.access.open_as_admin(settings.home))


@pytest_asyncio.fixture(loop_scope="module")
async def site() -> AsyncIterator[Site]:
    async with running_site() as running:
        set_pages(running, NAMES)
        yield running


async def test_a_first_run_adds_everything_and_a_second_one_touches_nothing(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    first = await planner.run(plan)
    assert (first.state, first.status_message) == (OperationState.SUCCESS, None)
    assert (first.objects_enumerated, first.objects_added, first.objects_success) == (9, 9, 9)
    assert first.bytes_added == first.bytes_enumerated > 0
    assert await planner.paths(plan) == {"/", *(f"/{name}" for name in NAMES)}
    before = await planner.documents(plan)
    site.forget()

    second = await planner.run(plan)

    assert (second.objects_added, second.objects_updated, second.objects_deleted) == (0, 0, 0)
    assert (second.objects_unchanged, second.is_complete) == (9, True)
    assert await planner.documents(plan) == before
    await planner.index_agrees()


async def test_added_changed_and_removed_pages_are_what_the_next_run_finds(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    await planner.run(plan)
    set_pages(site, [*NAMES[1:], "new"], page3="It says something else now, and it says so in a whole sentence. " * 8)
    site.add("/page3", article("page3", "/", text="It says something else now, in a sentence of its own. " * 8))

    second = await planner.run(plan)

    assert second.state is OperationState.SUCCESS, second.status_message
    assert second.objects_added == 1
    assert second.objects_deleted == 1
    assert second.objects_updated == 1  # the home page has other links, but says the same
    paths = await planner.paths(plan)
    assert "/new" in paths
    assert "/page0" not in paths
    said = await planner.documents(plan)
    assert "something else now" in next(text for url, text in said.items() if url.endswith("/page3"))
    await planner.index_agrees()


async def test_an_update_replaces_the_one_document(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    await planner.run(plan)
    for round_ in range(3):
        site.add("/page1", article("page1", "/", text=f"Round {round_} of the very same page, which is long. " * 9))
        await planner.run(plan)

    found = [url for url in await planner.documents(plan) if url.endswith("/page1")]
    assert len(found) == 1
    document = await planner.jay.documents.find_by_url(planner.who, found[0])
    assert document is not None
    assert document.version == 4


async def test_the_enumeration_file_says_what_was_seen_and_done(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    first = await planner.run(plan)
    site.add("/page2", article("page2", "/", text="This page was written anew, from its first word on. " * 9))
    second = await planner.run(plan)

    path = await planner.jay.operations.enumeration(planner.who, plan.id, second.id)
    assert path == Path(second.enumeration_file or "")
    facts = json.loads(path.read_text())
    assert list(facts) == [
        "AllFiles", "Added", "Changed", "Deleted", "Unchanged", "Success", "Failed", "Warnings", "Skipped",
        "Statistics",
    ]  # fmt: skip
    assert [each["Key"].rsplit("/", 1)[1] for each in facts["Changed"]] == ["page2"]
    assert len(facts["AllFiles"]) == 9
    assert len(facts["Unchanged"]) == 8
    assert facts["Statistics"]["TotalCount"] == 9
    assert facts["Statistics"]["ChangedCount"] == facts["Statistics"]["SuccessCount"] == 1
    assert {"Key", "ContentType", "ContentLength", "SHA256Hash", "DocumentId"} <= set(facts["AllFiles"][0])
    assert "Data" not in facts["AllFiles"][0]
    before = json.loads((await planner.jay.operations.enumeration(planner.who, plan.id, first.id)).read_text())
    assert before["Statistics"]["AddedCount"] == 9


async def test_a_page_that_nothing_links_to_any_more_but_that_is_there_stays(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    await planner.run(plan)
    site.add("/", article("home", *(f"/{name}" for name in NAMES[1:])))

    await planner.run(plan)

    assert "/page0" in await planner.paths(plan)


@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(Reply("down", 503), id="all 503"),
        pytest.param(Reply("<form><input type=password></form> Please log in", 401), id="login wall"),
        pytest.param(redirect("http://localhost:1/"), id="moved to where nobody answers"),
        pytest.param(redirect("http://gone.invalid/"), id="a name that is gone"),
        pytest.param(Reply("", 200), id="empty pages"),
    ],
)
async def test_an_outage_deletes_nothing(planner: Planner, site: Site, outage: Reply) -> None:
    plan = await planner.plan(site.url)
    await planner.run(plan)
    before = await planner.documents(plan)
    site.pages.clear()
    site.fallback = lambda _: outage

    run = await planner.run(plan)

    assert run.state is OperationState.FAILED
    assert run.status_message
    assert (run.objects_deleted, run.objects_withheld, run.is_complete) == (0, 0, False)
    assert await planner.documents(plan) == before
    site.fallback = None
    set_pages(site, NAMES)
    await planner.jay.cache.clear("")  # else the host is left alone for some minutes
    again = await planner.run(plan)
    assert (again.objects_added, again.objects_deleted, again.state) == (0, 0, OperationState.SUCCESS)


async def test_when_a_page_that_links_to_others_fails_nothing_behind_it_is_deleted(
    planner: Planner, site: Site
) -> None:
    site.add("/", article("home", "/hub"))
    site.add("/hub", article("hub", *(f"/{name}" for name in NAMES)))
    plan = await planner.plan(site.url)
    await planner.run(plan)
    site.add("/hub", Reply("broken", 500))

    run = await planner.run(plan)

    assert (run.state, run.objects_deleted) == (OperationState.SUCCESS, 0)
    assert "could not be read" in (run.status_message or "")
    assert {f"/{name}" for name in NAMES} | {"/hub"} <= await planner.paths(plan)


async def test_more_missing_at_once_than_plausible_is_withheld_until_the_next_run_agrees(
    planner: Planner, site: Site
) -> None:
    plan = await planner.plan(site.url, deletion=GUARD)
    await planner.run(plan)
    set_pages(site, NAMES[4:])

    second = await planner.run(plan)

    assert (second.objects_deleted, second.objects_withheld) == (0, 4)
    assert "withheld" in (second.status_message or "")
    assert len(await planner.documents(plan)) == 9
    assert sorted((await planner.ledger(plan)).values()).count(Fate.MISSING) == 4
    third = await planner.run(plan)
    assert (third.objects_deleted, third.objects_withheld) == (4, 0)
    assert len(await planner.paths(plan)) == 5


async def test_withheld_pages_that_come_back_were_never_gone(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, deletion=GUARD)
    await planner.run(plan)
    before = await planner.documents(plan)
    set_pages(site, NAMES[4:])
    await planner.run(plan)
    set_pages(site, NAMES)

    third = await planner.run(plan)

    assert (third.objects_added, third.objects_deleted) == (0, 0)
    assert set(before) == set(await planner.documents(plan))
    assert set((await planner.ledger(plan)).values()) == {Fate.PRESENT}


async def test_confirmed_deletions_are_done_however_many(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, deletion=GUARD)
    await planner.run(plan)
    set_pages(site, NAMES[4:])

    run = await planner.run(plan, confirm_deletions=True)

    assert (run.objects_deleted, run.objects_withheld) == (4, 0)


async def test_grace_runs_keep_what_is_missing_for_so_long(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, deletion=DeletionSettings(min_missing_items=1000, grace_runs=2))
    await planner.run(plan)
    set_pages(site, NAMES[1:])

    deleted = [(await planner.run(plan)).objects_deleted for _ in range(3)]

    assert deleted == [0, 0, 1]


async def test_deletions_that_the_plan_does_not_want_are_not_done(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, process_deletions=False, process_updates=False)
    await planner.run(plan)
    before = await planner.documents(plan)
    set_pages(site, NAMES[1:])
    site.add("/page5", article("page5", "/", text="Nobody is going to read this, the plan takes no updates. " * 9))

    run = await planner.run(plan)

    assert (run.objects_deleted, run.objects_updated, run.state) == (0, 0, OperationState.SUCCESS)
    assert await planner.documents(plan) == before


async def test_a_filter_decides_before_anything_is_taken_in_and_added_counts_what_passed(
    planner: Planner, site: Site
) -> None:
    site.add(
        "/notes.txt", Reply("A plain text that is long enough to be a document of its own.", content_type="text/plain")
    )
    site.add("/", article("home", "/page1", "/notes.txt"))
    wanted = FilterSettings(allowed_content_types=("text/html",))
    plan = await planner.plan(site.url, filter=wanted)

    run = await planner.run(plan)

    assert (run.objects_enumerated, run.objects_added) == (3, 2)
    assert await planner.paths(plan) == {"/", "/page1"}


async def test_an_object_that_fails_is_tried_again_in_the_next_run(
    planner: Planner, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await planner.plan(site.url)
    real = Ingester.ingest_many

    async def trip(self: Ingester, incoming):  # type: ignore[no-untyped-def]
        if any(each.url.endswith("/page4") for each in incoming):
            raise ValueError("this page trips us")
        return await real(self, incoming)

    with monkeypatch.context() as patch:
        patch.setattr(Ingester, "ingest_many", trip)
        first = await planner.run(plan)
    assert first.state is OperationState.FAILED
    assert (first.objects_failed, first.objects_success) == (1, 8)
    assert "The next run requests them again." in (first.status_message or "")

    second = await planner.run(plan)

    assert (second.state, second.objects_added, second.objects_success) == (OperationState.SUCCESS, 1, 1)
    assert len(await planner.paths(plan)) == 9


async def test_a_cancelled_run_is_no_baseline(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, web={"max_parallel_tasks": 1})
    await planner.run(plan)
    site.latency_seconds = 0.2
    operation = await planner.start(plan)

    async def under_way() -> bool:
        return len(site.requests) > 12

    await wait_until(under_way, "the crawl is under way")
    stopped = await planner.jay.plans.stop(planner.who, plan.id)
    assert stopped.state is PlanState.STOPPED
    cancelled = await planner.finish(plan, operation)
    assert (cancelled.state, cancelled.objects_deleted) == (OperationState.CANCELED, 0)
    site.latency_seconds = 0

    after = await planner.run(plan)

    assert (after.objects_added, after.objects_updated, after.objects_deleted) == (0, 0, 0)


async def test_two_starts_at_once_are_one_run_and_one_conflict(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)

    answers = await asyncio.gather(*(planner.start(plan) for _ in range(4)), return_exceptions=True)

    started = [each for each in answers if not isinstance(each, BaseException)]
    assert [type(each) for each in answers if isinstance(each, BaseException)] == [Conflict] * 3
    await planner.finish(plan, started[0])


async def test_a_plan_without_a_start_url_is_made_but_not_started(planner: Planner) -> None:
    plan = await planner.plan("", web={"start_url": None})
    with pytest.raises(InvalidRequest, match="start_url"):
        await planner.start(plan)


async def test_deleting_a_plan_stops_its_run_and_removes_its_files(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    done = await planner.run(plan)
    file = Path(done.enumeration_file or "")
    assert file.is_file()
    site.latency_seconds = 0.3
    site.forget()
    await planner.start(plan)

    async def under_way() -> bool:
        return bool(site.requests)

    await wait_until(under_way, "the crawl is under way")
    await planner.jay.plans.delete(planner.who, plan.id)

    assert not file.exists()
    await asyncio.sleep(1)
    quiet = len(site.requests)
    await asyncio.sleep(1)
    assert len(site.requests) == quiet


async def test_a_full_disk_costs_the_enumeration_file_and_nothing_else(
    planner: Planner, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_: object) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("scrubjay.plans.enumeration_file.EnumerationFiles.write", full)
    plan = await planner.plan(site.url)

    run = await planner.run(plan)

    assert (run.state, run.enumeration_file) == (OperationState.SUCCESS, None)
    assert "No space left on device" in (run.status_message or "")
    assert len(await planner.paths(plan)) == 9


async def test_follow_redirects_off_does_not_follow(planner: Planner, site: Site) -> None:
    site.add("/", article("home", "/moved", "/page1"))
    site.add("/moved", redirect("/page2"))
    plan = await planner.plan(site.url, web={"follow_redirects": False})

    await planner.run(plan)

    assert await planner.paths(plan) == {"/", "/page1"}


async def test_the_crawl_delay_is_the_gap_between_requests_to_a_host(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url, web={"crawl_delay_ms": 150, "max_parallel_tasks": 8})

    await planner.run(plan)

    moments = [request.at for request in site.requests]
    assert len(moments) >= 10
    assert min(after - before for before, after in pairwise(moments)) >= 0.12  # the noise of a busy machine


async def test_sitemaps_from_robots_txt_indexes_and_gzip_are_read_and_obey_the_restrictions(
    planner: Planner, site: Site
) -> None:
    def urls(*paths: str) -> str:
        return "<urlset>" + "".join(f"<url><loc>{site.url}{path}</loc></url>" for path in paths) + "</urlset>"

    site.pages.clear()
    site.robots = f"User-agent: *\nSitemap: {site.url}/maps/index.xml\n"
    index = f"<sitemapindex><sitemap><loc>{site.url}/maps/docs.xml.gz</loc></sitemap></sitemapindex>"
    site.add("/maps/index.xml", Reply(index, content_type="application/xml"))
    packed = gzip.compress(urls("/docs/listed", "/blog/outside").encode())
    site.add("/maps/docs.xml.gz", Reply(packed, content_type="application/gzip"))
    for path in ("/docs/", "/docs/listed", "/blog/outside"):
        site.add(path, article(path))
    plan = await planner.plan(f"{site.url}/docs/")

    await planner.run(plan)

    assert await planner.paths(plan) == {"/docs", "/docs/listed"}
    assert "/blog/outside" not in site.counts


async def test_robots_txt_is_obeyed_unless_the_plan_says_otherwise(planner: Planner, site: Site) -> None:
    site.robots = (
        "User-agent: other\nUser-agent: scrubjay\nDisallow: /page1\nDisallow: /*2$\n\nUser-agent: *\nDisallow: /\n"
    )
    plan = await planner.plan(site.url)
    await planner.run(plan)
    assert {"/page1", "/page2"} & set(site.counts) == set()
    assert "/page3" in await planner.paths(plan)

    heedless = await planner.plan(site.url, web={"ignore_robots_txt": True})
    await planner.run(heedless)
    assert {"/page1", "/page2"} <= await planner.paths(heedless)


async def test_a_site_that_now_forbids_everything_fails_and_loses_nothing(planner: Planner, site: Site) -> None:
    plan = await planner.plan(site.url)
    await planner.run(plan)
    site.robots = "User-agent: *\nDisallow: /\n"
    await planner.jay.cache.clear("")

    run = await planner.run(plan)

    assert (run.state, run.objects_deleted) == (OperationState.FAILED, 0)
    assert "robots" in (run.status_message or "")
    assert len(await planner.documents(plan)) == 9


async def test_a_document_that_a_page_and_its_copy_share_ends_with_the_last_of_them(
    planner: Planner, site: Site
) -> None:
    async def shared() -> set[str]:
        return {url.rpartition("/")[2] for url in await planner.documents(plan)} & {"page1", "copy"}

    site.add("/", article("home", "/page1", "/copy", *(f"/{name}" for name in NAMES[2:])))
    page = article("page1", "/")
    site.add("/page1", page)
    site.add("/copy", page.replace("<head>", "<head><link rel='canonical' href='/page1'>"))
    plan = await planner.plan(site.url)
    await planner.run(plan)
    assert await shared() == {"page1"}

    site.add("/copy", Reply("gone", 410))
    await planner.run(plan)
    assert await shared() == {"page1"}

    site.add("/page1", Reply("gone", 410))
    await planner.run(plan)
    assert await shared() == set()
    await planner.index_agrees()
