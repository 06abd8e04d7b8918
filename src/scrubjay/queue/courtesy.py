"""Crawls give way to people: where a process answers requests as well, pages wait while the process is behind.

A crawl takes whatever it is given. On a machine that has no more to give, everybody who asks for something would wait
as long as the crawl does. How far a process is behind shows in how late it wakes up from a short sleep.
"""

import asyncio
import time

ASKED_SECONDS = 2.0  # nobody who asked longer ago than this waits for anything
PROBE_SECONDS = 0.01
LATE_SECONDS = 0.03
PAUSE_SECONDS = 0.1
MOST_SECONDS = 1.0  # for one page: crawls get slower, and do not stop

_asked_at = float("-inf")


def note_request() -> None:
    """Somebody asks this process for something."""
    global _asked_at
    _asked_at = time.monotonic()


async def give_way() -> None:
    """Wait while requests come and the process is behind, but not for long."""
    until = time.monotonic() + MOST_SECONDS
    while (began := time.monotonic()) - _asked_at < ASKED_SECONDS and began < until:
        await asyncio.sleep(PROBE_SECONDS)
        if time.monotonic() - began < PROBE_SECONDS + LATE_SECONDS:
            return
        await asyncio.sleep(PAUSE_SECONDS)
