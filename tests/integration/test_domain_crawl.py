"""Domains crawled from SharePoint and the web: after every step maps, disk and vector store agree, whatever happens."""

import csv
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import nullcontext
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.sharepoint_app import app_settings
from tests.sharepoint_content import StoredLibrary, canvas, ice_creams, text_box
from tests.sharepoint_server import SharePointServer, running_sharepoint
from tests.site import Site, running_site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.documents.cleanup import retire
from scrubjay.documents.uploads import INGEST_KIND
from scrubjay.domains.folders import EMBEDDED, FAILED
from scrubjay.domains.maps import COLUMNS, FILES_MAP, SHAREPOINT_MAP, VECTORSTORE_MAP
from scrubjay.domains.orders import (
    CRAWL_KIND,
    DOWNLOAD_KIND,
    EMBED_KIND,
    PROCESS_KIND,
    CrawlScope,
    DomainCrawlMode,
    DomainCrawlOrder,
)
from scrubjay.errors import Conflict
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.content import Document, IncomingDocument, IngestOutcome
from scrubjay.model.job import Job, JobState
from scrubjay.model.plan import Fate, Plan
from scrubjay.model.search import SearchRequest
from scrubjay.model.tenant import Principal
from scrubjay.openai.ids import collection_id_of
from scrubjay.openai.protocol import StoreSearch
from scrubjay.settings import Settings
from scrubjay.sources.sharepoint import client
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.inventory import VectorStoreFiles
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans

pytestmark = pytest.mark.asyncio(loop_scope="module")

DOMAIN = "DOMAIN01"
NAMES = [f"note{number}.txt" for number in range(5)]


def words(about: str) -> bytes:
    return f"What there is to say about {about}, in a sentence that is long enough to be kept.\n".encode() * 4


