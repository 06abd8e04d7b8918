"""The manifest of an export in Markdown: which path a document has, and which lines are believed."""

from pathlib import Path

import pytest

from scrubjay.plans.sinks.export import MANIFEST, ExportedFile, choose_files, read_manifest
from scrubjay.storage.ledger import HeldDocument


def held(number: int, url: str, version: int = 1) -> HeldDocument:
    return HeldDocument(f"adoc_{number}", url, version, f"hash of {number} in version {version}")


def test_a_document_keeps_its_path_when_the_one_that_shared_it_leaves() -> None:
    page, same = held(1, "https://example.com/a"), held(2, "https://example.com/a.html")
    before = choose_files([page, same], [])

    after = choose_files([same], list(before.values()))

    assert before[page.id].path == "example.com/a.md"
    assert before[same.id].path != before[page.id].path
    assert after == {same.id: before[same.id]}


def test_a_document_whose_url_changed_gets_another_path() -> None:
    [before] = choose_files([held(1, "https://example.com/a")], []).values()

    [after] = choose_files([held(1, "https://example.com/b")], [before]).values()

    assert (before.path, after.path) == ("example.com/a.md", "example.com/b.md")


def test_the_same_url_in_two_documents_gets_two_files() -> None:
    files = choose_files([held(1, "https://example.com/a"), held(2, "https://example.com/a")], [])

    assert len({file.path for file in files.values()}) == 2


def test_what_follows_an_unfinished_line_of_a_document_is_its_new_version() -> None:
    [done] = choose_files([held(1, "https://example.com/a")], []).values()
    started = done.model_copy(update={"version": 0})

    [file] = choose_files([held(1, "https://example.com/a", 2)], [done, started]).values()

    assert (file.path, file.version) == (done.path, 2)


@pytest.mark.parametrize(
    "line",
    [
        '{"url": "u", "path": "../a.md", "document_id": "d", "version": 1, "content_sha256": "h"}',
        '{"url": "u", "path": "/etc/a.md", "document_id": "d", "version": 1, "content_sha256": "h"}',
        '{"url": "u", "path": "a/../../b.md", "document_id": "d", "version": 1, "content_sha256": "h"}',
        '{"url": "u", "path": "passwd", "document_id": "d", "version": 1, "content_sha256": "h"}',
        '{"url": "u", "path": "a\\u0000.md", "document_id": "d", "version": 1, "content_sha256": "h"}',
        '{"url": "u", "path": 7, "document_id": [], "version": 1, "content_sha256": "h"}',
        '{"url": "u", "pa',
        "7",
        "\udcff",
    ],
)
def test_a_line_that_names_no_file_below_the_folder_is_ignored(line: str, tmp_path: Path) -> None:
    good = ExportedFile(url="u", path="a/b.md", document_id="d", version=1, content_sha256="h")
    text = f"{line}\n{good.model_dump_json()}\n"
    (tmp_path / MANIFEST).write_bytes(text.encode(errors="surrogateescape"))

    assert read_manifest(tmp_path) == [good]


def test_without_a_manifest_nothing_was_exported(tmp_path: Path) -> None:
    assert read_manifest(tmp_path) == []
