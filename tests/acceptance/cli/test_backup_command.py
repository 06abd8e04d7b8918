"""`scrubjay backup` while a crawl runs, and `scrubjay restore` elsewhere: the same documents, found the same way."""

import asyncio
import io
import json
import sqlite3
import stat
import tarfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import zstandard
from tests import servers
from tests.acceptance.command_line import run, serving, the_sentence
from tests.site import Site, running_site

from scrubjay.storage.backups.archive import is_member

pytestmark = pytest.mark.slow

LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1"}
PAGES = 120
DURABLE = ("document_versions", "chunks", "ledger", "contents", "crawl_plans", "api_keys", "webhooks")


def rows(home: Path, *tables: str) -> Mapping[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(home / "scrubjay.db")) as connection:
        return {table: sorted(connection.execute(f"SELECT * FROM {table}").fetchall(), key=repr) for table in tables}


def good(*arguments: str, home: Path, **settings: str) -> str:
    result = run(*arguments, home=home, **(LOOPBACK | settings))
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def members(path: Path) -> dict[str, bytes]:
    data = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    found = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for entry in tar:
            content = tar.extractfile(entry)
            assert content is not None
            found[entry.name] = content.read()
    return found


def write_members(path: Path, content: Mapping[str, bytes]) -> None:
    buffer = io.BytesIO()
    with tarfile.open(mode="w", fileobj=buffer) as tar:
        for name, data in content.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    path.write_bytes(zstandard.ZstdCompressor().compress(buffer.getvalue()))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of two documents and a webhook with a secret."""
    folder = tmp_path_factory.mktemp("small")
    home = folder / "home"
    (folder / "jay.md").write_text("# Jays\n\nThey hide acorns in autumn.")
    (folder / "oak.md").write_text("# Oaks\n\nThey grow where a jay forgot.")
    good("add", str(folder / "jay.md"), str(folder / "oak.md"), home=home)
    good("webhooks", "add", "https://example.com/hook", home=home)
    good("backup", str(folder / "small.tar.zst"), home=home)
    return folder / "small.tar.zst"


async def test_a_backup_taken_during_a_crawl_is_restored_elsewhere_without_a_difference(
    home: Path, tmp_path: Path
) -> None:
    async with running_site(pages=PAGES) as site:
        told = await asyncio.to_thread(_back_up_while_crawling, home, tmp_path / "jay.tar.zst", site)
        assert told["documents_then"] < PAGES, "the crawl was over before the backup"
        new = tmp_path / "elsewhere" / "home"
        new.parent.mkdir()
        restored = await asyncio.to_thread(good, "restore", str(tmp_path / "jay.tar.zst"), home=new)
        assert "Restored" in restored
        findings = json.loads(await asyncio.to_thread(good, "doctor", "--json", home=new))
        assert all(finding["is_well"] for finding in findings), findings
        assert 10 <= len(rows(new, "documents")["documents"]) <= told["documents_then"]
        # What the crawl had not done yet, it goes on with: the restored plan ends where the first one does.
        await asyncio.to_thread(good, "plan", "run", "site", home=home)
        await asyncio.to_thread(good, "plan", "run", "site", home=new)
        ends = [{row[0] for row in _urls(each)} for each in (home, new)]
        assert ends[0] == ends[1]
        assert len(ends[0]) >= PAGES
        findings = json.loads(await asyncio.to_thread(good, "doctor", "--json", home=new))
        assert all(finding["is_well"] for finding in findings), findings


def _contents(home: Path) -> list[tuple[object, ...]]:
    """What documents say; how far the index has come with them is another matter."""
    with closing(sqlite3.connect(home / "scrubjay.db")) as connection:
        columns = "id, url, title, content_sha256, version, status, created_at, updated_at, deleted_at"
        return connection.execute(f"SELECT {columns} FROM documents ORDER BY id").fetchall()


def _urls(home: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(home / "scrubjay.db")) as connection:
        return connection.execute("SELECT url FROM documents WHERE deleted_at IS NULL").fetchall()


def _back_up_while_crawling(home: Path, path: Path, site: Site) -> dict[str, int]:
    good(
        "plan",
        "add",
        site.url + "/",
        "--name",
        "site",
        "--delay-ms",
        "0",
        "--concurrency",
        "2",
        "--inactive",
        home=home,
    )
    with serving(home, **LOOPBACK) as server:
        key = (home / "admin.key").read_text().strip()
        with httpx.Client(base_url=server.address, headers={"X-API-Key": key}, trust_env=False, timeout=60) as client:
            site.latency_seconds = 0.3
            source = client.get("/api/v1/sources").json()["items"][0]["id"]
            assert client.post(f"/api/v1/sources/{source}/trigger").is_success
            while client.get("/api/v1/stats").json()["documents"] < 10:
                time.sleep(0.05)
            site.latency_seconds = 5.0  # it goes on, but not to its end
            good("backup", str(path), home=home)
            then = client.get("/api/v1/stats").json()["documents"]
            site.latency_seconds = 0.0
        assert server.stop() == 0
    return {"documents_then": then}


def test_a_restored_home_has_the_same_rows_keys_and_answers(small: Path, tmp_path: Path) -> None:
    home, new = small.parent / "home", tmp_path / "new"
    told = good("restore", str(small), home=new)
    assert "Restored" in told
    assert rows(new, *DURABLE) == rows(home, *DURABLE)
    assert _contents(new) == _contents(home)
    for name in ("secret.key", "admin.key"):
        assert (new / name).read_text() == (home / name).read_text()
        assert stat.S_IMODE((new / name).stat().st_mode) == 0o600
    found = [json.loads(good("search", "who hides acorns", "--json", home=each)) for each in (home, new)]
    assert found[0]["results"][0]["content"] == found[1]["results"][0]["content"]


def test_the_file_is_for_its_owner_only_and_every_tool_can_look_into_it(small: Path) -> None:
    assert stat.S_IMODE(small.stat().st_mode) == 0o600
    held = members(small)
    assert next(iter(held)) == "manifest.json"
    assert list(held)[-1] == "end.json"
    documents = [json.loads(line) for line in held["tables/documents.jsonl"].splitlines()]
    assert {document["title"] for document in documents} == {"Jays", "Oaks"}
    assert "tables/sign_ins.jsonl" not in held
    assert not list(small.parent.glob(".*.partial"))


@pytest.mark.postgres
def test_a_backup_of_sqlite_is_restored_into_postgresql(small: Path, tmp_path: Path) -> None:
    with servers.fresh_pgvector_database() as url:
        settings = {"SCRUBJAY_DATABASE_URL": url, "SCRUBJAY_INDEX_URL": "postgresql"}
        good("restore", str(small), home=tmp_path / "new", **settings)
        found = json.loads(good("search", "who hides acorns", "--json", home=tmp_path / "new", **settings))
        assert "hide acorns" in found["results"][0]["content"]
        again = run("restore", str(small), home=tmp_path / "another", **settings)
        the_sentence(again, "holds something already", "empty")
        # New rows are numbered after those that came with the backup.
        (tmp_path / "wren.md").write_text("# Wrens\n\nThey sing.")
        good("add", str(tmp_path / "wren.md"), home=tmp_path / "new", **settings)


def test_nothing_that_exists_is_written_over(small: Path, tmp_path: Path) -> None:
    home = small.parent / "home"
    before = rows(home, *DURABLE)
    the_sentence(run("restore", str(small), home=home), "holds something already")
    assert rows(home, *DURABLE) == before
    the_sentence(run("backup", str(small), home=home), "exists already")


def test_a_restore_that_was_cut_off_is_begun_again_and_files_of_others_are_not_touched(
    small: Path, tmp_path: Path
) -> None:
    half = tmp_path / "new" / "storage" / "half.txt"
    half.parent.mkdir(parents=True)
    half.write_text("half")
    the_sentence(run("restore", str(small), home=tmp_path / "new"), "is not empty")
    assert half.read_text() == "half"
    (tmp_path / "new" / "restoring").touch()  # as a killed restore leaves it
    assert "Restored" in good("restore", str(small), home=tmp_path / "new")
    assert not (tmp_path / "new" / "restoring").exists()


@pytest.mark.parametrize("cut", [100, 5_000, -40])
def test_a_file_that_was_cut_off_changes_nothing(small: Path, tmp_path: Path, cut: int) -> None:
    broken = tmp_path / "broken.tar.zst"
    broken.write_bytes(small.read_bytes()[:cut])
    result = run("restore", str(broken), home=tmp_path / "new")
    the_sentence(result, "broken.tar.zst")
    assert not (tmp_path / "new" / "secret.key").exists()


def test_a_file_in_which_something_was_altered_or_left_out_changes_nothing(small: Path, tmp_path: Path) -> None:
    held = members(small)
    forged = tmp_path / "forged.tar.zst"
    write_members(forged, {name: data for name, data in held.items() if name != "tables/chunks.jsonl"})
    the_sentence(run("restore", str(forged), home=tmp_path / "new"), "does not hold what it says")
    write_members(forged, {**held, "../../evil": b"x"})
    the_sentence(run("restore", str(forged), home=tmp_path / "new"), "evil")
    manifest = json.loads(held["manifest.json"]) | {"schema": "9999", "version": "9.9"}
    write_members(forged, {**held, "manifest.json": json.dumps(manifest).encode()})
    the_sentence(run("restore", str(forged), home=tmp_path / "new"), "9.9", "9999")
    (tmp_path / "text").write_text("not a backup")
    the_sentence(run("restore", str(tmp_path / "text"), home=tmp_path / "new"), "no backup")


def test_without_its_keys_a_backup_asks_for_them(small: Path, tmp_path: Path) -> None:
    home = small.parent / "home"
    path = tmp_path / "keyless.tar.zst"
    assert "not in it" in good("backup", str(path), "--without-keys", home=home)
    assert not any(name.startswith("keys/") for name in members(path))
    the_sentence(run("restore", str(path), home=tmp_path / "new"), "SCRUBJAY_SECRET_KEY")
    key = (home / "secret.key").read_text().strip()
    good("restore", str(path), home=tmp_path / "other", SCRUBJAY_SECRET_KEY=key)


@pytest.mark.parametrize(
    "name",
    ["../x", "/etc/passwd", "storage/../../x", "storage", "storage/", "keys/other.key", "blobs/abc", "storage/a/../b",
     "storage//a", "tables/x.csv", "storage/a\\..\\b", "", "."],
)  # fmt: skip
def test_no_other_name_is_a_member(name: str) -> None:
    assert not is_member(name)
