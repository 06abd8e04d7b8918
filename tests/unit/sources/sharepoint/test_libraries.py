"""Libraries of SharePoint: every file once with what tells whether it changed, never an empty listing by mistake."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.sharepoint_server import SharePointServer, StoredSite

from scrubjay.errors import FetchFailed
from scrubjay.sources.sharepoint import SharePointItem, SharePointSite

DOCUMENTS = "/Shared Documents"


async def listed(site: SharePointSite, part: str = DOCUMENTS, filter_: str | None = None) -> dict[str, SharePointItem]:
    items = [item async for item in site.library_items(part, filter_)]
    found = {item.server_relative_url: item for item in items}
    assert len(found) == len(items)
    return found


async def failure(site: SharePointSite, part: str = DOCUMENTS, filter_: str | None = None) -> FetchFailed:
    with pytest.raises(FetchFailed) as failed:
        await listed(site, part, filter_)
    return failed.value


async def test_a_file_is_listed_with_all_that_the_map_files_want(site: SharePointSite, stored: StoredSite) -> None:
    file = stored.documents.put("Reports/Q1 & 50% #2.docx", b"acorns")

    (item,) = (await listed(site)).values()

    path = "/sites/demo/Shared Documents/Reports/Q1 & 50% #2.docx"
    assert item.sharepoint_listitem_id == file.id
    assert item.sharepoint_unique_file_id == file.unique_id
    assert (item.filename, item.file_type, item.file_size) == ("Q1 & 50% #2.docx", "docx", 6)
    assert item.server_relative_url == path
    assert item.raw_url == site.address.origin + path
    encoded = "/sites/demo/Shared%20Documents/Reports/Q1%20%26%2050%25%20%232.docx"
    assert item.url == site.address.origin + encoded
    assert item.last_modified_utc == file.modified.strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    assert item.last_modified_timestamp == int(file.modified.timestamp())


async def test_more_files_than_a_page_has_are_each_listed_once(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    stored.documents.fill((f"note-{number:04}.txt" for number in range(1203)), b"acorn")
    server.page_size = 500

    assert len(await listed(site)) == 1203
    assert len(server.asked("/items")) == 3
    assert not server.asked("$skip=")


async def test_only_the_folder_of_the_source_is_listed_and_what_is_in_it(
    site: SharePointSite, stored: StoredSite
) -> None:
    for path in ("top.txt", "sub/a.txt", "sub/deep/b.txt", "sub2/c.txt", "it's/d.txt"):
        stored.documents.put(path, b"acorn")

    assert {path.removeprefix(stored.documents.root) for path in await listed(site, f"{DOCUMENTS}/sub")} == {
        "/sub/a.txt",
        "/sub/deep/b.txt",
    }
    assert len(await listed(site, "Shared Documents/it's/")) == 1
    assert len(await listed(site, "/sites/demo/Shared Documents/SUB2")) == 1


async def test_the_filter_of_the_source_is_anded_with_the_folder(site: SharePointSite, stored: StoredSite) -> None:
    stored.documents.put("sub/kept.txt", b"acorn", Department="Nests")
    stored.documents.put("sub/other.txt", b"acorn", Department="Food")
    stored.documents.put("kept-elsewhere.txt", b"acorn", Department="Nests")
    for item in stored.documents.items.values():
        item.columns.setdefault("Department", "")

    found = await listed(site, f"{DOCUMENTS}/sub", "Department eq 'Nests' or Department eq 'Trees'")

    assert [path.rpartition("/")[2] for path in found] == ["kept.txt"]


async def test_a_filter_that_sharepoint_refuses_is_told_in_its_words(site: SharePointSite, stored: StoredSite) -> None:
    stored.documents.put("a.txt", b"acorn")

    assert "Column 'Colour' does not exist" in (await failure(site, filter_="Colour eq 'blue'")).message
    assert '"$filter" is invalid' in (await failure(site, filter_="Colour eq")).message


async def test_a_library_too_large_for_the_filter_is_read_whole_and_sorted_out_here(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    stored.documents.put("sub/wanted.txt", b"acorn")
    stored.documents.fill((f"note-{number}.txt" for number in range(50)), b"acorn")
    server.threshold, server.page_size = 20, 20

    found = await listed(site, f"{DOCUMENTS}/sub")

    assert [path.rpartition("/")[2] for path in found] == ["wanted.txt"]


async def test_a_listing_that_fails_half_way_fails(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    stored.documents.fill((f"note-{number}.txt" for number in range(50)), b"acorn")
    server.page_size = 20
    server.fault("$skiptoken", 500, times=99, body='{"odata.error": {"code": "-1", "message": {"value": "Oops"}}}')

    error = await failure(site)

    assert error.error_type == "server_error"
    assert "/sites/demo/Shared Documents" in error.message
    assert "Oops" in error.message


@pytest.mark.parametrize(
    "body",
    ["<html>sign in</html>", '{"value": null}', '{"error": "x"}', '{"value": ["x"]}', '{"value": [{"Id": 1}]}', "[]"],
)
async def test_an_answer_that_is_no_listing_is_never_an_empty_one(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, body: str
) -> None:
    server.fault("/items", 200, times=99, body=body)

    assert (await failure(site)).error_type == "not_sharepoint"


async def test_a_listing_that_goes_on_elsewhere_or_in_a_circle_fails(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    server.fault("/items", 200, body='{"value": [], "odata.nextLink": "https://elsewhere.example.org/_api/web/x"}')
    assert "another host" in (await failure(site)).message

    server.fault("/items", 200, times=9, body=f'{{"value": [], "odata.nextLink": "{server.url}/again/items"}}')
    assert "circle" in (await failure(site)).message


async def test_a_file_that_comes_twice_because_the_library_changed_meanwhile_is_listed_once(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    row = stored.documents.put("a.txt", b"acorn").row
    server.fault("/items", 200, body=json.dumps({"value": [row], "odata.nextLink": f"{server.url}/next/items"}))
    server.fault("/items", 200, body=json.dumps({"value": [row]}))

    assert [item.filename async for item in site.library_items(DOCUMENTS)] == ["a.txt"]


async def test_a_folder_that_is_not_there_is_not_an_empty_one(site: SharePointSite, stored: StoredSite) -> None:
    stored.documents.put("sub/a.txt", b"acorn")
    stored.documents.add_folder("empty")

    assert await listed(site, f"{DOCUMENTS}/empty") == {}
    assert (await failure(site, f"{DOCUMENTS}/nowhere")).error_type == "not_found"
    error = await failure(site, "/Nowhere")
    assert error.error_type == "not_found"
    assert "'/sites/demo/Shared Documents'" in error.message


async def test_renamed_and_moved_files_keep_their_id_under_another_address(
    site: SharePointSite, stored: StoredSite
) -> None:
    file = stored.documents.put("old.txt", b"acorn")
    before = await listed(site)
    stored.documents.rename("old.txt", "box/new.txt")

    (after,) = (await listed(site)).values()

    assert after.filename == "new.txt"
    assert after.sharepoint_unique_file_id == file.unique_id
    assert after.server_relative_url not in before


async def test_an_item_without_a_file_is_listed_with_its_problem_and_cannot_be_read(
    site: SharePointSite, stored: StoredSite, tmp_path: Path
) -> None:
    stored.documents.put("checked-out.txt", b"acorn").has_file = False

    (item,) = (await listed(site)).values()

    assert item.problem
    with pytest.raises(FetchFailed, match="no file"):
        await site.download(item, tmp_path / "x")


async def test_a_download_has_the_bytes_and_the_time_of_the_file(
    site: SharePointSite, stored: StoredSite, tmp_path: Path
) -> None:
    file = stored.documents.put("it's/50% #1.txt", "Größe".encode())
    big = stored.documents.put("big.bin", 3_000_000)
    items = await listed(site)

    target = tmp_path / "deep" / "er" / "x.txt"
    await site.download(items[file.path], target)
    assert target.read_text() == "Größe"
    assert datetime.fromtimestamp(target.stat().st_mtime, UTC) == file.modified

    assert await site.download(items[big.path], tmp_path / "big") == 3_000_000
    assert (tmp_path / "big").stat().st_size == 3_000_000
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


async def test_what_cannot_be_read_or_is_gone_fails_for_that_file_alone(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, tmp_path: Path
) -> None:
    for name in ("secret.txt", "gone.txt", "cut.txt", "fine.txt"):
        stored.documents.put(name, b"acorn" * 100_000)
    items = {item.filename: item for item in (await listed(site)).values()}
    server.unreadable.add(items["secret.txt"].server_relative_url)
    server.cut_off.add(items["cut.txt"].server_relative_url)
    stored.documents.remove("gone.txt")

    types = {}
    for name in ("secret.txt", "gone.txt", "cut.txt"):
        with pytest.raises(FetchFailed) as failed:
            await site.download(items[name], tmp_path / name)
        types[name] = failed.value.error_type
        assert name in failed.value.message
    await site.download(items["fine.txt"], tmp_path / "fine.txt")

    assert types == {"secret.txt": "forbidden", "gone.txt": "not_found", "cut.txt": "incomplete"}
    assert [path.name for path in tmp_path.iterdir()] == ["fine.txt"]


@pytest.mark.slow
async def test_a_library_of_100_000_items_is_listed_in_twenty_requests(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    stored.documents.fill((f"note-{number}.txt" for number in range(100_000)), b"acorn")
    server.threshold = 5000

    assert sum([1 async for _ in site.library_items(DOCUMENTS)]) == 100_000
    assert len(server.asked("/items")) == 21  # one is refused: there is no index
