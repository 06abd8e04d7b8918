"""What every cache must do, in process and on Redis."""

import asyncio
import math
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from scrubjay.errors import ConfigurationError, InvalidRequest, Unavailable
from scrubjay.settings import Settings
from scrubjay.storage import cache_keys
from scrubjay.storage.cache import Allowance, Cache, open_cache
from scrubjay.storage.cache_memory import MAX_QUEUED_MESSAGES, MemoryCache
from scrubjay.storage.cache_redis import RedisCache

TTL = 60.0
# The start of a minute, so that windows of a minute begin here.
MINUTE = 1_700_000_040.0


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def cache(request: pytest.FixtureRequest, home: Path) -> AsyncIterator[Cache]:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    cache = open_cache(Settings(home=home, cache_url=url))
    assert isinstance(cache, RedisCache if request.param == "redis" else MemoryCache)
    yield cache
    await cache.close()


@pytest.fixture
def name() -> str:
    """A key that no other test uses: they may share a Redis server."""
    return f"test-{secrets.token_hex(8)}"


async def next_message(messages: AsyncIterator[bytes]) -> bytes:
    async with asyncio.timeout(5):
        return await anext(messages)


async def wait_until_gone(cache: Cache, key: str) -> None:
    async with asyncio.timeout(5):
        while await cache.get(key) is not None:
            await asyncio.sleep(0.01)


async def test_a_value_comes_back_as_it_was_set(cache: Cache, name: str) -> None:
    value = bytes(range(256))
    assert await cache.get(name) is None
    await cache.set(name, value, ttl_seconds=TTL)
    assert await cache.get(name) == value
    await cache.set(name, b"", ttl_seconds=TTL)
    assert await cache.get(name) == b""


async def test_a_value_expires(cache: Cache, name: str) -> None:
    await cache.set(name, b"short", ttl_seconds=0.05)
    await cache.set(name + "-long", b"long", ttl_seconds=TTL)
    await wait_until_gone(cache, name)
    assert await cache.get(name + "-long") == b"long"


@pytest.mark.parametrize("ttl_seconds", [0, -1])
async def test_a_time_to_live_must_be_positive(cache: Cache, name: str, ttl_seconds: float) -> None:
    with pytest.raises(InvalidRequest):
        await cache.set(name, b"x", ttl_seconds=ttl_seconds)


async def test_delete_counts_what_existed(cache: Cache, name: str) -> None:
    await cache.set(name + "1", b"x", ttl_seconds=TTL)
    await cache.set(name + "2", b"x", ttl_seconds=TTL)
    assert await cache.delete(name + "1", name + "2", name + "3") == 2
    assert await cache.delete(name + "1") == 0
    assert await cache.delete() == 0
    assert await cache.get(name + "2") is None


async def test_200_requests_at_once_with_a_limit_of_60_let_exactly_60_pass(cache: Cache, name: str) -> None:
    answers = await asyncio.gather(*(cache.allow(name, limit=60, period_seconds=3600, now=MINUTE) for _ in range(200)))
    passed = [answer for answer in answers if answer.allowed]
    assert sorted(answer.remaining for answer in passed) == list(range(60))
    assert all(answer.remaining == 0 for answer in answers if not answer.allowed)


async def test_the_clock_of_the_cache_is_used_when_no_time_is_given(cache: Cache, name: str) -> None:
    answers = await asyncio.gather(*(cache.allow(name, limit=5, period_seconds=86_400) for _ in range(20)))
    # Should midnight fall between two of these, what was counted before it fades by less than one.
    assert sum(answer.allowed for answer in answers) == 5
    assert all(1 <= answer.reset_seconds <= 2 * 86_400 for answer in answers)


async def count_allowed(cache: Cache, name: str, now: float, attempts: int = 100) -> int:
    answers = [await cache.allow(name, limit=60, period_seconds=60, now=now) for _ in range(attempts)]
    return sum(answer.allowed for answer in answers)


async def test_the_previous_window_fades_out_across_the_boundary(cache: Cache, name: str) -> None:
    assert await count_allowed(cache, name, MINUTE + 59.9) == 60
    assert await count_allowed(cache, name, MINUTE + 60) == 0
    # A quarter into the window, three quarters of the sixty still count.
    assert await count_allowed(cache, name, MINUTE + 75) == 15
    assert await count_allowed(cache, name, MINUTE + 75) == 0
    assert await count_allowed(cache, name, MINUTE + 90) == 15
    # The one after next: only the thirty of the window before count, and at its start all of them.
    assert await count_allowed(cache, name, MINUTE + 120) == 30
    assert await count_allowed(cache, name, MINUTE + 600) == 60


