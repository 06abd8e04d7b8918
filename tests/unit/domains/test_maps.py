"""Map files: exact columns, whole or not at all, and what people do to them by hand."""

from pathlib import Path

import pytest

from scrubjay.domains.maps import COLUMNS, FILES_MAP, SHAREPOINT_MAP, VECTORSTORE_MAP, read_map, write_map


def row(name: str, **values: str) -> dict[str, str]:
    return {column: values.get(column, "") for column in COLUMNS[name]}


@pytest.mark.parametrize("name", [SHAREPOINT_MAP, FILES_MAP, VECTORSTORE_MAP])
def test_what_is_written_is_read_again(tmp_path: Path, name: str) -> None:
    odd = 'a "quoted", comma; new\nline – ünïcode 🦜'
    rows = [row(name, **{COLUMNS[name][1]: odd, "file_size": "7"}), row(name)]
    write_map(tmp_path / "new" / "folder", name, rows)
    assert read_map(tmp_path / "new" / "folder", name) == (rows, None)
    first = (tmp_path / "new" / "folder" / name).read_text("utf-8").splitlines()[0]
    assert first == ",".join(COLUMNS[name])


def test_there_may_be_none(tmp_path: Path) -> None:
    assert read_map(tmp_path, FILES_MAP) == (None, None)


def test_spreadsheets_may_have_been_at_it(tmp_path: Path) -> None:
    header = ",".join((*COLUMNS[FILES_MAP], "a column of ours"))
    text = f"\ufeff{header}\r\nD\\x,5,utc,1,utc,1,,,note\r\nshort\r\n"
    (tmp_path / FILES_MAP).write_text(text, "utf-8", newline="")
    rows, problem = read_map(tmp_path, FILES_MAP)
    assert problem is None
    assert rows is not None
    assert [each["file_relative_path"] for each in rows] == ["D\\x", "short"]
    assert rows[0].keys() == set(COLUMNS[FILES_MAP])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\xfe\x00broken", "cannot be read"),
        (b"something,else\n1,2\n", "no column"),
        (b'file_relative_path\n"never closed', "not valid CSV"),
        (b"", "no column"),
    ],
)
def test_a_broken_map_is_put_aside_and_told(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / FILES_MAP).write_bytes(content)
    rows, problem = read_map(tmp_path, FILES_MAP)
    assert rows is None
    assert said in (problem or "")
    [kept] = tmp_path.iterdir()
    assert kept.name.startswith(f"{FILES_MAP}.broken-")
    assert kept.read_bytes() == content
