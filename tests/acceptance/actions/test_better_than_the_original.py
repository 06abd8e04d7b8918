"""The contract's list of what `/v2` and `/openai` do better, as their clients see it; a test is named after each."""

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.actions.asking import call, check_stream, reached, read_events
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.openai_door.conftest import Served, remote
from tests.acceptance.rag.conftest import working_settings
from tests.openai_server import WORDS
from tests.sharepoint_app import app_settings
from tests.sharepoint_content import canvas, text_box
from tests.sharepoint_server import SharePointServer, running_sharepoint

__all__ = ["remote"]
pytestmark = pytest.mark.asyncio(loop_scope="module")

NAMES = ("acorns.txt", "caches.txt", "nests.txt")
STEPS = ("download_data", "process_data", "embed_data", "crawl")


def words(about: str) -> bytes:
    return f"What there is to say about {about}, in a sentence that is long enough to be kept.\n".encode() * 4


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sharepoint() -> AsyncIterator[SharePointServer]:
    async with running_sharepoint() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path], sharepoint: SharePointServer
) -> AsyncIterator[House]:
    """A working house whose operator has an app that may read the SharePoint."""
    folder = tmp_path_factory.mktemp("library") / "home"
    settings = working_settings(folder, migrated_databases)
    app = app_settings(sharepoint, folder)
    names = [name for name in type(app).model_fields if name.startswith("sharepoint_")]
    settings = settings.model_copy(update={name: getattr(app, name) for name in names})
    async with open_house(settings, working=True) as house:
        yield house


@pytest_asyncio.fixture(loop_scope="module")
async def owner(library: House) -> Key:
    """An admin of the default tenant, to which the app belongs."""
    return await library.key()


class Shelf:
    """One domain on a SharePoint site of its own."""

    def __init__(self, house: House, key: Key, server: SharePointServer, name: str) -> None:
        self.house, self.key, self.name = house, key, name
        self.site = server.add_site(f"/sites/{name}")
        self.site_url = f"{server.url}/sites/{name}"
        self.store_id = ""

    async def create(self) -> None:
        source = {"source_id": "s", "site_url": self.site_url}
        body = {
            "domain_id": self.name,
            "file_sources": [{**source, "sharepoint_url_part": "/Shared Documents"}],
            "sitepage_sources": [{**source, "sharepoint_url_part": "/SitePages"}],
        }
        made = await call(self.house, "POST", "domains/create", self.key, json=body)
        self.store_id = made["vector_store_id"]

    async def crawl(self, mode: str, scope: str = "files") -> dict[str, Any]:
        query = f"domain_id={self.name}&mode={mode}&scope={scope}&format=stream"
        answer = await self.house.ask("GET", f"/v2/crawler/crawl?{query}", self.key, timeout=60)
        end = check_stream(read_events(answer.text))
        assert end["result"]["ok"], end
        return dict(end["result"]["data"])

    async def stored(self) -> list[str]:
        """The names of what is in the vector store, each as often as it is there."""
        path = f"inventory/vector_stores/files?vector_store_id={self.store_id}"
        names = []
        for item in await call(self.house, "GET", path, self.key):
            file = await call(self.house, "GET", f"inventory/files/get?file_id={item['id']}", self.key)
            names.append(str(file["filename"]))
        return sorted(names)

    async def sources(self, text: str) -> list[dict[str, Any]]:
        body = {"data": {"query": text, "vsid": self.store_id, "results": 50}}
        answer = await self.house.ask("POST", "/query", self.key, json=body)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["data"]["sources"])


@pytest_asyncio.fixture(loop_scope="module")
async def shelf(library: House, owner: Key, sharepoint: SharePointServer, request: pytest.FixtureRequest) -> Shelf:
    shelf = Shelf(library, owner, sharepoint, request.node.name.removeprefix("test_")[:40].strip("_"))
    for name in NAMES:
        shelf.site.documents.put(name, words(name))
    await shelf.create()
    return shelf


async def test_full_mode_never_duplicates_vectors(shelf: Shelf) -> None:
    await shelf.crawl("full")
    once = await shelf.sources("what there is to say")
    assert len(once) >= len(NAMES)
    await shelf.crawl("full")
    await shelf.crawl("full")
    assert await shelf.stored() == sorted(NAMES)
    assert len(await shelf.sources("what there is to say")) == len(once)


