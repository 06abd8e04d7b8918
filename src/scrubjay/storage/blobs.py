"""Bodies, named by their SHA-256: written once, compressed, and checked against their name when read.

A folder or an S3 bucket, through obstore. An object is a valid `.zst` file: a skippable frame that holds the
size of the body, then the body. The size lets a reader refuse a file that unpacks to more than it says.
"""

import asyncio
import hashlib
import os
import re
import secrets
import struct
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, ParamSpec, TypeVar, cast
from urllib.parse import urlsplit

import obstore
import zstandard
from obstore.exceptions import BaseError
from obstore.store import LocalStore, S3Store

from scrubjay.errors import (
    BlobCorrupt,
    BlobMissing,
    ConfigurationError,
    HomeUnusable,
    InvalidRequest,
    Unavailable,
)
from scrubjay.settings import Settings

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import S3Config

MAX_GET_BYTES = 256 * 1024 * 1024

_INLINE_BYTES = 64 * 1024
_CHUNK_BYTES = 256 * 1024
_SPOOL_BYTES = 1024 * 1024
_PART_BYTES = 5 * 1024 * 1024
_LEVEL = 3
# Level 3 needs 2 MB of window; more in a stored file was not written by us.
_MAX_WINDOW_BYTES = 8 * 1024 * 1024
_CHECK_SECONDS = 10

# A zstd skippable frame of eight bytes: magic, length, and in it the size of the body.
_HEADER = struct.Struct("<IIQ")
_HEADER_MAGIC = 0x184D2A50
_HEADER_LENGTH = 8

_DISCARDED = "discarded/"

_SHA256 = re.compile(r"[0-9a-f]{64}")
_OBJECT = re.compile(r"([0-9a-f]{2})/([0-9a-f]{2})/(\1\2[0-9a-f]{60})\.zst")

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True)
class BlobRef:
    """What a caller keeps of a stored body: its name, and its size before compression."""

    sha256: str
    size: int


