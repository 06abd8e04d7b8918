"""Politeness: when a host may be asked next, how often at once, and when it is left alone.

Every request passes `Politeness.turn`. What it decides is kept in the cache, so that several workers that crawl
the same host through one Redis keep to the same delay, the same rate and the same circuit.
"""

import asyncio
import contextlib
import itertools
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from scrubjay.errors import CircuitOpen, HostBlocked, Unavailable
from scrubjay.model.crawling import HostSettings
from scrubjay.model.urls import registrable_domain
from scrubjay.storage import cache_keys
from scrubjay.storage.cache import Cache
from scrubjay.storage.database import Database
from scrubjay.storage.hosts import Hosts, HostSettingsRow
from scrubjay.telemetry import get_logger

SETTINGS_SECONDS = 15.0  # how late a crawl hears that a host was blocked
LONGEST_CRAWL_DELAY_SECONDS = 60.0
LEASE_SPARE_SECONDS = 30.0
_MAX_HOSTS = 20_000

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Manners:
    """How a crawl treats hosts for which nothing else is said."""

    delay_seconds: float = 0.1
    rate_limit_rps: float | None = None
    host_concurrency: int = 8
    timeout_seconds: float = 30.0
    circuit_threshold: int = 5
    circuit_timeout_seconds: float = 300.0


@dataclass(slots=True)
class _Host:
    places: asyncio.Semaphore
    interval_seconds: float
    threshold: int
    timeout_seconds: float
    blocked: str | None
    read_at: float
    crawl_delay: float | None = None
    next_at: float = 0.0
    # One at a time waits for its moment, in the order of arrival; the others wait for it.
    line: asyncio.Lock = field(default_factory=asyncio.Lock)


