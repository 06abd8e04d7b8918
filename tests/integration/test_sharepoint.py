"""A plan over a SharePoint that changes: what was added, changed, renamed or deleted, and what outages must not do."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from ipaddress import ip_network
from typing import Any

import pytest
import pytest_asyncio
from tests.plans import NO_GUARD, ONCE, Planner
from tests.sharepoint_app import app_settings
from tests.sharepoint_content import StoredLibrary, canvas, ice_creams, text_box
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, SharePointServer, running_sharepoint

from scrubjay.api.crawlplans.repository import read_repository, show_repository
from scrubjay.app import open_scrubjay
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.plan import OperationState, Plan, RepositoryType
from scrubjay.services.plans import PlanValues
from scrubjay.settings import Settings
from scrubjay.sources.sharepoint import client

pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = [f"note{number}" for number in range(6)]


def words(about: str) -> bytes:
    return f"What there is to say about {about}, in a sentence that is long enough to be kept.\n".encode() * 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[SharePointServer]:
    async with running_sharepoint() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def planner(
    settings: Settings, server: SharePointServer, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Planner]:
    monkeypatch.setattr("scrubjay.app.resources.open_pool", lambda _: nullcontext(pool))
    monkeypatch.setattr(client, "_WAIT_SECONDS", (0.01, 0.02))
    ours = app_settings(server, settings.home)
    app = {name: getattr(ours, name) for name in type(ours).model_fields if name.startswith("sharepoint_")}
    chosen = settings.model_copy(update={"allowed_private_networks": (ip_network("127.0.0.0/8"),), **app})
    async with open_scrubjay(chosen, working=True) as jay:
        yield Planner(jay, await jay.access.open_as_admin(settings.home))


@pytest.fixture
def library(server: SharePointServer) -> StoredLibrary:
    documents = server.add_site().documents
    for name in NAMES:
        documents.put(f"notes/{name}.txt", words(name))
    return documents


async def make_plan(planner: Planner, server: SharePointServer, **more: Any) -> Plan:
    values = PlanValues(
        repository_type=RepositoryType.SHAREPOINT,
        repository_settings={"site_url": f"{server.url}/sites/demo", **more},
        schedule=ONCE,
        process_deletions=True,
        deletion=NO_GUARD,
        is_active=False,
    )
    return await planner.jay.plans.create(planner.who, values)


async def test_a_library_with_lists_and_pages_becomes_documents(
    planner: Planner, server: SharePointServer, library: StoredLibrary
) -> None:
    site = server.add_site()
    site.lists.append(ice_creams(site.path))
    site.pages.put(
        "Home.aspx", b"x", Title="Home", CanvasContent1=canvas(text_box(f"<p>{words('nests').decode()}</p>"))
    )
    plan = await make_plan(planner, server, lists=["Ice creams"], site_pages="/SitePages")

    run = await planner.run(plan)

    assert (run.state, run.status_message) == (OperationState.SUCCESS, None)
    assert run.objects_added == run.objects_success == 8
    said = await planner.documents(plan)
    assert "about note3" in said[f"{server.url}/sites/demo/Shared%20Documents/notes/note3.txt"]
    assert "### Vanilla" in next(text for url, text in said.items() if "Lists" in url)
    assert "about nests" in next(text for url, text in said.items() if url.endswith("Home.aspx"))
    await planner.index_agrees()


async def test_a_plan_of_the_v1_door_reads_lists_without_files_and_shows_no_secret(
    planner: Planner, server: SharePointServer, library: StoredLibrary
) -> None:
    site = server.add_site()
    site.lists.append(ice_creams(site.path))
    said = {"SiteUrl": f"{server.url}{site.path}", "Files": False, "Lists": ["Ice creams"], "TenantId": TENANT,
            "ClientId": CLIENT_ID, "ClientSecret": CLIENT_SECRET}  # fmt: skip
    kind, settings = read_repository("SharePoint", said)
    assert kind == RepositoryType.SHAREPOINT
    plan = await make_plan(planner, server, **settings)

    run = await planner.run(plan)

    assert (run.state, run.objects_added) == (OperationState.SUCCESS, 1)
    assert CLIENT_SECRET not in str(plan.repository_settings)
    shown = show_repository(plan)
    assert "ClientSecret" not in shown
    assert (shown["SiteUrl"], shown["Files"]) == (f"{server.url}{site.path}", False)


async def test_the_next_run_reads_only_what_changed_and_a_renamed_file_is_one_document(
    planner: Planner, server: SharePointServer, library: StoredLibrary
) -> None:
    plan = await make_plan(planner, server)
    await planner.run(plan)
    library.put("notes/note1.txt", words("acorns and beetles"))
    library.put("notes/new.txt", words("new"))
    library.rename("notes/note2.txt", "notes/renamed.txt")
    library.rename("notes/note3.txt", "elsewhere.txt")
    library.remove("notes/note4.txt")
    server.requests.clear()

    run = await planner.run(plan)

    assert (run.objects_added, run.objects_updated, run.objects_deleted) == (3, 1, 3)
    assert len(server.asked("$value")) == 4
    said = await planner.documents(plan)
    names = {url.rpartition("/")[2] for url in said}
    assert names == {"note0.txt", "note1.txt", "note5.txt", "new.txt", "renamed.txt", "elsewhere.txt"}
    assert "beetles" in next(text for url, text in said.items() if url.endswith("note1.txt"))
    await planner.index_agrees()


@pytest.mark.parametrize("outage", ["half way", "forbidden", "revoked", "sign-in page", "renamed library"])
async def test_an_outage_fails_the_run_and_removes_nothing(
    planner: Planner, server: SharePointServer, library: StoredLibrary, outage: str
) -> None:
    plan = await make_plan(planner, server)
    await planner.run(plan)
    before = await planner.documents(plan)
    server.page_size = 3
    if outage == "half way":
        server.fault("$skiptoken", 500, times=99)
    elif outage == "forbidden":
        server.fault("_api", 403, times=99)
    elif outage == "revoked":
        server.revoke_tokens()
        server.token_refusal = ("AADSTS65001", "No consent.")
    elif outage == "sign-in page":
        server.fault("_api", 200, times=99, body="<html>Sign in</html>")
    else:
        library.root = "/sites/demo/Archive"

    run = await planner.run(plan)

    assert run.state is OperationState.FAILED
    assert run.status_message
    assert run.objects_deleted == 0
    assert await planner.documents(plan) == before

    server.faults.clear()
    server.token_refusal, library.root = None, "/sites/demo/Shared Documents"
    again = await planner.run(plan)
    assert (again.state, again.objects_unchanged) == (OperationState.SUCCESS, len(NAMES))


async def test_a_file_that_cannot_be_read_fails_alone_and_is_tried_again(
    planner: Planner, server: SharePointServer, library: StoredLibrary
) -> None:
    server.unreadable.add(library.at("notes/note1.txt").path)
    plan = await make_plan(planner, server)

    first = await planner.run(plan)
    assert (first.objects_success, first.objects_failed) == (len(NAMES) - 1, 1)

    server.unreadable.clear()
    await planner.run(plan)
    assert len(await planner.documents(plan)) == len(NAMES)


async def test_throttling_and_an_expired_token_in_the_middle_cost_time_only(
    planner: Planner, server: SharePointServer, library: StoredLibrary
) -> None:
    server.page_size = 2
    server.fault("$skiptoken", 429, times=2, Retry_After="1")
    server.fault("$value", 429, times=2, Retry_After="1", skip=1)
    server.fault("$value", 401, skip=3)
    plan = await make_plan(planner, server)

    run = await planner.run(plan)

    assert (run.state, run.objects_success, run.objects_failed) == (OperationState.SUCCESS, len(NAMES), 0)
