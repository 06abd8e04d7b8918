"""SharePoint as a plan's source: files, lists and pages by their keys, a plan's own app, settings that are wrong."""

import base64
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.sharepoint_app import make_certificate
from tests.sharepoint_content import canvas, ice_creams, text_box
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, SharePointServer, StoredSite, running_sharepoint
from tests.sources import SharePointSource, Workplace

from scrubjay.errors import FetchFailed, InvalidRequest
from scrubjay.sources.sharepoint.source import SHAREPOINT

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def server() -> AsyncIterator[SharePointServer]:
    async with running_sharepoint() as running:
        yield running


@pytest.fixture
def place(house: Workplace, server: SharePointServer) -> Workplace:
    return SharePointSource(server).place(house)


def wanted(server: SharePointServer, **more: Any) -> dict[str, Any]:
    return {"site_url": f"{server.url}/sites/demo", **more}


async def test_files_pages_and_lists_are_one_source(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    stored.documents.put("notes/a.txt", b"acorn")
    stored.pages.put("Home.aspx", b"x", Title="Home", CanvasContent1=canvas(text_box("<p>Welcome.</p>")))
    stored.lists.append(ice_creams(stored.path))

    settings = wanted(server, site_pages="/SitePages", lists=["Ice creams"])
    async with place.opened(SHAREPOINT, **settings) as connector:
        items = await place.by_key(connector)
        contents = {key: await connector.read(item) for key, item in items.items()}
        assert (await connector.check()).works

    file, page, listed = (
        "/sites/demo/Shared Documents/notes/a.txt",
        "/sites/demo/SitePages/Home.aspx",
        "list:Ice creams",
    )
    assert set(items) == {file, page, listed}
    assert contents[file].data == b"acorn"
    assert contents[file].url == f"{server.url}/sites/demo/Shared%20Documents/notes/a.txt"
    assert (contents[page].title, contents[page].markdown) == ("Home", "# Home\n\nWelcome.\n")
    assert "### Vanilla" in (contents[listed].markdown or "")
    assert len({content.url for content in contents.values()}) == 3


async def test_a_list_has_changed_when_an_item_was_added_changed_or_deleted(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    ices = ice_creams(stored.path)
    stored.lists.append(ices)
    prints = []
    async with place.opened(SHAREPOINT, **wanted(server, files=False, lists=["Ice creams"])) as connector:
        for change in (lambda: None, lambda: ices.add_row(**ices.items[1].columns), lambda: ices.items.popitem()):
            change()
            prints.append((await place.by_key(connector))["list:Ice creams"].fingerprint)
        prints.append((await place.by_key(connector))["list:Ice creams"].fingerprint)

    assert prints[0] != prints[1] != prints[2] == prints[3]


async def test_a_list_that_is_gone_fails_the_whole_listing(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    stored.documents.put("a.txt", b"acorn")
    async with place.opened(SHAREPOINT, **wanted(server, lists=["Nowhere"])) as connector:
        with pytest.raises(FetchFailed, match="'Nowhere'"):
            await place.list(connector)
        assert "'Nowhere'" in (await connector.check()).message


async def test_a_file_that_sharepoint_shows_without_content_is_unreadable_and_not_gone(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    stored.documents.put("a.txt", b"acorn").has_file = False
    async with place.opened(SHAREPOINT, **wanted(server)) as connector:
        (item,) = await place.list(connector)

    assert item.problem is not None
    assert not item.problem.is_gone


async def test_a_file_above_the_limit_fails_for_itself(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    stored.documents.put("large.bin", b"x" * 1000)
    stored.documents.put("huge.bin", 200_000)
    async with place.opened(SHAREPOINT, **wanted(server, max_bytes=999)) as connector:
        for item in await place.list(connector):
            with pytest.raises(FetchFailed) as failed:
                await connector.read(item)
            assert failed.value.error_type == "too_large"


async def test_cancelling_in_the_middle_of_throttling_ends_the_listing_at_once(
    place: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    stored.documents.fill((f"{number}.txt" for number in range(30)), b"acorn")
    server.page_size = 10
    server.fault("$skiptoken", 429, times=99, Retry_After="600")
    async with place.opened(SHAREPOINT, **wanted(server)) as connector:
        seen = await place.list_until_cancelled(connector)

    assert len(seen) < 30


@pytest.mark.parametrize("by", ["secret", "certificate"])
async def test_a_plan_may_have_an_app_of_its_own(
    house: Workplace, server: SharePointServer, stored: StoredSite, by: str
) -> None:
    stored.documents.put("a.txt", b"acorn")
    data, certificate = make_certificate()
    server.trust(certificate)
    secret = (
        {"client_secret": CLIENT_SECRET}
        if by == "secret"
        else {"certificate_pfx": base64.b64encode(data).decode(), "certificate_password": "secret"}
    )
    place = house.with_settings(sharepoint_authority_url=server.url)
    async with place.opened(SHAREPOINT, **wanted(server, tenant_id=TENANT, client_id=CLIENT_ID, **secret)) as connector:
        assert len(await place.list(connector)) == 1


async def test_without_any_app_the_check_names_the_settings(
    house: Workplace, server: SharePointServer, stored: StoredSite
) -> None:
    async with house.opened(SHAREPOINT, **wanted(server)) as connector:
        connectivity = await connector.check()

    assert not connectivity.works
    assert "CRAWLER_CLIENT_ID" in connectivity.message
    assert server.requests == []


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"client_id": CLIENT_ID}, "client_id"),
        ({"client_secret": "x"}, "client_id"),
        ({"tenant_id": TENANT, "client_id": CLIENT_ID, "certificate_pfx": "§"}, "certificate_pfx"),
        ({"files": False}, "files"),
    ],
)
async def test_half_an_app_or_nothing_to_read_is_refused_by_its_field(
    place: Workplace, server: SharePointServer, more: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequest) as refused:
        place.open(SHAREPOINT, wanted(server, **more))
    assert refused.value.details["field"] == field


@pytest.mark.parametrize(
    "bad",
    [
        {"site_url": "acme"},
        {"site_url": "https://a:b@acme.org/"},
        {"library": "/Shared Documents/../x"},
        {"site_pages": "a\0b"},
        {"lists": ["A", "a"]},
        {"lists": [""]},
        {"library": ""},
        {"max_bytes": 0},
        {"tenant_id": "a/b"},
        {"client_id": "a b"},
        {"filter": "x" * 2001},
    ],
)
async def test_settings_that_are_wrong_are_refused(bad: dict[str, Any]) -> None:
    (name,) = bad
    with pytest.raises(ValueError) as refused:
        SHAREPOINT.read_settings(bad)
    assert name in str(refused.value)


async def test_the_deployments_app_reads_for_its_own_tenant_only(place: Workplace, server: SharePointServer) -> None:
    stranger = Workplace(place.tools, "ten_strangers")
    with pytest.raises(InvalidRequest, match="an app of their own"):
        stranger.open(SHAREPOINT, wanted(server))
