"""The File connector: only folders that the operator opened, nothing that leads out of them, and odd names."""

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sources import Workplace, set_mtime

from scrubjay.errors import ConfigurationError, FetchFailed
from scrubjay.model.source import SourceItem, hash_key
from scrubjay.settings import load_settings
from scrubjay.sources.file_types import guess_content_type
from scrubjay.sources.filesystem import BATCH_STEPS, FILE
from scrubjay.sources.filesystem_walk import MAX_DEPTH, Bounds, key_of, parts_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

REFUSALS = {"forbidden", "not_a_folder", "not_found"}
LATIN_1 = b"caf\xe9.txt"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "open" / "docs"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "open" / "secret"
    made.mkdir(parents=True)
    (made / "key.txt").write_text("hunter2")
    return made


@pytest.fixture
def place(house: Workplace, tmp_path: Path) -> Workplace:
    return house.with_settings(file_roots=(tmp_path / "open",))


@pytest.fixture
def open_descriptors() -> Iterator[None]:
    before = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


async def keys(place: Workplace, folder: Path, **settings: object) -> set[str]:
    async with place.opened(FILE, path=str(folder), **settings) as connector:
        found = await place.by_key(connector)
        assert connector.problems == []
        return set(found)


async def read(place: Workplace, folder: Path, key: str, **settings: object) -> bytes:
    async with place.opened(FILE, path=str(folder), **settings) as connector:
        content = await connector.read(SourceItem(key=key, key_hash=hash_key(key)))
    assert content.data is not None
    return content.data


async def refusal(place: Workplace, folder: Path, key: str, **settings: object) -> str:
    with pytest.raises(FetchFailed) as failed:
        await read(place, folder, key, **settings)
    return failed.value.error_type


async def test_without_the_setting_no_folder_may_be_read(house: Workplace, folder: Path) -> None:
    async with house.opened(FILE, path=str(folder)) as connector:
        with pytest.raises(FetchFailed, match="SCRUBJAY_FILE_ROOTS") as failed:
            await house.list(connector)
        assert failed.value.error_type == "forbidden"
        assert "SCRUBJAY_FILE_ROOTS" in (await connector.check()).message


async def test_a_folder_that_is_not_inside_an_allowed_one_may_not_be_read(place: Workplace, tmp_path: Path) -> None:
    (tmp_path / "openly").mkdir()
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(tmp_path / "openly")

    for path in (tmp_path, tmp_path / "openly", tmp_path / "open" / ".." / "openly", tmp_path / "open" / "link"):
        async with place.opened(FILE, path=str(path)) as connector:
            with pytest.raises(FetchFailed, match="SCRUBJAY_FILE_ROOTS"):
                await place.list(connector)


async def test_a_file_is_no_folder(place: Workplace, folder: Path) -> None:
    (folder / "a.txt").write_text("a")

    async with place.opened(FILE, path=str(folder / "a.txt")) as connector:
        with pytest.raises(FetchFailed) as failed:
            await place.list(connector)

    assert failed.value.error_type == "not_a_folder"


async def test_the_validators_are_size_date_to_the_microsecond_and_type(place: Workplace, folder: Path) -> None:
    (folder / "sub").mkdir()
    file = folder / "sub" / "Report.PDF"
    file.write_bytes(b"12345")
    set_mtime(file, 1_700_000_000_123_456_789)

    async with place.opened(FILE, path=str(folder)) as connector:
        (item,) = await place.list(connector)
        content = await connector.read(item)

    assert (item.key, item.content_length, item.content_type) == ("sub/Report.PDF", 5, "application/pdf")
    assert item.last_modified_at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    assert (content.url, content.filename) == (file.as_uri(), "Report.PDF")


async def test_subfolders_are_left_alone_when_asked_to(place: Workplace, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "b.txt").write_text("b")
    (folder / "a.txt").write_text("a")

    assert await keys(place, folder) == {"a.txt", "sub/b.txt"}
    assert await keys(place, folder, recursive=False) == {"a.txt"}


async def test_links_are_not_followed_unless_asked_to(place: Workplace, folder: Path, outside: Path) -> None:
    (folder / "a.txt").write_text("acorns")
    (folder / "again.txt").symlink_to("a.txt")

    assert await keys(place, folder) == {"a.txt"}
    assert await refusal(place, folder, "again.txt") == "forbidden"
    assert await keys(place, folder, follow_symlinks=True) == {"a.txt", "again.txt"}
    assert await read(place, folder, "again.txt", follow_symlinks=True) == b"acorns"


