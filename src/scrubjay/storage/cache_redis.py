"""The cache that several processes share, in Redis. Every key and channel is under `scrubjay:`."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, cast

from redis.asyncio import BlockingConnectionPool, ConnectionPool, Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError

from scrubjay.errors import ConfigurationError, Unavailable
from scrubjay.storage.cache import (
    CROWDED_SECONDS,
    PREFIX,
    PROBE_SECONDS,
    Allowance,
    CacheStats,
    count_request,
    describe_allowance,
    milliseconds,
)
from scrubjay.storage.cache_keys import CIRCUIT_SECONDS
from scrubjay.telemetry import redact

_TIMEOUT_SECONDS = 5
_MAX_CONNECTIONS = 32
_HEALTH_CHECK_SECONDS = 30
_SCAN_BATCH = 500

# The windows follow the clock of the server when no time is given, so that all processes agree on them.
# Whole numbers throughout: floating point would let a request too many or too few pass.
_ALLOW = """
local limit, period_ms, now_ms = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
if not now_ms then
  local time = redis.call('TIME')
  now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
end
local elapsed_ms = now_ms % period_ms
local window = (now_ms - elapsed_ms) / period_ms
local function key(number) return string.format('%s:%.0f', KEYS[1], number) end
local previous = tonumber(redis.call('GET', key(window - 1)) or 0)
local current = tonumber(redis.call('GET', key(window)) or 0)
local left = previous * (period_ms - elapsed_ms)
local weighed = (left - left % period_ms) / period_ms
if left % period_ms > 0 then weighed = weighed + 1 end
local allowed = 0
if current + weighed < limit then
  allowed = 1
  current = redis.call('INCR', key(window))
  if current == 1 then redis.call('PEXPIRE', key(window), 2 * period_ms) end
end
return {allowed, current, previous, elapsed_ms}
"""

_NOW_MS = """
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
"""

_ADMIT = (
    _NOW_MS
    + """
local interval, limit, lease, crowded = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local next_at = tonumber(redis.call('GET', KEYS[1]) or 0)
if next_at > now then return tostring(next_at - now) end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if redis.call('ZCARD', KEYS[2]) >= limit then return tostring(crowded) end
if interval > 0 then
  redis.call('SET', KEYS[1], string.format('%.3f', now + interval), 'PX', math.ceil(interval) + 1)
end
redis.call('ZADD', KEYS[2], now + lease, ARGV[1])
redis.call('PEXPIRE', KEYS[2], math.ceil(lease) + 1)
return '0'
"""
)

_DEFER = (
    _NOW_MS
    + """
local until_at = now + tonumber(ARGV[1])
if until_at > tonumber(redis.call('GET', KEYS[1]) or 0) then
  redis.call('SET', KEYS[1], string.format('%.3f', until_at), 'PX', math.ceil(tonumber(ARGV[1])) + 1)
end
"""
)

_TRY_CIRCUIT = (
    _NOW_MS
    + """
