"""Which shard has which host, and what its job is called (`crawler/shard.py`)."""

from collections import Counter

import pytest

from scrubjay.crawler.shard import shard_job_id, shard_of
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import CrawlMode, read_spec
from scrubjay.model.ids import new_id, uuid_from_id

SPEC = {"start_urls": ["https://example.org"]}


def test_a_host_has_the_same_shard_in_every_process_and_version() -> None:
    assert [shard_of(f"host-{number}.example", 8) for number in range(6)] == [7, 7, 2, 1, 6, 2]


def test_hosts_are_spread_evenly() -> None:
    counts = Counter(shard_of(f"www.site-{number}.org", 16) for number in range(16_000))
    assert len(counts) == 16
    assert all(850 < count < 1150 for count in counts.values())


def test_the_ids_of_shards_follow_from_the_crawls() -> None:
    crawl, other = new_id("job"), new_id("job")
    ids = [shard_job_id(crawl, number) for number in range(64)]
    assert ids == [shard_job_id(crawl, number) for number in range(64)]
    assert len({*ids, *(shard_job_id(other, number) for number in range(64))}) == 128
    assert all(uuid_from_id(each) for each in ids)


def test_there_are_no_more_shards_than_can_do_something_at_once() -> None:
    assert read_spec({**SPEC, "shards": 8}).effective_shards == 8
    assert read_spec({**SPEC, "shards": 8, "concurrency": 3}).effective_shards == 3
    assert read_spec({**SPEC, "shards": 8, "concurrent_hosts": 2}).effective_shards == 2


@pytest.mark.parametrize("values", [{"shards": 0}, {"shards": 65}, {"shards": 2, "mode": CrawlMode.SEQUENTIAL}])
def test_a_number_of_shards_that_makes_no_sense_is_refused_by_name(values: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_spec({**SPEC, **values})
    assert refused.value.details["field"] == "shards"