class Librarian:
    """A domain with one of each source, and whatever a test asks about it."""

    def __init__(self, jay: Scrubjay, who: Principal, server: SharePointServer, site: Site) -> None:
        self.jay, self.who, self.server, self.site = jay, who, server, site
        self.store_id = ""
        self.root = jay.settings.resolved_storage_folder / who.tenant_id

    async def found(self, **sources: Any) -> None:
        self.store_id = str((await self.jay.inventory.create_vector_store(self.who, {"name": DOMAIN}))["id"])
        folder = self.root / "domains" / DOMAIN
        folder.mkdir(parents=True, exist_ok=True)
        definition = {"name": "A domain", "vector_store_id": self.store_id, **sources}
        (folder / "domain.json").write_text(json.dumps(definition))

    @property
    def file_source(self) -> dict[str, str]:
        url = f"{self.server.url}/sites/demo"
        return {"source_id": "source01", "site_url": url, "sharepoint_url_part": "/Shared Documents", "filter": ""}

    async def crawl(
        self, mode: DomainCrawlMode = DomainCrawlMode.INCREMENTAL, kind: str = CRAWL_KIND, **order: Any
    ) -> Job:
        payload = DomainCrawlOrder(domain_id=DOMAIN, mode=mode, **order).dump()
        job = await self.jay.jobs.submit(self.who, kind, payload, max_retries=0)

        async def over() -> Job | None:
            seen = await self.jay.jobs.get(self.who, job.id)
            return seen if seen.is_finished else None

        done: Job = await wait_until(over, "the crawl has ended", seconds=60)
        return done

    async def done(self, *args: Any, **order: Any) -> Mapping[str, Any]:
        job = await self.crawl(*args, **order)
        result = job.result or {}
        data: Mapping[str, Any] = result["data"]
        assert result["ok"] is not any("errors" in data.get(step, {}) for step in ("download", "process", "embed"))
        assert job.state is (JobState.COMPLETED if result["ok"] else JobState.FAILED), job.error
        return data

    def folder(self, kind: str = "01_files", source: str = "source01") -> Path:
        return self.root / "crawler" / DOMAIN / kind / source

    def map(self, name: str, kind: str = "01_files", source: str = "source01") -> list[dict[str, str]]:
        with (self.folder(kind, source) / name).open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            rows = list(reader)
            assert tuple(reader.fieldnames or ()) == COLUMNS[name]
        return rows

    def files(self, stage: str, kind: str = "01_files", source: str = "source01") -> set[str]:
        folder = self.folder(kind, source) / stage
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    async def stored(self) -> dict[str, dict[str, Any]]:
        items = await self.jay.inventory.all_store_files(self.who, self.store_id)
        return {str(item["id"]): item for item in items}

    async def agree(self, kind: str = "01_files", source: str = "source01") -> None:
        """The expected outcome of the specification, for a source whose every file could be fetched."""
        listed = self.map(SHAREPOINT_MAP, kind, source)
        kept = self.map(FILES_MAP, kind, source)
        embedded = self.map(VECTORSTORE_MAP, kind, source)
        assert len(listed) == len(kept)
        paths = {row["file_relative_path"] for row in kept}
        on_disk = {
            "\\".join((DOMAIN, kind, source, stage, *Path(name).parts))
            for stage in (EMBEDDED, FAILED)
            for name in self.files(stage, kind, source)
        }
        assert paths == on_disk
        assert {row["file_relative_path"] for row in embedded} == paths
        stored = await self.stored()
        own = {
            file_id
            for file_id, item in stored.items()
            if item["attributes"].get("scrubjay_source") == f"{DOMAIN}/{kind}/{source}"
        }
        assert {row["openai_file_id"] for row in embedded if row["openai_file_id"]} == own
        assert all(stored[file_id]["status"] == "completed" for file_id in own)

    async def search(self, query: str) -> set[str]:
        found = await self.jay.inventory.search(self.who, self.store_id, StoreSearch(queries=(query,), limit=50))
        return {str(item["filename"]) for item in found}

    async def documents(self) -> dict[str, Document]:
        """URL → document, of those in the store, deleted ones too."""
        async with self.jay.database.reading() as connection:
            mine = DocumentRow.collection_id == collection_id_of(self.store_id)
            rows = (await Documents(connection).page(mine, limit=500)).items
        assert len({row.url for row in rows}) == len(rows)
        return {row.url: row for row in rows}

    async def plans(self) -> list[Plan]:
        """Those of sources."""
        async with self.jay.database.reading() as connection:
            return [plan for plan in await Plans(connection).all() if plan.ingestion_settings.keeps_files]

    async def ingest_jobs(self) -> int:
        return (await self.jay.jobs.page(self.who, kind=INGEST_KIND, limit=1)).total

    def metadata(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = json.loads((self.root / "domains" / DOMAIN / "files_metadata.json").read_text())
        return entries


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1) as pool:
        yield pool


@pytest_asyncio.fixture(loop_scope="module")
async def librarian(
    settings: Settings, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Librarian]:
    monkeypatch.setattr("scrubjay.app.resources.open_pool", lambda _: nullcontext(pool))
    monkeypatch.setattr(client, "_WAIT_SECONDS", (0.01, 0.02))
    async with running_sharepoint() as server, running_site(pages=6) as site:
        ours = app_settings(server, settings.home)
        app = {name: getattr(ours, name) for name in type(ours).model_fields if name.startswith("sharepoint_")}
        chosen = settings.model_copy(update={"allowed_private_networks": (ip_network("127.0.0.0/8"),), **app})
        async with open_scrubjay(chosen, working=True) as jay:
            yield Librarian(jay, await jay.access.open_as_admin(settings.home), server, site)


@pytest.fixture
def library(librarian: Librarian) -> StoredLibrary:
    documents = librarian.server.add_site().documents
    for name in NAMES:
        documents.put(f"Reports/{name}", words(name))
    return documents


