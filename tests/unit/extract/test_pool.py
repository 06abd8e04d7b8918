"""The extraction pool with real processes. A page that hangs is a pipe that nobody writes to."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from scrubjay.errors import ExtractionFailed, InvalidRequest, Unavailable
from scrubjay.extract import ExtractOptions, extract
from scrubjay.extract.pool import ExtractionPool
from scrubjay.model.extraction import ExtractLimits

URL = "https://example.com/page"
PARAGRAPH = "Scrub jays hide thousands of acorns each autumn and remember where most of them are. "


def page(name: str = "Jays") -> bytes:
    return f"""<html lang="en"><head><title>{name}</title></head><body><main><h1>{name}</h1>
        <p>{PARAGRAPH * 10}</p><p>{PARAGRAPH * 12}<a href="/next">Next</a></p></main></body></html>""".encode()


@pytest.fixture
def endless_file(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.fixture
async def pool() -> AsyncIterator[ExtractionPool]:
    async with ExtractionPool(processes=1, page_seconds=1.0) as pool:
        await pool.start()
        yield pool


async def until(condition: object, seconds: float = 10.0) -> None:
    assert callable(condition)
    for _ in range(int(seconds * 100)):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not happen in time")


def is_alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


async def test_the_pool_gives_what_extract_gives(pool: ExtractionPool, tmp_path: Path) -> None:
    expected = extract(page(), url=URL, content_type="text/html")
    assert await pool.extract(page(), url=URL, content_type="text/html") == expected
    stored = tmp_path / "body"
    stored.write_bytes(page())
    assert await pool.extract(stored, url=URL, content_type="text/html") == expected
    assert expected.links == ["https://example.com/next"]


async def test_many_pages_at_once_each_get_their_own_answer() -> None:
    async with ExtractionPool(processes=2) as pool:
        found = await asyncio.gather(*(pool.extract(page(f"Page {n}"), url=f"{URL}/{n}") for n in range(60)))
    assert [extraction.title for extraction in found] == [f"Page {n}" for n in range(60)]


async def test_a_large_body_crosses_the_border_whole(pool: ExtractionPool) -> None:
    text = b"word " * 800_000
    found = await pool.extract(text, url=f"{URL}.txt", content_type="text/plain")
    assert len(found.markdown) == len(text.strip())


async def test_the_limits_of_a_pool_reach_its_processes() -> None:
    links = b"".join(b'<a href="/%d">x</a>' % number for number in range(9))
    async with ExtractionPool(processes=1, limits=ExtractLimits(links=3)) as limited:
        found = await limited.extract(b"<html><body>" + links, url=URL, content_type="text/html")
    assert (len(found.anchors), found.cuts) == (3, ("links",))


async def test_errors_of_extraction_come_back_as_themselves(pool: ExtractionPool) -> None:
    with pytest.raises(ExtractionFailed) as failed:
        await pool.extract(b"\x89PNG\r\n\x1a\n\0", url=URL)
    assert failed.value.error_type == "unsupported_type"
    with pytest.raises(InvalidRequest, match="telepathy"):
        await pool.extract(page(), url=URL, options=ExtractOptions(strategy="telepathy"))
    with pytest.raises(ExtractionFailed) as failed:
        await pool.extract(Path("/no/such/body"), url=URL)
    assert failed.value.error_type == "extraction_unreadable"


async def test_a_page_that_takes_too_long_costs_only_itself(pool: ExtractionPool, endless_file: Path) -> None:
    (pid,) = pool.worker_pids
    slow = asyncio.create_task(pool.extract(endless_file, url=URL))
    others = [asyncio.create_task(pool.extract(page(f"Page {n}"), url=URL)) for n in range(6)]
    with pytest.raises(ExtractionFailed) as failed:
        await slow
    assert failed.value.error_type == "extraction_timeout"
    assert [(await other).title for other in others] == [f"Page {n}" for n in range(6)]
    assert not is_alive(pid)


async def test_a_queued_page_is_not_charged_for_the_page_before_it(pool: ExtractionPool, tmp_path: Path) -> None:
    pipes = [tmp_path / f"pipe{n}" for n in range(3)]
    for pipe in pipes:
        os.mkfifo(pipe)
    waiting = [asyncio.create_task(pool.extract(pipe, url=URL)) for pipe in pipes]
    for pipe in pipes:
        # Three pages of 0.7 seconds each, sent at once, with a limit of 1 second.
        await asyncio.sleep(0.7)
        await asyncio.to_thread(pipe.write_bytes, page("Slow"))
    assert [(await each).title for each in waiting] == ["Slow"] * 3


async def test_a_crashed_worker_costs_only_the_page_it_was_at(pool: ExtractionPool, endless_file: Path) -> None:
    crashing = asyncio.create_task(pool.extract(endless_file, url=URL))
    other = asyncio.create_task(pool.extract(page("Other"), url=URL))
    await asyncio.sleep(0.2)
    os.kill(pool.worker_pids[0], signal.SIGSEGV)
    with pytest.raises(ExtractionFailed) as failed:
        await crashing
    assert failed.value.error_type == "extraction_crashed"
    assert (await other).title == "Other"


async def test_a_worker_that_dies_while_idle_is_replaced(pool: ExtractionPool) -> None:
    (pid,) = pool.worker_pids
    os.kill(pid, signal.SIGKILL)
    await until(lambda: pool.worker_pids != [pid])
    assert (await pool.extract(page(), url=URL)).title == "Jays"


async def test_a_page_that_needs_too_much_memory_fails_and_the_next_one_works() -> None:
    async with ExtractionPool(processes=1, memory_bytes=768 * 1024**2) as pool:
        with pytest.raises(ExtractionFailed) as failed:
            await pool.extract(Path("/dev/zero"), url=URL)
        assert failed.value.error_type == "extraction_memory"
        assert (await pool.extract(page(), url=URL)).title == "Jays"


async def test_workers_of_a_large_parent_are_not_worn_out_by_its_size() -> None:
    large = b"x" * (800 * 1024 * 1024)
    async with ExtractionPool(processes=1) as pool:
        await pool.start()
        [before] = pool.worker_pids
        for _ in range(3):
            await pool.extract(page(), url=URL, content_type="text/html")
        assert pool.worker_pids == [before]
    assert len(large) > 0


async def test_a_caller_that_gives_up_does_not_disturb_the_next(pool: ExtractionPool, endless_file: Path) -> None:
    given_up = asyncio.create_task(pool.extract(endless_file, url=URL))
    queued = [asyncio.create_task(pool.extract(page(), url=URL)) for _ in range(10)]
    await asyncio.sleep(0.1)
    for task in (given_up, *queued):
        task.cancel()
    assert (await pool.extract(page("After"), url=URL)).title == "After"


async def test_ctrl_c_does_not_reach_the_workers(pool: ExtractionPool, endless_file: Path) -> None:
    waiting = asyncio.create_task(pool.extract(endless_file, url=URL))
    await asyncio.sleep(0.2)
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(pool.worker_pids[0], number)
    await asyncio.to_thread(endless_file.write_bytes, page("Still here"))
    assert (await waiting).title == "Still here"


async def test_closing_ends_busy_and_idle_workers_and_fails_what_was_under_way(endless_file: Path) -> None:
    pool = ExtractionPool(processes=2, page_seconds=30)
    await pool.start()
    pids = pool.worker_pids
    waiting = asyncio.create_task(pool.extract(endless_file, url=URL))
    await asyncio.sleep(0.1)
    await pool.close()
    with pytest.raises(Unavailable):
        await waiting
    assert [pid for pid in pids if is_alive(pid)] == []
    with pytest.raises(Unavailable):
        await pool.extract(page(), url=URL)


async def test_workers_that_cannot_start_are_reported_and_not_tried_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    async with ExtractionPool(processes=2) as pool:
        with pytest.raises(ExtractionFailed) as failed:
            await pool.extract(page(), url=URL)
        assert failed.value.error_type == "extraction_unavailable"
        with pytest.raises(Unavailable):
            await pool.start()


async def test_a_worker_does_not_know_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRUBJAY_LLM_API_KEY", "very-secret")
    async with ExtractionPool(processes=1) as pool:
        await pool.start()
        environment = Path(f"/proc/{pool.worker_pids[0]}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"very-secret" not in environment


PARENT = """
import asyncio, os, signal, sys
from pathlib import Path
from scrubjay.extract.pool import ExtractionPool

async def main():
    pool = ExtractionPool(processes=2, page_seconds=60)
    await pool.start()
    asyncio.create_task(pool.extract(Path(sys.argv[1]), url="https://example.com/"))
    await asyncio.sleep(0.2)
    print(*pool.worker_pids, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


async def test_workers_die_with_a_parent_that_was_killed(endless_file: Path) -> None:
    killed = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", PARENT, endless_file], capture_output=True, text=True, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    pids = [int(pid) for pid in killed.stdout.split()]
    assert len(pids) == 2
    await until(lambda: not any(is_alive(pid) for pid in pids))
