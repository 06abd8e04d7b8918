"""Backups of strangers: nothing in one leads out of the folders that it is restored into."""

import io
import tarfile
from pathlib import Path

import pytest
import zstandard

from scrubjay.errors import InvalidRequest
from scrubjay.storage.backups.archive import is_member, read_archive

HOSTILE = (
    "../etc/passwd", "/etc/passwd", "storage/../../x", "storage//../x", "storage/./x", "storage", "storage/",
    "enumerations/..", "keys/authorized_keys", "keys/../admin.key", "blobs/../../x", "blobs/" + "A" * 64,
    "tables/../x.jsonl", "tables/x.jsonl/..", "storage/a\\..\\b", "storage/a\0b", "other/x", "manifest.json/x",
)  # fmt: skip


def archive(path: Path, entry: tarfile.TarInfo, body: bytes = b"x") -> Path:
    entry.size = len(body) if entry.isreg() else 0
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor().stream_writer(file) as packed,
        tarfile.open(mode="w|", fileobj=packed) as tar,
    ):
        tar.addfile(entry, io.BytesIO(body))
    return path


@pytest.mark.parametrize("name", HOSTILE)
def test_a_backup_with_a_member_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    assert not is_member(name)
    if "\0" in name:
        return  # a tar cannot even say it
    with pytest.raises(InvalidRequest):
        list(read_archive(archive(tmp_path / "a", tarfile.TarInfo(name))))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE])
def test_a_backup_holds_plain_files_only(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("storage/tenant/x")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(InvalidRequest):
        list(read_archive(archive(tmp_path / "a", entry)))


def test_ordinary_members_are_read(tmp_path: Path) -> None:
    (found,) = read_archive(archive(tmp_path / "a", tarfile.TarInfo("storage/tenant/DOMAINS/x.json")))
    assert found[0] == "storage/tenant/DOMAINS/x.json"