async def test_incremental_removes_vectors_of_deleted_and_renamed_files(shelf: Shelf) -> None:
    await shelf.crawl("full")
    shelf.site.documents.remove("acorns.txt")
    shelf.site.documents.rename("caches.txt", "hoards.txt")
    done = await shelf.crawl("incremental")
    assert (done["embed"]["added"], done["embed"]["removed"]) == (1, 2)
    assert await shelf.stored() == ["hoards.txt", "nests.txt"]
    found = {source["metadata"]["filename"] for source in await shelf.sources("what there is to say")}
    assert found == {"hoards.txt", "nests.txt"}


async def test_aspx_pages_are_crawled(shelf: Shelf) -> None:
    text = canvas(text_box(f"<p>{words('the observatory').decode()}</p>"))
    shelf.site.pages.put("Home.aspx", b"x", Title="Home of the jays", CanvasContent1=text)
    for mode in ("full", "incremental"):
        await shelf.crawl(mode, scope="sitepages")
        assert await shelf.stored() == ["Home.html"]
    (source, *_) = await shelf.sources("the observatory")
    assert "about the observatory" in source["data"]
    assert source["source"] == f"{shelf.site_url}/SitePages/Home.aspx"


async def test_metadata_has_url(shelf: Shelf, library: House, owner: Key) -> None:
    await shelf.crawl("full")
    sources = await shelf.sources("what there is to say")
    assert {source["metadata"]["url"] for source in sources} == {
        f"{shelf.site_url}/Shared%20Documents/{name}" for name in NAMES
    }
    assert all(source["source"] == source["metadata"]["url"] for source in sources)


async def test_crawl_with_format_json_works(shelf: Shelf, library: House, owner: Key) -> None:
    job = await call(library, "GET", f"crawler/crawl?domain_id={shelf.name}&scope=files&format=json", owner)
    await reached(library, owner, job["job_id"], "completed")
    result = await call(library, "GET", f"jobs/results?job_id={job['job_id']}", owner)
    assert (result["ok"], result["data"]["embed"]["added"]) == (True, len(NAMES))
    assert await shelf.stored() == sorted(NAMES)


async def test_an_unknown_domain_is_404(library: House, owner: Key) -> None:
    paths = [f"crawler/{step}?domain_id=NOWHERE" for step in STEPS]
    for path in ("domains/get?domain_id=NOWHERE", "domains/delete?domain_id=NOWHERE", *paths):
        for format_ in ("json", "html", *(() if "/get" in path else ("stream",))):
            answer = await library.ask("GET", f"/v2/{path}&format={format_}", owner)
            assert answer.status_code == 404, (path, format_)
            assert ("Domain 'NOWHERE' not found." if format_ != "html" else "Domain &#39;NOWHERE&#39;") in answer.text
    answer = await library.ask("PUT", "/v2/domains/update?domain_id=NOWHERE", owner, json={"name": "x"})
    assert answer.json() == {"ok": False, "error": "Domain 'NOWHERE' not found.", "data": {}}
    assert answer.status_code == 404


async def test_the_proxy_streams(remote: Served) -> None:
    """The first words are here before upstream has said the last."""
    assert remote.upstream is not None
    remote.upstream.word_seconds = 0.1
    moments, said = [], []
    async with remote.client(await remote.house.key()) as client:
        question: Any = [{"role": "user", "content": "Where are the acorns?"}]
        async for chunk in await client.chat.completions.create(model="m", messages=question, stream=True):
            said.append(chunk.choices[0].delta.content or "")
            moments.append(time.monotonic())
    assert "".join(said) == "".join(WORDS)
    assert moments[-1] - moments[0] > 0.3


async def test_the_app_of_the_operator_reads_nothing_for_other_tenants(
    library: House, sharepoint: SharePointServer
) -> None:
    """Whoever may make domains in another tenant must not read the company's SharePoint through ours."""
    shelf = Shelf(library, await library.key(tenant="not the company"), sharepoint, "PRIVATE")
    shelf.site.documents.put("salaries.txt", words("salaries"))
    shelf.site.pages.put("Board.aspx", b"x", Title="Board", CanvasContent1=canvas(text_box("<p>secret</p>")))
    await shelf.create()
    asked = len(sharepoint.asked("/sites/PRIVATE"))
    query = "domain_id=PRIVATE&format=stream"
    answer = await library.ask("GET", f"/v2/crawler/crawl?{query}", shelf.key, timeout=60)
    end = check_stream(read_events(answer.text))
    assert end["result"]["ok"] is False
    assert "files/s: The SharePoint app belongs to the default tenant." in end["result"]["error"]
    assert len(sharepoint.asked("/sites/PRIVATE")) == asked == 0
    assert await shelf.stored() == []
