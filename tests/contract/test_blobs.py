"""What every blob store must do, on a folder and on S3."""

import asyncio
import hashlib
import os
import secrets
import signal
import sys
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import obstore
import pytest
import zstandard

from scrubjay.errors import (
    BlobCorrupt,
    BlobMissing,
    ConfigurationError,
    HomeUnusable,
    InvalidRequest,
    Unavailable,
)
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobRef, BlobStore, _pack, open_blob_store

MEGABYTE = 1024 * 1024
ABSENT = "0" * 64


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.s3)])
def blobs(request: pytest.FixtureRequest, home: Path) -> BlobStore:
    options = {} if request.param == "folder" else request.getfixturevalue("s3_settings")
    return open_blob_store(Settings(home=home, **options))


@pytest.fixture
def folder_blobs(settings: Settings) -> BlobStore:
    return open_blob_store(settings)


def object_path(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}.zst"


async def stored_bytes(blobs: BlobStore, sha256: str) -> bytes:
    return bytes(await (await obstore.get_async(blobs._store, object_path(sha256))).bytes_async())


async def plant(blobs: BlobStore, sha256: str, content: bytes) -> None:
    await obstore.put_async(blobs._store, object_path(sha256), content)


async def listed(blobs: BlobStore) -> set[str]:
    return {sha256 async for sha256 in blobs.list()}


async def collect(blobs: BlobStore, sha256: str) -> bytes:
    return b"".join([chunk async for chunk in blobs.stream(sha256)])


async def in_chunks(data: bytes, size: int) -> AsyncIterator[bytes]:
    for start in range(0, len(data), size):
        yield data[start : start + size]


async def random_chunks(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield os.urandom(MEGABYTE)


def files_under(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


SIZES = [0, 1, 64 * 1024, 64 * 1024 + 1, 3 * MEGABYTE]


@pytest.mark.parametrize("size", SIZES)
async def test_a_body_comes_back_as_it_was_stored(blobs: BlobStore, size: int) -> None:
    data = os.urandom(size)
    ref = await blobs.put(data)
    assert ref == BlobRef(hashlib.sha256(data).hexdigest(), size)
    assert await blobs.get(ref.sha256) == data
    assert await collect(blobs, ref.sha256) == data


@pytest.mark.parametrize("size", [*SIZES, 12 * MEGABYTE])
async def test_a_streamed_body_comes_back_as_it_was_stored(blobs: BlobStore, size: int) -> None:
    data = os.urandom(size)
    ref = await blobs.put_stream(in_chunks(data, 100_000))
    assert ref == BlobRef(hashlib.sha256(data).hexdigest(), size)
    assert await blobs.get(ref.sha256) == data
    assert await collect(blobs, ref.sha256) == data


async def test_an_object_is_a_valid_zstd_file_under_the_name_of_its_content(blobs: BlobStore) -> None:
    data = b"a line that repeats\n" * 10_000
    ref = await blobs.put(data)
    packed = await stored_bytes(blobs, ref.sha256)
    assert len(packed) < len(data) / 50
    reader = zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True)
    assert reader.read(len(data) + 1) == data


async def test_the_same_content_is_one_object_however_it_is_written(blobs: BlobStore) -> None:
    data = os.urandom(MEGABYTE) + b"text " * 100_000
    first = await blobs.put(data)
    before = await obstore.head_async(blobs._store, object_path(first.sha256))
    assert await blobs.put(data) == first
    assert await blobs.put_stream(in_chunks(data, 777)) == first
    assert await blobs.put_stream(in_chunks(data, 300_000)) == first
    after = await obstore.head_async(blobs._store, object_path(first.sha256))
    assert await listed(blobs) == {first.sha256}
    assert (after["e_tag"], after["last_modified"]) == (before["e_tag"], before["last_modified"])


async def test_many_writers_of_the_same_content_do_not_disturb_each_other(blobs: BlobStore) -> None:
    data = os.urandom(200_000)
    refs = await asyncio.gather(*(blobs.put(data) for _ in range(20)))
    assert len(set(refs)) == 1
    assert await blobs.get(refs[0].sha256) == data


async def test_exists_tells_stored_bodies_from_absent_ones(blobs: BlobStore) -> None:
    ref = await blobs.put(b"here")
    assert await blobs.exists(ref.sha256) is True
    assert await blobs.exists(ABSENT) is False


async def test_an_absent_body_is_reported_as_missing_by_name(blobs: BlobStore) -> None:
    with pytest.raises(BlobMissing, match=ABSENT):
        await blobs.get(ABSENT)
    with pytest.raises(BlobMissing, match=ABSENT):
        await collect(blobs, ABSENT)


async def test_deleting_twice_deletes_once(blobs: BlobStore) -> None:
    kept, gone = await blobs.put(b"kept"), await blobs.put(b"gone")
    assert await blobs.delete(gone.sha256) is True
    assert await blobs.delete(gone.sha256) is False
    assert await listed(blobs) == {kept.sha256}


async def test_list_shows_bodies_and_nothing_else(blobs: BlobStore) -> None:
    refs = [await blobs.put(str(number).encode()) for number in range(30)]
    await obstore.put_async(blobs._store, "check/left-over", b"x")
    await obstore.put_async(blobs._store, f"00/11/{'f' * 64}.zst", b"x")
    assert await listed(blobs) == {ref.sha256 for ref in refs}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "../../etc/passwd",
        "/etc/passwd",
        "ab/cd/" + "a" * 58,
        "a" * 63,
        "a" * 65,
        "A" * 64,
        "g" * 64,
        "a" * 64 + "\n",
        "../" + "a" * 61,
        "a" * 61 + "/..",
        "\u0661" * 64,
    ],
)
async def test_a_name_that_is_not_a_sha256_never_reaches_the_store(blobs: BlobStore, name: str) -> None:
    with pytest.raises(InvalidRequest):
        await blobs.get(name)
    with pytest.raises(InvalidRequest):
        blobs.stream(name)
    with pytest.raises(InvalidRequest):
        await blobs.exists(name)
    with pytest.raises(InvalidRequest):
        await blobs.delete(name)


