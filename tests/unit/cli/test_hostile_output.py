"""What crawled sites wrote, on its way to a terminal or into files: it steers neither."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from scrubjay.cli import crawl_view
from scrubjay.cli.extract import extract_file
from scrubjay.model.job import Job, JobState
from scrubjay.model.urls import parse_url
from scrubjay.plans.sinks.export_files import free_path, markdown_path

STEERING = "\x1b]0;owned\x07\x1b[31m"


@pytest.mark.parametrize(
    "path",
    [
        "/.%20../.%20../.%20../etc/cron",
        "/.%20../",
        "/%20..%20/x",
        "/%20.%20./x",
        "/..%2f..%2fx",
        "/%5c..%5c..%5cx",
        "/..%00/x",
        "/...%20....%20./x",
        "/" + "a" * 79 + "%20../x",
    ],
)
def test_no_address_leads_out_of_the_folder(path: str, tmp_path: Path) -> None:
    target = tmp_path / markdown_path(parse_url(f"https://example.com{path}").text)

    assert target.resolve().is_relative_to(tmp_path.resolve() / "example.com")
    assert ".." not in target.parts


def test_no_page_needs_a_folder_where_another_has_its_file() -> None:
    page, below = markdown_path("https://example.com/a"), markdown_path("https://example.com/a.md/b")

    assert page not in below.parents


def test_odd_addresses_still_have_paths_of_their_own() -> None:
    urls = ["https://example.com/.%20../x", "https://example.com/_/x", "https://example.com/%20/x"]

    assert len({markdown_path(url) for url in urls}) == len(urls)


def test_urls_whose_paths_are_equal_get_files_of_their_own_on_any_file_system() -> None:
    pages = ["https://example.com/a", "https://example.com/a.html", "http://example.com/a", "https://example.com/A"]
    taken: set[str] = set()

    paths = [free_path(url, taken) for url in pages]

    assert paths[0] == markdown_path(pages[0])
    assert len({str(path).casefold() for path in paths}) == len(pages)
    assert free_path(pages[0], taken) not in paths


def test_no_name_is_longer_than_file_systems_allow(tmp_path: Path) -> None:
    target = tmp_path / markdown_path("https://example.com/" + "\N{CJK UNIFIED IDEOGRAPH-20000}" * 100)

    target.parent.mkdir()
    target.write_text("text")

    assert len(target.name.encode()) < 255


@pytest.mark.parametrize("state", [JobState.PENDING, JobState.FAILED])
def test_a_crawls_error_does_not_steer_the_terminal(state: JobState, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job(id="job_1", tenant_id="t", kind="crawl", state=state, error=f"Boom {STEERING}")
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=False)
    monkeypatch.setattr(crawl_view, "console", console)

    console.print(crawl_view.show_crawl(job))
    crawl_view.show_summary(job)

    assert "Boom" in shown.getvalue()
    assert "\x1b" not in shown.getvalue()


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_file_is_shown_harmless_in_a_terminal_and_whole_elsewhere(
    is_terminal: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(f"first {STEERING}\n\tsecond\n")
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: is_terminal)
    monkeypatch.setattr("sys.stdout", out)

    extract_file(tmp_path / "a.txt", url="http://localhost/a.txt")

    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["first", "second"]
    assert ("\x1b" in out.getvalue()) is not is_terminal
