"""Whether a zip archive may be opened: what it unpacks to is counted before any library reads it."""

import io
import struct
import zipfile
import zlib

from scrubjay.errors import ExtractionFailed

MAX_ENTRIES = 10_000
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
MAX_RATIO = 200
# Short files compress well without meaning harm.
_RATIO_FROM_BYTES = 16 * 1024 * 1024
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_STEP_BYTES = 1024 * 1024
_MARKS = (("word/", "docx"), ("xl/", "xlsx"), ("ppt/", "pptx"), ("META-INF/container.xml", "epub"))


def check_archive(data: bytes) -> str | None:
    """Raise ExtractionFailed for a broken, encrypted or malicious archive; else the kind that its names show."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError, struct.error) as error:
        raise ExtractionFailed(f"The file is broken: {error}.", error_type="broken_file") from error
    if any(entry.flag_bits & 1 for entry in entries):
        raise ExtractionFailed("The file is encrypted.", error_type="encrypted")
    # No kind of document uses another method, and what those unpack to is not counted here.
    if any(entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for entry in entries):
        raise ExtractionFailed("The file is packed by an unusual method.", error_type="broken_file")
    if len(entries) > MAX_ENTRIES:
        raise _bomb(f"it has {len(entries)} parts")
    _check_size(sum(entry.file_size for entry in entries), len(data))
    # The directory may lie about sizes; what counts is what comes out.
    unpacked = 0
    for entry in entries:
        unpacked += _unpacked_size(data, entry)
        _check_size(unpacked, len(data))
    names = [entry.filename for entry in entries]
    return next((kind for mark, kind in _MARKS if any(name.startswith(mark) for name in names)), None)


def _check_size(unpacked: int, packed: int) -> None:
    if unpacked > MAX_UNPACKED_BYTES or (unpacked > _RATIO_FROM_BYTES and unpacked > MAX_RATIO * packed):
        raise _bomb(f"{packed} bytes become {unpacked}")


def _bomb(detail: str) -> ExtractionFailed:
    return ExtractionFailed(f"The file unpacks to more than is allowed: {detail}.", error_type="archive_bomb")


def _unpacked_size(data: bytes, entry: zipfile.ZipInfo) -> int:
    """The size an entry really has, counted no further than the limit."""
    if entry.compress_type == zipfile.ZIP_STORED:
        return max(entry.file_size, entry.compress_size)
    header = data[entry.header_offset : entry.header_offset + _LOCAL_HEADER.size]
    if len(header) < _LOCAL_HEADER.size:
        raise ExtractionFailed("The file is broken: a part lies outside of it.", error_type="broken_file")
    _, name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)
    start = entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes
    unpacker = zlib.decompressobj(-15)
    rest: bytes = data[start : start + entry.compress_size]
    size = 0
    try:
        while rest and not unpacker.eof:
            size += len(unpacker.decompress(rest, _STEP_BYTES))
            rest = unpacker.unconsumed_tail
            if size > MAX_UNPACKED_BYTES:
                break
    except zlib.error as error:
        raise ExtractionFailed(f"The file is broken: {error}.", error_type="broken_file") from error
    return size
