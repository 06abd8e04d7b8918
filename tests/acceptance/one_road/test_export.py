"""A plan with an export: after every run, its files are what its documents are."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crawlplans.asking import make_plan, plan_body, run
from tests.acceptance.house import House, Key
from tests.acceptance.one_road.asking import crawl_site, documents
from tests.plans import article
from tests.site import Reply, Site
from warcio.archiveiterator import ArchiveIterator

pytestmark = pytest.mark.asyncio(loop_scope="module")


def fill(site: Site, **texts: str) -> str:
    """Make the site a home page and these pages; returns the home page's URL."""
    site.pages.clear()
    for name, text in texts.items():
        site.add(f"/{name}", Reply(article(name, "/", text=f"{text} " * 20), headers={"ETag": f'"{text}"'}))
    return site.add("/", article("home", *(f"/{name}" for name in texts)))


async def make_exporting(library: House, key: Key, url: str, kind: str, **values: Any) -> dict[str, Any]:
    return await make_plan(
        library, key, url, IngestionSettings={"Export": kind}, Deletion={"MaxMissingShare": 1}, ProcessDeletions=True,
        **values,
    )  # fmt: skip


def folder_of(library: House, plan: dict[str, Any]) -> Path:
    return library.jay.settings.resolved_export_folder / str(plan["Id"])


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def manifest_of(folder: Path) -> dict[str, dict[str, Any]]:
    lines = map(json.loads, (folder / "manifest.jsonl").read_text().splitlines())
    return {line["url"]: line for line in lines}


async def texts_of(library: House, key: Key) -> dict[str, tuple[int, str, str]]:
    """URL → version, content hash and text of every document of the tenant."""
    found = await documents(library, key)
    full = {url: await library.api("GET", f"/documents/{each['id']}", key) for url, each in found.items()}
    return {url: (each["version"], each["content_hash"], each["content"]) for url, each in full.items()}


async def check_markdown(library: House, key: Key, folder: Path) -> None:
    """The manifest and its files are exactly the tenant's documents, and there is nothing else."""
    told, manifest = await texts_of(library, key), manifest_of(folder)
    exported = {}
    for url, line in manifest.items():
        head, _, text = (folder / line["path"]).read_text().removeprefix("---\n").partition("\n---\n\n")
        assert f'url: "{url}"' in head
        assert f'content_sha256: "{line["content_sha256"]}"' in head
        exported[url] = (line["version"], line["content_sha256"], text.removesuffix("\n"))
    assert exported == told
    assert files_in(folder) == {"manifest.jsonl", *(line["path"] for line in manifest.values())}


async def test_markdown_follows_what_is_added_changed_and_removed(library: House, owner: Key, site: Site) -> None:
    url = fill(site, acorn="Acorns are hidden.", birch="Birches are white.", cedar="Cedars are tall.")
    plan = await make_exporting(library, owner, url, "markdown")
    folder = folder_of(library, plan)
    assert plan["IngestionSettings"]["Export"] == "markdown"

    await run(library, owner, plan)
    await check_markdown(library, owner, folder)
    host = f"{site.url.partition('://')[2].replace(':', '_')}"
    before = {name: (folder / name).stat().st_ino for name in files_in(folder)}
    assert set(before) == {"manifest.jsonl", *(f"{host}/{name}.md" for name in ("index", "acorn", "birch", "cedar"))}

    fill(site, acorn="Acorns are hidden.", birch="Birches are silver.", date="Dates are sweet.")
    await run(library, owner, plan)
    await check_markdown(library, owner, folder)
    after = {name: (folder / name).stat().st_ino for name in files_in(folder)}
    assert set(before) - set(after) == {f"{host}/cedar.md"}
    assert before[f"{host}/acorn.md"] == after[f"{host}/acorn.md"]
    assert "silver" in (folder / host / "birch.md").read_text()
    assert manifest_of(folder)[f"{site.url}/birch"]["version"] == 2

    unchanged = (folder / "manifest.jsonl").stat().st_ino
    await run(library, owner, plan)
    assert (folder / "manifest.jsonl").stat().st_ino == unchanged


async def test_a_run_with_failures_exports_and_only_files_of_the_manifest_are_removed(
    library: House, owner: Key, site: Site
) -> None:
    url = fill(site, acorn="Acorns are hidden.", birch="Birches are white.")
    site.pages["/birch.pdf"] = Reply(b"%PDF-1.7 this is none", content_type="application/pdf")
    site.add("/", article("home", "/acorn", "/birch", "/birch.pdf"))
    plan = await make_exporting(library, owner, url, "markdown")
    folder = folder_of(library, plan)

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsFailed"]) == ("Failed", 1)
    exported = {each for each in files_in(folder) if each != "manifest.jsonl"}
    assert {Path(each).name for each in exported} == {"index.md", "acorn.md", "birch.md"}
    (folder / "notes.md").write_text("Mine.")
    left = folder / manifest_of(folder)[f"{site.url}/birch"]["path"]
    left.with_name("mine.md").write_text("Mine, too.")
    fill(site, acorn="Acorns are hidden.")
    await run(library, owner, plan)
    assert not left.exists()
    assert (folder / "notes.md").exists()
    assert left.with_name("mine.md").exists()


