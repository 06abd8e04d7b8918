"""Commands about documents: `add`, `ls`, `show`, `diff`, `rm`, `restore`, `collections`, `tags`, `reindex`, doctor."""

import importlib.util
import json
import shutil
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import SCRUBJAY, environment, run, the_sentence

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

ACORNS = "# Acorns\n\nJays hide acorns in autumn.\n\n## Winter\n\nThey find them again under the snow.\n"
OWLS = "Owls hunt mice at night."
NO_ID = "adoc_001k7hiia17emv9aro7pqc9a9sk"


class Shelf:
    """A data folder with some documents, the folder that they came from, and commands in it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.notes = folder / "notes"

    def run(self, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
        return run(*arguments, home=self.home, COLUMNS="80", **settings)

    def good(self, *arguments: str, **settings: str) -> str:
        result = self.run(*arguments, **settings)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self.good(*arguments, "--json"))

    def id_of(self, name: str) -> str:
        [found] = [each["id"] for each in self.json("ls") if each["url"].endswith(f"/{name}")]
        return str(found)

    def write(self, name: str, text: str) -> str:
        path = self.notes / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)


def open_shelf(folder: Path, databases: list[Path]) -> Shelf:
    shelf = Shelf(folder)
    shelf.home.mkdir(mode=0o700)
    for file in databases:
        shutil.copy(file, shelf.home)
    return shelf


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> Shelf:
    """For tests that only look."""
    shelf = open_shelf(tmp_path_factory.mktemp("shelf"), migrated_databases)
    shelf.write("acorns.md", ACORNS)
    shelf.write("deeper/owls.txt", OWLS)
    shelf.write(".hidden.txt", "nobody should read this")
    assert shelf.good("add", str(shelf.notes), "--collection", "Notes", "--tag", "birds").count("✓") == 2
    shelf.write("acorns.md", ACORNS.replace("autumn", "autumn and spring"))
    assert "version 2" in shelf.good("add", str(shelf.notes / "acorns.md"), "-c", "Notes")
    return shelf


@pytest.fixture
def own_shelf(shelf: Shelf, tmp_path: Path) -> Shelf:
    """For tests that change something: a copy of the data folder, and a folder for more notes."""
    shutil.copytree(shelf.home, tmp_path / "home")
    return Shelf(tmp_path)


def test_ls_shows_title_address_and_id_in_full_in_80_columns(shelf: Shelf) -> None:
    output = shelf.good("ls")

    lines = output.splitlines()
    assert lines[lines.index("Acorns") + 1].strip() == (shelf.notes / "acorns.md").as_uri()
    assert f"  {shelf.id_of('acorns.md')}  version 2, 1 chunk" in output
    assert all(len(line) <= 80 for line in lines if "://" not in line)
    assert "hidden" not in output


def test_ls_can_be_narrowed(shelf: Shelf) -> None:
    assert {each["title"] for each in shelf.json("ls", "--tag", "birds")} == {"Acorns", OWLS}
    assert {each["title"] for each in shelf.json("ls", "-c", "Notes", "-n", "1")} == {OWLS}
    assert shelf.good("ls", "-n", "1").endswith("1 more; see --limit.\n")
    assert shelf.good("ls", "--deleted") == "No documents.\n"
    assert shelf.json("ls", "--host", "example.org") == []


def test_an_empty_folder_says_how_to_begin(home: Path) -> None:
    assert "scrubjay add" in run("ls", home=home).stdout
    assert "scrubjay collections add" in run("collections", home=home).stdout
    assert "scrubjay tags add" in run("tags", home=home).stdout


def test_show_prints_what_a_document_says_and_said(shelf: Shelf) -> None:
    path = str(shelf.notes / "acorns.md")

    assert "autumn and spring" in shelf.good("show", path)
    assert "autumn." in shelf.good("show", shelf.id_of("acorns.md"), "--version", "1")
    assert shelf.json("show", path)["content"] == ACORNS.replace("autumn", "autumn and spring").rstrip("\n")


def test_show_tells_versions_chunks_and_log(shelf: Shelf) -> None:
    name = str(shelf.notes / "acorns.md")
    facts = shelf.json("show", name, "--chunks")
    content = shelf.json("show", name)["content"]

    assert [each["version"] for each in shelf.json("show", name, "--versions")["versions"]] == [2, 1]
    assert "now" in shelf.good("show", name, "--versions")
    assert all(content[each["start_char"] : each["end_char"]] == each["content"] for each in facts["chunks"])
    assert "tokens  prose  Acorns" in shelf.good("show", name, "--chunks")
    assert "INFO  Uploaded; waits to be read." in shelf.good("show", name, "--log")


def test_diff_shows_what_changed(shelf: Shelf) -> None:
    name = str(shelf.notes / "acorns.md")

    lines = shelf.good("diff", name).splitlines()

    assert "-Jays hide acorns in autumn." in lines
    assert "+Jays hide acorns in autumn and spring." in lines
    assert (shelf.json("diff", name)["added_lines"], shelf.json("diff", name)["removed_lines"]) == (1, 1)
    assert "say the same" in shelf.good("diff", name, "--from", "2", "--to", "2")


def test_collections_and_tags_are_listed_with_their_ids(shelf: Shelf) -> None:
    [collection], [tag] = shelf.json("collections", "ls"), shelf.json("tags", "ls")

    assert (collection["name"], collection["documents"]) == ("Notes", 2)
    assert (tag["name"], tag["documents"]) == ("birds", 2)
    assert collection["id"] in shelf.good("collections")
    assert tag["id"] in shelf.good("tags")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "/nothing/here.txt"], "There is no file or folder '/nothing/here.txt'."),
        (["add", "{notes}", "--title", "All"], "--title is for one file"),
        (["add", "-"], "-: There is nothing in it."),
        (["add", "http://10.0.0.1/"], "10.0.0.1 is not public"),
        (["show", NO_ID], NO_ID),
        (["show", "https://example.org/unknown"], "There is no document 'https://example.org/unknown'"),
        (["show", "{notes}/acorns.md", "--version", "9"], "version 9"),
        (["diff", "{notes}/acorns.md", "--from", "7"], "version 7"),
        (["rm", "nothing.txt"], "There is no document 'nothing.txt'"),
        (["undelete", "{notes}/acorns.md"], "is not deleted"),
        (["ls", "-c", "Unknown"], "There is no collection 'Unknown'"),
        (["ls", "--tag", "unknown"], "There is no tag 'unknown'"),
        (["tags", "rm", "{notes}/acorns.md", "unknown"], "There is no tag 'unknown'"),
        (["collections", "rm", "Notes"], "documents"),
        (["collections", "add", "Notes"], "already exists"),
        (["collections", "rename", "Unknown", "Else"], "There is no collection 'Unknown'"),
        (["reindex", NO_ID], NO_ID),
    ],
)
def test_what_cannot_be_done_is_one_sentence(shelf: Shelf, arguments: list[str], words: str) -> None:
    the_sentence(shelf.run(*(each.format(notes=shelf.notes) for each in arguments)), words)


def test_add_goes_on_after_what_it_cannot_read_and_names_it(own_shelf: Shelf) -> None:
    own_shelf.write("empty.txt", "")
    own_shelf.write("wrens.txt", "Wrens are small.")
    (own_shelf.notes / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")

    result = own_shelf.run("add", str(own_shelf.notes))

    assert result.returncode == 1
    told = sorted(line.removeprefix(f"scrubjay: {own_shelf.notes}/") for line in result.stderr.splitlines())
    assert [line.split(":")[0] for line in told] == ["broken.pdf", "empty.txt"]
    assert "Wrens are small." in result.stdout
    failed = own_shelf.good("ls", "--status", "Failed")
    assert ("broken.pdf  Failed" in failed, "empty.txt" in failed) == (True, False)


def test_add_as_json_tells_what_became_of_each(own_shelf: Shelf) -> None:
    own_shelf.write("empty.txt", "")
    own_shelf.write("wrens.txt", "Wrens are small.")

    result = own_shelf.run("add", str(own_shelf.notes), "--json")

    facts = {Path(each["input"]).name: each for each in json.loads(result.stdout)}
    assert (result.returncode, facts["empty.txt"]["error"]) == (1, "There is nothing in it.")
    assert (facts["wrens.txt"]["error"], facts["wrens.txt"]["status"]) == (None, "Completed")


def test_add_reads_standard_input(own_shelf: Shelf) -> None:
    result = subprocess.run(
        [*SCRUBJAY, "--home", str(own_shelf.home), "add", "-", "--title", "Herons"],
        input="A heron stands still for an hour.",
        capture_output=True,
        text=True,
        env=environment(),
        timeout=60,
    )

    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("✓ Herons  adoc_")


def test_a_deleted_document_is_not_found_until_it_is_restored(shelf: Shelf, own_shelf: Shelf) -> None:
    name, document = str(shelf.notes / "deeper/owls.txt"), own_shelf.id_of("owls.txt")

    assert own_shelf.good("rm", name) == f"Deleted {document}\n"
    assert own_shelf.good("rm", document) == f"Was deleted already: {document}\n"
    assert OWLS not in own_shelf.run("search", "owls").stdout
    assert document in own_shelf.good("ls", "--deleted")
    assert own_shelf.good("undelete", name) == f"Restored {document}\n"
    assert OWLS in own_shelf.good("search", "owls")


def test_a_purged_document_leaves_nothing_but_a_body_put_aside(own_shelf: Shelf) -> None:
    document = own_shelf.id_of("owls.txt")
    blobs = own_shelf.home / "blobs"
    bodies = sum(path.is_file() for path in blobs.rglob("*"))

    assert own_shelf.good("rm", "--purge", document) == f"Purged {document}\n"

    the_sentence(own_shelf.run("show", document), document)
    aside = sum(path.is_file() for path in (blobs / "discarded").rglob("*"))
    assert (aside, sum(path.is_file() for path in blobs.rglob("*")) - aside) == (1, bodies - 1)
    with closing(sqlite3.connect(own_shelf.home / "scrubjay.db")) as database:
        for table in ("documents", "document_versions", "chunks", "document_logs"):
            column = "id" if table == "documents" else "document_id"
            assert database.execute(f"select count(*) from {table} where {column} = ?", (document,)).fetchone() == (0,)
    assert "as the documents say" in own_shelf.good("doctor")


def test_a_file_of_two_collections_must_be_named_by_an_id(shelf: Shelf, own_shelf: Shelf) -> None:
    name = str(shelf.notes / "deeper/owls.txt")
    own_shelf.good("add", name, "-c", "Other")

    sentence = the_sentence(own_shelf.run("rm", name), "Several collections")

    assert sentence.count("adoc_") == 2


def test_tags_and_collections_change(own_shelf: Shelf) -> None:
    document = own_shelf.id_of("owls.txt")

    assert own_shelf.good("tags", "add", document, "Night", "hunters") == "birds, hunters, night\n"
    assert own_shelf.good("tags", "rm", document, "hunters") == "Removed.\n"
    assert {each["name"]: each["documents"] for each in own_shelf.json("tags", "ls") if each["documents"]} == {
        "birds": 2, "night": 1,
    }  # fmt: skip
    own_shelf.good("collections", "add", "Birds", "--description", "what flies")
    own_shelf.good("collections", "rename", "Birds", "Fliers")
    assert {each["name"] for each in own_shelf.json("collections", "ls")} == {"Fliers", "Notes"}
    assert own_shelf.good("collections", "rm", "Fliers") == "Removed.\n"
    assert own_shelf.good("collections", "rm", "Notes", "--force") == "Removed.\n"
    assert own_shelf.json("collections", "ls") == []


def test_doctor_finds_and_repairs_a_difference_made_by_hand(own_shelf: Shelf) -> None:
    with closing(sqlite3.connect(own_shelf.home / "scrubjay.db")) as database, database:
        database.execute("update documents set title = 'Other' where title = 'Acorns'")

    found = own_shelf.run("doctor")

    assert (found.returncode, "2 different" in found.stdout, "--repair" in found.stdout) == (1, True, True)
    assert "repaired" in own_shelf.good("doctor", "--repair")
    assert "as the documents say" in own_shelf.good("doctor")


def test_reindex_builds_the_index_anew_or_cuts_one_document_anew(own_shelf: Shelf) -> None:
    before = {path.name for path in (own_shelf.home / "index").iterdir()}

    assert own_shelf.good("reindex") == "Done: 2 documents.\n"

    after = {path.name for path in (own_shelf.home / "index").iterdir()}
    assert (len(after), before & after) == (1, set())
    assert own_shelf.good("reindex", own_shelf.id_of("owls.txt")) == "Done: 1 document.\n"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("onnxruntime") is None, reason="needs scrubjay[minilm]")
def test_another_embedder_takes_over_with_reindex(own_shelf: Shelf) -> None:
    assert own_shelf.good("reindex", SCRUBJAY_EMBEDDER="minilm") == "Done: 2 documents.\n"

    assert OWLS in own_shelf.good("search", "nocturnal predators", SCRUBJAY_EMBEDDER="minilm")
    assert own_shelf.good("reindex") == "Done: 2 documents.\n"