async def test_what_is_left_of_the_previous_window_is_rounded_up(cache: Cache, name: str) -> None:
    for _ in range(3):
        await cache.allow(name, limit=3, period_seconds=60, now=MINUTE)
    # 3 × (1 - 0.351) = 1.947, which counts as two: one may pass.
    answers = [await cache.allow(name, limit=3, period_seconds=60, now=MINUTE + 81.06) for _ in range(2)]
    assert [answer.allowed for answer in answers] == [True, False]


async def test_refused_requests_are_not_counted(cache: Cache, name: str) -> None:
    assert await count_allowed(cache, name, MINUTE, attempts=1000) == 60
    assert await count_allowed(cache, name, MINUTE + 90) == 30


async def test_an_allowance_tells_what_remains_and_when_the_window_ends(cache: Cache, name: str) -> None:
    first = await cache.allow(name, limit=2, period_seconds=60, now=MINUTE + 18.5)
    assert first == Allowance(allowed=True, remaining=1, reset_seconds=42)


@pytest.mark.parametrize("limit", [1, 2, 60])
@pytest.mark.parametrize("offset", [0.0, 18.5, 59.0])
async def test_a_refused_caller_is_let_through_after_the_time_it_was_told(
    cache: Cache, name: str, limit: int, offset: float
) -> None:
    def ask(now: float) -> asyncio.Future[Allowance]:
        return asyncio.ensure_future(cache.allow(name, limit=limit, period_seconds=60, now=now))

    now = MINUTE + offset
    while (refusal := await ask(now)).allowed:
        pass
    for _ in range(3):
        # One second less is never enough, unless less than a second was missing.
        too_early = await ask(now + refusal.reset_seconds - 1.001)
        assert not too_early.allowed
        now += refusal.reset_seconds
        assert (await ask(now)).allowed
        while (refusal := await ask(now)).allowed:
            pass


async def test_a_limit_of_zero_lets_nothing_pass(cache: Cache, name: str) -> None:
    answer = await cache.allow(name, limit=0, period_seconds=60, now=MINUTE)
    assert answer == Allowance(allowed=False, remaining=0, reset_seconds=60)


async def test_a_subscriber_gets_everything_in_order(cache: Cache, name: str) -> None:
    async with cache.subscribe(name) as messages:
        for number in range(500):
            await cache.publish(name, b"%d" % number)
        received = [await next_message(messages) for _ in range(500)]
    assert received == [b"%d" % number for number in range(500)]


async def test_every_subscriber_gets_only_its_own_channel(cache: Cache, name: str) -> None:
    async with cache.subscribe(name) as one, cache.subscribe(name) as two, cache.subscribe(name + "x") as other:
        await cache.publish(name, b"news")
        await cache.publish(name + "x", b"\x00\xff")
        assert [await next_message(each) for each in (one, two, other)] == [b"news", b"news", b"\x00\xff"]


async def test_publishing_to_nobody_is_no_error_and_is_not_kept(cache: Cache, name: str) -> None:
    await cache.publish(name, b"unheard")
    async with cache.subscribe(name) as messages:
        await cache.publish(name, b"heard")
        assert await next_message(messages) == b"heard"


async def test_a_wait_for_a_message_may_be_given_up_and_taken_up_again(cache: Cache, name: str) -> None:
    async with cache.subscribe(name) as messages:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await anext(messages)
        await cache.publish(name, b"late")
        assert await next_message(messages) == b"late"


async def test_clear_touches_only_its_prefix(cache: Cache, name: str) -> None:
    for number in range(700):
        await cache.set(f"{name}:a:{number}", b"x", ttl_seconds=TTL)
    await cache.set(f"{name}:b", b"kept", ttl_seconds=TTL)
    assert await cache.clear(f"{name}:a:") == 700
    assert await cache.clear(f"{name}:a:") == 0
    assert await cache.get(f"{name}:a:5") is None
    assert await cache.get(f"{name}:b") == b"kept"