async def assert_corrupt(blobs: BlobStore, sha256: str) -> None:
    with pytest.raises(BlobCorrupt, match=sha256):
        await blobs.get(sha256)
    with pytest.raises(BlobCorrupt, match=sha256):
        await collect(blobs, sha256)


async def test_a_body_with_one_altered_bit_is_refused(blobs: BlobStore) -> None:
    ref = await blobs.put(os.urandom(500_000))
    packed = bytearray(await stored_bytes(blobs, ref.sha256))
    packed[len(packed) // 2] ^= 1
    await plant(blobs, ref.sha256, bytes(packed))
    await assert_corrupt(blobs, ref.sha256)


async def test_the_body_of_another_name_is_refused(blobs: BlobStore) -> None:
    ref, other = await blobs.put(b"this one"), await blobs.put(b"that one")
    await plant(blobs, ref.sha256, await stored_bytes(blobs, other.sha256))
    await assert_corrupt(blobs, ref.sha256)


@pytest.mark.parametrize("kept_share", [0.0, 0.00001, 0.5, 0.99999])
async def test_a_truncated_body_is_refused_and_storing_it_again_mends_it(blobs: BlobStore, kept_share: float) -> None:
    data = os.urandom(500_000)
    ref = await blobs.put(data)
    packed = await stored_bytes(blobs, ref.sha256)
    await plant(blobs, ref.sha256, packed[: int(len(packed) * kept_share)])
    await assert_corrupt(blobs, ref.sha256)
    await blobs.put(data)
    assert await blobs.get(ref.sha256) == data


def bomb(claimed_size: int, real_size: int) -> bytes:
    header = (0x184D2A50).to_bytes(4, "little") + (8).to_bytes(4, "little") + claimed_size.to_bytes(8, "little")
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    zeros = bytes(MEGABYTE)
    return header + b"".join(compressor.compress(zeros) for _ in range(real_size // MEGABYTE)) + compressor.flush()


async def test_a_bomb_that_lies_about_its_size_is_refused_before_it_fills_memory(blobs: BlobStore) -> None:
    planted = bomb(claimed_size=1000, real_size=2048 * MEGABYTE)
    assert len(planted) < MEGABYTE
    await plant(blobs, ABSENT, planted)
    tracemalloc.start()
    try:
        await assert_corrupt(blobs, ABSENT)
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    finally:
        tracemalloc.stop()


async def test_a_bomb_that_tells_its_size_is_not_read_into_memory(blobs: BlobStore) -> None:
    await plant(blobs, ABSENT, bomb(claimed_size=2048 * MEGABYTE, real_size=2048 * MEGABYTE))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidRequest, match=ABSENT):
            await blobs.get(ABSENT)
        pieces = blobs.stream(ABSENT)
        assert len(await anext(pieces)) <= MEGABYTE
        assert tracemalloc.get_traced_memory()[1] < 8 * MEGABYTE
    finally:
        tracemalloc.stop()


async def test_a_frame_that_wants_a_huge_window_is_refused(blobs: BlobStore) -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(b"small") + compressor.flush()
    sha256 = hashlib.sha256(b"small").hexdigest()
    await plant(blobs, sha256, bomb(claimed_size=5, real_size=0)[:16] + body)
    await assert_corrupt(blobs, sha256)


async def test_get_refuses_a_body_above_its_limit_and_stream_does_not(blobs: BlobStore) -> None:
    data = os.urandom(100_000)
    ref = await blobs.put(data)
    with pytest.raises(InvalidRequest, match="99999 bytes"):
        await blobs.get(ref.sha256, max_bytes=99_999)
    assert await blobs.get(ref.sha256, max_bytes=100_000) == data
    assert await collect(blobs, ref.sha256) == data


async def test_a_stream_above_its_limit_leaves_nothing_behind(blobs: BlobStore) -> None:
    data = os.urandom(2 * MEGABYTE)
    with pytest.raises(InvalidRequest, match=str(len(data) - 1)):
        await blobs.put_stream(in_chunks(data, 50_000), max_bytes=len(data) - 1)
    assert await listed(blobs) == set()
    ref = await blobs.put_stream(in_chunks(data, 50_000), max_bytes=len(data))
    assert ref.size == len(data)


async def test_a_stream_that_fails_keeps_its_own_error_and_leaves_nothing(blobs: BlobStore) -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield os.urandom(2 * MEGABYTE)
        raise ConnectionResetError("the site hung up")

    with pytest.raises(ConnectionResetError, match="the site hung up"):
        await blobs.put_stream(failing())
    assert await listed(blobs) == set()


async def test_streaming_64_megabytes_holds_a_few_in_memory(blobs: BlobStore) -> None:
    tracemalloc.start()
    try:
        ref = await blobs.put_stream(random_chunks(64))
        assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
        tracemalloc.reset_peak()
        received = hashlib.sha256()
        async for chunk in blobs.stream(ref.sha256):
            received.update(chunk)
        assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    finally:
        tracemalloc.stop()
    assert ref.size == 64 * MEGABYTE
    assert received.hexdigest() == ref.sha256


async def test_the_event_loop_stays_responsive_while_a_large_body_is_stored(blobs: BlobStore) -> None:
    data = os.urandom(24 * MEGABYTE).hex().encode()
    loop = asyncio.get_running_loop()
    start = loop.time()
    _pack(data)
    packing = loop.time() - start
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = loop.time()
            await asyncio.sleep(0.005)
            longest = max(longest, loop.time() - before)

    watcher = asyncio.create_task(watch())
    await asyncio.sleep(0)
    await blobs.put(data)
    watcher.cancel()
    assert 0 < longest < packing / 2


async def test_a_stream_cancelled_midway_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    reached = asyncio.Event()

    async def never_ending() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield os.urandom(MEGABYTE)
        reached.set()
        await asyncio.Event().wait()

    writing = asyncio.create_task(blobs.put_stream(never_ending()))
    await reached.wait()
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    assert await listed(blobs) == set()
    assert files_under(tmp_path) == []


async def test_check_leaves_nothing_behind(blobs: BlobStore, tmp_path: Path) -> None:
    await blobs.check()
    assert await obstore.list(blobs._store).collect_async() == []
    assert files_under(tmp_path) == []


async def test_an_upload_cancelled_halfway_leaves_no_file(folder_blobs: BlobStore, home: Path) -> None:
    data = os.urandom(48 * MEGABYTE)
    writing = asyncio.create_task(folder_blobs.put_stream(in_chunks(data, MEGABYTE)))
    while not files_under(home):
        await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    while files_under(home):
        await asyncio.sleep(0.01)
    assert await listed(folder_blobs) == set()


WRITER = """
import asyncio, os, sys
from pathlib import Path
from scrubjay.settings import Settings
from scrubjay.storage.blobs import open_blob_store

async def chunks():
    for _ in range(100):
        yield os.urandom(1 << 20)

asyncio.run(open_blob_store(Settings(home=Path(sys.argv[1]))).put_stream(chunks()))
"""


async def test_a_writer_killed_during_the_upload_leaves_no_body(folder_blobs: BlobStore, home: Path) -> None:
    writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(home))
    while not files_under(home):
        assert writer.returncode is None
        await asyncio.sleep(0.001)
    writer.send_signal(signal.SIGKILL)
    assert await writer.wait() == -signal.SIGKILL
    assert await listed(folder_blobs) == set()


FULL_DISK_WRITER = """
import asyncio, os, resource, sys
from pathlib import Path
from scrubjay.errors import Unavailable
from scrubjay.settings import Settings
from scrubjay.storage.blobs import open_blob_store

resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))

async def chunks():
    for _ in range(8):
        yield os.urandom(1 << 20)

async def main():
    blobs = open_blob_store(Settings(home=Path(sys.argv[1])))
    for attempt in (blobs.put_stream(chunks()), blobs.put(os.urandom(4 << 20)), blobs.put(os.urandom(8 << 20))):
        try:
            await attempt
        except Unavailable as error:
            print(error.message)

asyncio.run(main())
"""


async def test_a_disk_without_room_is_unavailable_and_keeps_no_half_body(home: Path) -> None:
    writer = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL_DISK_WRITER, str(home), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await writer.communicate()
    sentences = output.decode().splitlines()
    assert [sentence.split(" cannot ")[1][:14] for sentence in sentences] == ["store a body: "] * 3
    assert files_under(home) == []


async def test_a_folder_that_vanished_is_an_outage_and_not_a_deletion(folder_blobs: BlobStore, home: Path) -> None:
    ref = await folder_blobs.put(b"precious")
    (home / "blobs").rename(home / "elsewhere")
    with pytest.raises(Unavailable, match="blobs"):
        await folder_blobs.get(ref.sha256)
    with pytest.raises(Unavailable):
        await folder_blobs.exists(ref.sha256)
    with pytest.raises(Unavailable):
        await listed(folder_blobs)


async def test_a_folder_that_cannot_be_written_is_unavailable_in_one_sentence(
    folder_blobs: BlobStore, home: Path
) -> None:
    (home / "blobs").rmdir()
    (home / "blobs").write_text("not a folder")
    with pytest.raises(Unavailable) as failure:
        await folder_blobs.put(b"x")
    assert "\n" not in failure.value.message
    assert failure.value.message.startswith(f"The blob store at {home / 'blobs'} cannot store a body: ")
    with pytest.raises(Unavailable, match="cannot be written and read"):
        await folder_blobs.check()


async def test_the_blob_folder_is_closed_to_other_users(folder_blobs: BlobStore, home: Path) -> None:
    assert (home / "blobs").stat().st_mode & 0o077 == 0


@pytest.mark.s3
async def test_a_bucket_that_does_not_exist_is_an_outage_and_not_a_deletion(
    home: Path, s3_settings: dict[str, Any]
) -> None:
    gone = {**s3_settings, "blob_url": f"s3://sj-gone-{secrets.token_hex(4)}/bodies"}
    blobs = open_blob_store(Settings(home=home, **gone))
    for attempt in (blobs.get(ABSENT), blobs.exists(ABSENT), blobs.put(b"x"), listed(blobs), blobs.check()):
        with pytest.raises(Unavailable, match="sj-gone"):
            await attempt


@pytest.mark.s3
async def test_wrong_s3_keys_are_unavailable_and_not_shown(home: Path, s3_settings: dict[str, Any]) -> None:
    wrong = {**s3_settings, "s3_secret_access_key": "the-wrong-secret"}
    with pytest.raises(Unavailable) as failure:
        await open_blob_store(Settings(home=home, **wrong)).check()
    assert "the-wrong-secret" not in failure.value.message


async def test_an_s3_server_that_is_down_is_unavailable_soon(home: Path) -> None:
    options = {"s3_endpoint": "http://127.0.0.1:1", "s3_access_key_id": "a", "s3_secret_access_key": "b"}
    blobs = open_blob_store(Settings(home=home, blob_url="s3://bucket", s3_allow_http=True, **options))
    async with asyncio.timeout(20):
        with pytest.raises(Unavailable, match="s3://bucket"):
            await blobs.check()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"blob_url": "gs://bucket"}, "must be a folder or s3://bucket/prefix"),
        ({"blob_url": "s3://"}, "must look like s3://bucket/prefix"),
        ({"blob_url": "s3://bucket", "s3_access_key_id": "only"}, "both 's3_access_key_id' and"),
        ({"blob_url": "s3://bucket", "s3_endpoint": "minio:9000"}, "must be an http or https address"),
        ({"blob_url": "s3://bucket", "s3_endpoint": "http://minio:9000"}, "SCRUBJAY_S3_ALLOW_HTTP=true"),
    ],
)
def test_a_wrong_setting_is_explained(home: Path, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        open_blob_store(Settings(home=home, **options))


def test_a_folder_that_cannot_be_made_is_explained(home: Path) -> None:
    (home / "file").write_text("in the way")
    with pytest.raises(HomeUnusable, match="cannot be made"):
        open_blob_store(Settings(home=home, blob_url=str(home / "file" / "blobs")))


async def test_a_discarded_body_is_not_listed_and_still_read(blobs: BlobStore) -> None:
    ref = await blobs.put(b"seldom needed")
    await blobs.discard(ref.sha256)
    assert await listed(blobs) == set()
    assert await blobs.exists(ref.sha256) is False
    assert await blobs.get(ref.sha256) == b"seldom needed"
    assert await collect(blobs, ref.sha256) == b"seldom needed"


async def test_a_discarded_body_comes_back(blobs: BlobStore) -> None:
    ref = await blobs.put(b"needed after all")
    await blobs.discard(ref.sha256)
    await blobs.bring_back(ref.sha256)
    assert await listed(blobs) == {ref.sha256}
    await blobs.bring_back(ref.sha256)
    assert await blobs.get(ref.sha256) == b"needed after all"
    assert await blobs.destroy(ref.sha256) is False


async def test_a_destroyed_body_is_gone_and_one_stored_since_is_not(blobs: BlobStore) -> None:
    ref = await blobs.put(b"twice")
    await blobs.discard(ref.sha256)
    await blobs.put(b"twice")
    assert await blobs.destroy(ref.sha256) is True
    assert await blobs.get(ref.sha256) == b"twice"
    await blobs.discard(ref.sha256)
    assert await blobs.destroy(ref.sha256) is True
    with pytest.raises(BlobMissing):
        await blobs.get(ref.sha256)
    await blobs.discard(ref.sha256)  # nothing to put aside
    assert await listed(blobs) == set()
