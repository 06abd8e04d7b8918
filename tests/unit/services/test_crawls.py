"""What a crawl is to the service: its scope."""

from scrubjay.model.crawl_spec import read_spec
from scrubjay.services.crawls import crawl_scope


def test_a_scope_is_never_another_tenants_whatever_it_is_called() -> None:
    plain = read_spec({"start_urls": ["http://example.org/"]})
    theirs = crawl_scope("ten_a", plain)
    named = read_spec({"start_urls": ["http://example.org/other"], "scope_id": theirs})

    assert len({theirs, crawl_scope("ten_b", plain), crawl_scope("ten_b", named), crawl_scope("ten_a", named)}) == 4
    moved = named.model_copy(update={"start_urls": ("http://example.org/moved",)})
    assert crawl_scope("ten_a", named) == crawl_scope("ten_a", moved)
