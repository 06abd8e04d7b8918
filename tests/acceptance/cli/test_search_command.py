"""`scrubjay search` by itself and through a running server, and what several commands do to one data folder."""

import asyncio
import json
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import SCRUBJAY, environment, run, serving, the_sentence
from tests.site import running_site

NOTES = {
    "acorns.md": "# Acorns\n\nJays hide acorns in autumn.\n\n## Winter\n\nThey find them again under the snow.\n",
    "owls.txt": "Owls hunt mice at night.",
    "trains.txt": "The night train leaves at nine.",
}
LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1"}
PATIENCE_SECONDS = 60
pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

MANY = 60


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> Path:
    """A data folder with three documents, one of them in its second version. For tests that only look."""
    folder = tmp_path_factory.mktemp("shelf")
    home, notes = folder / "home", folder / "notes"
    home.mkdir(mode=0o700)
    notes.mkdir()
    for file in migrated_databases:
        shutil.copy(file, home)
    for name, text in NOTES.items():
        (notes / name).write_text(text)
    good(home, "add", str(notes), "-c", "Notes", "-t", "all")
    (notes / "owls.txt").write_text("Owls hunt voles at night.")
    good(home, "add", str(notes / "owls.txt"), "-c", "Notes")
    return home


def call(home: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return run(*arguments, home=home, COLUMNS="80", **settings)


def good(home: Path, *arguments: str, **settings: str) -> str:
    result = call(home, *arguments, **settings)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def found(home: Path, *arguments: str) -> Any:
    return json.loads(good(home, "search", *arguments, "--json"))


def names(answer: Any) -> list[str]:
    return [each["url"].rpartition("/")[2] for each in answer["results"]]


def start(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SCRUBJAY, "--home", str(home), *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=home.parent,
        env=environment(**settings),
    )


def test_a_result_is_a_title_an_address_a_passage_and_an_id_within_80_columns(shelf: Path) -> None:
    lines = good(shelf, "search", "acorns", "winter").splitlines()

    assert lines[0].startswith(" 1. Acorns")
    assert lines[1] == f"    {(shelf.parent / 'notes/acorns.md').as_uri()}"
    assert lines[2] == "    Jays hide acorns in autumn. Winter: They find them again under the snow."
    assert lines[3].startswith("    adoc_")
    assert all(len(line) <= 80 for line in lines if "://" not in line)
    assert "ms" in lines[-1]


def test_json_has_everything_and_highlights_are_ranges_of_the_content(shelf: Path) -> None:
    answer = found(shelf, "acorns", "--explain")

    first = answer["results"][0]
    begin, end = first["highlights"][-1]
    assert first["content"][begin:end].lower() == "acorns"
    assert first["explanation"]["keyword_rank"] == 1
    assert datetime.fromisoformat(first["crawled_at"]).tzinfo is not None
    assert "keyword: rank 1" in good(shelf, "search", "acorns", "--explain")


def test_filters_phrases_and_pages(shelf: Path) -> None:
    assert names(found(shelf, '"night train"')) == ["trains.txt"]
    assert "trains.txt" not in names(found(shelf, "night", "-train", "--collection", "Notes", "--tag", "all"))
    first = found(shelf, "night", "-n", "1", "--mode", "keyword")
    second = found(shelf, "night", "-n", "1", "--mode", "keyword", "--cursor", first["next_cursor"])
    assert sorted(names(first) + names(second)) == ["owls.txt", "trains.txt"]


def test_the_past_is_searched_as_it_was(shelf: Path) -> None:
    [document] = [each for each in json.loads(good(shelf, "ls", "--json")) if each["url"].endswith("owls.txt")]
    versions = json.loads(good(shelf, "show", document["id"], "--versions", "--json"))["versions"]
    then = versions[1]["created_at"]

    assert "voles" in found(shelf, "owls")["results"][0]["content"]
    assert "mice" in found(shelf, "owls", "--as-of", then)["results"][0]["content"]
    assert call(shelf, "search", "owls", "--as-of", "2020-01-01").stdout == "Nothing found.\n"


def test_nothing_found_is_told_and_exits_with_1(shelf: Path) -> None:
    result = call(shelf, "search", '"no such phrase"')

    assert (result.returncode, result.stdout, result.stderr) == (1, "Nothing found.\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["-acorns"], "no words to look for"),
        (["--", "-acorns"], "no words to look for"),
        (["site:example.org"], "no words to look for"),
        (["acorns", "--as-of", "yesterday"], "--as-of must be a date or a time"),
        (["acorns", "-c", "Unknown"], "There is no collection 'Unknown'"),
        (["acorns", "-t", "unknown"], "There is no tag 'unknown'"),
        (["acorns", "--cursor", "nonsense"], "cursor"),
    ],
)
def test_what_makes_no_sense_is_one_sentence(shelf: Path, arguments: list[str], words: str) -> None:
    the_sentence(call(shelf, "search", *arguments), words)