@pytest.mark.parametrize("wild", ["*", "?", "[a-z]", "\\", "^"])
async def test_clear_takes_its_prefix_literally(cache: Cache, name: str, wild: str) -> None:
    await cache.set(f"{name}b", b"kept", ttl_seconds=TTL)
    await cache.set(f"{name}{wild}1", b"x", ttl_seconds=TTL)
    assert await cache.clear(name + wild) == 1
    assert await cache.get(f"{name}b") == b"kept"


async def test_stats_count_entries_hits_and_misses(cache: Cache, name: str) -> None:
    await cache.set(name + "1", b"x", ttl_seconds=TTL)
    await cache.set(name + "2", b"x", ttl_seconds=TTL)
    for key in (name + "1", name + "2", name + "1", name + "absent"):
        await cache.get(key)
    stats = await cache.stats()
    assert (stats.hits, stats.misses) == (3, 1)
    assert stats.backend in type(cache).__name__.lower()
    if isinstance(cache, MemoryCache):
        assert stats.entries == 2
    else:
        # Other tests may use the same server.
        assert stats.entries >= 2


@pytest.mark.redis
async def test_two_processes_share_what_is_in_redis(redis_url: str, name: str) -> None:
    one, two = RedisCache(redis_url), RedisCache(redis_url)
    await one.set(name, b"shared", ttl_seconds=TTL)
    assert await two.get(name) == b"shared"
    answers = await asyncio.gather(
        *(each.allow(name + "-rate", limit=60, period_seconds=60, now=MINUTE) for each in (one, two) * 100)
    )
    assert sum(answer.allowed for answer in answers) == 60
    async with two.subscribe(name) as messages:
        await one.publish(name, b"hello")
        assert await next_message(messages) == b"hello"
    await one.close()
    await two.close()


@pytest.mark.redis
async def test_every_redis_key_has_our_prefix_and_an_expiry(redis_url: str, name: str) -> None:
    from redis.asyncio import Redis

    cache, client = RedisCache(redis_url), Redis.from_url(redis_url)
    await cache.set(name + ":value", b"x", ttl_seconds=TTL)
    await cache.allow(name + ":rate", limit=5, period_seconds=60)
    keys = [key async for key in client.scan_iter(match=f"*{name}*", count=1000)]
    lives = [await client.pttl(key) for key in keys]
    assert len(keys) == 2
    assert all(key.startswith(b"scrubjay:") for key in keys)
    assert all(0 < life <= 2 * TTL * 1000 for life in lives)
    await client.aclose()
    await cache.close()


@asynccontextmanager
async def slow_link(url: str) -> AsyncIterator[str]:
    """An address from which everything reaches the server at `url` a moment later."""
    parts = urlsplit(url)

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_seconds: float) -> None:
        while data := await reader.read(65_536):
            await asyncio.sleep(delay_seconds)
            writer.write(data)
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_connection(parts.hostname, parts.port or 6379)
        await asyncio.gather(relay(reader, server_writer, 0.05), relay(server_reader, writer, 0))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        userinfo, at, _ = parts.netloc.rpartition("@")
        yield parts._replace(netloc=f"{userinfo}{at}127.0.0.1:{port}").geturl()


@pytest.mark.redis
async def test_nothing_published_after_a_subscription_began_is_missed(redis_url: str, name: str) -> None:
    near = RedisCache(redis_url)
    async with slow_link(redis_url) as slow_url:
        far = RedisCache(slow_url)
        async with far.subscribe(name) as messages:
            await near.publish(name, b"at once")
            assert await next_message(messages) == b"at once"
        await far.close()
    await near.close()


@pytest.mark.redis
async def test_many_subscribers_leave_connections_for_the_rest(redis_url: str, name: str) -> None:
    cache = RedisCache(redis_url)
    subscriptions = [cache.subscribe(name) for _ in range(60)]
    feeds = await asyncio.gather(*(subscription.__aenter__() for subscription in subscriptions))
    await cache.publish(name, b"all")
    assert [await next_message(feed) for feed in feeds] == [b"all"] * 60
    await asyncio.gather(*(subscription.__aexit__(None, None, None) for subscription in subscriptions))
    await cache.close()