class BlobStore:
    """Content-addressed bodies; `open_blob_store` makes one."""

    def __init__(self, store: LocalStore | S3Store, *, place: str, folder: Path | None = None) -> None:
        self._store = store
        self._place = place
        self._folder = folder
        self._spool_folder = None if folder is None else str(folder)

    async def put(self, data: bytes) -> BlobRef:
        if len(data) <= _INLINE_BYTES:
            ref, packed = _pack(data)
        else:
            ref, packed = await _in_thread(_pack, data)
        with self._unavailable("store a body"):
            await self._upload(ref, packed)
        return ref

    async def put_stream(self, chunks: AsyncIterable[bytes], *, max_bytes: int | None = None) -> BlobRef:
        """Store a body that need not fit into memory; above `max_bytes` nothing is stored."""
        # Beside the objects when they are files: /tmp is memory on some machines. The file has no name, so
        # that not even a killed process leaves one behind.
        with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES, dir=self._spool_folder) as spool:
            packer = _Packer(spool)
            pending = bytearray()
            received = 0
            async for chunk in chunks:
                received += len(chunk)
                if max_bytes is not None and received > max_bytes:
                    raise InvalidRequest(f"The body is larger than the {max_bytes} bytes allowed.")
                pending += chunk
                if len(pending) >= _CHUNK_BYTES:
                    with self._unavailable("store a body"):
                        await _in_thread(packer.feed, bytes(pending))
                    pending.clear()
            with self._unavailable("store a body"):
                await _in_thread(packer.feed, bytes(pending))
                ref = await _in_thread(packer.finish)
                await self._upload(ref, spool)
        return ref

    async def get(self, sha256: str, *, max_bytes: int = MAX_GET_BYTES) -> bytes:
        """The whole body; one of more than `max_bytes` is an InvalidRequest and wants `stream`."""
        result = await self._open(_object_path(sha256), sha256)
        # Compression makes a body at most a little longer; what is much longer is not read in at all.
        _refuse_large(sha256, result.meta["size"] - max_bytes // 64 - 1024, max_bytes)
        with self._unavailable("read a body"):
            packed = await result.bytes_async()
        unpacker = _Unpacker(sha256, iter([cast("bytes", packed)]))
        size = unpacker.size()
        _refuse_large(sha256, size, max_bytes)
        if max(size, len(packed)) <= _INLINE_BYTES:
            return unpacker.read_all()
        return await asyncio.to_thread(unpacker.read_all)

    def stream(self, sha256: str) -> AsyncIterator[bytes]:
        """The body in pieces; one that is not what its name says raises BlobCorrupt, at the latest at the end."""
        return self._stream(_object_path(sha256), sha256)

    async def exists(self, sha256: str) -> bool:
        path = _object_path(sha256)
        with self._unavailable("look for a body"):
            if await self._stored_length(path) is not None:
                return True
            await self._confirm_reachable()
        return False

    async def delete(self, sha256: str) -> bool:
        """Whether there was such a body."""
        path = _object_path(sha256)
        with self._unavailable("delete a body"):
            # S3 reports success for what was never there.
            if await self._stored_length(path) is None:
                return False
            try:
                await obstore.delete_async(self._store, path)
            except FileNotFoundError:
                return False
        return True

    async def discard(self, sha256: str) -> None:
        """Put a body out of the way: it is not listed any more, and still read if somebody asks for it after all."""
        path = _object_path(sha256)
        with self._unavailable("put a body aside"), suppress(FileNotFoundError):
            await obstore.rename_async(self._store, path, _DISCARDED + path)

    async def bring_back(self, sha256: str) -> None:
        """Undo `discard`; a body that was stored again in the meantime stays as it is."""
        path = _object_path(sha256)
        with self._unavailable("bring a body back"):
            if await self._stored_length(path) is None:
                with suppress(FileNotFoundError):
                    await obstore.rename_async(self._store, _DISCARDED + path, path)

    async def destroy(self, sha256: str) -> bool:
        """Whether there was a discarded body, which is gone for good now."""
        path = _DISCARDED + _object_path(sha256)
        with self._unavailable("delete a body"):
            if await self._stored_length(path) is None:
                return False
            with suppress(FileNotFoundError):
                await obstore.delete_async(self._store, path)
        return True

    async def list(self) -> AsyncIterator[str]:
        """The SHA-256 of every body, in no particular order."""
        with self._unavailable("list the bodies"):
            await self._confirm_reachable()
        batches = obstore.list(self._store, chunk_size=1000)
        while True:
            with self._unavailable("list the bodies"):
                batch = await anext(batches, None)
            if batch is None:
                return
            for meta in batch:
                if found := _OBJECT.fullmatch(meta["path"]):
                    yield found[3]

    async def check(self) -> None:
        """Write, read and delete a small object, or raise Unavailable."""
        path = f"check/{secrets.token_hex(16)}"
        token = secrets.token_bytes(32)
        with self._unavailable("be written and read"):
            async with asyncio.timeout(_CHECK_SECONDS):
                await obstore.put_async(self._store, path, token)
                result = await obstore.get_async(self._store, path)
                returned = bytes(await result.bytes_async())
                await obstore.delete_async(self._store, path)
        if returned != token:
            raise Unavailable(f"The blob store at {self._place} does not return what was written to it.")

    async def _upload(self, ref: BlobRef, packed: IO[bytes]) -> None:
        path = _object_path(ref.sha256)
        length = packed.seek(0, os.SEEK_END)
        packed.seek(0)
        # An object of another length was cut short by a power failure or damaged: writing it again mends it.
        if await self._stored_length(path) == length:
            return
        if length <= _PART_BYTES:
            body = packed.read() if length <= _INLINE_BYTES else await _in_thread(packed.read)
            await obstore.put_async(self._store, path, body, use_multipart=False)
        else:
            parts = _read_parts(packed)
            await obstore.put_async(self._store, path, parts, chunk_size=_PART_BYTES, max_concurrency=2)
        if self._folder is not None:
            await asyncio.to_thread(_sync_to_disk, self._folder, path)

    async def _open(self, path: str, sha256: str) -> "GetResult":
        with self._unavailable("read a body"):
            try:
                return await obstore.get_async(self._store, path)
            except FileNotFoundError as error:
                with suppress(FileNotFoundError):
                    return await obstore.get_async(self._store, _DISCARDED + path)
                await self._confirm_reachable()
                raise BlobMissing(f"The blob store has no body {sha256}.", sha256=sha256) from error

    async def _stream(self, path: str, sha256: str) -> AsyncIterator[bytes]:
        result = await self._open(path, sha256)
        unpacker = _Unpacker(sha256, result.stream(min_chunk_size=_CHUNK_BYTES))
        while True:
            with self._unavailable("read a body"):
                chunk = await asyncio.to_thread(unpacker.read)
            if not chunk:
                return
            yield chunk

    async def _stored_length(self, path: str) -> int | None:
        try:
            return (await obstore.head_async(self._store, path))["size"]
        except FileNotFoundError:
            return None

    async def _confirm_reachable(self) -> None:
        """Tell a body that is missing from a folder or bucket that is: an outage must not read as a deletion."""
        if self._folder is not None:
            if not self._folder.is_dir():
                raise Unavailable(f"The blob folder {self._folder} is gone.")
            return
        await anext(obstore.list(self._store, prefix="check"), None)

    @contextmanager
    def _unavailable(self, action: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            reason = (str(error).strip().splitlines() or ["it took too long"])[0][:300].rstrip(" .:")
            raise Unavailable(f"The blob store at {self._place} cannot {action}: {reason}.") from error


def open_blob_store(settings: Settings) -> BlobStore:
    """The blob store that the settings name; what is wrong with them is said in one sentence."""
    url = settings.resolved_blob_url
    if url.startswith("s3://"):
        return BlobStore(_open_bucket(url, settings), place=url)
    if "://" in url:
        raise ConfigurationError(
            f"The setting 'blob_url' (SCRUBJAY_BLOB_URL) must be a folder or s3://bucket/prefix, not '{url}'."
        )
    folder = Path(url).expanduser().absolute()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(f"The blob folder {folder} cannot be made: {error.strerror}.") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise HomeUnusable(f"The blob folder {folder} cannot be written to by this user.")
    return BlobStore(LocalStore(folder), place=str(folder), folder=folder)


def _open_bucket(url: str, settings: Settings) -> S3Store:
    parts = urlsplit(url)
    if not parts.netloc or parts.query or parts.fragment:
        raise ConfigurationError(
            f"The setting 'blob_url' (SCRUBJAY_BLOB_URL) must look like s3://bucket/prefix, not '{url}'."
        )
    key_id, secret = settings.s3_access_key_id, settings.s3_secret_access_key
    if (key_id is None) != (secret is None):
        raise ConfigurationError("Set both 's3_access_key_id' and 's3_secret_access_key', or neither.")
    _check_endpoint(settings)
    config: S3Config = {"region": settings.s3_region}
    if settings.s3_endpoint is not None:
        config["endpoint"] = settings.s3_endpoint
    # Without keys obstore looks where every AWS program does: the environment, then the machine's role.
    if key_id is not None and secret is not None:
        config["access_key_id"] = key_id.get_secret_value()
        config["secret_access_key"] = secret.get_secret_value()
    try:
        return S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            config=config,
            # The first timeout is for a whole request, and a slow reader of a large body is no failure.
            client_options={
                "timeout": "1h",
                "read_timeout": "30s",
                "connect_timeout": "5s",
                "allow_http": settings.s3_allow_http,
            },
            retry_config={"max_retries": 3, "retry_timeout": timedelta(seconds=15)},
        )
    except (BaseError, ValueError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ConfigurationError(f"The bucket {url} cannot be used: {reason}.") from error


def _check_endpoint(settings: Settings) -> None:
    endpoint = settings.s3_endpoint
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"The setting 's3_endpoint' (SCRUBJAY_S3_ENDPOINT) must be an http or https address, not '{endpoint}'."
        )
    if parts.scheme == "http" and not settings.s3_allow_http:
        raise ConfigurationError(
            f"The S3 endpoint {endpoint} has no TLS; set SCRUBJAY_S3_ALLOW_HTTP=true if that is meant."
        )


def _object_path(sha256: str) -> str:
    if not _SHA256.fullmatch(sha256):
        raise InvalidRequest(f"'{sha256[:80]}' is not a SHA-256 in lower-case hexadecimal digits.")
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}.zst"


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Like `asyncio.to_thread`, but a cancelled caller leaves only once the thread has let go of the file."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait([work])
        raise