async def test_a_full_crawl_of_every_kind_of_source(librarian: Librarian, library: StoredLibrary) -> None:
    stored = librarian.server.add_site()
    stored.lists.append(ice_creams(stored.path))
    stored.pages.put(
        "Home.aspx", b"x", Title="Home", CanvasContent1=canvas(text_box(f"<p>{words('nests').decode()}</p>"))
    )
    site_url = f"{librarian.server.url}/sites/demo"
    await librarian.found(
        file_sources=[librarian.file_source],
        list_sources=[{"source_id": "ices", "site_url": site_url, "list_name": "Ice creams", "filter": ""}],
        sitepage_sources=[{"source_id": "pages", "site_url": site_url, "sharepoint_url_part": "/SitePages"}],
        web_sources=[{"source_id": "web", "start_url": librarian.site.url, "max_pages": 3}],
    )
    done = await librarian.done(DomainCrawlMode.FULL)
    assert done["download"]["sources"].keys() == {"files/source01", "lists/ices", "sitepages/pages", "web/web"}
    assert (done["download"]["added"], done["download"]["failed"]) == (10, 0)
    assert done["embed"]["added"] == done["embed"]["files_metadata"] == 10
    for kind, source in (("01_files", "source01"), ("02_lists", "ices"), ("03_sitepages", "pages"), ("04_web", "web")):
        await librarian.agree(kind, source)
    assert librarian.files(EMBEDDED) == {f"Reports/{name}" for name in NAMES}
    [row] = [row for row in librarian.map(FILES_MAP) if row["file_relative_path"].endswith("note3.txt")]
    assert row["file_relative_path"] == "DOMAIN01\\01_files\\source01\\02_embedded\\Reports\\note3.txt"
    listed = next(row for row in librarian.map(SHAREPOINT_MAP) if row["filename"] == "note3.txt")
    assert row["last_modified_utc"] == listed["last_modified_utc"]
    modified = (librarian.folder() / EMBEDDED / "Reports" / "note3.txt").stat().st_mtime
    assert int(modified) == int(listed["last_modified_timestamp"])
    markdown = (librarian.folder("02_lists", "ices") / EMBEDDED / "Ice creams.md").read_text()
    assert markdown.startswith("# Ice creams\n\n### ")
    assert librarian.files("01_originals", "02_lists", "ices") == {"Ice creams.csv"}
    page = (librarian.folder("03_sitepages", "pages") / EMBEDDED / "Home.html").read_text()
    assert "about nests" in page
    assert "note3.txt" in await librarian.search("about note3")
    [entry] = [entry for entry in librarian.metadata() if entry["filename"] == "note3.txt"]
    assert entry["url"] == f"{site_url}/Shared%20Documents/Reports/note3.txt"
    assert (entry["source_id"], entry["source_type"]) == ("source01", "file_sources")
    assert entry["openai_file_id"] in await librarian.stored()


