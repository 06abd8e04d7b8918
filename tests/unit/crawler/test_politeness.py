"""Politeness as the server sees it: gaps, rates, places, circuits and blocks, under many requests at once."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.site import Reply, Site, running_site

from scrubjay.crawler.fetcher import Fetcher, FetchRequest
from scrubjay.crawler.polite import PoliteFetcher, retry_after_seconds
from scrubjay.crawler.politeness import Manners, Politeness, names_above
from scrubjay.errors import CircuitOpen, FetchFailed, HostBlocked
from scrubjay.model.crawling import HostSettings
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Tenant
from scrubjay.settings import Settings
from scrubjay.storage.cache import Cache, open_cache
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.hosts import Hosts
from scrubjay.storage.schema import require_current
from scrubjay.storage.tenants import Tenants

# A request is granted its moment here and seen there; what lies between is the noise of a loaded machine.
NOISE_SECONDS = 0.025


@pytest.fixture(params=["memory", pytest.param("redis", marks=pytest.mark.redis)])
async def cache(request: pytest.FixtureRequest, settings: Settings) -> AsyncIterator[Cache]:
    url = request.getfixturevalue("redis_url") if request.param == "redis" else None
    opened = open_cache(settings.model_copy(update={"cache_url": url}))
    await opened.clear("rate:127.")
    await opened.clear("circuit:127.")
    yield opened
    await opened.close()


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    opened = open_database(settings)
    await require_current(opened, auto_migrate=True)
    async with opened.writing() as connection:
        if await Tenants(connection).count() == 0:
            await Tenants(connection).add(Tenant(id=DEFAULT_TENANT_ID, name="default"))
    yield opened
    await opened.close()


def polite(fetcher: Fetcher, cache: Cache, database: Database | None = None, **manners: Any) -> PoliteFetcher:
    retries, places = manners.pop("retries", 0), manners.pop("places", 64)
    politeness = Politeness(cache, database, DEFAULT_TENANT_ID, Manners(**manners), places=places)
    return PoliteFetcher(fetcher, politeness, retries)


async def ask(polite_fetcher: PoliteFetcher, site: Site, times: int, host: int = 1) -> list[Any]:
    requests = [FetchRequest(url=f"{site.url_at(host)}/p{number}") for number in range(times)]
    return await asyncio.gather(*map(polite_fetcher.fetch, requests), return_exceptions=True)


async def test_the_delay_is_the_gap_between_requests_to_a_host_under_64_way_concurrency(
    fetcher: Fetcher, site: Site, cache: Cache
) -> None:
    await ask(polite(fetcher, cache, delay_seconds=0.05, host_concurrency=64), site, 64)

    assert len(site.requests) == 64
    assert min(site.gaps()) >= 0.05 - NOISE_SECONDS
    assert sum(site.gaps()) >= 63 * 0.05 - NOISE_SECONDS


async def test_the_rate_holds_for_each_host_and_hosts_do_not_wait_for_each_other(
    fetcher: Fetcher, cache: Cache
) -> None:
    async with running_site(hosts=2) as site:
        gentle = polite(fetcher, cache, delay_seconds=0.0, rate_limit_rps=25, host_concurrency=64)
        started = time.monotonic()
        await asyncio.gather(ask(gentle, site, 32, host=1), ask(gentle, site, 32, host=2))
        took = time.monotonic() - started

        for host in (1, 2):
            assert min(site.gaps(f"127.0.0.{host}:{site.port}")) >= 0.04 - NOISE_SECONDS
    assert 31 * 0.04 - NOISE_SECONDS <= took < 1.8 * 31 * 0.04


async def test_two_crawls_through_one_cache_share_a_hosts_delay(fetcher: Fetcher, site: Site, cache: Cache) -> None:
    crawls = [polite(fetcher, cache, delay_seconds=0.05, host_concurrency=8) for _ in range(2)]

    await asyncio.gather(*(ask(crawl, site, 12) for crawl in crawls))

    assert min(site.gaps()) >= 0.05 - NOISE_SECONDS


async def test_a_host_never_has_more_requests_at_once_than_it_should(
    fetcher: Fetcher, site: Site, cache: Cache
) -> None:
    site.latency_seconds = 0.02
    crawls = [polite(fetcher, cache, delay_seconds=0, host_concurrency=3) for _ in range(2)]

    await asyncio.gather(*(ask(crawl, site, 20) for crawl in crawls))

    assert len(site.requests) == 40
    assert site.max_in_flight <= 3


async def test_a_crawl_never_has_more_requests_at_once_than_it_should(fetcher: Fetcher) -> None:
    async with running_site(hosts=4) as site:
        site.latency_seconds = 0.02
        crawl = polite(fetcher, MemoryCache(), delay_seconds=0, host_concurrency=64, places=5)
        await asyncio.gather(*(ask(crawl, site, 10, host) for host in (1, 2, 3, 4)))

        assert site.max_in_flight == 5


async def test_a_crawl_delay_slows_down_and_never_speeds_up(fetcher: Fetcher, site: Site) -> None:
    crawl = polite(fetcher, MemoryCache(), delay_seconds=0.04)
    await crawl.politeness.respect_crawl_delay("127.0.0.1", 0.001)
    await ask(crawl, site, 4)
    assert min(site.gaps()) >= 0.04 - NOISE_SECONDS

    site.forget()
    await crawl.politeness.respect_crawl_delay("127.0.0.1", 0.1)
    await ask(crawl, site, 4)
    assert min(site.gaps()) >= 0.1 - NOISE_SECONDS


async def test_failures_in_a_row_open_the_circuit_and_then_nothing_is_asked(
    fetcher: Fetcher, site: Site, cache: Cache
) -> None:
    site.fallback = lambda request: Reply("broken", 500)
    crawl = polite(fetcher, cache, delay_seconds=0, host_concurrency=1, circuit_threshold=3, circuit_timeout_seconds=60)

    outcomes = await ask(crawl, site, 10)

    assert len(site.requests) == 3
    assert [type(outcome) for outcome in outcomes[3:]] == [CircuitOpen] * 7
    assert 50 < outcomes[-1].wait_seconds <= 60


async def test_a_success_resets_the_count(fetcher: Fetcher, site: Site, cache: Cache) -> None:
    site.fallback = lambda request: Reply("x", 200 if request.path == "/p2" else 500)
    crawl = polite(fetcher, cache, delay_seconds=0, host_concurrency=1, circuit_threshold=3)

    outcomes = [await crawl.fetch(FetchRequest(url=f"{site.url}/p{number}")) for number in range(5)]

    assert [outcome.status for outcome in outcomes] == [500, 500, 200, 500, 500]


async def test_an_open_circuit_lets_one_probe_through_and_closes_with_its_success(
    fetcher: Fetcher, site: Site, cache: Cache
) -> None:
    healthy = False
    site.fallback = lambda request: Reply("x", 200 if healthy else 500)
    site.latency_seconds = 0.05
    crawl = polite(
        fetcher, cache, delay_seconds=0, host_concurrency=16, circuit_threshold=1, circuit_timeout_seconds=0.3
    )
    await ask(crawl, site, 1)
    await asyncio.sleep(0.35)
    healthy = True
    site.forget()

    while_probing = await ask(crawl, site, 8)
    assert len(site.requests) == 1
    assert sum(isinstance(outcome, CircuitOpen) for outcome in while_probing) == 7

    afterwards = await ask(crawl, site, 8)
    assert all(outcome.status == 200 for outcome in afterwards)


async def test_a_failed_probe_opens_the_circuit_again(fetcher: Fetcher, site: Site, cache: Cache) -> None:
    site.fallback = lambda request: Reply("x", 500)
    crawl = polite(fetcher, cache, delay_seconds=0, circuit_threshold=1, circuit_timeout_seconds=0.2)
    await ask(crawl, site, 1)
    await asyncio.sleep(0.25)
    await ask(crawl, site, 1)

    with pytest.raises(CircuitOpen):
        await crawl.fetch(FetchRequest(url=site.url + "/again"))
    assert len(site.requests) == 2


async def test_a_4xx_does_not_count_against_a_host(fetcher: Fetcher, site: Site) -> None:
    crawl = polite(fetcher, MemoryCache(), delay_seconds=0, circuit_threshold=2)

    outcomes = await ask(crawl, site, 6)

    assert [outcome.status for outcome in outcomes] == [404] * 6


async def test_server_errors_are_tried_again_and_client_errors_are_not(fetcher: Fetcher, site: Site) -> None:
    crawl = polite(fetcher, MemoryCache(), delay_seconds=0, retries=2)

    answer = await crawl.fetch(FetchRequest(url=site.url + "/fault/503-twice"))
    missing = await crawl.fetch(FetchRequest(url=site.url + "/missing"))

    assert (answer.status, site.counts["/fault/503-twice"]) == (200, 3)
    assert (missing.status, site.counts["/missing"]) == (404, 1)


async def test_retry_after_is_waited_for_by_everybody(fetcher: Fetcher, site: Site, cache: Cache) -> None:
    crawl = polite(fetcher, cache, delay_seconds=0, retries=1)

    answer, _ = await asyncio.gather(
        crawl.fetch(FetchRequest(url=site.url + "/fault/429-once")),
        _later(0.2, crawl.fetch(FetchRequest(url=site.url + "/other"))),
    )

    first = site.requests_for("/fault/429-once")
    assert answer.status == 200
    assert first[1].at - first[0].at >= 1.0 - NOISE_SECONDS
    assert site.requests_for("/other")[0].at - first[0].at >= 1.0 - NOISE_SECONDS


async def test_a_retry_after_of_an_hour_is_an_answer_not_a_wait(fetcher: Fetcher, site: Site) -> None:
    crawl = polite(fetcher, MemoryCache(), delay_seconds=0, retries=2)

    answer = await crawl.fetch(FetchRequest(url=site.url + "/fault/429-always"))

    assert (answer.status, retry_after_seconds(answer)) == (429, 3600)
    assert site.counts["/fault/429-always"] == 1


async def test_a_lost_connection_is_tried_again_and_then_told(fetcher: Fetcher, site: Site) -> None:
    crawl = polite(fetcher, MemoryCache(), delay_seconds=0, retries=1)

    with pytest.raises(FetchFailed):
        await crawl.fetch(FetchRequest(url=site.url + "/fault/reset-at-once"))

    # aiohttp by itself asks once more when a kept connection turns out to be closed, which cannot be told from this.
    assert 2 <= site.counts["/fault/reset-at-once"] <= 4


async def test_a_blocked_domain_blocks_its_hosts(fetcher: Fetcher, database: Database) -> None:
    async with database.writing() as connection:
        await Hosts(connection).add(
            HostSettings(
                tenant_id=DEFAULT_TENANT_ID, host="example.org", is_blocked=True, blocked_reason="asked us to stop"
            )
        )
    crawl = polite(fetcher, MemoryCache(), database)

    with pytest.raises(HostBlocked, match="asked us to stop"):
        await crawl.politeness.require_open("www.example.org")
    await crawl.politeness.require_open("example.com")


async def test_urls_that_come_at_once_read_their_hosts_settings_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with database.writing() as connection:
        await Hosts(connection).add(HostSettings(tenant_id=DEFAULT_TENANT_ID, host="jay.example", is_blocked=True))
    politeness = Politeness(MemoryCache(), database, DEFAULT_TENANT_ID, Manners())
    read, reads = politeness._read_settings, list[str]()

    async def read_and_count(host: str) -> HostSettings | None:
        reads.append(host)
        return await read(host)

    monkeypatch.setattr(politeness, "_read_settings", read_and_count)
    hosts = ["jay.example", "owl.example"] * 20
    told = await asyncio.gather(*map(politeness.require_open, hosts), return_exceptions=True)

    assert [isinstance(each, HostBlocked) for each in told] == [True, False] * 20
    assert sorted(reads) == ["jay.example", "owl.example"]


async def test_a_hosts_own_rate_slows_it_down(fetcher: Fetcher, site: Site, database: Database) -> None:
    async with database.writing() as connection:
        await Hosts(connection).add(HostSettings(tenant_id=DEFAULT_TENANT_ID, host="127.0.0.1", rate_limit_rps=10))
    crawl = polite(fetcher, MemoryCache(), database, delay_seconds=0)

    await ask(crawl, site, 4)

    assert min(site.gaps()) >= 0.1 - NOISE_SECONDS


def test_settings_are_looked_for_up_to_the_registrable_domain() -> None:
    assert names_above("a.b.example.co.uk") == ["a.b.example.co.uk", "b.example.co.uk", "example.co.uk"]
    assert names_above("127.0.0.1") == ["127.0.0.1"]
    assert names_above("localhost") == ["localhost"]


async def _later(seconds: float, coroutine: Any) -> Any:
    await asyncio.sleep(seconds)
    return await coroutine