async def test_what_a_killed_run_left_is_completed_or_removed(library: House, owner: Key, site: Site) -> None:
    plan = await make_exporting(library, owner, fill(site, acorn="Acorns are hidden."), "markdown")
    folder = folder_of(library, plan)
    await run(library, owner, plan)
    acorn = manifest_of(folder)[f"{site.url}/acorn"]
    gone = {**acorn, "url": "http://gone.example/", "path": "gone.example/deep/index.md", "document_id": "adoc_gone"}
    with (folder / "manifest.jsonl").open("a") as manifest:
        for line in (acorn, gone):
            manifest.write(json.dumps({**line, "version": 0}) + "\n")
            (folder / line["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / line["path"]).write_text("Half a fi")
    (folder / ".part").write_text("Half a dra")

    await run(library, owner, plan)

    await check_markdown(library, owner, folder)
    assert not (folder / "gone.example").exists()


async def test_jsonl_and_warc_are_rewritten_and_another_format_replaces_the_one_before(
    library: House, owner: Key, site: Site
) -> None:
    url = fill(site, acorn="Acorns are hidden.", birch="Birches are white.")
    plan = await make_exporting(library, owner, url, "markdown")
    folder = folder_of(library, plan)
    await run(library, owner, plan)

    for texts in ({"acorn": "Acorns are hidden."}, {"acorn": "Acorns are lost.", "date": "Dates are sweet."}):
        fill(site, **texts)
        for kind in ("JSONL", "warc"):
            body = {**plan, "IngestionSettings": {**plan["IngestionSettings"], "Export": kind}}
            await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json=body)
            await run(library, owner, plan)
            told = await texts_of(library, owner)
            if kind == "warc":
                assert files_in(folder) == {"documents.warc.gz"}
                with (folder / "documents.warc.gz").open("rb") as file:
                    records = {
                        record.rec_headers.get_header("WARC-Target-URI"): record.content_stream().read().decode()
                        for record in ArchiveIterator(file)
                        if record.rec_type == "response" and record.http_headers.get_header("ETag") is not None
                    }
                assert set(records) == set(told) - {f"{site.url}/"}
                assert texts["acorn"] in records[f"{site.url}/acorn"]
                continue
            assert files_in(folder) == {"documents.jsonl"}
            lines = [json.loads(line) for line in (folder / "documents.jsonl").read_text().splitlines()]
            assert {each["url"]: (each["version"], each["content_sha256"], each["markdown"]) for each in lines} == told
            assert all(each["title"] and each["crawled_at"] and each["metadata"] for each in lines)


async def test_a_folder_that_cannot_be_written_is_a_message_of_a_successful_run(
    library: House, owner: Key, site: Site
) -> None:
    plan = await make_exporting(library, owner, fill(site, acorn="Acorns are hidden."), "markdown")
    folder = folder_of(library, plan)
    folder.parent.mkdir(exist_ok=True)
    folder.write_text("A file where the folder should be.")

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsAdded"]) == ("Success", 2)
    assert "The export could not be written: " in operation["StatusMessage"]
    folder.unlink()
    operation = await run(library, owner, plan)
    assert "export" not in (operation.get("StatusMessage") or "")
    await check_markdown(library, owner, folder)


async def test_a_removed_plan_leaves_no_export(library: House, owner: Key, site: Site) -> None:
    plan = await make_exporting(library, owner, fill(site, acorn="Acorns are hidden."), "markdown")
    await run(library, owner, plan)
    assert files_in(folder_of(library, plan))

    await library.plans("DELETE", f"/crawlplans/{plan['Id']}", owner, status=204)

    assert not folder_of(library, plan).exists()


async def test_a_warc_without_originals_is_refused_and_none_is_no_export(library: House, owner: Key) -> None:
    body = plan_body("https://good.example/", IngestionSettings={"Export": "warc", "StoreInS3": False})
    refused = await library.plans("PUT", "/crawlplans", owner, status=400, json=body)
    assert refused["Context"] == {"field": "IngestionSettings.Export"}
    assert refused["Message"].startswith("IngestionSettings.Export: warc needs the originals")
    plan = await make_exporting(library, owner, "https://good.example/", "none")
    assert "Export" not in plan["IngestionSettings"]


async def test_a_one_off_crawl_has_no_export_until_it_is_kept(library: House, owner: Key, site: Site) -> None:
    url = fill(site, acorn="Acorns are hidden.")
    await crawl_site(library, owner, url)
    plan_id = (await documents(library, owner))[f"{site.url}/acorn"]["plan_id"]
    body = plan_body(url, IngestionSettings={"Export": "jsonl"})

    refused = await library.plans("PUT", f"/crawlplans/{plan_id}", owner, status=400, json=body)

    assert refused["Context"] == {"field": "IngestionSettings.Export"}
    assert "scrubjay plan keep" in refused["Message"]
