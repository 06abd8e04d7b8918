"""Content codings, undone while streaming and within a limit: a bomb is defused after its first piece."""

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli
import zstandard

from scrubjay.errors import FetchFailed

ACCEPT_ENCODING = "gzip, deflate, br, zstd"
_PIECE_BYTES = 256 * 1024
_ZSTD_INPUT_BYTES = 512  # 4 bytes of zstd can become 128 KB, and its decoder cannot be told to stop in between
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # what RFC 9659 allows
_MAX_CODINGS = 3
_MAX_BETWEEN_BYTES = 64 * 1024 * 1024  # from one coding to the next; only what comes out last is counted by others
_MAX_STREAMS = 50_000  # one after the other in the same body; an empty one has 20 bytes and costs as much as a full one
_GZIP_MAGIC = b"\x1f\x8b"


class Decoder(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]:
        """What the data becomes, in pieces small enough to look at before asking for the next."""

    def finish(self) -> bool:
        """Whether the coded stream came to its end."""


def decoders_for(content_encoding: str | None) -> list[Decoder]:
    """One decoder per coding, the outermost first; none for plain content."""
    codings = [coding.strip().lower() for coding in (content_encoding or "").split(",") if coding.strip()]
    if len(codings) > _MAX_CODINGS:
        raise FetchFailed("The content is coded too many times over.", error_type="bad_encoding")
    decoders = [_decoder(coding) for coding in reversed(codings) if coding != "identity"]
    return [*map(_Between, decoders[:-1]), *decoders[-1:]]


def _decoder(coding: str) -> Decoder:
    if coding in ("gzip", "x-gzip"):
        return _Zlib(31)
    if coding == "deflate":
        return _Deflate()
    if coding == "br":
        return _Brotli()
    if coding == "zstd":
        return _Zstd()
    raise FetchFailed(f"The content coding {coding[:40]!a} is not known.", error_type="bad_encoding")


def decode_through(decoders: list[Decoder], data: bytes) -> Iterator[bytes]:
    """The data after all decoders; a broken stream is a FetchFailed."""
    try:
        yield from _through(decoders, data)
    except (zlib.error, brotli.error, zstandard.ZstdError) as error:
        raise FetchFailed(f"The compressed content is broken: {error}.", error_type="bad_encoding") from error


def _through(decoders: list[Decoder], data: bytes) -> Iterator[bytes]:
    if not decoders:
        yield data
        return
    for piece in decoders[0].feed(data):
        yield from _through(decoders[1:], piece)


class _Between:
    """A decoder whose output goes into another, which may swallow all of it: 60 KB can become 60 GB on the way."""

    def __init__(self, inner: Decoder) -> None:
        self._inner = inner
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        for piece in self._inner.feed(data):
            self._size += len(piece)
            if self._size > _MAX_BETWEEN_BYTES:
                raise FetchFailed("The content is coded several times over, and too large.", error_type="too_large")
            yield piece

    def finish(self) -> bool:
        return self._inner.finish()


def _require_few(streams: int) -> None:
    if streams > _MAX_STREAMS:
        raise FetchFailed("The compressed content is made of too many parts.", error_type="bad_encoding")


class _Zlib:
    def __init__(self, window_bits: int) -> None:
        self._window_bits = window_bits
        self._inner = zlib.decompressobj(window_bits)
        self._started = False
        self._streams = 1
        self._after_end = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._inner.eof:
                data = self._after_end = self._after_end[:1] + data
                if self._window_bits != 31 or not data.startswith(_GZIP_MAGIC):
                    return  # what follows a finished stream is padding, unless it is another gzip file
                self._inner, self._after_end = zlib.decompressobj(self._window_bits), b""
                self._streams += 1
                _require_few(self._streams)
            piece = self._inner.decompress(data, _PIECE_BYTES)
            self._started = True
            if piece:
                yield piece
            data = self._inner.unconsumed_tail or self._inner.unused_data
            if not data and len(piece) == _PIECE_BYTES:
                yield from self._drain()

    def _drain(self) -> Iterator[bytes]:
        """What the decoder held back although all input is in."""
        while piece := self._inner.decompress(b"", _PIECE_BYTES):
            yield piece

    def finish(self) -> bool:
        return self._inner.eof or not self._started


class _Deflate:
    """`deflate` means zlib's format, but some servers send it bare."""

    def __init__(self) -> None:
        self._inner: _Zlib | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner is None and data:
            is_zlib = data[0] & 0x0F == 8 and (len(data) < 2 or (data[0] << 8 | data[1]) % 31 == 0)
            self._inner = _Zlib(15 if is_zlib else -15)
        return self._inner.feed(data) if self._inner else iter(())

    def finish(self) -> bool:
        return self._inner is None or self._inner.finish()


class _Brotli:
    def __init__(self) -> None:
        self._inner = brotli.Decompressor()
        self._started = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inner.is_finished():
            return
        self._started = True
        piece = self._inner.process(data, output_buffer_limit=_PIECE_BYTES)
        while piece or not self._inner.can_accept_more_data():
            yield piece
            piece = self._inner.process(b"", output_buffer_limit=_PIECE_BYTES)

    def finish(self) -> bool:
        return self._inner.is_finished() or not self._started


class _Zstd:
    def __init__(self) -> None:
        self._codec = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._inner = self._codec.decompressobj()
        self._started = False
        self._streams = 1

    def feed(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), _ZSTD_INPUT_BYTES):
            piece = data[start : start + _ZSTD_INPUT_BYTES]
            while piece:
                if self._inner.eof:
                    self._inner = self._codec.decompressobj()
                    self._streams += 1
                    _require_few(self._streams)
                self._started = True
                decoded = self._inner.decompress(piece)
                if decoded:
                    yield decoded
                piece = self._inner.unused_data if self._inner.eof else b""

    def finish(self) -> bool:
        return self._inner.eof or not self._started