local opened_at = tonumber(redis.call('HGET', KEYS[1], 'opened_at') or '')
if not opened_at then return '0' end
local wait = math.max(opened_at + ARGV[1], tonumber(redis.call('HGET', KEYS[1], 'probe_until') or 0)) - now
if wait > 0 then return tostring(wait) end
redis.call('HSET', KEYS[1], 'probe_until', string.format('%.3f', now + ARGV[2]))
return '0'
"""
)

_REPORT_TO_CIRCUIT = (
    _NOW_MS
    + """
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
local opened = redis.call('HEXISTS', KEYS[1], 'opened_at') == 1 or failures >= tonumber(ARGV[1])
if opened then redis.call('HSET', KEYS[1], 'opened_at', string.format('%.3f', now), 'probe_until', 0) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return opened and 1 or 0
"""
)


class RedisCache:
    """Implements `Cache` on a Redis server."""

    def __init__(self, url: str) -> None:
        # One new attempt, and only when the connection was lost: a command that timed out may have been carried
        # out, and counting it twice would be wrong.
        options = {
            "socket_connect_timeout": _TIMEOUT_SECONDS,
            "socket_timeout": _TIMEOUT_SECONDS,
            "health_check_interval": _HEALTH_CHECK_SECONDS,
            "retry": Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
        }
        try:
            pool = BlockingConnectionPool.from_url(
                url, max_connections=_MAX_CONNECTIONS, timeout=_TIMEOUT_SECONDS, **options
            )
            # Each subscriber keeps a connection for as long as it listens; those must not starve the rest.
            listeners = ConnectionPool.from_url(url, max_connections=None, **options)
        except ValueError as error:
            raise ConfigurationError(
                "The setting 'cache_url' (SCRUBJAY_CACHE_URL) is not a Redis address like redis://host:6379/0."
            ) from error
        self._redis = Redis.from_pool(pool)
        self._listeners = Redis.from_pool(listeners)
        self._allow = self._redis.register_script(_ALLOW)
        self._admit = self._redis.register_script(_ADMIT)
        self._defer = self._redis.register_script(_DEFER)
        self._try_circuit = self._redis.register_script(_TRY_CIRCUIT)
        self._report_to_circuit = self._redis.register_script(_REPORT_TO_CIRCUIT)
        self._hits = 0
        self._misses = 0

    async def get(self, key: str) -> bytes | None:
        with _unavailable():
            value = cast("bytes | None", await self._redis.get(PREFIX + key))
        if value is None:
            self._misses += 1
        else:
            self._hits += 1
        count_request(key, found=value is not None)
        return value

    async def set(self, key: str, value: bytes, *, ttl_seconds: float) -> None:
        with _unavailable():
            await self._redis.set(PREFIX + key, value, px=milliseconds(ttl_seconds))

    async def delete(self, *keys: str) -> int:
        if not keys:
            return 0
        with _unavailable():
            return int(await self._redis.unlink(*(PREFIX + key for key in keys)))

    async def allow(self, key: str, *, limit: int, period_seconds: int, now: float | None = None) -> Allowance:
        period_ms = period_seconds * 1000
        now_ms = "" if now is None else int(now * 1000)
        with _unavailable():
            allowed, current, previous, elapsed_ms = await self._allow(
                keys=[PREFIX + key], args=[limit, period_ms, now_ms]
            )
        return describe_allowance(
            allowed=allowed == 1,
            current=current,
            previous=previous,
            limit=limit,
            elapsed_ms=elapsed_ms,
            period_ms=period_ms,
        )

    async def admit(self, key: str, token: str, *, interval_seconds: float, limit: int, lease_seconds: float) -> float:
        times = [interval_seconds * 1000, limit, lease_seconds * 1000, CROWDED_SECONDS * 1000]
        with _unavailable():
            wait = await self._admit(keys=[PREFIX + key, f"{PREFIX}{key}:inside"], args=[token, *times])
        return float(wait) / 1000

    async def dismiss(self, key: str, token: str) -> None:
        with _unavailable():
            await self._redis.zrem(f"{PREFIX}{key}:inside", token)

    async def dismiss_all(self, key: str, prefix: str) -> None:
        with _unavailable():
            inside: list[Any] = await self._redis.zrange(f"{PREFIX}{key}:inside", 0, -1)
            gone: list[bytes] = [token for token in inside if token.startswith(prefix.encode())]
            if gone:
                await self._redis.zrem(f"{PREFIX}{key}:inside", *gone)

    async def defer(self, key: str, seconds: float) -> None:
        with _unavailable():
            await self._defer(keys=[PREFIX + key], args=[seconds * 1000])

    async def try_circuit(self, key: str, *, timeout_seconds: float) -> float:
        with _unavailable():
            wait = await self._try_circuit(keys=[PREFIX + key], args=[timeout_seconds * 1000, PROBE_SECONDS * 1000])
        return float(wait) / 1000

    async def report_to_circuit(self, key: str, *, success: bool, threshold: int, timeout_seconds: float) -> bool:
        with _unavailable():
            if success:
                await self._redis.unlink(PREFIX + key)
                return False
            kept_ms = milliseconds(max(CIRCUIT_SECONDS, 2 * timeout_seconds))
            return bool(await self._report_to_circuit(keys=[PREFIX + key], args=[threshold, kept_ms]))

    async def publish(self, channel: str, message: bytes) -> None:
        with _unavailable():
            await self._redis.publish(PREFIX + channel, message)

    @asynccontextmanager
    async def subscribe(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        listener = self._listeners.pubsub()
        try:
            with _unavailable():
                await listener.subscribe(PREFIX + channel)
                # Only the server's confirmation means that nothing published from now on is missed.
                confirmation = await listener.get_message(timeout=_TIMEOUT_SECONDS)
            if confirmation is None:
                raise Unavailable("Redis did not confirm a subscription in time.")
            yield _Messages(listener)
        finally:
            await listener.aclose()  # type: ignore[no-untyped-call]

    async def clear(self, prefix: str) -> int:
        deleted = 0
        async for keys in self._scan(prefix):
            with _unavailable():
                deleted += int(await self._redis.unlink(*keys))
        return deleted

    async def stats(self) -> CacheStats:
        entries = 0
        async for keys in self._scan(""):
            entries += len(keys)
        return CacheStats(entries=entries, hits=self._hits, misses=self._misses, backend="redis")

    async def check(self) -> None:
        with _unavailable():
            await self._redis.ping()

    async def close(self) -> None:
        await self._redis.aclose()
        await self._listeners.aclose()

    async def _scan(self, prefix: str) -> AsyncIterator[list[bytes]]:
        """Every key under a prefix, in batches; a key may come twice."""
        pattern = re.sub(r"([*?\[\]\\^])", r"\\\1", PREFIX + prefix) + "*"
        cursor = 0
        while True:
            with _unavailable():
                cursor, keys = await self._redis.scan(cursor, match=pattern, count=_SCAN_BATCH)
            if keys:
                yield cast("list[bytes]", keys)
            if cursor == 0:
                return


class _Messages:
    """The messages of a subscription. Waiting for one may be cancelled and taken up again."""

    def __init__(self, listener: PubSub) -> None:
        self._listener = listener

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            with _unavailable():
                # With a timeout, so that the health check between two waits notices a server that is gone.
                message = await self._listener.get_message(
                    ignore_subscribe_messages=True, timeout=_HEALTH_CHECK_SECONDS
                )
            if message is not None:
                return cast("bytes", message["data"])


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError) as error:
        reason = redact(str(error)).strip().rstrip(".") or type(error).__name__
        raise Unavailable(f"Redis does not answer as it should: {reason}.") from error
