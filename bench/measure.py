"""What a command costs with all its descendants: wall time, CPU time, peak memory. Linux only."""

import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.1
LAST_WORDS_SECONDS = 5.0


@dataclass
class Cost:
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_mb: float = 0.0
    exit_code: int | None = None  # None when it took too long and was ended
    memory: list[tuple[float, float]] = field(default_factory=list)  # seconds since the start, MB


def measure(command: Sequence[str], *, timeout_seconds: float, log: Path, env: Mapping[str, str] | None = None) -> Cost:
    """Run the command to its end. Its orphans become ours, so that their CPU time is counted too."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    strangers = {pid for pid, parent in _processes()[0].items() if parent == os.getpid()}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env)
    sampler = _Sampler(process.pid, strangers, started)
    sampler.start()
    try:
        code: int | None = process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        code = None
    wall = time.perf_counter() - started
    family = sampler.stop()
    if code is None:
        # Only who is there now: the number of one that ended may be somebody else's by now.
        for pid in _descendants(_processes()[0], strangers):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
    _reap(family - {process.pid})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu, max((each for _, each in sampler.samples), default=0.0), code, sampler.samples)


class _Sampler(threading.Thread):
    """Notes the family's memory and its members ten times a second."""

    def __init__(self, root: int, strangers: set[int], started: float) -> None:
        super().__init__(daemon=True)
        self._strangers = strangers
        self._start_time = started
        self._done = threading.Event()
        self._family: set[int] = {root}
        self.samples: list[tuple[float, float]] = []

    def run(self) -> None:
        while not self._done.wait(SAMPLE_SECONDS):
            parents, pages = _processes()
            members = _descendants(parents, self._strangers)
            size = sum(pages.get(pid, 0) for pid in members)
            self._family |= members
            self.samples.append((time.perf_counter() - self._start_time, size * PAGE_BYTES / 1e6))

    def stop(self) -> set[int]:
        self._done.set()
        self.join()
        return self._family


def _descendants(parents: Mapping[int, int], strangers: set[int]) -> set[int]:
    """The command and all below it. What lost its parent is our child now."""
    found: set[int] = set()
    new = {pid for pid, parent in parents.items() if parent == os.getpid()} - strangers
    while new:
        found |= new
        new = {pid for pid, parent in parents.items() if parent in new} - found
    return found


def _processes() -> tuple[dict[int, int], dict[int, int]]:
    """Each process's parent and resident pages."""
    parents: dict[int, int] = {}
    pages: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                facts = (folder / "stat").read_text().rpartition(")")[2].split()
                parents[int(folder.name)] = int(facts[1])
                pages[int(folder.name)] = int(facts[21])
    return parents, pages


def _reap(orphans: set[int]) -> None:
    """Wait for what the command left behind; what does not end by itself is ended."""
    deadline = time.monotonic() + LAST_WORDS_SECONDS
    waiting = set(orphans)
    while waiting:
        for pid in list(waiting):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid  # its own parent waited for it, and was charged for it
            if ended:
                waiting.discard(pid)
        if time.monotonic() > deadline:
            for pid in waiting:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            deadline = float("inf")
        time.sleep(0.02)