def test_a_running_server_answers_and_a_killed_one_is_not_missed(shelf: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(shelf, home)
    alone = found(home, "night", "--explain")
    with serving(home) as server:
        served = found(home, "night", "--explain")
        assert served["results"] == alone["results"]
        the_sentence(call(home, "search", "--", "-acorns"), "no words to look for")
        the_sentence(call(home, "search", "acorns", "-c", "Unknown"), "There is no collection 'Unknown'")
        assert "in use by" in " ".join(good(home, "doctor").split())
        (tmp_path / "wren.txt").write_text("A wren sings in winter.")
        assert "version 1" in good(home, "add", str(tmp_path / "wren.txt"))
        assert names(found(home, "wren"))[0] == "wren.txt"
        assert good(home, "rm", "--purge", str(tmp_path / "wren.txt")).startswith("Purged")
        assert "wren.txt" not in names(found(home, "winter"))
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(PATIENCE_SECONDS)
    assert (home / "server").exists()

    assert names(found(home, "night")) == names(alone)
    assert "as the documents say" in good(home, "doctor")


def test_commands_at_once_in_one_folder_take_turns(shelf: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    shutil.copytree(shelf, home)
    for number in range(2):
        (tmp_path / f"note{number}.txt").write_text(f"Note number {number} on herons.")

    with ThreadPoolExecutor(4) as pool:
        adding = [pool.submit(call, home, "add", str(tmp_path / f"note{number}.txt")) for number in range(2)]
        searching = [pool.submit(call, home, "search", "owls") for _ in range(2)]
        results = [each.result() for each in (*adding, *searching)]

    assert [each.returncode for each in results] == [0, 0, 0, 0], results
    assert {"note0.txt", "note1.txt"} <= set(names(found(home, "herons")))


def test_add_killed_in_the_middle_loses_and_doubles_nothing(shelf: Path, tmp_path: Path) -> None:
    home, many = tmp_path / "home", tmp_path / "many"
    shutil.copytree(shelf, home)
    many.mkdir()
    for number in range(MANY):
        (many / f"{number:03}.txt").write_text(f"Note {number} says that bird {number} was seen.")
    process = start(home, "add", str(many))
    assert process.stdout is not None
    assert process.stdout.readline().startswith("✓")  # the first batch is done, the next is under way
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert good(home, "add", str(many)).count("✓") == MANY

    documents = [each for each in json.loads(good(home, "ls", "-n", "1000", "--json")) if "/many/" in each["url"]]
    assert sorted(each["url"].rpartition("/")[2] for each in documents) == [f"{each:03}.txt" for each in range(MANY)]
    assert {(each["status"], each["version"]) for each in documents} == {("Completed", 1)}
    assert "as the documents say" in good(home, "doctor")


@pytest.mark.slow
def test_ctrl_c_ends_add_without_a_traceback_and_leaves_no_process(shelf: Path, tmp_path: Path) -> None:
    home, many = tmp_path / "home", tmp_path / "many"
    shutil.copytree(shelf, home)
    many.mkdir()
    for number in range(5 * MANY):  # so many that it cannot be done before the signal comes
        (many / f"{number:03}.txt").write_text(f"Note {number} says that bird {number} was seen.")
    process = start(home, "add", str(many))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)

    output, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert (process.returncode, "Stopped." in output, "Traceback" in output) == (130, True, False)
    assert processes_of(home) == []


def processes_of(home: Path) -> list[str]:
    """Command lines that name the data folder."""
    deadline = time.monotonic() + 10
    while True:
        lines = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:
                continue
        left = [line for line in lines if str(home) in line]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.1)


async def test_a_crawl_goes_into_a_collection_with_tags_or_stays_out_of_the_index(home: Path) -> None:
    async with running_site(pages=5) as site:
        site.latency_seconds = 0.0
        options = ("crawl", site.url, "--delay-ms", "0", "--json")
        kept_out = await asyncio.to_thread(call, home, *options, "--no-index", **LOOPBACK)
        assert (kept_out.returncode, "documents" in json.loads(kept_out.stdout)) == (0, False)
        assert json.loads(await asyncio.to_thread(good, home, "ls", "--json")) == []

        taken = await asyncio.to_thread(call, home, *options, "--collection", "Site", "--tag", "web", **LOOPBACK)

    documents = json.loads(good(home, "ls", "-c", "Site", "--tag", "web", "-n", "100", "--json"))
    assert (taken.returncode, json.loads(taken.stdout)["documents"]["added"]) == (0, len(documents))
    assert len(documents) >= 5
    assert {each["source"] for each in documents} == {"crawl"}


async def test_add_takes_a_page_and_says_why_not(home: Path) -> None:
    async with running_site() as site:
        site.add(
            "/jay", "<html><title>Jay</title><body><article><p>" + "A jay hides acorns. " * 9 + "</p></body></html>"
        )
        added = await asyncio.to_thread(call, home, "add", f"{site.url}/jay", f"{site.url}/nothing", **LOOPBACK)

    assert added.returncode == 1
    assert "✓ Jay  adoc_" in added.stdout
    assert added.stderr.startswith(f"scrubjay: {site.url}/nothing: ")
    assert names(found(home, "acorns")) == ["jay"]
