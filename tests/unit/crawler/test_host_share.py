"""How a crawl of many hosts shares its requests among them."""

from collections import Counter

import pytest

from scrubjay.crawler.frontier import HostShare
from scrubjay.model.crawl_spec import CrawlSpec


def share(held: dict[str, int], spent: dict[str, int] | None = None, **limits: int) -> HostShare:
    spec = CrawlSpec(start_urls=("https://a.example/",), **limits)  # type: ignore[arg-type]
    return HostShare(spec, Counter(held), spent or {})


def test_without_limits_everything_may_be_taken() -> None:
    free = share({"a": 100, "b": 5}, {"a": 10_000})
    assert (free.used_up, free.open_hosts) == ([], None)
    assert all(free.take(host) for host in ("a", "b", "c") * 10)


def test_a_host_is_asked_only_for_its_share_of_what_was_done_and_is_under_way() -> None:
    limited = share({"a": 1}, {"a": 2, "b": 4}, max_pages_per_host=4)
    assert limited.used_up == ["b"]
    assert [limited.take("a"), limited.take("a"), limited.take("b"), limited.take("c")] == [True, False, False, True]
    assert sorted(limited.used_up) == ["a", "b"]


def test_only_so_many_hosts_have_something_under_way() -> None:
    limited = share({"a": 1, "gone": 0}, concurrent_hosts=2)
    assert limited.open_hosts is None
    assert limited.take("b")
    assert sorted(limited.open_hosts or ()) == ["a", "b"]
    assert [limited.take("c"), limited.take("a"), limited.take("b")] == [False, True, True]


@pytest.mark.parametrize("limits", [{"max_pages_per_host": 3}, {"concurrent_hosts": 1}])
def test_the_first_of_a_batch_always_fits_where_it_was_not_avoided(limits: dict[str, int]) -> None:
    limited = share({}, {}, **limits)
    assert limited.take("a")
