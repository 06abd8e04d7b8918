"""What makes two crawls runs of the same one-off plan."""

from scrubjay.plans.begin import crawl_key


def test_a_key_is_never_another_tenants_whatever_it_is_called() -> None:
    start = ["http://example.org/"]
    theirs = crawl_key("ten_a", None, start, None)
    other = ["http://example.org/other"]

    keys = {theirs, crawl_key("ten_b", None, start, None), crawl_key("ten_b", theirs, other, None)}
    assert len(keys | {crawl_key("ten_a", theirs, other, None), crawl_key("ten_a", None, start, "coll_1")}) == 5
    assert crawl_key("ten_a", theirs, other, None) == crawl_key("ten_a", theirs, ["http://example.org/moved"], None)


def test_the_order_and_the_tracking_parameters_of_start_urls_do_not_matter() -> None:
    one = crawl_key("ten_a", None, ["http://a.example/?utm_source=x", "http://b.example"], None)
    assert one == crawl_key("ten_a", None, ["http://b.example/", "http://a.example/"], None)
