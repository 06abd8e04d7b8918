"""The process that holds the embedded engine: does what it is asked to, one thing after the other."""

import ctypes
import os
import pickle
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from scrubjay.errors import IndexCorrupt, ScrubjayError, Unavailable
from scrubjay.index.edge_engine import EdgeEngine
from scrubjay.index.edge_process import LENGTH

_PR_SET_PDEATHSIG = 1
# How long a killed owner's process may take to let go of the folder.
_LOCKED_SECONDS = 10.0


def main() -> None:
    folder, dimensions, parent = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    # Ctrl-C and a service manager's stop reach every process; when this one ends is its parent's decision.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _die_with(parent)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever the engine prints must not be taken for an answer
    try:
        engine = _open_engine(folder, dimensions)
    except ScrubjayError as error:
        _send(answers, error)
        return
    _send(answers, None)
    try:
        _serve(engine, sys.stdin.buffer, answers)
    finally:
        engine.close()


def _die_with(parent: int) -> None:
    """The pipe's end tells an idle process that its parent died; this reaches one that is busy."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(0)


def _open_engine(folder: Path, dimensions: int) -> EdgeEngine:
    deadline = time.monotonic() + _LOCKED_SECONDS
    while True:
        try:
            return EdgeEngine(folder, dimensions)
        except ScrubjayError:
            raise
        except Exception as error:  # the engine has no errors of its own
            if "WouldBlock" not in str(error) or time.monotonic() > deadline:
                raise IndexCorrupt(
                    f"The search index in {folder.parent} cannot be read ({error}); "
                    "move it away and run 'scrubjay reindex'."
                ) from error
        time.sleep(0.05)


def _serve(engine: EdgeEngine, requests: BinaryIO, answers: BinaryIO) -> None:
    while len(header := requests.read(LENGTH.size)) == LENGTH.size:
        name, arguments = pickle.loads(requests.read(*LENGTH.unpack(header)))  # noqa: S301 - from our own parent
        if name == "close":
            return
        try:
            answer = getattr(engine, name)(*arguments)
        except ScrubjayError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - the engine has no errors of its own
            answer = Unavailable(f"The search index failed: {error}.")
        _send(answers, answer)


def _send(answers: BinaryIO, answer: Any) -> None:
    encoded = pickle.dumps(answer, pickle.HIGHEST_PROTOCOL)
    answers.write(LENGTH.pack(len(encoded)) + encoded)
    answers.flush()


if __name__ == "__main__":
    main()
