"""How hosts are divided into slices, and which crawls are shared at all (`crawler/sliced_crawl.py`)."""

from collections.abc import Mapping
from typing import Any

import pytest

from scrubjay.crawler.host_slice import SLICES_PER_WORKER
from scrubjay.crawler.sliced_crawl import MAX_SLICE_HOSTS, SlicedCrawl, can_be_shared
from scrubjay.model.crawl_spec import CrawlSpec, read_spec
from scrubjay.model.job import Job
from scrubjay.queue.context import JobContext

START = "http://a.org/"


def spec_of(**values: Any) -> CrawlSpec:
    return read_spec({"start_urls": [START], **values})


def sliced_crawl(state: Mapping[str, Any] | None = None, **values: Any) -> SlicedCrawl:
    job = Job(tenant_id="ten_x", kind="crawl", payload={"plan_id": "p", "urls": ["u"]}, checkpoint=state)
    # Nothing here reads or writes a database.
    context = JobContext(job, None, None)  # type: ignore[arg-type]
    return SlicedCrawl(context, spec_of(**values), "a.org", None, always=True)  # type: ignore[arg-type]


def sizes(sliced: SlicedCrawl, hosts: int, **values: int) -> list[int]:
    given = {"workers": 4, "active": 0, "here": 1, **values}
    jobs = sliced._divide([f"h{number}.org" for number in range(hosts)], **given)
    handed_out = [host for job in jobs for host in job.payload["hosts"]]
    assert len(handed_out) == len(set(handed_out))
    return [len(job.payload["hosts"]) for job in jobs]


def test_few_hosts_get_a_slice_each_and_many_are_divided_evenly() -> None:
    sliced = sliced_crawl(concurrency=64)
    places = 4 * SLICES_PER_WORKER

    assert sizes(sliced, 3) == [1, 1, 1]
    assert sizes(sliced, places) == [1] * places
    assert sizes(sliced, 10 * places) == [10] * places
    assert sizes(sliced, 1000 * places) == [MAX_SLICE_HOSTS] * places


def test_no_slice_is_added_when_all_places_are_taken() -> None:
    sliced = sliced_crawl(concurrency=64)

    assert sizes(sliced, 100, active=4 * SLICES_PER_WORKER) == []
    assert sizes(sliced, 100, active=4 * SLICES_PER_WORKER - 1) == [MAX_SLICE_HOSTS]


def test_no_more_hosts_are_handed_out_than_may_be_requested_at_the_same_time() -> None:
    sliced = sliced_crawl(concurrent_hosts=3, concurrency=64)

    assert sizes(sliced, 100) == [1, 1]
    assert sizes(sliced, 100, active=1) == [1]
    assert sizes(sliced, 100, here=3) == []


def test_a_slice_is_told_what_was_requested_from_its_hosts_before() -> None:
    sliced = sliced_crawl(max_pages_per_host=10)
    sliced.total.host("b.org").pages = 4
    sliced.total.host("b.org").failed = 2

    [job] = sliced._divide(["b.org"], 1, 0, 1)

    assert (job.payload["spent"], job.payload["plan_id"]) == ({"b.org": 6}, "p")
    assert "urls" not in job.payload


def test_a_crawl_that_left_its_own_host_does_not_take_it_back_after_a_restart() -> None:
    assert sliced_crawl().own_hosts is None
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
