"""Paths from elsewhere stay below our folders, and map files cannot lead out of them."""

from pathlib import Path

import pytest

from scrubjay.domains.folders import EMBEDDED, FAILED, ORIGINALS, SourceFolder, safe_local_path
from scrubjay.domains.orders import CrawlScope


@pytest.mark.parametrize(
    "text",
    [
        "../../etc/passwd", "..\\..\\windows", "a/../b", "/absolute/path", "C:\\x", "CON", "con.txt", "dir/NUL/file",
        "a\0b", "x" * 300 + ".docx", "🦜" * 100 + ".pdf", ".hidden", "trailing. ", " leading", "a:b|c?.txt", "", ".",
        "..", "///", "\ud800half.txt",
    ],
)  # fmt: skip
def test_whatever_a_name_is_it_stays_below_the_folder(tmp_path: Path, text: str) -> None:
    local = safe_local_path(text)
    path = (tmp_path / local).resolve()
    assert path.is_relative_to(tmp_path.resolve())
    assert path != tmp_path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    assert all(len(part.encode()) <= 255 for part in path.parts)


def test_good_names_stay_and_changed_ones_are_told_apart() -> None:
    assert safe_local_path("Reports/Q1 – Übersicht.docx") == "Reports/Q1 – Übersicht.docx"
    one, other = safe_local_path("a:b.txt"), safe_local_path("a?b.txt")
    assert one != other
    assert one.endswith(".txt")
    assert safe_local_path("x" * 300 + "1.docx") != safe_local_path("x" * 300 + "2.docx")


def test_paths_are_written_from_the_root_with_backslashes(tmp_path: Path) -> None:
    folder = SourceFolder(tmp_path, "DOMAIN01", CrawlScope.FILES, "source01")
    written = folder.written(EMBEDDED, "Reports/Q1.docx")
    assert written == "DOMAIN01\\01_files\\source01\\02_embedded\\Reports\\Q1.docx"
    assert folder.find(written) == (EMBEDDED, "Reports/Q1.docx")
    assert folder.file(written) == tmp_path / "DOMAIN01/01_files/source01/02_embedded/Reports/Q1.docx"


@pytest.mark.parametrize(
    "written",
    [
        "", "DOMAIN01", "DOMAIN01\\01_files\\source01\\02_embedded", "DOMAIN02\\01_files\\source01\\02_embedded\\x",
        "DOMAIN01\\01_files\\source02\\02_embedded\\x", "DOMAIN01\\01_files\\source01\\elsewhere\\x",
        "DOMAIN01\\01_files\\source01\\02_embedded\\..\\..\\..\\x",
        "DOMAIN01\\01_files\\source01\\02_embedded\\/etc/passwd",
        "DOMAIN01\\01_files\\source01\\02_embedded\\\\x", "DOMAIN01\\01_files\\source01\\02_embedded\\a\0b",
    ],
)  # fmt: skip
def test_a_map_cannot_lead_out_of_its_folder(tmp_path: Path, written: str) -> None:
    assert SourceFolder(tmp_path, "DOMAIN01", CrawlScope.FILES, "source01").file(written) is None


def test_originals_and_what_is_made_of_them(tmp_path: Path) -> None:
    folder = SourceFolder(tmp_path, "D", CrawlScope.LISTS, "s")
    assert folder.processed_of("Ice creams v1.2.csv") == "Ice creams v1.2.md"
    assert folder.original_of("Ice creams v1.2.md") == "Ice creams v1.2.csv"
    names = ((ORIGINALS, "x.csv"), (FAILED, "x.csv"), (EMBEDDED, "x.md"), (FAILED, "x.md"))
    assert {folder.local_of(folder.written(stage, name)) for stage, name in names} == {"x.csv"}
    assert folder.local_of("elsewhere\\x.csv") is None


def test_sweeping_keeps_what_is_wanted_and_nothing_else(tmp_path: Path) -> None:
    folder = SourceFolder(tmp_path, "D", CrawlScope.FILES, "s")
    kept, lost = folder.stage(EMBEDDED) / "a/kept.txt", folder.stage(FAILED) / "b/lost.txt"
    for path in (kept, lost):
        path.parent.mkdir(parents=True)
        path.write_text("x")
    (folder.path / "files_map.csv").write_text("map")
    assert folder.sweep([kept]) == 1
    assert kept.exists()
    assert not lost.parent.exists()
    assert (folder.path / "files_map.csv").exists()
