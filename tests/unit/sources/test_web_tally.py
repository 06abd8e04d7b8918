"""The numbers of a crawl survive its checkpoints, stay bounded, and add up."""

import json

from scrubjay.crawler.tally import MAX_ERROR_TYPES, MAX_HOSTS, OTHER, CrawlTally


def test_a_tally_is_the_same_after_its_checkpoint() -> None:
    tally = CrawlTally(fetched=5, pages=3, failed=1, skipped=1, discovered=9, seconds=1.5)
    tally.host("a.org").pages += 3
    tally.count_error("timeout")
    tally.count_method("scrubjay")
    tally.note_waiting("a.org", 100)
    tally.note_rate()

    loaded = CrawlTally.load(json.loads(json.dumps(tally.dump())))

    assert loaded.dump() == tally.dump()
    assert loaded.hosts["a.org"].pages == 3
    assert not loaded.is_waiting("a.org")


def test_what_is_queued_is_what_was_discovered_and_not_settled() -> None:
    assert CrawlTally(discovered=10, redirects=2, pages=3, failed=1, skipped=1).queued == 3
    assert CrawlTally(discovered=1, pages=2).queued == 0


def test_hosts_and_errors_beyond_the_limit_are_counted_together() -> None:
    tally = CrawlTally()
    for number in range(MAX_HOSTS + 10):
        tally.host(f"{number}.org").pages += 1
    for number in range(MAX_ERROR_TYPES + 10):
        tally.count_error(f"error{number}")

    assert len(tally.hosts) == MAX_HOSTS + 1
    assert tally.hosts[OTHER].pages == 10
    assert tally.errors["other"] == 10


def test_a_host_waits_until_its_time_is_over() -> None:
    tally = CrawlTally()
    tally.note_waiting("a.org", 60)
    tally.note_waiting("b.org", -1)

    assert (tally.is_waiting("a.org"), tally.is_waiting("b.org"), tally.is_waiting("c.org")) == (True, False, False)
    assert list(tally.facts()["waiting"]) == ["a.org"]
