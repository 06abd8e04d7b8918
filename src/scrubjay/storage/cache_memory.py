"""The cache of a single process: bounded, least recently used first out, within one event loop.

No method awaits between looking and changing, so each is atomic without a lock.
"""

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scrubjay.errors import InvalidRequest
from scrubjay.storage.cache import (
    CROWDED_SECONDS,
    PROBE_SECONDS,
    Allowance,
    CacheStats,
    count_request,
    describe_allowance,
    milliseconds,
    weigh,
)

MAX_ENTRIES = 50_000
MAX_BYTES = 256 * 1024 * 1024
MAX_QUEUED_MESSAGES = 10_000


@dataclass(frozen=True)
class _Entry:
    value: bytes
    expires_at: float


@dataclass(slots=True)
class _Gate:
    next_at: float = 0.0
    inside: dict[str, float] = field(default_factory=dict)  # token → when its lease runs out

    def is_used(self, now: float) -> bool:
        return self.next_at > now or any(until > now for until in self.inside.values())


@dataclass(slots=True)
class _Circuit:
    failures: int = 0
    opened_at: float | None = None
    probe_until: float = 0.0


class MemoryCache:
    """Implements `Cache` in process."""

    def __init__(self, *, max_entries: int = MAX_ENTRIES, max_bytes: int = MAX_BYTES) -> None:
        self._max_entries = max_entries
        self._max_bytes = max_bytes
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        self._bytes = 0
        self._writes_since_purge = 0
        self._gates: dict[str, _Gate] = {}
        self._circuits: dict[str, _Circuit] = {}
        self._subscribers: dict[str, set[_Subscriber]] = {}
        self._hits = 0
        self._misses = 0

    async def get(self, key: str) -> bytes | None:
        entry = self._find(key)
        if entry is None:
            self._misses += 1
            count_request(key, found=False)
            return None
        self._hits += 1
        count_request(key, found=True)
        return entry.value

    async def set(self, key: str, value: bytes, *, ttl_seconds: float) -> None:
        self._store(key, _Entry(value, time.monotonic() + milliseconds(ttl_seconds) / 1000))

    async def delete(self, *keys: str) -> int:
        return sum(self._remove(key) for key in dict.fromkeys(keys))

    async def allow(self, key: str, *, limit: int, period_seconds: int, now: float | None = None) -> Allowance:
        period_ms = period_seconds * 1000
        window, elapsed_ms = divmod(int((time.time() if now is None else now) * 1000), period_ms)
        previous = self._number(f"{key}:{window - 1}")
        current = self._number(f"{key}:{window}")
        allowed = current + weigh(previous, elapsed_ms, period_ms) < limit
        if allowed:
            current = self._count(f"{key}:{window}", 1, 2 * period_ms)
        return describe_allowance(
            allowed=allowed,
            current=current,
            previous=previous,
            limit=limit,
            elapsed_ms=elapsed_ms,
            period_ms=period_ms,
        )

    async def admit(self, key: str, token: str, *, interval_seconds: float, limit: int, lease_seconds: float) -> float:
        now = time.monotonic()
        gate = self._gates.get(key) or self._open_gate(key, now)
        if gate.next_at > now:
            return gate.next_at - now
        if len(gate.inside) >= limit:
            gate.inside = {held: until for held, until in gate.inside.items() if until > now}
        if len(gate.inside) >= limit:
            return CROWDED_SECONDS
        gate.next_at = now + interval_seconds
        gate.inside[token] = now + lease_seconds
        return 0.0

    async def dismiss(self, key: str, token: str) -> None:
        gate = self._gates.get(key)
        if gate is not None:
            gate.inside.pop(token, None)

    async def dismiss_all(self, key: str, prefix: str) -> None:
        gate = self._gates.get(key)
        if gate is not None:
            for token in [each for each in gate.inside if each.startswith(prefix)]:
                del gate.inside[token]

    async def defer(self, key: str, seconds: float) -> None:
        now = time.monotonic()
        gate = self._gates.get(key) or self._open_gate(key, now)
        gate.next_at = max(gate.next_at, now + seconds)

    def _open_gate(self, key: str, now: float) -> "_Gate":
        if len(self._gates) >= self._max_entries:
            self._gates = {name: gate for name, gate in self._gates.items() if gate.is_used(now)}
        gate = self._gates[key] = _Gate()
        return gate

    async def try_circuit(self, key: str, *, timeout_seconds: float) -> float:
        circuit = self._circuits.get(key)
        if circuit is None or circuit.opened_at is None:
            return 0.0
        now = time.monotonic()
        wait = max(circuit.opened_at + timeout_seconds, circuit.probe_until) - now
        if wait > 0:
            return wait
        circuit.probe_until = now + PROBE_SECONDS
        return 0.0

    async def report_to_circuit(self, key: str, *, success: bool, threshold: int, timeout_seconds: float) -> bool:
        if success:
            self._circuits.pop(key, None)
            return False
        if len(self._circuits) >= self._max_entries:
            self._circuits.pop(next(iter(self._circuits)))
        circuit = self._circuits.setdefault(key, _Circuit())
        circuit.failures += 1
        if circuit.opened_at is not None or circuit.failures >= threshold:
            circuit.opened_at, circuit.probe_until = time.monotonic(), 0.0
        return circuit.opened_at is not None

    async def publish(self, channel: str, message: bytes) -> None:
        for subscriber in self._subscribers.get(channel, ()):
            subscriber.push(message)

    @asynccontextmanager
    async def subscribe(self, channel: str) -> AsyncIterator[AsyncIterator[bytes]]:
        subscriber = _Subscriber()
        self._subscribers.setdefault(channel, set()).add(subscriber)
        try:
            yield subscriber
        finally:
            remaining = self._subscribers[channel]
            remaining.discard(subscriber)
            if not remaining:
                del self._subscribers[channel]

    async def clear(self, prefix: str) -> int:
        self._purge()
        found = [key for key in self._entries if key.startswith(prefix)]
        return await self.delete(*found)

    async def stats(self) -> CacheStats:
        self._purge()
        return CacheStats(entries=len(self._entries), hits=self._hits, misses=self._misses, backend="memory")

    async def check(self) -> None:
        """A process's own memory always answers."""

    async def close(self) -> None:
        self._entries.clear()
        self._bytes = 0

    def _find(self, key: str) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.expires_at <= time.monotonic():
            self._remove(key)
            return None
        self._entries.move_to_end(key)
        return entry

    def _store(self, key: str, entry: _Entry) -> None:
        self._remove(key)
        self._entries[key] = entry
        self._bytes += len(entry.value)
        self._writes_since_purge += 1
        # Now and then only: looking at every entry on every write would make a full cache slow.
        if self._writes_since_purge > self._max_entries // 4:
            self._purge()
        while len(self._entries) > self._max_entries or self._bytes > self._max_bytes:
            _, evicted = self._entries.popitem(last=False)
            self._bytes -= len(evicted.value)

    def _remove(self, key: str) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        self._bytes -= len(entry.value)
        return entry.expires_at > time.monotonic()

    def _purge(self) -> None:
        now = time.monotonic()
        for key in [key for key, entry in self._entries.items() if entry.expires_at <= now]:
            self._remove(key)
        self._writes_since_purge = 0

    def _number(self, key: str) -> int:
        entry = self._find(key)
        if entry is None:
            return 0
        try:
            return int(entry.value)
        except ValueError as error:
            raise InvalidRequest(f"The cache key '{key}' does not hold a number.") from error

    def _count(self, key: str, by: int, ttl_ms: int) -> int:
        number = self._number(key) + by
        entry = self._find(key)
        expires_at = time.monotonic() + ttl_ms / 1000 if entry is None else entry.expires_at
        self._store(key, _Entry(str(number).encode(), expires_at))
        return number


class _Subscriber:
    """A queue that drops its oldest messages when nobody reads them."""

    def __init__(self) -> None:
        self._messages: deque[bytes] = deque(maxlen=MAX_QUEUED_MESSAGES)
        self._arrived = asyncio.Event()

    def push(self, message: bytes) -> None:
        self._messages.append(message)
        self._arrived.set()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        return self._messages.popleft()
