"""What a SharePoint site of the tests has in it: libraries, lists of every column type, pages."""

import html
import itertools
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass
class StoredItem:
    """A file or folder. `content` may be a number: so many bytes are made when they are asked for."""

    id: int
    path: str
    content: bytes | int = b""
    modified: datetime = START
    is_folder: bool = False
    columns: dict[str, Any] = field(default_factory=dict)
    unique_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    has_file: bool = True

    @property
    def size(self) -> int:
        return self.content if isinstance(self.content, int) else len(self.content)

    @property
    def row(self) -> dict[str, Any]:
        file = {"Length": str(self.size), "Name": self.path.rpartition("/")[2]}
        return {
            "Id": self.id, "ID": self.id, "UniqueId": self.unique_id, "FileRef": self.path,
            "FileLeafRef": self.path.rpartition("/")[2], "FSObjType": int(self.is_folder),
            "File": None if self.is_folder or not self.has_file else file, "Modified": stamp(self.modified),
            **self.columns,
        }  # fmt: skip


class StoredList:
    """A list, or a library with its files."""

    base_type = 0

    def __init__(self, title: str, root: str) -> None:
        self.id = str(uuid.uuid4())
        self.title = title
        self.root = root
        self.fields: list[dict[str, Any]] = []
        self.items: dict[int, StoredItem] = {}
        self.clock = START
        self.modified = START
        self.deleted = START
        self._ids = itertools.count(1)

    def tick(self) -> datetime:
        self.clock += timedelta(seconds=1)
        self.modified = self.clock
        return self.clock

    @property
    def deferred(self) -> tuple[str, ...]:
        kinds = ("User", "UserMulti", "Lookup", "LookupMulti")
        return (*(each["EntityPropertyName"] for each in self.fields if each["TypeAsString"] in kinds),
                "File", "AttachmentFiles", "TaxCatchAll")  # fmt: skip

    @property
    def row(self) -> dict[str, Any]:
        return {
            "Id": self.id, "Title": self.title, "BaseType": self.base_type, "ItemCount": len(self.items),
            "RootFolder": {"ServerRelativeUrl": self.root},
            "LastItemModifiedDate": stamp(self.modified), "LastItemDeletedDate": stamp(self.deleted),
        }  # fmt: skip

    def rows(self) -> Iterator[dict[str, Any]]:
        return (self.items[number].row for number in sorted(self.items))

    def add_row(self, **columns: Any) -> StoredItem:
        number = next(self._ids)
        item = StoredItem(number, f"{self.root}/{number}_.000", columns=columns, modified=self.tick())
        self.items[number] = item
        return item


class StoredLibrary(StoredList):
    base_type = 1

    def at(self, path: str) -> StoredItem:
        whole = path if path.startswith("/") else f"{self.root}/{path}"
        return next(item for item in self.items.values() if item.path.lower() == whole.lower())

    def put(self, path: str, content: bytes | int, **columns: Any) -> StoredItem:
        """Add a file with the folders around it, or change it."""
        whole = f"{self.root}/{path}"
        try:
            item = self.at(whole)
        except StopIteration:
            parent = path.rpartition("/")[0]
            if parent:
                self.add_folder(parent)
            item = self.items[number] = StoredItem(
                number := next(self._ids), whole, content, self.tick(), columns=columns
            )
        else:
            item.content, item.modified = content, self.tick()
            item.columns |= columns
        return item

    def fill(self, names: Iterable[str], content: bytes) -> None:
        """Many new files at once."""
        for name in names:
            number = next(self._ids)
            self.items[number] = StoredItem(number, f"{self.root}/{name}", content, self.tick())

    def add_folder(self, path: str) -> None:
        for end in (*(index for index, mark in enumerate(path) if mark == "/"), len(path)):
            whole = f"{self.root}/{path[:end]}"
            if not any(item.path == whole for item in self.items.values()):
                folder = StoredItem(next(self._ids), whole, is_folder=True, modified=self.tick())
                self.items[folder.id] = folder

    def remove(self, path: str) -> None:
        """A file, or a folder with all that is in it."""
        item = self.at(path)
        for each in [each for each in self.items.values() if each is item or each.path.startswith(f"{item.path}/")]:
            del self.items[each.id]
        self.deleted = self.tick()

    def rename(self, path: str, name: str) -> None:
        """Another name in the same folder or, with slashes, in another one."""
        item = self.at(path)
        before, after = item.path, f"{self.root}/{name}"
        for each in self.items.values():
            if each is item or each.path.startswith(f"{before}/"):
                each.path = after + each.path[len(before) :]


def column(name: str, kind: str, title: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "InternalName": name, "Title": title or name, "TypeAsString": kind, "EntityPropertyName": name, "Hidden": False,
        "ReadOnlyField": False, "LookupField": "", "RichText": False, **more,
    }  # fmt: skip


def person(name: str, email: str | None) -> dict[str, Any]:
    return {"Title": name, "EMail": email}


def term(number: int, words: str) -> dict[str, Any]:
    """Of a column with one term: its number where its label should be."""
    return {"Label": str(number), "TermGuid": str(uuid.UUID(int=number)), "WssId": number, "_words": words}


