"""The process that extracts: reads pages from the pool's socket, one after the other, until the pool goes away."""

import ctypes
import gc
import io
import os
import resource
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from scrubjay.errors import ExtractionFailed, InvalidRequest
from scrubjay.extract import ExtractOptions, extract, messages
from scrubjay.model.extraction import ExtractLimits

# Memory that a library leaves behind is given back by leaving.
_MAX_PAGES = 50_000
_MAX_RESIDENT_KILOBYTES = 700 * 1024
_LOOKED_EVERY = 8  # pages; what a few of them leave behind is little
_PR_SET_PDEATHSIG = 1
_STATM = Path("/proc/self/statm")
_NICENESS = 5  # whoever answers people goes first


def main() -> None:
    descriptor, parent, memory_bytes = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # Ctrl-C and a service manager's stop reach every process; when a worker ends is the parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with(parent)
    os.nice(_NICENESS)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, memory_bytes)
    with socket.socket(fileno=descriptor) as connection, _open_reader(connection) as pages:
        try:
            _warm_up()
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            connection.sendall(messages.encode_other(messages.FAILED, reason, "extraction_unavailable"))
            raise
        # What a page needs is freed with it; looking for cycles every few hundred objects cost 4 % of the time.
        gc.freeze()
        gc.set_threshold(50_000, 10, 10)
        connection.sendall(messages.encode_other(messages.READY))
        with suppress(BrokenPipeError, ConnectionResetError):  # the pool is gone, and so is the reason to be here
            _serve(connection, pages)


def _open_reader(connection: socket.socket) -> io.BufferedReader:
    return io.BufferedReader(socket.SocketIO(connection, "r"), 256 * 1024)


def _die_with(parent: int) -> None:
    """The socket's end tells an idle worker that its parent died; this reaches one that is busy."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _limit(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    try:
        resource.setrlimit(kind, (value, hard))
    except (ValueError, OSError):
        # Some systems (macOS) refuse to limit the address space; the time limit still holds.
        print(f"cannot set resource limit {kind}", file=sys.stderr)  # noqa: T201 - there is no log in a worker


def _warm_up() -> None:
    """The first page pays for imports and tables; its time limit must not."""
    extract(b"<html><body><article><p>Warm.</p></article></body></html>", url="http://localhost/")


def _serve(connection: socket.socket, pages: io.BufferedReader) -> None:
    for number in range(_MAX_PAGES):
        header = pages.read(messages.REQUEST_HEADER.size)
        if len(header) < messages.REQUEST_HEADER.size:
            return
        description_bytes, body_bytes = messages.REQUEST_HEADER.unpack(header)
        answer, healthy = _answer(pages.read(description_bytes), pages.read(body_bytes))
        connection.sendall(answer)
        if not healthy or (number % _LOOKED_EVERY == 0 and _resident_kilobytes() > _MAX_RESIDENT_KILOBYTES):
            break
    connection.sendall(messages.encode_other(messages.LEAVING))


def _resident_kilobytes() -> int:
    """What this process has in memory now. `getrusage` on Linux also counts what its parent had when it was started."""
    try:
        with _STATM.open("rb") as file:
            return int(file.read().split()[1]) * (resource.getpagesize() // 1024)
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // (1024 if sys.platform == "darwin" else 1)


def _answer(description: bytes, body: bytes) -> tuple[bytes, bool]:
    """The answer to one page, and whether this process is fit for another."""
    url, content_type, status, strategy, fields, contexts, limits, path = messages.decode_request(description)
    options = ExtractOptions(strategy=strategy, fields=fields, contexts=contexts, limits=ExtractLimits(*limits))
    try:
        data = Path(path).read_bytes() if path is not None else body
        return messages.encode_done(
            extract(data, url=url, content_type=content_type, options=options, status=status)
        ), True
    except ExtractionFailed as error:
        return messages.encode_other(messages.FAILED, error.message, error.error_type), True
    except InvalidRequest as error:
        return messages.encode_other(messages.INVALID, error.message), True
    except OSError as error:
        message = f"The stored body cannot be read: {error.strerror}."
        return messages.encode_other(messages.FAILED, message, "extraction_unreadable"), True
    except MemoryError:
        message = "The page needs more memory than extraction may use."
        return messages.encode_other(messages.FAILED, message, "extraction_memory"), False
    except Exception as error:  # noqa: BLE001 - what a page can trip in a parser must not end the crawl
        message = f"Extraction failed with {type(error).__name__}: {error}"
        return messages.encode_other(messages.FAILED, message[:500], "extraction_error"), True


if __name__ == "__main__":
    main()
