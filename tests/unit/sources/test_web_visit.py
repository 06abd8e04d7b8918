"""A targeted run requests given addresses, and sends a plan's credentials to no other origin than the plan's own."""

from scrubjay.model.crawl_spec import CrawlSpec, read_spec
from scrubjay.sources.web import visiting

OWN, OTHER = "https://own.example/a", "https://other.example/b"


def plan_spec() -> CrawlSpec:
    return read_spec(
        {
            "start_urls": ["https://own.example/"],
            "auth": {"type": "bearer", "secret": "s"},
            "headers": {"X-Token": "t"},
        }
    )


def test_addresses_of_the_plans_origin_come_first_because_credentials_go_to_the_first() -> None:
    spec = visiting(plan_spec(), [OTHER, OWN])
    assert spec.start_urls == (OWN, OTHER)
    assert spec.auth is not None
    assert (spec.follow_links, spec.max_depth, spec.max_pages) == (False, 0, 2)


def test_addresses_of_other_origins_alone_get_no_credentials_and_no_headers() -> None:
    spec = visiting(plan_spec(), [OTHER])
    assert (spec.auth, spec.headers) == (None, {})
