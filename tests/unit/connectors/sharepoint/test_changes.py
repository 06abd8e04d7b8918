"""Changes since a token: what the log tells, and when only a listing can."""

from urllib.parse import quote

from tests.sharepoint_server import SharePointServer, StoredSite

from scrubjay.connectors.sharepoint import LibraryChanges, SharePointSite

DOCUMENTS = "/Shared Documents"


async def look(site: SharePointSite, part: str = DOCUMENTS) -> tuple[str, list[int]]:
    token = await site.change_token(part)
    assert token is not None
    return token, [item.sharepoint_listitem_id async for item in site.library_items(part)]


async def changes_since(
    site: SharePointSite, token: str, known: list[int], part: str = DOCUMENTS, filter_: str | None = None
) -> LibraryChanges | None:
    return await site.library_changes(part, since=token, known_ids=known, filter=filter_)


async def test_added_changed_renamed_and_deleted_files_are_told_without_a_listing(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    files = {name: stored.documents.put(name, b"acorn") for name in ("same", "changed", "renamed", "gone")}
    token, known = await look(site)
    stored.documents.put("changed", b"beetle")
    stored.documents.put("added", b"acorn")
    stored.documents.rename("renamed", "other")
    stored.documents.remove("gone")
    server.requests.clear()

    changes = await changes_since(site, token, known)

    assert changes is not None
    assert {item.filename for item in changes.items} == {"changed", "added", "other"}
    assert changes.removed_ids == {files["gone"].id}
    assert len(server.asked("_api")) == 2
    again = await changes_since(site, changes.token, known)
    assert again is not None
    assert (list(again.items), again.removed_ids) == ([], frozenset())


async def test_many_changes_of_a_large_library_are_looked_up_some_at_a_time(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    token, _ = await look(site)
    stored.documents.fill((f"note-{number}" for number in range(1500)), b"acorn")
    server.requests.clear()

    changes = await changes_since(site, token, list(range(2000, 152_000)))

    assert changes is not None
    assert len(changes.items) == 1500
    assert len(server.asked("/items")) == 22
    longest = max(len(quote(request.target.partition("?")[2])) for request in server.asked("/items"))
    assert longest < 2048


async def test_what_left_the_folder_or_the_filter_is_removed(site: SharePointSite, stored: StoredSite) -> None:
    moved = stored.documents.put("box/moved", b"acorn", Kind="note")
    retagged = stored.documents.put("box/retagged", b"acorn", Kind="note")
    outside = stored.documents.put("outside", b"acorn", Kind="note")
    for item in stored.documents.items.values():
        item.columns.setdefault("Kind", "")
    part = f"{DOCUMENTS}/box"
    token, known = await look(site, part)
    stored.documents.rename("box/moved", "elsewhere")
    stored.documents.put("box/retagged", b"acorn", Kind="other")
    stored.documents.put("outside", b"beetle")

    large = [*known, *range(1000, 9000)]  # of a small library, it would be cheaper to list it
    changes = await changes_since(site, token, large, part, "Kind eq 'note'")

    assert changes is not None
    assert list(changes.items) == []
    assert changes.removed_ids == {moved.id, retagged.id}
    assert outside.id not in known


async def test_a_folder_that_was_renamed_or_deleted_needs_a_listing(site: SharePointSite, stored: StoredSite) -> None:
    stored.documents.put("box/a", b"acorn")
    stored.documents.put("bin/b", b"acorn")
    token, known = await look(site)

    stored.documents.rename("box", "chest")
    assert await changes_since(site, token, known) is None

    token, known = await look(site)
    stored.documents.remove("bin")
    assert await changes_since(site, token, known) is None


async def test_a_new_folder_with_files_needs_none(site: SharePointSite, stored: StoredSite) -> None:
    token, known = await look(site)
    stored.documents.put("new/a", b"acorn")

    changes = await changes_since(site, token, known)

    assert changes is not None
    assert [item.filename for item in changes.items] == ["a"]


async def test_a_token_that_is_too_old_or_a_log_that_is_not_there_needs_a_listing(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    token, known = await look(site)
    stored.documents.put("a", b"acorn")
    stored.documents.first_kept = 1
    assert await changes_since(site, token, known) is None

    stored.documents.first_kept = 0
    server.has_changes = False
    assert await changes_since(site, token, known) is None


async def test_a_listing_is_preferred_when_it_takes_fewer_requests(site: SharePointSite, stored: StoredSite) -> None:
    stored.documents.fill((f"note-{number}" for number in range(71)), b"acorn")
    token, known = await look(site)

    for number in range(70):
        stored.documents.put(f"note-{number}", b"beetle")
    few = await changes_since(site, token, known)
    assert few is not None
    assert len(few.items) == 70

    stored.documents.put("note-70", b"beetle")
    assert await changes_since(site, token, known) is None
