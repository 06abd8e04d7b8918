"""How hosts are divided into slices, and which crawls are shared at all (`crawler/sliced_crawl.py`)."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scrubjay.crawler.sliced_crawl import MAX_SLICE_HOSTS, SPLIT_URLS, SlicedCrawl, can_be_shared
from scrubjay.model.crawl_spec import CrawlSpec, read_spec
from scrubjay.model.job import Job, JobState
from scrubjay.queue.context import JobContext

START = "http://a.org/"


def spec_of(**values: Any) -> CrawlSpec:
    return read_spec({"start_urls": [START], **values})


def sliced_crawl(state: Mapping[str, Any] | None = None, **values: Any) -> SlicedCrawl:
    job = Job(tenant_id="ten_x", kind="crawl", payload={"plan_id": "p", "urls": ["u"]}, checkpoint=state)
    # Nothing here reads or writes a database.
    context = JobContext(job, None, None)  # type: ignore[arg-type]
    return SlicedCrawl(context, spec_of(**values), "a.org", None, always=True)  # type: ignore[arg-type]


def sizes(sliced: SlicedCrawl, hosts: int, room: int) -> list[int]:
    jobs = sliced._divide([f"h{number}.org" for number in range(hosts)], room)
    handed_out = [host for job in jobs for host in job.payload["hosts"]]
    assert len(handed_out) == len(set(handed_out))
    return [len(job.payload["hosts"]) for job in jobs]


def test_few_hosts_get_a_slice_each_and_many_are_divided_evenly() -> None:
    sliced = sliced_crawl(concurrency=64)

    assert sizes(sliced, 3, room=8) == [1, 1, 1]
    assert sizes(sliced, 8, room=8) == [1] * 8
    assert sizes(sliced, 80, room=8) == [10] * 8
    assert sizes(sliced, 8000, room=8) == [MAX_SLICE_HOSTS] * 8
    assert sizes(sliced, 100, room=1) == [MAX_SLICE_HOSTS]
    assert sizes(sliced, 100, room=0) == []


def test_no_more_hosts_are_handed_out_than_may_be_requested_at_the_same_time() -> None:
    sliced = sliced_crawl(concurrent_hosts=3, concurrency=64)

    assert sliced._room(here=1) == 2
    assert sliced._room(here=3) == 0
    assert sizes(sliced, 100, room=2) == [1, 1]


def running(sliced: SlicedCrawl, *hosts: int) -> list[str]:
    """Slices that run since long ago, with so many hosts each that have work."""
    parts = []
    for number, count in enumerate(hosts):
        names = [f"h{number}-{each}.org" for each in range(count)]
        [job] = sliced._divide(names, 1)
        parts.append(replace(job, state=JobState.RUNNING))
    sliced._see(parts)
    sliced._seen_at = {part.id: float("-inf") for part in parts}
    return [part.id for part in parts]


def test_slices_with_most_hosts_end_while_places_are_idle() -> None:
    sliced = sliced_crawl()
    few, most, some = running(sliced, 1, 5, 3)
    waiting = dict.fromkeys(sliced.taken, SPLIT_URLS)

    assert sliced._choose_yielding(waiting, free=0, idle=1) == [most]
    assert sliced._choose_yielding(waiting, free=0, idle=8) == [most, some]
    assert sliced._choose_yielding(waiting, free=0, idle=0) == []
    assert few not in sliced._choose_yielding(waiting, free=0, idle=8)
    assert sliced._choose_yielding(dict.fromkeys(sliced.taken, 1), free=0, idle=8) == []


def test_old_slices_end_while_hosts_wait_and_young_ones_do_not() -> None:
    sliced = sliced_crawl()
    old, young = running(sliced, 1, 1)
    sliced._seen_at[young] = time.monotonic()

    assert sliced._choose_yielding(dict.fromkeys(sliced.taken, 1), free=3, idle=0) == [old]


def test_a_slice_is_told_what_was_requested_from_its_hosts_before() -> None:
    sliced = sliced_crawl(max_pages_per_host=10)
    sliced.total.host("b.org").pages = 4
    sliced.total.host("b.org").failed = 2

    [job] = sliced._divide(["b.org"], 1)

    assert (job.payload["spent"], job.payload["plan_id"]) == ({"b.org": 6}, "p")
    assert "urls" not in job.payload


def test_a_crawl_that_left_its_own_host_does_not_take_it_back_after_a_restart() -> None:
    assert sliced_crawl({"slices": {"home": "a.org", "granted": 3}}).own_hosts == {"a.org"}
    assert sliced_crawl({"slices": {"home": None, "granted": 3}}).own_hosts == frozenset()


@pytest.mark.parametrize(
    ("values", "is_shared"),
    [
        ({}, True),
        ({"strategy": "dfs"}, False),
        ({"strategy": "best_first"}, False),
        ({"mode": "sequential"}, False),
        ({"concurrent_hosts": 1}, False),
        ({"concurrent_hosts": 2}, True),
    ],
)
def test_crawls_that_decide_after_every_page_are_not_shared(values: dict[str, Any], is_shared: bool) -> None:
    assert can_be_shared(spec_of(**values)) is is_shared