@pytest.mark.usefixtures("open_descriptors")
async def test_no_link_leads_out_of_the_folder(place: Workplace, folder: Path, outside: Path) -> None:
    (folder / "a.txt").write_text("a")
    (folder / "file").symlink_to(outside / "key.txt")
    (folder / "relative").symlink_to("../secret/key.txt")
    (folder / "folder").symlink_to(outside)
    (folder / "passwd").symlink_to("/etc/passwd")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "circle").symlink_to("circle")
    (folder / "up").symlink_to(".")

    for follow in (False, True):
        assert await keys(place, folder, follow_symlinks=follow) == {"a.txt"}
        for key in ("file", "relative", "folder/key.txt", "passwd", "../secret/key.txt", "up/file", "/etc/passwd"):
            assert await refusal(place, folder, key, follow_symlinks=follow) in REFUSALS, key


async def test_what_is_swapped_for_a_link_after_it_was_listed_is_not_read(
    place: Workplace, folder: Path, outside: Path
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "key.txt").write_text("harmless")
    assert await read(place, folder, "sub/key.txt") == b"harmless"
    (folder / "sub" / "key.txt").unlink()
    (folder / "sub").rmdir()
    (folder / "sub").symlink_to(outside)

    with pytest.raises(FetchFailed):
        await read(place, folder, "sub/key.txt")


async def test_a_link_swapped_between_the_look_and_the_opening_is_not_followed(
    place: Workplace, folder: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "a.txt").write_text("harmless")

    def swap(bounds: Bounds, parts: tuple[str, ...]) -> tuple[str, ...]:
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(outside / "key.txt")
        return tuple(parts)

    monkeypatch.setattr(Bounds, "resolve_link", swap)

    assert await refusal(place, folder, "a.txt", follow_symlinks=True) == "forbidden"


