"""The three map files of a source: CSV, with exactly the columns of spec 002 in their order.

People open them in spreadsheets and edit them by hand, so reading forgives what can be forgiven. A file that cannot be
read is put aside under another name, and what it said is found out anew.
"""

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from scrubjay.domains.store import write_atomically
from scrubjay.errors import Unavailable
from scrubjay.model.clock import utc_now
from scrubjay.sources.sharepoint.items import format_utc

Row = dict[str, str]

SHAREPOINT_MAP, FILES_MAP, VECTORSTORE_MAP = "sharepoint_map.csv", "files_map.csv", "vectorstore_map.csv"
COLUMNS: Mapping[str, tuple[str, ...]] = {
    SHAREPOINT_MAP: (
        "sharepoint_listitem_id", "sharepoint_unique_file_id", "filename", "file_type", "file_size", "url", "raw_url",
        "server_relative_url", "last_modified_utc", "last_modified_timestamp",
    ),
    FILES_MAP: (
        "file_relative_path", "file_size", "last_modified_utc", "last_modified_timestamp", "downloaded_utc",
        "downloaded_timestamp", "sharepoint_error", "processing_error",
    ),
    VECTORSTORE_MAP: (
        "openai_file_id", "vector_store_id", "file_relative_path", "sharepoint_listitem_id",
        "sharepoint_unique_file_id", "filename", "file_type", "file_size", "last_modified_utc",
        "last_modified_timestamp", "downloaded_utc", "downloaded_timestamp", "uploaded_utc", "uploaded_timestamp",
        "embedded_utc", "embedded_timestamp", "sharepoint_error", "processing_error", "embedding_error",
    ),
}  # fmt: skip
_WRITE_PAUSES = (0.1, 0.3, 1.0, 3.0)  # somebody may have the file open


def read_map(folder: Path, name: str) -> tuple[list[Row] | None, str | None]:
    """The rows of a map file (None when there is none), and what was wrong with it if it had to be put aside."""
    path = folder / name
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        return None, None
    except (OSError, UnicodeDecodeError) as error:
        return None, _put_aside(path, f"it cannot be read ({error})")
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = list(reader)
    except csv.Error as error:
        return None, _put_aside(path, f"it is not valid CSV ({error})")
    missing = [column for column in COLUMNS[name] if column not in (reader.fieldnames or ())]
    if missing:
        return None, _put_aside(path, f"it has no column '{missing[0]}'")
    return [{column: (row.get(column) or "") for column in COLUMNS[name]} for row in rows], None


def _put_aside(path: Path, reason: str) -> str:
    kept = path.with_name(f"{path.name}.broken-{utc_now().strftime('%Y-%m-%d_%H-%M-%S')}")
    path.replace(kept)
    return f"{path.name} is put aside as {kept.name}: {reason}."


def write_map(folder: Path, name: str, rows: Iterable[Mapping[str, str]]) -> None:
    """All of it at once, or nothing; where somebody holds the file, a few tries over some seconds."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS[name], extrasaction="ignore", restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _storable(value) for key, value in row.items()} for row in rows)
    data = text.getvalue().encode("utf-8", "replace")
    for pause in (*_WRITE_PAUSES, None):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(folder / name, data)
        except OSError as error:
            if pause is None:
                raise Unavailable(f"{name} cannot be written: {error.strerror or error}.") from error
            time.sleep(pause)
        else:
            return


def _storable(value: str) -> str:
    """NUL ends a file for many programs."""
    return value.replace("\0", "\ufffd") if "\0" in value else value


def moment_columns(name: str, moment: datetime) -> Row:
    """A moment as two columns: `<name>_utc` and `<name>_timestamp`."""
    return {f"{name}_utc": format_utc(moment), f"{name}_timestamp": str(int(moment.timestamp()))}


def is_same_file(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether nothing tells that the file changed."""
    return one["file_size"] == other["file_size"] and one["last_modified_utc"] == other["last_modified_utc"]


def by_path(rows: Sequence[Row]) -> dict[str, Row]:
    return {row["file_relative_path"]: row for row in rows if row["file_relative_path"]}