class _Packer:
    """Compresses and hashes a body into a file. Equal bodies make equal files, however they were cut."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._hash = hashlib.sha256()
        self._size = 0
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_content_size=False).compressobj()
        target.write(_HEADER.pack(_HEADER_MAGIC, _HEADER_LENGTH, 0))

    def feed(self, chunk: bytes) -> None:
        self._hash.update(chunk)
        self._size += len(chunk)
        self._target.write(self._compressor.compress(chunk))

    def finish(self) -> BlobRef:
        self._target.write(self._compressor.flush())
        self._target.seek(0)
        self._target.write(_HEADER.pack(_HEADER_MAGIC, _HEADER_LENGTH, self._size))
        return BlobRef(sha256=self._hash.hexdigest(), size=self._size)


class _Unpacker:
    """Decompresses a stored object piece by piece, pulling its bytes from a blocking iterator.

    Pulling is what bounds memory: pushed, 64 KB of a hostile file could become two gigabytes at once.
    """

    def __init__(self, sha256: str, chunks: Iterator[bytes]) -> None:
        self._sha256 = sha256
        self._source = _Pull(chunks)
        self._hash = hashlib.sha256()
        self._size: int | None = None
        self._seen = 0
        self._reader = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).stream_reader(
            cast("IO[bytes]", self._source)
        )

    def size(self) -> int:
        """The size that the object claims for its body."""
        if self._size is None:
            header = self._source.read(_HEADER.size)
            if len(header) < _HEADER.size:
                raise self._corrupt()
            magic, length, self._size = _HEADER.unpack(header)
            if (magic, length) != (_HEADER_MAGIC, _HEADER_LENGTH):
                raise self._corrupt()
        return cast("int", self._size)

    def read(self) -> bytes:
        """The next piece; empty at the end, once the whole was found to be what its name says."""
        size = self.size()
        try:
            chunk = self._reader.read(_CHUNK_BYTES)
        except zstandard.ZstdError as error:
            raise self._corrupt() from error
        self._hash.update(chunk)
        self._seen += len(chunk)
        if self._seen > size:
            raise self._corrupt()
        if not chunk and (self._seen != size or self._hash.hexdigest() != self._sha256):
            raise self._corrupt()
        return chunk

    def read_all(self) -> bytes:
        return b"".join(iter(self.read, b""))

    def _corrupt(self) -> BlobCorrupt:
        return BlobCorrupt(
            f"The stored body {self._sha256} does not match its checksum; restore it from a backup or fetch its "
            "source again.",
            sha256=self._sha256,
        )


class _Pull:
    """The `read` of a file over an iterator of byte strings."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = memoryview(b"")

    def read(self, size: int) -> memoryview:
        if not self._rest:
            self._rest = memoryview(next(self._chunks, b""))
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _pack(data: bytes) -> tuple[BlobRef, BytesIO]:
    packed = BytesIO()
    packer = _Packer(packed)
    packer.feed(data)
    return packer.finish(), packed


async def _read_parts(packed: IO[bytes]) -> AsyncIterator[bytes]:
    while part := await _in_thread(packed.read, _SPOOL_BYTES):
        yield part


def _refuse_large(sha256: str, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise InvalidRequest(f"The body {sha256} has more than the {max_bytes} bytes that are read at once.")


def _sync_to_disk(folder: Path, path: str) -> None:
    """After this the caller may commit a reference: a power failure loses neither the body nor its name."""
    target = folder / path
    for part in (target, target.parent, target.parent.parent, folder):
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
