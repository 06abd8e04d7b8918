"""Which items of a listing count: system files, and a plan's filter (spec 000 §5.2.1–2)."""

from typing import Any

import pytest

from scrubjay.model.plan import FilterSettings
from scrubjay.model.source import SourceItem
from scrubjay.plans.filters import is_system_file, matches_filter


@pytest.mark.parametrize(
    "key", ["a/.DS_Store", "Thumbs.db", "b/~draft.docx", ".dropbox.cache", "x.SWP", "y.tmp", "z.bak"]
)
def test_system_and_temporary_files_are_no_content(key: str) -> None:
    assert is_system_file(key)


@pytest.mark.parametrize("key", ["a/report.pdf", "tmp/notes.txt", "bak.md", "swp", "désktop.txt", "a~b.txt"])
def test_other_files_are(key: str) -> None:
    assert not is_system_file(key)


def item(**values: Any) -> SourceItem:
    return SourceItem(
        **{"key": "Docs/Report.PDF", "key_hash": "0", "content_type": "text/html", "content_length": 100, **values}
    )


@pytest.mark.parametrize(
    ("wanted", "found", "passes"),
    [
        ({}, {}, True),
        ({}, {"content_length": 0}, False),
        ({}, {"is_folder": True}, False),
        ({"object_prefix": "docs/"}, {}, True),
        ({"object_prefix": "other/"}, {}, False),
        ({"object_suffix": ".pdf"}, {}, True),
        ({"object_suffix": ".md"}, {}, False),
        ({"allowed_content_types": ("text/html",)}, {"content_type": "text/html; charset=utf-8"}, True),
        ({"allowed_content_types": ("TEXT/HTML; charset=ascii",)}, {}, True),
        ({"allowed_content_types": ("text/*",)}, {"content_type": "text/plain"}, True),
        ({"allowed_content_types": ("text/*",)}, {"content_type": "application/pdf"}, False),
        ({"allowed_content_types": ("text/*",)}, {"content_type": None}, False),
        ({"allowed_content_types": ()}, {"content_type": None}, True),
        ({"minimum_size": 100, "maximum_size": 100}, {}, True),
        ({"minimum_size": 101}, {}, False),
        ({"maximum_size": 99}, {}, False),
        ({"minimum_size": 101}, {"content_length": None}, True),
    ],
)
def test_a_filter_lets_through_what_it_names(wanted: dict[str, Any], found: dict[str, Any], passes: bool) -> None:
    assert matches_filter(item(**found), FilterSettings(**wanted)) is passes