async def test_a_redis_server_that_is_down_is_unavailable_everywhere(name: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        cache = RedisCache(f"redis://:hidden-password@127.0.0.1:{unused.getsockname()[1]}/0")

        async def listen() -> None:
            async with cache.subscribe(name):
                pass

        for attempt in (
            cache.check(),
            cache.get(name),
            cache.set(name, b"x", ttl_seconds=TTL),
            cache.delete(name),
            cache.allow(name, limit=1, period_seconds=60),
            cache.publish(name, b"x"),
            cache.clear(name),
            cache.stats(),
            listen(),
        ):
            with pytest.raises(Unavailable) as failure:
                await attempt
            assert "hidden-password" not in failure.value.message
            assert "\n" not in failure.value.message
    await cache.close()


@pytest.mark.parametrize("url", ["memcached://host", "redis.example:6379", "redis://host:port"])
def test_a_wrong_cache_address_is_explained(home: Path, url: str) -> None:
    with pytest.raises(ConfigurationError, match="cache_url"):
        open_cache(Settings(home=home, cache_url=url))


def test_without_the_redis_package_the_command_to_install_it_is_named(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=re.escape("pip install 'scrubjay[redis]'")):
        open_cache(Settings(home=home, cache_url="redis://127.0.0.1"))


def test_the_memory_cache_does_not_import_redis() -> None:
    program = """
import sys
from pathlib import Path
from scrubjay.settings import Settings
from scrubjay.storage.cache import open_cache
open_cache(Settings(home=Path(".")))
sys.exit("redis" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


async def test_a_full_memory_cache_drops_what_was_least_recently_used() -> None:
    cache = MemoryCache(max_entries=3)
    for key in "abc":
        await cache.set(key, b"x", ttl_seconds=TTL)
    await cache.get("a")
    await cache.set("d", b"x", ttl_seconds=TTL)
    assert [key for key in "abcd" if await cache.get(key) is not None] == ["a", "c", "d"]


async def test_the_memory_cache_is_bounded_in_bytes_too() -> None:
    cache = MemoryCache(max_bytes=1000)
    for number in range(100):
        await cache.set(f"key{number}", bytes(400), ttl_seconds=TTL)
    assert (await cache.stats()).entries == 2
    assert await cache.delete("key98") == 1
    await cache.set("small", bytes(600), ttl_seconds=TTL)
    assert await cache.get("key99") is not None


async def test_expired_entries_leave_memory_without_being_asked_for() -> None:
    cache = MemoryCache(max_entries=100)
    for number in range(50):
        await cache.set(f"old{number}", b"x", ttl_seconds=0.001)
    await asyncio.sleep(0.005)
    for number in range(26):
        await cache.set(f"new{number}", b"x", ttl_seconds=TTL)
    assert not any(key.startswith("old") for key in cache._entries)


async def test_a_slow_subscriber_in_memory_loses_the_oldest_messages(name: str) -> None:
    cache = MemoryCache()
    async with cache.subscribe(name) as messages:
        for number in range(MAX_QUEUED_MESSAGES + 5):
            await cache.publish(name, b"%d" % number)
        assert await next_message(messages) == b"5"


async def test_a_subscriber_that_left_costs_nothing(name: str) -> None:
    cache = MemoryCache()
    async with cache.subscribe(name):
        assert name in cache._subscribers
    assert cache._subscribers == {}


def test_keys_follow_the_specified_patterns() -> None:
    digest = r"[0-9a-f]{32}"
    patterns = {
        cache_keys.query_result("words", tenant_id="ten_1"): f"cache:query:{digest}",
        cache_keys.query_embedding("words", model="m"): f"cache:query_embed:{digest}",
        cache_keys.host_rate("A.Example"): r"rate:a\.example",
        cache_keys.api_rate("f" * 64): f"rate:api:{digest}",
        cache_keys.circuit("A.Example"): r"circuit:a\.example",
        cache_keys.robots("https://a.example"): f"cache:robots:{digest}",
    }
    assert len(patterns) == 6
    for key, pattern in patterns.items():
        assert re.fullmatch(pattern, key)


def test_what_one_tenant_cached_has_another_key_for_another_tenant() -> None:
    assert cache_keys.query_result("q", tenant_id="a") != cache_keys.query_result("q", tenant_id="b")
    assert cache_keys.query_result("bc", tenant_id="a") != cache_keys.query_result("c", tenant_id="ab")


async def test_an_api_limit_is_counted_per_minute_under_the_specified_key(cache: Cache) -> None:
    key = cache_keys.api_rate(secrets.token_hex(32))
    await cache.allow(key, limit=5, period_seconds=cache_keys.API_RATE_PERIOD_SECONDS, now=MINUTE)
    assert await cache.get(f"{key}:{math.floor(MINUTE / 60)}") == b"1"


async def admit(cache: Cache, name: str, token: str, **options: Any) -> float:
    return await cache.admit(
        f"rate:{name}", token, **{"interval_seconds": 0.0, "limit": 10, "lease_seconds": 60.0, **options}
    )


async def test_an_interval_keeps_the_next_one_out_until_it_is_over(cache: Cache, name: str) -> None:
    assert await admit(cache, name, "a", interval_seconds=0.2) == 0
    wait = await admit(cache, name, "b", interval_seconds=0.2)
    assert 0 < wait <= 0.2
    await asyncio.sleep(wait + 0.005)
    assert await admit(cache, name, "b", interval_seconds=0.2) == 0


async def test_of_many_who_ask_at_once_one_is_admitted_per_interval(cache: Cache, name: str) -> None:
    waits = await asyncio.gather(*(admit(cache, name, str(number), interval_seconds=5) for number in range(64)))
    assert sorted(waits)[:2] == [0, pytest.approx(5, abs=1)]


async def test_only_so_many_are_inside_and_whoever_leaves_makes_room(cache: Cache, name: str) -> None:
    waits = await asyncio.gather(*(admit(cache, name, str(number), limit=3) for number in range(10)))
    assert waits.count(0) == 3
    await cache.dismiss(f"rate:{name}", str(waits.index(0)))
    await cache.dismiss(f"rate:{name}", "somebody else")
    assert [await admit(cache, name, f"late{number}", limit=3) == 0 for number in range(2)] == [True, False]


async def test_those_of_somebody_who_is_gone_are_dismissed_together(cache: Cache, name: str) -> None:
    for token in ("gone:1", "gone:2", "here:1"):
        assert await admit(cache, name, token, limit=3) == 0
    await cache.dismiss_all(f"rate:{name}", "gone:")
    await cache.dismiss_all("rate:nobody was ever here", "gone:")
    assert [await admit(cache, name, f"late{number}", limit=3) == 0 for number in range(3)] == [True, True, False]


async def test_whoever_never_leaves_is_out_when_the_lease_ends(cache: Cache, name: str) -> None:
    assert await admit(cache, name, "a", limit=1, lease_seconds=0.1) == 0
    assert await admit(cache, name, "b", limit=1) > 0
    await asyncio.sleep(0.13)
    assert await admit(cache, name, "b", limit=1) == 0


async def test_nobody_is_admitted_while_a_host_is_deferred(cache: Cache, name: str) -> None:
    await cache.defer(f"rate:{name}", 0.3)
    await cache.defer(f"rate:{name}", 0.1)
    assert 0.15 < await admit(cache, name, "a") <= 0.3


async def report(cache: Cache, name: str, success: bool, threshold: int = 3) -> bool:
    return await cache.report_to_circuit(f"circuit:{name}", success=success, threshold=threshold, timeout_seconds=0.2)


async def test_a_circuit_opens_at_its_threshold_and_a_success_closes_it(cache: Cache, name: str) -> None:
    assert [await report(cache, name, False) for _ in range(2)] == [False, False]
    assert not await report(cache, name, True)
    assert [await report(cache, name, False) for _ in range(3)] == [False, False, True]
    assert 0 < await cache.try_circuit(f"circuit:{name}", timeout_seconds=0.2) <= 0.2
    await report(cache, name, True)
    assert await cache.try_circuit(f"circuit:{name}", timeout_seconds=0.2) == 0


async def test_failures_at_once_are_all_counted(cache: Cache, name: str) -> None:
    opened = await asyncio.gather(*(report(cache, name, False, threshold=20) for _ in range(20)))
    assert opened.count(True) == 1


async def test_after_its_timeout_an_open_circuit_lets_exactly_one_probe_through(cache: Cache, name: str) -> None:
    await report(cache, name, False, threshold=1)
    await asyncio.sleep(0.22)
    waits = await asyncio.gather(*(cache.try_circuit(f"circuit:{name}", timeout_seconds=0.2) for _ in range(16)))
    assert waits.count(0) == 1
    assert await report(cache, name, False, threshold=99), "a failed probe opens it again"
    assert await cache.try_circuit(f"circuit:{name}", timeout_seconds=0.2) > 0
