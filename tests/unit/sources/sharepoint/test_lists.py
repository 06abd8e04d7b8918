"""Lists as Markdown and CSV: every type of column, people, many values, and no system columns."""

import csv
import io

import pytest
from tests.sharepoint_content import StoredList, column, ice_creams, person
from tests.sharepoint_server import SharePointServer, StoredSite

from scrubjay.errors import FetchFailed
from scrubjay.sources.sharepoint import SharePointSite

ICE_CREAMS = """\
# Ice creams

### Vanilla

- Flavour: Bourbon | Tahiti
- Story: Made with **real** beans.

  - cold
  - sweet
- Remark: two
  lines
- Scoops: 3
- Price: 2.5
- Launched: 2026-03-01
- Tasted: 2026-03-02 14:30 UTC
- Vegan: No
- Size: Large
- Toppings: Nuts | Sauce
- Shop: Corner shop
- Shops: North | South
- Maker: Ada Jay <ada@example.org>
- Tasters: Bo Crow <bo@example.org> | Guests
- Home page: All about it <https://ice.example.org/vanilla>
- Kind: Dairy
- Kinds: Cold | Sweet
- Total: 7.5
- Picture: vanilla.png
- 2nd name: Classic
- Attachments: recipe.pdf | photo.jpg

### Air

- Vegan: Yes
"""


@pytest.fixture
def ices(stored: StoredSite) -> StoredList:
    made = ice_creams(stored.path)
    stored.lists.append(made)
    return made


def simple(stored: StoredSite, title: str, *fields: dict[str, object]) -> StoredList:
    made = StoredList(title, f"{stored.path}/Lists/{title}")
    made.fields = [column("Title", "Text"), *fields]
    stored.lists.append(made)
    return made


async def test_every_type_of_column_is_written_for_people(site: SharePointSite, ices: StoredList) -> None:
    export = await site.list_items("Ice creams")

    assert export.markdown == ICE_CREAMS
    assert export.title == "Ice creams"
    assert export.url.endswith("/sites/demo/Lists/Ice%20creams")
    assert export.last_modified_timestamp == int(ices.modified.timestamp())


async def test_system_and_hidden_columns_are_left_out(site: SharePointSite, ices: StoredList) -> None:
    export = await site.list_items("Ice creams")

    assert not {"Created By", "Modified", "Version", "Secret", "LinkTitle"} & set(export.columns)
    assert "hidden" not in export.markdown + export.csv


async def test_the_csv_file_has_every_row_and_the_notes_as_they_are(site: SharePointSite, ices: StoredList) -> None:
    export = await site.list_items("Ice creams")

    first, second = csv.DictReader(io.StringIO(export.csv, newline=""))
    assert list(first) == ["Id", *export.columns]
    assert (first["Id"], first["Title"], first["Toppings"]) == ("1", "Vanilla", "Nuts | Sauce")
    assert first["Story"].startswith("<div><p>Made with <strong>")
    assert first["Remark"] == "two\nlines"
    assert (second["Title"], second["Flavour"]) == ("Air", "")
    assert export.rows[0]["Maker"] == "Ada Jay <ada@example.org>"


async def test_a_list_with_more_lookups_than_sharepoint_follows_at_once_is_read_in_turns(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    names = [f"Person{number}" for number in range(20)]
    people = simple(stored, "People", *(column(name, "User") for name in names))
    for _ in range(3):
        people.add_row(Title="Flock", **{name: person(name, f"{name}@example.org") for name in names})

    export = await site.list_items("People")

    assert len(export.rows) == 3
    for row in export.rows:
        assert [row[name] for name in names] == [f"{name} <{name}@example.org>" for name in names]
    assert len(server.asked("/items")) == 3


async def test_pages_of_a_long_list_are_followed_and_filtered(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    long = simple(stored, "O'Brien's \"list\"", column("Number", "Number"))
    for number in range(250):
        long.add_row(Title=f"Row {number}", Number=float(number))
    server.page_size = 40

    export = await site.list_items("O'Brien's \"list\"", "Number ge 50 and Number lt 200")

    assert [row["Number"] for row in export.rows] == [str(number) for number in range(50, 200)]


async def test_a_listing_that_fails_half_way_gives_no_list(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    long = simple(stored, "Long")
    for number in range(50):
        long.add_row(Title=f"Row {number}")
    server.page_size = 20
    server.fault("$skiptoken", 500, times=99)

    with pytest.raises(FetchFailed):
        await site.list_items("Long")


async def test_a_list_that_is_not_there_is_named(site: SharePointSite, stored: StoredSite) -> None:
    with pytest.raises(FetchFailed, match="'Nowhere'") as failed:
        await site.list_items("Nowhere")

    assert failed.value.error_type == "not_found"


async def test_columns_of_one_title_and_rows_without_one_keep_apart(site: SharePointSite, stored: StoredSite) -> None:
    odd = simple(stored, "Odd", column("A", "Text", "Same"), column("B", "Text", "Same"), column("Id2", "Text", "Id"))
    odd.add_row(Title=None, A="first", B="second", Id2="third")

    export = await site.list_items("Odd")

    assert export.markdown == "# Odd\n\n### Item 1\n\n- Same: first\n- Same (B): second\n- Id (Id2): third\n"


async def test_an_empty_list_is_its_heading(site: SharePointSite, stored: StoredSite) -> None:
    simple(stored, "Empty")

    export = await site.list_items("Empty")

    assert (export.markdown, export.csv, list(export.rows)) == ("# Empty\n", "Id,Title\r\n", [])