ICE_CREAM_FIELDS = (
    column("Title", "Text"),
    column("Flavour", "Text"),
    column("Story", "Note", RichText=True),
    column("Remark", "Note"),
    column("Scoops", "Number"),
    column("Price", "Currency"),
    column("Launched", "DateTime"),
    column("Tasted", "DateTime"),
    column("Vegan", "Boolean"),
    column("Size", "Choice"),
    column("Toppings", "MultiChoice"),
    column("Shop", "Lookup", LookupField="Title"),
    column("Shops", "LookupMulti", LookupField="Name"),
    column("Maker", "User"),
    column("Tasters", "UserMulti"),
    column("Site", "URL", "Home page"),
    column("Kind", "TaxonomyFieldType"),
    column("Kinds", "TaxonomyFieldTypeMulti"),
    column("Total", "Calculated", ReadOnlyField=True),
    column("Picture", "Thumbnail"),
    column("_x0032_nd", "Text", "2nd name", EntityPropertyName="OData__x0032_nd"),
    column("Attachments", "Attachments"),
    column("Author", "User", "Created By", ReadOnlyField=True),
    column("Modified", "DateTime", ReadOnlyField=True),
    column("LinkTitle", "Computed", ReadOnlyField=True),
    column("_UIVersionString", "Text", "Version", ReadOnlyField=True),
    column("Secret", "Text", Hidden=True),
)

VANILLA: Mapping[str, Any] = {
    "Title": "Vanilla",
    "Flavour": "Bourbon | Tahiti",
    "Story": "<div><p>Made with <strong>real</strong> beans.</p><ul><li>cold</li><li>sweet</li></ul></div>",
    "Remark": "two\nlines",
    "Scoops": 3.0,
    "Price": 2.5,
    "Launched": "2026-03-01T00:00:00Z",
    "Tasted": "2026-03-02T14:30:00Z",
    "Vegan": False,
    "Size": "Large",
    "Toppings": ["Nuts", "Sauce"],
    "Shop": {"Title": "Corner shop"},
    "Shops": [{"Name": "North"}, {"Name": "South"}],
    "Maker": person("Ada Jay", "ada@example.org"),
    "Tasters": [person("Bo Crow", "bo@example.org"), person("Guests", None)],
    "Site": {"Url": "https://ice.example.org/vanilla", "Description": "All about it"},
    "Kind": {"Label": "7", "TermGuid": "x", "WssId": 7},
    "Kinds": [{"Label": "Cold", "TermGuid": "y", "WssId": 8}, {"Label": "Sweet", "TermGuid": "z", "WssId": 9}],
    "TaxCatchAll": [{"ID": 7, "Term": "Dairy"}, {"ID": 8, "Term": "Cold"}, {"ID": 9, "Term": "Sweet"}],
    "Total": "float;#7.50000000000000",
    "Picture": json.dumps({"fileName": "vanilla.png", "serverRelativeUrl": "/x/vanilla.png"}),
    "OData__x0032_nd": "Classic",
    "Attachments": True,
    "AttachmentFiles": [{"FileName": "recipe.pdf"}, {"FileName": "photo.jpg"}],
    "Author": person("System", None),
    "_UIVersionString": "1.0",
    "Secret": "hidden",
}
NOTHING: Mapping[str, Any] = dict.fromkeys(VANILLA) | {
    "Title": "Air", "Tasters": [], "Toppings": [], "Shops": [], "Kinds": [], "TaxCatchAll": [], "AttachmentFiles": [],
    "Vegan": True, "Attachments": False,
}  # fmt: skip


def ice_creams(root: str) -> StoredList:
    """A list with a column of every type, one row that fills them all and one that fills none."""
    made = StoredList("Ice creams", f"{root}/Lists/Ice creams")
    made.fields = [dict(each) for each in ICE_CREAM_FIELDS]
    made.add_row(**VANILLA)
    made.add_row(**NOTHING)
    return made


def text_box(words: str, *, zone: int = 1, control: int = 1) -> str:
    data = {"controlType": 4, "position": {"zoneIndex": zone, "sectionIndex": 1, "controlIndex": control}}
    return (
        f'<div data-sp-canvascontrol="" data-sp-canvasdataversion="1.0" data-sp-controldata="{_attribute(data)}">'
        f'<div data-sp-rte=""><div class="ck-content">{words}</div></div></div>'
    )


def web_part(content: Mapping[str, Any], *, zone: int = 1, control: int = 1, **properties: Any) -> str:
    place = {"controlType": 3, "position": {"zoneIndex": zone, "sectionIndex": 1, "controlIndex": control}}
    data = {"id": "c4bd7b2f", "title": "Web part", "serverProcessedContent": content, "properties": properties}
    return (
        f'<div data-sp-canvascontrol="" data-sp-controldata="{_attribute(place)}">'
        f'<div data-sp-webpart="" data-sp-webpartdata="{_attribute(data)}">'
        '<div data-sp-componentid="">c4bd7b2f</div><div data-sp-htmlproperties=""></div></div></div>'
    )


def canvas(*boxes: str) -> str:
    return f"<div>{''.join(boxes)}</div>"


def _attribute(data: Mapping[str, Any]) -> str:
    return html.escape(json.dumps(data))