async def test_full_twice_gives_the_same_number_of_vectors_as_once(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    once = len(await librarian.stored())
    await librarian.done(DomainCrawlMode.FULL)
    assert len(await librarian.stored()) == once == len(NAMES)
    await librarian.agree()


async def test_an_incremental_crawl_takes_only_what_changed_and_removes_what_is_gone(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    first = await librarian.done(DomainCrawlMode.INCREMENTAL)  # nothing to compare with: everything
    assert first["download"]["added"] == len(NAMES)
    library.put("Reports/new.txt", words("novelty"))
    library.put("Reports/note0.txt", words("quite other things"))
    library.remove("Reports/note1.txt")
    library.rename("Reports/note2.txt", "Reports/renamed.txt")
    downloads = len(librarian.server.asked("$value"))
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    counts = {name: done["download"][name] for name in ("added", "changed", "removed", "unchanged", "failed")}
    assert counts == {"added": 2, "changed": 1, "removed": 2, "unchanged": 2, "failed": 0}
    assert {name: done["embed"][name] for name in counts} == counts
    assert len(librarian.server.asked("$value")) - downloads <= 3
    await librarian.agree()
    assert librarian.files(EMBEDDED) == {
        "Reports/note0.txt", "Reports/note3.txt", "Reports/note4.txt", "Reports/new.txt", "Reports/renamed.txt",
    }  # fmt: skip
    found = await librarian.search("What there is to say")
    assert "renamed.txt" in found
    assert not found & {"note1.txt", "note2.txt"}
    again = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert again["download"]["unchanged"] == again["embed"]["unchanged"] == 5


async def test_a_listing_that_fails_removes_nothing(librarian: Librarian, library: StoredLibrary) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    for mode in DomainCrawlMode:
        librarian.server.fault("/items", 500, times=50)
        done = await librarian.done(mode)
        assert "files/source01" in done["download"]["errors"]
        assert librarian.files(EMBEDDED) == {f"Reports/{name}" for name in NAMES}
        assert len(librarian.map(SHAREPOINT_MAP)) == len(NAMES)
        librarian.server.faults.clear()
    assert len(await librarian.stored()) == len(NAMES)
    assert "note3.txt" in await librarian.search("about note3")


async def test_a_file_that_cannot_be_downloaded_is_a_row_without_a_path_and_is_tried_again(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    librarian.server.fault("note1.txt", 403, times=50)
    done = await librarian.done(DomainCrawlMode.FULL)
    assert (done["download"]["failed"], done["embed"]["added"]) == (1, 4)
    [row] = [row for row in librarian.map(FILES_MAP) if row["sharepoint_error"]]
    assert row["file_relative_path"] == ""
    assert len(librarian.map(SHAREPOINT_MAP)) == len(librarian.map(FILES_MAP)) == len(NAMES)
    librarian.server.faults.clear()
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert (done["download"]["added"], done["embed"]["added"]) == (1, 1)
    await librarian.agree()


async def test_a_file_that_cannot_be_embedded_is_moved_with_its_error(
    librarian: Librarian, library: StoredLibrary
) -> None:
    library.put("Reports/broken.pdf", b"%PDF-1.7 not really")
    await librarian.found(file_sources=[librarian.file_source])
    done = await librarian.done(DomainCrawlMode.FULL)
    assert done["embed"]["failed"] == 1
    assert librarian.files(FAILED) == {"Reports/broken.pdf"}
    assert "Reports/broken.pdf" not in librarian.files(EMBEDDED)
    [row] = [row for row in librarian.map(VECTORSTORE_MAP) if row["embedding_error"]]
    assert row["file_relative_path"] == "DOMAIN01\\01_files\\source01\\03_failed\\Reports\\broken.pdf"
    assert (row["openai_file_id"], row["vector_store_id"]) == ("", "")
    await librarian.agree()
    again = await librarian.done(DomainCrawlMode.INCREMENTAL)  # it is left alone until it changes
    assert (again["download"]["unchanged"], again["embed"]["failed"]) == (len(NAMES) + 1, 0)
    assert librarian.files(FAILED) == {"Reports/broken.pdf"}
    library.put("Reports/broken.pdf", words("something readable"))
    library.rename("Reports/broken.pdf", "Reports/mended.txt")
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert librarian.files(FAILED) == set()
    await librarian.agree()


async def test_steps_scopes_and_dry_runs(librarian: Librarian, library: StoredLibrary) -> None:
    other = {"source_id": "web", "start_url": librarian.site.url, "max_pages": 2}
    await librarian.found(file_sources=[librarian.file_source], web_sources=[other])
    dry = await librarian.done(DomainCrawlMode.FULL, dry_run=True)
    assert dry["download"]["added"] == len(NAMES) + 2
    assert not (librarian.root / "crawler" / DOMAIN).exists()
    assert await librarian.stored() == {}
    only = {"scope": CrawlScope.FILES, "source_id": "source01"}
    await librarian.done(DomainCrawlMode.FULL, DOWNLOAD_KIND, **only)
    assert not librarian.folder("04_web", "web").exists()
    await librarian.done(DomainCrawlMode.FULL, PROCESS_KIND, **only)
    assert await librarian.stored() == {}
    await librarian.done(DomainCrawlMode.FULL, EMBED_KIND, **only)
    await librarian.agree()
    other_store = await librarian.jay.inventory.create_vector_store(librarian.who, {"name": "elsewhere"})
    await librarian.done(DomainCrawlMode.INCREMENTAL, EMBED_KIND, vector_store_id=other_store["id"], **only)
    assert len(await librarian.jay.inventory.all_store_files(librarian.who, other_store["id"])) == len(NAMES)


async def test_maps_that_people_broke_are_put_aside_and_everything_is_right_again(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    for name in (SHAREPOINT_MAP, FILES_MAP, VECTORSTORE_MAP):
        (librarian.folder() / name).write_bytes(b"\xff\xfe broken")
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    await librarian.agree()
    assert len(await librarian.stored()) == len(NAMES)
    assert len(list(librarian.folder().glob("*.broken-*"))) == 2  # of the third, nothing is ever read
    for row in (rows := librarian.map(FILES_MAP)):
        row["file_relative_path"] = "..\\..\\..\\etc\\passwd"
    with (librarian.folder() / FILES_MAP).open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS[FILES_MAP])
        writer.writeheader()
        writer.writerows(rows)
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    await librarian.agree()
    assert Path("/etc/passwd").exists()


async def test_what_somebody_added_to_the_metadata_stays(librarian: Librarian, library: StoredLibrary) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    path = librarian.root / "domains" / DOMAIN / "files_metadata.json"
    entries = librarian.metadata()
    for entry in entries:
        entry["topic"] = f"about {entry['filename']}"
    path.write_text(json.dumps(entries))
    library.rename("Reports/note0.txt", "Reports/other.txt")
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    topics = {entry["filename"]: entry["topic"] for entry in librarian.metadata()}
    assert topics == {"other.txt": "about note0.txt"} | {name: f"about {name}" for name in NAMES[1:]}


async def test_odd_names_are_kept_apart_below_the_folder(librarian: Librarian, library: StoredLibrary) -> None:
    odd = ["CON.txt", "Reports/ends with dot..txt", "x" * 180 + ".txt", "Übung – 🦜.txt"]
    for name in odd:
        library.put(name, words(name))
    await librarian.found(file_sources=[librarian.file_source])
    done = await librarian.done(DomainCrawlMode.FULL)
    assert (done["download"]["added"], done["download"]["failed"]) == (len(NAMES) + len(odd), 0)
    await librarian.agree()
    again = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert again["download"]["unchanged"] == len(NAMES) + len(odd)


async def test_a_store_or_a_domain_that_is_gone_ends_the_job_in_words(librarian: Librarian) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    job = await librarian.crawl(DomainCrawlMode.FULL, EMBED_KIND, vector_store_id="vs_nonsense")
    assert job.state is JobState.FAILED
    payload = DomainCrawlOrder(domain_id="NOBODYS").dump()
    job = await librarian.jay.jobs.submit(librarian.who, CRAWL_KIND, payload, max_retries=0)

    async def failed() -> bool:
        return (await librarian.jay.jobs.get(librarian.who, job.id)).state is JobState.FAILED

    await wait_until(failed, "it failed")
    assert (await librarian.jay.jobs.get(librarian.who, job.id)).error == "Domain 'NOBODYS' not found."


async def test_documents_of_a_domain_have_the_urls_that_their_files_were_fetched_from(
    librarian: Librarian, library: StoredLibrary
) -> None:
    web = {"source_id": "web", "start_url": librarian.site.url, "max_pages": 3}
    await librarian.found(file_sources=[librarian.file_source], web_sources=[web])
    await librarian.done(DomainCrawlMode.FULL)
    documents = await librarian.documents()
    listed = librarian.map(SHAREPOINT_MAP) + librarian.map(SHAREPOINT_MAP, "04_web", "web")
    assert set(documents) == {row["url"] for row in listed}
    assert all(document.host for document in documents.values())
    url = f"{librarian.server.url}/sites/demo/Shared%20Documents/Reports/note3.txt"
    [row] = [row for row in librarian.map(VECTORSTORE_MAP) if row["filename"] == "note3.txt"]
    body = await librarian.jay.inventory.file_body(librarian.who, row["openai_file_id"])
    assert b"".join([piece async for piece in body.chunks]) == words("note3.txt")
    stored = (await librarian.stored())[row["openai_file_id"]]
    assert (stored["status"], stored["attributes"]["url"]) == ("completed", url)
    found = await librarian.jay.search.search(librarian.who, SearchRequest(query="about note3"))
    assert url in {each.url for each in found.results}


async def test_embedding_a_file_again_makes_a_version_only_if_its_content_changed(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    first = await librarian.documents()
    await librarian.done(DomainCrawlMode.FULL)
    again = await librarian.documents()
    assert {each.id: each.version for each in again.values()} == {each.id: 1 for each in first.values()}
    library.put("Reports/note0.txt", words("quite other things"))
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    changed = await librarian.documents()
    url = next(url for url in first if url.endswith("note0.txt"))
    assert {url: each.id for url, each in changed.items()} == {url: each.id for url, each in first.items()}
    assert [each for each, document in changed.items() if document.version != 1] == [url]
    assert changed[url].version == 2
    await librarian.agree()


async def test_a_removed_file_retires_its_document_and_the_same_document_returns_with_it(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    url = next(url for url in await librarian.documents() if url.endswith("note1.txt"))
    library.remove("Reports/note1.txt")
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    removed = (await librarian.documents())[url]
    assert removed.deleted_at is not None
    assert "note1.txt" not in await librarian.search("about note1")
    library.put("Reports/note1.txt", words("note1.txt"))
    await librarian.done(DomainCrawlMode.INCREMENTAL)
    returned = (await librarian.documents())[url]
    assert (returned.id, returned.version, returned.deleted_at) == (removed.id, 1, None)
    await librarian.agree()
    assert "note1.txt" in await librarian.search("about note1")


async def test_a_changed_file_that_cannot_be_read_is_a_failed_file(
    librarian: Librarian, library: StoredLibrary
) -> None:
    library.put("Reports/report.pdf", words("a report"))
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    library.put("Reports/report.pdf", b"%PDF-1.7 not really")
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert done["embed"]["failed"] == 1
    assert librarian.files(FAILED) == {"Reports/report.pdf"}
    await librarian.agree()


async def test_two_sources_with_the_same_urls_in_one_store_do_not_replace_each_other(
    librarian: Librarian, library: StoredLibrary
) -> None:
    second = {**librarian.file_source, "source_id": "source02"}
    await librarian.found(file_sources=[librarian.file_source, second])
    for mode in (DomainCrawlMode.FULL, DomainCrawlMode.INCREMENTAL, DomainCrawlMode.FULL):
        done = await librarian.done(mode)
        assert done["embed"]["failed"] == 0
        for source in ("source01", "source02"):
            await librarian.agree("01_files", source)
    assert done["embed"]["unchanged"] == 0
    again = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert again["embed"]["unchanged"] == 2 * len(NAMES)


async def test_files_are_embedded_by_one_job_per_fifty_and_our_markdown_is_not_extracted_again(
    librarian: Librarian, pool: ExtractionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = librarian.server.add_site().documents
    for number in range(60):
        documents.put(f"note{number}.txt", words(f"number {number}"))
    await librarian.found(
        file_sources=[librarian.file_source],
        web_sources=[{"source_id": "web", "start_url": librarian.site.url, "max_pages": 3}],
    )
    await librarian.done(DomainCrawlMode.FULL, DOWNLOAD_KIND)
    await librarian.done(DomainCrawlMode.FULL, PROCESS_KIND)
    extracted: list[str] = []
    extract = pool.extract

    async def count(data: bytes, *, url: str, **options: Any) -> Any:
        extracted.append(url)
        return await extract(data, url=url, **options)

    monkeypatch.setattr(pool, "extract", count)
    await librarian.done(DomainCrawlMode.FULL, EMBED_KIND)
    assert await librarian.ingest_jobs() == 3
    assert len(extracted) == 60
    assert all(url.endswith(".txt") for url in extracted)
    assert len([each for each in (await librarian.documents()).values() if each.version == 1]) == 63


async def test_a_renamed_domain_fetches_nothing_again_and_a_deleted_one_leaves_no_plan(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    await librarian.jay.domains.update(librarian.who, DOMAIN, {"domain_id": "OTHER01"})
    asked = len(librarian.server.asked("$value"))
    order = DomainCrawlOrder(domain_id="OTHER01", mode=DomainCrawlMode.INCREMENTAL).dump()
    job = await librarian.jay.jobs.submit(librarian.who, DOWNLOAD_KIND, order, max_retries=0)

    async def over() -> bool:
        return (await librarian.jay.jobs.get(librarian.who, job.id)).is_finished

    await wait_until(over, "the crawl has ended", seconds=60)
    done = (await librarian.jay.jobs.get(librarian.who, job.id)).result or {}
    assert done["data"]["download"]["unchanged"] == len(NAMES)
    assert len(librarian.server.asked("$value")) == asked
    assert len(await librarian.plans()) == 1
    assert (await librarian.jay.plans.page(librarian.who, with_one_off=True)).items == []
    [plan] = await librarian.plans()
    with pytest.raises(Conflict, match="belongs to a domain"):
        await librarian.jay.plans.keep(librarian.who, plan.id, plan.schedule)
    await librarian.jay.domains.delete(librarian.who, "OTHER01")
    assert await librarian.plans() == []


async def test_the_download_of_a_source_is_a_run_with_a_report(librarian: Librarian, library: StoredLibrary) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    librarian.server.fault("note1.txt", 403, times=50)
    await librarian.done(DomainCrawlMode.FULL)
    [plan] = await librarian.plans()
    async with librarian.jay.database.reading() as connection:
        operation = await Operations(connection).newest(plan.id)
        assert operation is not None
        [failed] = await OperationItems(connection).problems(operation.id)
        known = await Ledger(connection).tally(plan.id)
    assert (operation.objects_success, operation.objects_failed, operation.is_complete) == (4, 1, True)
    assert failed.key.endswith("/Reports/note1.txt")
    assert "403" in (failed.error or "")
    assert known == {Fate.PRESENT: 4, Fate.FAILED: 1}


async def test_a_file_that_somebody_deleted_is_fetched_again(librarian: Librarian, library: StoredLibrary) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    (librarian.folder() / EMBEDDED / "Reports" / "note2.txt").unlink()
    dry = await librarian.done(DomainCrawlMode.INCREMENTAL, DOWNLOAD_KIND, dry_run=True)
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    for counts in (dry["download"], done["download"]):
        assert (counts["added"], counts["unchanged"], counts["removed"]) == (1, 4, 0)
    await librarian.agree()


async def test_a_changed_file_that_cannot_be_fetched_stays_as_it_was(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    library.put("Reports/note0.txt", words("quite other things"))
    librarian.server.fault("note0.txt", 403, times=50)
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert (done["download"]["failed"], done["embed"]["removed"]) == (1, 0)
    [row] = [row for row in librarian.map(FILES_MAP) if row["sharepoint_error"]]
    assert row["file_relative_path"].endswith("note0.txt")
    assert (librarian.folder() / EMBEDDED / "Reports" / "note0.txt").read_bytes() == words("note0.txt")
    librarian.server.faults.clear()
    done = await librarian.done(DomainCrawlMode.INCREMENTAL)
    assert done["embed"]["changed"] == 1
    await librarian.agree()
    assert not [row for row in librarian.map(FILES_MAP) if row["sharepoint_error"]]


async def test_a_file_that_is_removed_while_it_is_read_stays_removed(
    librarian: Librarian, library: StoredLibrary
) -> None:
    await librarian.found(file_sources=[librarian.file_source])
    await librarian.done(DomainCrawlMode.FULL)
    document = next(iter((await librarian.documents()).values()))
    read = IncomingDocument(
        tenant_id=document.tenant_id, url=document.url, source=document.source, markdown="What was read meanwhile.",
        document_id=document.id, reading_job_id="job_of_an_older_file", collection_id=document.collection_id,
    )  # fmt: skip
    ingester = librarian.jay._ground.ingester
    assert (await ingester.ingest(read)).outcome is IngestOutcome.REMOVED  # another job has read a newer file
    async with librarian.jay.database.writing() as connection:
        record = (await VectorStoreFiles(connection).by_documents(document.tenant_id, [document.id]))[document.id]
        await retire(connection, [document])
    ingested = await ingester.ingest(replace(read, reading_job_id=record.job_id))
    assert ingested.outcome is IngestOutcome.REMOVED
    assert (await librarian.documents())[document.url].deleted_at is not None
