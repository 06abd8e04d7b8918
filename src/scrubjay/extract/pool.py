"""Extraction in worker processes: a page that takes too long or kills its worker costs that page, and nothing else.

Pages are sent ahead, a few per worker, so that none waits for this process; a page's time starts when the answer to
the page before it has arrived.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from scrubjay.errors import ExtractionFailed, Unavailable
from scrubjay.extract import messages
from scrubjay.model.extraction import DEFAULT_LIMITS, Extraction, ExtractLimits, ExtractOptions
from scrubjay.telemetry import get_logger, span
from scrubjay.telemetry.metrics import extract_pages_total, extract_processes, extract_seconds, extract_waiting

DEFAULT_PAGE_SECONDS = 20.0
DEFAULT_MEMORY_BYTES = 2 * 1024**3
_START_SECONDS = 60.0
_STOP_SECONDS = 2.0
_PAGES_AHEAD = 4
_MAX_FAILED_STARTS = 3
_READ_BYTES = 256 * 1024
_MAX_ANSWER_BYTES = 256 * 1024 * 1024
_DEFAULT_OPTIONS = ExtractOptions()
# A worker is one of many: libraries that start a thread per core would only get in each other's way.
_WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",
}

log = get_logger(__name__)


class _PendingPage:
    """A page on its way, with what is needed to send it once more."""

    __slots__ = ("body", "future", "head")

    def __init__(self, head: bytes, body: bytes, future: "asyncio.Future[tuple[Any, ...]]") -> None:
        self.head = head
        self.body = body
        self.future = future

    def answer(self, answer: tuple[Any, ...]) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, message: str, error_type: str) -> None:
        self.answer((messages.FAILED, message, error_type))


class ExtractionPool:
    """Worker processes that extract. Bound to the event loop it is first used in."""

    def __init__(
        self,
        *,
        processes: int | None = None,
        page_seconds: float = DEFAULT_PAGE_SECONDS,
        memory_bytes: int = DEFAULT_MEMORY_BYTES,
        limits: ExtractLimits = DEFAULT_LIMITS,
    ) -> None:
        self.processes = processes or os.cpu_count() or 1
        self.page_seconds = page_seconds
        self.memory_bytes = memory_bytes
        self.limits = limits  # of every page that this pool extracts, whatever its options say
        self._workers: list[_Worker] = []
        self._waiting: deque[_PendingPage] = deque()
        self._ended: list[subprocess.Popen[bytes]] = []
        self._failed_starts = 0
        self._start_failure = "Extraction processes do not start here."
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Start every worker and wait until they have imported what they need. Without it, the first pages do."""
        while len(self._workers) < self.processes:
            self._add_worker()
        await asyncio.gather(*(worker.ready.wait() for worker in self._workers))
        if self._failed_starts:
            raise Unavailable(self._start_failure)

    @property
    def worker_pids(self) -> list[int]:
        return [worker.process.pid for worker in self._workers]

    async def extract(
        self,
        data: bytes | Path,
        *,
        url: str,
        content_type: str | None = None,
        status: int = 200,
        options: ExtractOptions = _DEFAULT_OPTIONS,
    ) -> Extraction:
        """What `scrubjay.extract.extract` gives, from another process. Besides its errors, ExtractionFailed with the
        error_type extraction_timeout, extraction_crashed, extraction_memory or extraction_error."""
        if self._closed:
            raise Unavailable("The extraction pool is closed.")
        if options.limits != self.limits:
            options = replace(options, limits=self.limits)
        head, body = messages.encode_request(data, url, content_type, status, options)
        page = _PendingPage(head, body, asyncio.get_running_loop().create_future())
        started = time.perf_counter()
        with span("extract") as traced:
            self._waiting.append(page)
            self._dispatch()
            try:
                extraction = messages.read_answer(await page.future, url)
            except ExtractionFailed as error:
                extract_pages_total.labels(error.error_type).inc()
                raise
            traced.set(extract__method=extraction.method, extract__verdict=str(extraction.verdict))
        extract_pages_total.labels("ok").inc()
        extract_seconds.observe(time.perf_counter() - started)
        return extraction

    async def close(self) -> None:
        """End every worker; pages still on their way fail as Unavailable."""
        self._closed = True
        for worker in self._workers:
            if worker.pages:
                worker.process.kill()
            self._waiting.extend(worker.retire())
            self._ended.append(worker.process)
        self._workers.clear()
        extract_processes.set(0)
        extract_waiting.set(0)
        while self._waiting:
            page = self._waiting.popleft()
            if not page.future.done():
                page.future.set_exception(Unavailable("The extraction pool was closed."))
        await self._reap(_STOP_SECONDS)
        for process in self._ended:
            process.kill()
        await self._reap(_STOP_SECONDS)

    async def _reap(self, seconds: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds
        while self._bury() and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(0.01)

    def _bury(self) -> bool:
        """Collect the exit codes of ended workers; whether some have not ended yet."""
        self._ended = [process for process in self._ended if process.poll() is None]
        return bool(self._ended)

    def _dispatch(self) -> None:
        self._send_waiting()
        extract_waiting.set(len(self._waiting))

    def _send_waiting(self) -> None:
        while self._waiting:
            page = self._waiting[0]
            if page.future.done():  # its caller has given up
                self._waiting.popleft()
                continue
            worker = self._choose_worker()
            if worker is None:
                return
            self._waiting.popleft()
            worker.send(page)

    def _choose_worker(self) -> "_Worker | None":
        worker = min(self._workers, key=_queue_length, default=None)
        wants_more = worker is None or (worker.pages and self._failed_starts < _MAX_FAILED_STARTS)
        if wants_more and len(self._workers) < self.processes:
            return self._add_worker()
        return worker if worker is not None and len(worker.pages) < _PAGES_AHEAD else None

    def _add_worker(self) -> "_Worker":
        self._bury()
        worker = _Worker(self)
        self._workers.append(worker)
        extract_processes.set(len(self._workers))
        return worker

    def worker_ready(self) -> None:
        self._failed_starts = 0

    def worker_told_why(self, reason: str) -> None:
        self._start_failure = f"Extraction processes do not start here: {reason}"

    def worker_free(self) -> None:
        if self._waiting:
            self._dispatch()

    def worker_ended(self, worker: "_Worker", *, failed_start: bool) -> None:
        """Send what a worker left undone to the others, in its old order."""
        self._workers.remove(worker)
        extract_processes.set(len(self._workers))
        self._ended.append(worker.process)
        undone = worker.retire()
        if failed_start:
            self._failed_starts += 1
        self._waiting.extendleft(reversed(undone))
        if self._failed_starts >= _MAX_FAILED_STARTS and not self._workers:
            log.error("extraction_workers_do_not_start", reason=self._start_failure)
            self._failed_starts = 0
            while self._waiting:
                page = self._waiting.popleft()
                page.fail(self._start_failure, "extraction_unavailable")
            return
        if not self._closed:
            self._dispatch()


def _worker_environment() -> dict[str, str]:
    """Ours without Scrubjay's and tracing's settings: what reads hostile pages has no use for keys and passwords."""
    passed_on = {name: value for name, value in os.environ.items() if not name.startswith(("SCRUBJAY_", "OTEL_"))}
    return {**passed_on, **_WORKER_ENVIRONMENT}


def _queue_length(worker: "_Worker") -> int:
    return len(worker.pages)


class _Worker:
    """One process, the socket to it, and the pages it has not answered yet; the first of them is being worked on."""

    def __init__(self, pool: ExtractionPool) -> None:
        self.pool = pool
        self.pages: deque[_PendingPage] = deque()
        self.ready = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._socket.setblocking(False)
            self.process = self._spawn(theirs)
        self._unread = bytearray()
        self._unsent: deque[memoryview] = deque()
        self._deadline = self._loop.time() + _START_SECONDS
        self._timer: asyncio.TimerHandle | None = self._loop.call_at(self._deadline, self._on_timer)
        self._loop.add_reader(self._socket, self._on_readable)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        arguments = [str(theirs.fileno()), str(os.getpid()), str(self.pool.memory_bytes)]
        return subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", "scrubjay.extract.worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=_worker_environment(),
            # A group of its own: a terminal's Ctrl-C must not reach it even before it can ignore it.
            process_group=0,
        )

    def send(self, page: _PendingPage) -> None:
        self.pages.append(page)
        if len(self.pages) == 1 and self.ready.is_set():
            self._start_clock()
        was_idle = not self._unsent
        self._unsent.append(memoryview(page.head))
        if page.body:
            self._unsent.append(memoryview(page.body))
        if was_idle:
            self._on_writable()

    def retire(self) -> list[_PendingPage]:
        """Close the connection, which ends an idle worker, and give back what it has not answered."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._unsent.clear()
        self.ready.set()
        undone = list(self.pages)
        self.pages.clear()
        return undone

    def _on_writable(self) -> None:
        try:
            while self._unsent:
                sent = self._socket.sendmsg(self._unsent if len(self._unsent) < 8 else [self._unsent[0]])
                self._forget_sent(sent)
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._on_writable)
            return
        except OSError:
            pass  # the worker is gone; the reader finds the end of the stream and deals with it
        self._loop.remove_writer(self._socket)

    def _forget_sent(self, sent: int) -> None:
        while sent and sent >= len(self._unsent[0]):
            sent -= len(self._unsent.popleft())
        if sent:
            self._unsent[0] = self._unsent[0][sent:]

    def _on_readable(self) -> None:
        if self._read():
            self.pool.worker_free()

    def _read(self) -> bool:
        """Take in what has arrived; False when the worker's end was dealt with."""
        try:
            data = self._socket.recv(_READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        if not data:
            self._on_end()
            return False
        self._unread += data
        return self._take_frames()

    def _take_frames(self) -> bool:
        unread = self._unread
        header = messages.ANSWER_HEADER
        while len(unread) >= header.size:
            length = header.unpack_from(unread)[0]
            if length > _MAX_ANSWER_BYTES:
                self._disown()
                return False
            end = header.size + length
            if len(unread) < end:
                return True
            try:
                answer = messages.decode_answer(unread[header.size : end])
            except messages.MALFORMED:
                self._disown()
                return False
            del unread[:end]
            if answer[0] == messages.LEAVING:
                self.pool.worker_ended(self, failed_start=False)
                return False
            self._take(answer)
        return True

    def _disown(self) -> None:
        """A worker that no longer speaks our language was broken by the page it is at."""
        self.process.send_signal(signal.SIGKILL)
        self._on_end()

    def _take(self, answer: tuple[Any, ...]) -> None:
        if answer[0] == messages.READY:
            self.ready.set()
            self.pool.worker_ready()
        elif not self.ready.is_set():
            self.pool.worker_told_why(answer[1])
        elif self.pages:
            self.pages.popleft().answer(answer)
        if self.pages and self.ready.is_set():
            self._start_clock()

    def _start_clock(self) -> None:
        self._deadline = self._loop.time() + self.pool.page_seconds
        # One timer serves many pages: it looks at the deadline when it goes off.
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        # The answer may be here already, when it was this process that had no time.
        if not self._read():
            return
        self.pool.worker_free()
        if self.ready.is_set() and not self.pages:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._on_timer)
            return
        self._kill()

    def _kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        started = self.ready.is_set()
        if started:
            message = f"Extraction took longer than {self.pool.page_seconds:g} seconds."
            self.pages.popleft().fail(message, "extraction_timeout")
        self.pool.worker_ended(self, failed_start=not started)

    def _on_end(self) -> None:
        started = self.ready.is_set()
        if started and self.pages:
            self.pages.popleft().fail("The page made its extraction process crash.", "extraction_crashed")
        self.process.poll()
        self.pool.worker_ended(self, failed_start=not started)
