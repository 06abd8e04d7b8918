"""`scrubjay` as people run it: real processes in a folder of their own, ended by their process id."""

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.preloaded import run_command

SCRUBJAY = [sys.executable, "-m", "scrubjay.cli"]
PATIENCE_SECONDS = 90  # less than a test may take, so that a command can tell where it is stuck
# The lock says which process came last; the other two come and go with every look into the database.
CHANGING = {"lock", "scrubjay.db-wal", "scrubjay.db-shm"}


def environment(**settings: str) -> dict[str, str]:
    """No settings but these, and no warning passes unseen."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SCRUBJAY_")}
    return inherited | {"PYTHONWARNINGS": "error", "TERM": "dumb"} | settings


def run(*arguments: str, home: Path, folder: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in `folder` (by default the one that `home` is in)."""
    return run_command(
        ["--home", str(home), *arguments],
        cwd=folder or home.parent,
        environment=environment(**settings),
        timeout=PATIENCE_SECONDS,
    )


def listing(folder: Path) -> dict[str, str]:
    """Every file below a folder with its mode and a hash of its content."""
    return {
        str(path.relative_to(folder)): f"{path.stat().st_mode:o} "
        + (hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
        if path.name not in CHANGING
    }


@dataclass
class Server:
    process: subprocess.Popen[str]
    address: str
    link: str
    log: Path
    started_at: float  # of the monotonic clock

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def get(self, path: str, **options: object) -> httpx.Response:
        return httpx.get(f"{self.address}{path}", trust_env=False, **options)  # type: ignore[arg-type]


@contextmanager
def serving(home: Path, *arguments: str, **settings: str) -> Iterator[Server]:
    """`scrubjay serve` on a free port, once it has said where."""
    log = home.parent / "serve.log"
    started_at = time.monotonic()
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [*SCRUBJAY, "--home", str(home), "serve", "--port", "0", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=home.parent,
            env=environment(**settings),
        )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        address = re.search(r"serving on (http://\S+)", lines[0])
        link = re.search(r"(http://\S+/signin\?token=\S+)", lines[1])
        if address is None or link is None:
            raise AssertionError(f"{lines}\n{log.read_text()}")
        yield Server(process, address[1], link[1], log, started_at)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        if process.stdout is not None:
            process.stdout.close()


def the_sentence(result: subprocess.CompletedProcess[str], *words: str) -> str:
    """What a command that failed said: one sentence, with these words, and nothing else anywhere."""
    assert (result.returncode, result.stdout) == (1, ""), result
    assert "Traceback" not in result.stderr, result.stderr
    lines: Sequence[str] = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("scrubjay: "), result.stderr
    for word in words:
        assert word in lines[0], f"'{word}' is not in: {lines[0]}"
    return lines[0]