async def test_pipes_and_sockets_are_no_content(place: Workplace, folder: Path) -> None:
    (folder / "a.txt").write_text("a")
    os.mkfifo(folder / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    with listening:
        here = Path.cwd()
        os.chdir(folder)  # a socket's path may not be long
        try:
            listening.bind("socket")
        finally:
            os.chdir(here)
        assert await keys(place, folder) == {"a.txt"}
        assert await refusal(place, folder, "pipe") == "forbidden"


async def test_names_that_are_not_utf8_have_keys_that_can_be_stored_and_read(place: Workplace, folder: Path) -> None:
    for name in (LATIN_1, "caf\ufffdE9.txt".encode(), b"100%\n.txt", "ü".encode(), b"\xed\xa0\x80"):
        (folder / os.fsdecode(name)).write_bytes(name)

    async with place.opened(FILE, path=str(folder)) as connector:
        found = await place.by_key(connector)
        contents = {key: await connector.read(item) for key, item in found.items()}

    assert len(found) == 5
    assert {content.data for content in contents.values()} >= {LATIN_1, b"\xed\xa0\x80"}
    for key, content in contents.items():
        assert key.encode()
        assert (content.filename or "").encode()
        assert content.url.isascii()
    assert contents["caf\ufffdE9.txt"].data == LATIN_1
    assert contents["caf\ufffdE9.txt"].url.endswith("/caf%E9.txt")


async def test_a_key_can_be_turned_back_into_every_name() -> None:
    for name in (LATIN_1, b"\xff\xfe", "\ufffd41".encode(), "a\ufffd".encode(), b"plain", "…".encode()):
        parts = ("sub", os.fsdecode(name))
        assert parts_of(key_of(parts)) == parts


async def test_a_file_above_the_limit_is_listed_and_not_read(place: Workplace, folder: Path) -> None:
    (folder / "big.txt").write_bytes(b"x" * 11)

    assert await keys(place, folder, max_bytes=10) == {"big.txt"}
    assert await refusal(place, folder, "big.txt", max_bytes=10) == "too_large"
    assert await refusal(place, folder, "gone.txt", follow_symlinks=True) == "not_found"
    assert await read(place, folder, "big.txt", max_bytes=11) == b"x" * 11


@pytest.mark.usefixtures("open_descriptors")
async def test_a_subfolder_that_cannot_be_read_is_a_problem_and_the_rest_is_listed(
    place: Workplace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("good", "bad"):
        (folder / name).mkdir()
        (folder / name / "a.txt").write_text("a")
    open_child = Bounds.open_child

    # As a permission would do it, which does not hold for root.
    def deny(bounds: Bounds, parent: int, name: str) -> int:
        if name == "bad":
            raise PermissionError(13, "Permission denied")
        return open_child(bounds, parent, name)

    monkeypatch.setattr(Bounds, "open_child", deny)

    async with place.opened(FILE, path=str(folder)) as connector:
        assert set(await place.by_key(connector)) == {"good/a.txt"}
        assert connector.problems == ["'bad' cannot be read: Permission denied."]
        monkeypatch.undo()
        assert set(await place.by_key(connector)) == {"good/a.txt", "bad/a.txt"}
        assert connector.problems == []


async def test_a_folder_that_is_too_deep_is_a_problem(place: Workplace, folder: Path) -> None:
    deep = folder
    for _ in range(MAX_DEPTH + 1):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "lost.txt").write_text("a")
    (deep.parent / "found.txt").write_text("a")

    async with place.opened(FILE, path=str(folder)) as connector:
        (item,) = await place.list(connector)
        (problem,) = connector.problems

    assert item.key.endswith("d/found.txt")
    assert f"more than {MAX_DEPTH} folders deep" in problem


async def test_scrubjays_own_data_is_never_read(house: Workplace, tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (home / "secret.key").write_text("hunter2")
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "link.txt").symlink_to(home / "secret.key")
    place = house.with_settings(home=home, file_roots=(tmp_path,))

    assert await keys(place, tmp_path, follow_symlinks=True) == {"a.txt"}
    assert await refusal(place, tmp_path, "home/secret.key") == "forbidden"
    assert await refusal(place, tmp_path, "link.txt", follow_symlinks=True) == "forbidden"
    for path in (home, home / "sub"):
        async with place.opened(FILE, path=str(path)) as connector:
            assert not (await connector.check()).works


@pytest.mark.usefixtures("open_descriptors")
async def test_a_cancelled_listing_of_many_files_stops_in_between_and_closes_its_folders(
    place: Workplace, folder: Path
) -> None:
    for number in range(2 * BATCH_STEPS + 10):
        (folder / f"{number}.txt").touch()

    async with place.opened(FILE, path=str(folder)) as connector:
        seen = await place.list_until_cancelled(connector)

    assert 0 < len(seen) <= BATCH_STEPS


@pytest.mark.usefixtures("open_descriptors")
async def test_a_listing_that_nobody_reads_to_its_end_closes_its_folders(place: Workplace, folder: Path) -> None:
    (folder / "sub").mkdir()
    for number in range(BATCH_STEPS + 10):
        (folder / "sub" / f"{number}.txt").touch()

    async with place.opened(FILE, path=str(folder)) as connector:
        assert len(await place.list(connector, limit=1)) == 1


@pytest.mark.parametrize("path", ["docs", "~/docs", "/a\0b", ""])
async def test_a_path_that_is_not_absolute_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="must be absolute"):
        FILE.read_settings({"path": path})


@pytest.mark.parametrize(
    ("name", "content_type"),
    [
        ("a/b.md", "text/markdown"),
        ("b.DOCX", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        ("b.epub", "application/epub+zip"),
        ("b.jsonl", "application/jsonl"),
        ("b.html", "text/html"),
        ("b.tar.gz", "application/gzip"),
        ("data:b.html", "text/html"),
        ("README", None),
        (".md", None),
    ],
)
async def test_the_type_is_what_the_name_says(name: str, content_type: str | None) -> None:
    assert guess_content_type(name) == content_type


async def test_the_setting_is_a_list_of_absolute_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings().file_roots == ()
    monkeypatch.setenv("SCRUBJAY_FILE_ROOTS", "/data, /srv/docs,")
    assert load_settings().file_roots == (Path("/data"), Path("/srv/docs"))
    monkeypatch.setenv("SCRUBJAY_FILE_ROOTS", "/data,docs")
    with pytest.raises(ConfigurationError, match="SCRUBJAY_FILE_ROOTS"):
        load_settings()
