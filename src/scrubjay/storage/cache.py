"""What processes share for a while: cached values, rate limits and live messages.

In process by default (`cache_memory.py`), or in Redis (`cache_redis.py`). Nothing here is the only copy of
anything: an empty cache costs time, never data. `cache_keys.py` has the names.
"""

import importlib.util
import math
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from scrubjay.errors import ConfigurationError, InvalidRequest
from scrubjay.settings import Settings
from scrubjay.telemetry import get_logger
from scrubjay.telemetry.metrics import cache_requests_total

PREFIX = "scrubjay:"

CROWDED_SECONDS = 0.05  # how soon to ask again when a place is needed that somebody else has
PROBE_SECONDS = 30.0  # an open circuit's probe that is not heard of for so long is given to another

log = get_logger(__name__)


@dataclass(frozen=True)
class Allowance:
    """Whether a request may pass, and how many more may follow.

    `reset_seconds` is when a refused caller would be let through; for an allowed one, when the window ends.
    """

    allowed: bool
    remaining: int
    reset_seconds: int


@dataclass(frozen=True)
class CacheStats:
    """Entries of all processes; hits and misses of this one since it started."""

    entries: int
    hits: int
    misses: int
    backend: Literal["memory", "redis"]


class Cache(Protocol):
    """One contract suite runs over every implementation: `tests/contract/test_cache.py`."""

    async def get(self, key: str) -> bytes | None: ...

    async def set(self, key: str, value: bytes, *, ttl_seconds: float) -> None: ...

    async def delete(self, *keys: str) -> int:
        """How many of them existed."""
        ...

    async def allow(self, key: str, *, limit: int, period_seconds: int, now: float | None = None) -> Allowance:
        """Let at most about `limit` requests pass in any `period_seconds`; a refused one is not counted.

        The count of the previous window fades out linearly while the current one fills.
        """
        ...

    async def admit(self, key: str, token: str, *, interval_seconds: float, limit: int, lease_seconds: float) -> float:
        """Zero lets `token` in: `interval_seconds` after the one before, and beside fewer than `limit` others.

        Otherwise the seconds after which to ask again. Whoever is in leaves with `dismiss`, or after its lease.
        """
        ...

    async def dismiss(self, key: str, token: str) -> None: ...

    async def dismiss_all(self, key: str, prefix: str) -> None:
        """Whoever is in with a token that begins so has left, for somebody who knows that it is gone."""
        ...

    async def defer(self, key: str, seconds: float) -> None:
        """Admit nobody for so long."""
        ...

    async def try_circuit(self, key: str, *, timeout_seconds: float) -> float:
        """Zero when the circuit is closed, or for the one probe that an open one allows after its timeout.

        Otherwise the seconds after which to ask again.
        """
        ...

    async def report_to_circuit(self, key: str, *, success: bool, threshold: int, timeout_seconds: float) -> bool:
        """Count a failure, or close the circuit with a success. True when it stands open now."""
        ...

    async def publish(self, channel: str, message: bytes) -> None: ...

    def subscribe(self, channel: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Yields the messages published from the moment the context is entered."""
        ...

    async def clear(self, prefix: str) -> int:
        """Delete every key that starts with `prefix`; how many there were."""
        ...

    async def stats(self) -> CacheStats: ...

    async def check(self) -> None:
        """Raises Unavailable when the cache does not answer."""
        ...

    async def close(self) -> None: ...


_CACHES = frozenset({"query", "query_embed", "robots"})  # what `cache:…` keys hold


def count_request(key: str, *, found: bool) -> None:
    """For the metrics: what was asked for, by the kind of its key."""
    kind = key.split(":", 2)[1] if key.startswith("cache:") else ""
    cache_requests_total.labels(kind if kind in _CACHES else "other", "hit" if found else "miss").inc()


def open_cache(settings: Settings) -> Cache:
    """The cache that the settings name."""
    # Here, not above: both implement what this module defines, and redis is an optional extra.
    url = settings.cache_url
    if url is None:
        from scrubjay.storage.cache_memory import MemoryCache

        return MemoryCache()
    if not url.startswith(("redis://", "rediss://", "unix://")):
        raise ConfigurationError(
            "The setting 'cache_url' (SCRUBJAY_CACHE_URL) must start with redis://, rediss:// or unix://."
        )
    if importlib.util.find_spec("redis") is None:
        raise ConfigurationError("The setting 'cache_url' needs a package: pip install 'scrubjay[redis]'")
    from scrubjay.storage.cache_redis import RedisCache

    return RedisCache(url)


def weigh(previous: int, elapsed_ms: int, period_ms: int) -> int:
    """What is left of the previous window's count, rounded up."""
    return -(-previous * (period_ms - elapsed_ms) // period_ms)


def describe_allowance(
    *, allowed: bool, current: int, previous: int, limit: int, elapsed_ms: int, period_ms: int
) -> Allowance:
    """What to tell the caller; `current` includes the request if it was allowed."""
    remaining = limit - current - weigh(previous, elapsed_ms, period_ms)
    wait_ms: float = period_ms - elapsed_ms
    if not allowed and limit > 0:
        room = limit - 1 - current
        if room >= 0:
            wait_ms = period_ms - elapsed_ms - period_ms * room / previous
        else:
            wait_ms += max(0.0, period_ms - period_ms * (limit - 1) / current)
    return Allowance(allowed, max(0, remaining), max(1, math.ceil(wait_ms / 1000)))


def milliseconds(ttl_seconds: float) -> int:
    if ttl_seconds <= 0:
        raise InvalidRequest("A time to live must be more than zero seconds.")
    return max(1, round(ttl_seconds * 1000))