class Politeness:
    """One crawl's politeness towards all hosts."""

    def __init__(
        self,
        cache: Cache,
        database: Database | None,
        tenant_id: str,
        manners: Manners,
        *,
        places: int = 64,
        owner: str = "",
    ) -> None:
        self._owner = owner  # whose places these are, so that its next run can free them
        self._cache = cache
        self._database = database
        self._tenant_id = tenant_id
        self._manners = manners
        self._places = asyncio.Semaphore(places)
        self._hosts: dict[str, _Host] = {}
        self._in_line: set[asyncio.Task[object] | None] = set()
        self._reading: dict[str, asyncio.Task[HostSettings | None]] = {}
        self._name = secrets.token_hex(8)
        self._turns = itertools.count()

    def is_in_line(self, task: asyncio.Task[object]) -> bool:
        """Whether a task waits for its turn, and so has asked for nothing yet."""
        return task in self._in_line

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncIterator[None]:
        """Wait for the moment to ask a host; one of its places is taken until the context ends."""
        token = f"{self._owner}:{self._name}:{next(self._turns)}"
        at = await self._host(host)
        task = asyncio.current_task()
        self._in_line.add(task)
        try:
            async with at.places:
                async with at.line:
                    await self._wait_for_circuit(host, at)
                    await self._wait_for_moment(host, at, token)
                self._in_line.discard(task)
                try:
                    yield
                finally:
                    self._places.release()
                    # Without the cache's answer, the lease ends by itself.
                    with contextlib.suppress(Unavailable):
                        await self._cache.dismiss(cache_keys.host_rate(host), token)
        finally:
            self._in_line.discard(task)

    async def free_places(self, hosts: Iterable[str]) -> None:
        """Free what an earlier run of the same owner held: it is gone, and its places would end only by themselves."""
        for host in hosts:
            await self._cache.dismiss_all(cache_keys.host_rate(host), f"{self._owner}:")

    async def _wait_for_moment(self, host: str, at: _Host, token: str) -> None:
        """On return a place of the crawl is taken, and the host expects this request now."""
        while True:
            early = at.next_at - time.monotonic()
            if early > 0:
                await asyncio.sleep(early)
            await self._places.acquire()
            try:
                wait = await self._cache.admit(
                    cache_keys.host_rate(host),
                    token,
                    interval_seconds=at.interval_seconds,
                    limit=self._manners.host_concurrency,
                    lease_seconds=self._manners.timeout_seconds + LEASE_SPARE_SECONDS,
                )
            except BaseException:
                self._places.release()
                raise
            if wait <= 0:
                at.next_at = time.monotonic() + at.interval_seconds
                return
            self._places.release()
            await asyncio.sleep(wait)

    async def _wait_for_circuit(self, host: str, at: _Host) -> None:
        wait = await self._cache.try_circuit(cache_keys.circuit(host), timeout_seconds=at.timeout_seconds)
        if wait > 0:
            raise CircuitOpen(
                f"{host} failed too often; it is left alone for {wait:.0f} more seconds.", wait_seconds=wait
            )

    async def report(self, host: str, *, success: bool) -> None:
        """Tell how a request went: failures in a row open the host's circuit, a success closes it."""
        at = await self._host(host)
        opened = await self._cache.report_to_circuit(
            cache_keys.circuit(host), success=success, threshold=at.threshold, timeout_seconds=at.timeout_seconds
        )
        if opened:
            log.warning("circuit opened", host=host, seconds=at.timeout_seconds)

    async def defer(self, host: str, seconds: float) -> None:
        """Ask the host for nothing before so many seconds are over, because it said so."""
        at = await self._host(host)
        at.next_at = max(at.next_at, time.monotonic() + seconds)
        await self._cache.defer(cache_keys.host_rate(host), seconds)

    async def respect_crawl_delay(self, host: str, seconds: float | None) -> None:
        """What robots.txt asks for counts when it is slower than what we would do."""
        at = await self._host(host)
        at.crawl_delay = seconds
        if seconds is not None:
            at.interval_seconds = max(at.interval_seconds, min(seconds, LONGEST_CRAWL_DELAY_SECONDS))

    def turns_within(self, host: str, seconds: float) -> int:
        """About how many turns a host has in the next so many seconds; two at least, so that one can wait in line."""
        at = self._hosts.get(host)
        interval = self._manners.delay_seconds if at is None else at.interval_seconds
        left = seconds if at is None else seconds - max(0.0, at.next_at - time.monotonic())
        return max(2, int(left / max(interval, 0.001)))

    async def require_open(self, host: str) -> None:
        """HostBlocked when somebody blocked the host."""
        at = await self._host(host)
        if at.blocked is not None:
            raise HostBlocked(f"The host {host} is blocked: {at.blocked}")

    async def _host(self, host: str) -> _Host:
        known = self._hosts.get(host)
        if known is not None and (self._database is None or time.monotonic() - known.read_at < SETTINGS_SECONDS):
            return known
        # A crawl begins with many of a host's URLs at once: one of them asks, for all.
        reading = self._reading.get(host)
        if reading is None:
            reading = self._reading[host] = asyncio.create_task(self._read_settings(host))
            reading.add_done_callback(lambda task: self._put_down(host, task))
        return self._remember(host, await asyncio.shield(reading))

    def _put_down(self, host: str, reading: "asyncio.Task[HostSettings | None]") -> None:
        del self._reading[host]
        if not reading.cancelled():
            reading.exception()  # whoever waits has it; when all of them have gone, nobody need hear of it

    def _remember(self, host: str, settings: HostSettings | None) -> _Host:
        manners, now = self._manners, time.monotonic()
        rates = [manners.delay_seconds]
        if manners.rate_limit_rps:
            rates.append(1 / manners.rate_limit_rps)
        if settings is not None:
            rates.append(1 / settings.rate_limit_rps)
        threshold = manners.circuit_threshold if settings is None else settings.circuit_breaker_threshold
        timeout = (
            manners.circuit_timeout_seconds if settings is None else float(settings.circuit_breaker_timeout_seconds)
        )
        blocked = (settings.blocked_reason or "by hand") if settings is not None and settings.is_blocked else None
        known = self._hosts.get(host)
        if known is None:
            if len(self._hosts) >= _MAX_HOSTS:
                self._hosts = {name: at for name, at in self._hosts.items() if at.next_at > now or at.line.locked()}
            places = asyncio.Semaphore(manners.host_concurrency)
            known = self._hosts[host] = _Host(places, max(rates), threshold, timeout, blocked, now)
            return known
        if known.crawl_delay is not None:
            rates.append(min(known.crawl_delay, LONGEST_CRAWL_DELAY_SECONDS))
        known.interval_seconds, known.threshold, known.timeout_seconds = max(rates), threshold, timeout
        known.blocked, known.read_at = blocked, now
        return known

    async def _read_settings(self, host: str) -> HostSettings | None:
        """What is said of the host itself, or else of the nearest domain above it."""
        if self._database is None:
            return None
        names = _endings(host)
        async with self._database.reading() as connection:
            said = await Hosts(connection).page(
                HostSettingsRow.tenant_id == self._tenant_id, HostSettingsRow.host.in_(names), limit=len(names)
            )
        if not said.items:
            return None
        names = names_above(host)  # only now: what belongs to whom takes a long list to know
        by_name: Mapping[str, HostSettings] = {settings.host: settings for settings in said.items}
        return next((by_name[name] for name in names if name in by_name), None)


def names_above(host: str) -> list[str]:
    """`a.b.example.org` → itself, `b.example.org`, `example.org`."""
    names = _endings(host)
    top = registrable_domain(host)
    return names[: names.index(top) + 1] if top in names else names


def _endings(host: str) -> list[str]:
    """`a.example.co.uk` → itself, `example.co.uk`, `co.uk`, `uk`."""
    names = [host]
    while "." in names[-1]:
        names.append(names[-1].partition(".")[2])
    return names
