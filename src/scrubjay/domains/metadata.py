"""`files_metadata.json`: every embedded file of a domain, joined from its maps. What others added to it stays."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scrubjay.domains.definition import DomainSource
from scrubjay.domains.embed import embedded_paths
from scrubjay.domains.folders import SOURCE_TYPE_OF, SourceFolder
from scrubjay.domains.maps import SHAREPOINT_MAP, VECTORSTORE_MAP, read_map
from scrubjay.domains.store import METADATA, write_atomically

NUMBERS = frozenset({"sharepoint_listitem_id", "file_size", "last_modified_timestamp"})
KEYS = (
    "sharepoint_listitem_id", "sharepoint_unique_file_id", "openai_file_id", "file_relative_path", "url", "raw_url",
    "server_relative_url", "filename", "file_type", "file_size", "last_modified_utc", "last_modified_timestamp",
    "embedded_utc", "source_id", "source_type",
)  # fmt: skip


def write_metadata(domain_folder: Path, sources: Iterable[tuple[SourceFolder, DomainSource]]) -> int:
    """Write the file anew; returns how many entries it has. Keys that we do not know are carried over by unique id."""
    path = domain_folder / METADATA
    before = _by_id(path)
    entries = [
        {**_unknown(before.get(entry["sharepoint_unique_file_id"], {})), **entry}
        for folder, source in sources
        for entry in _entries(folder, source)
    ]
    text = json.dumps(entries, indent=2, ensure_ascii=False) + "\n"
    if not path.exists() or path.read_text("utf-8", "replace") != text:
        write_atomically(path, text.encode("utf-8", "replace"))
    return len(entries)


def _entries(folder: SourceFolder, source: DomainSource) -> Iterable[dict[str, Any]]:
    rows, _ = read_map(folder.path, VECTORSTORE_MAP)
    listed, _ = read_map(folder.path, SHAREPOINT_MAP)
    facts = dict(zip(embedded_paths(folder, source, listed or []), listed or [], strict=True))
    for row in rows or ():
        if row["openai_file_id"]:
            known = {**facts.get(row["file_relative_path"], {}), **{key: value for key, value in row.items() if value}}
            known |= {"source_id": folder.source_id, "source_type": SOURCE_TYPE_OF[folder.kind]}
            yield {key: _value(key, known.get(key, "")) for key in KEYS}


def _value(key: str, text: str) -> str | int:
    return int(text) if key in NUMBERS and text.isdecimal() else text


def _by_id(path: Path) -> Mapping[str, Mapping[str, Any]]:
    try:
        entries = json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return {}
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {str(entry["sharepoint_unique_file_id"]): entry for entry in found if entry.get("sharepoint_unique_file_id")}


def _unknown(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in KEYS}
