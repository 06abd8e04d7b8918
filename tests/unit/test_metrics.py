"""The metrics that name jobs and hosts: right sums, few lines, and nothing that outlives its use."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.routing import iter_route_contexts
from prometheus_client import generate_latest

import scrubjay
from scrubjay.api.app import DOORS
from scrubjay.api.middleware import door_of
from scrubjay.extract import crawl4ai, html
from scrubjay.telemetry import CrawlCounts, registry
from scrubjay.telemetry.crawls import (
    ERROR_TYPES,
    METHODS,
    MOST_ERRORS,
    MOST_HOSTS_OF_JOB,
    MOST_JOBS,
    MOST_PAIRS,
    OTHER,
    CrawlMeter,
)
from scrubjay.telemetry.metrics import crawl_pages_total, crawler_extract_errors_total

SPECIFIED = {
    "crawler_jobs_submitted_total": {"mode", "priority"},
    "crawler_jobs_running_gauge": set(),
    "crawler_job_duration_seconds_bucket": {"job_id", "le"},
    "crawler_articles_processed_total": {"job_id", "domain", "extraction_method"},
    "crawler_articles_inserted_total": {"job_id", "domain"},
    "crawler_articles_deduped_total": {"job_id", "domain"},
    "crawler_extract_errors_total": {"domain", "error_type"},
    "crawler_queue_depth_gauge": set(),
    "scout_monitor_events_total": {"event_type"},
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def meter(clock: Clock) -> Iterator[CrawlMeter]:
    """One whose lines are gone when the test is: all meters share the registry."""
    meter = CrawlMeter(clock)
    yield meter
    clock.now += 1e9
    for job_id in list(meter._jobs):
        meter.job_left("crawl", job_id)
    clock.now += 1e9
    meter.forget_old()


def crawl_lines() -> int:
    """How many lines tell of jobs and hosts; what else the process has counted is not theirs."""
    return sum(
        line.startswith((b"crawler_", b"crawl_", b"scrubjay_crawl")) for line in generate_latest(registry).splitlines()
    )


def samples(name: str, **labels: str) -> dict[frozenset[tuple[str, str]], float]:
    return {
        frozenset(sample.labels.items()): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    }


def total(name: str, **labels: str) -> float:
    return sum(samples(name, **labels).values())


def counted(*hosts: str, method: str = "scrubjay", error: str | None = None) -> CrawlCounts:
    counts = CrawlCounts()
    for host in hosts:
        counts.note_processed(host, method)
        counts.note_inserted(host)
        counts.note_deduped(host)
        if error is not None:
            counts.note_error(host, error)
    return counts


def crawl(meter: CrawlMeter, job_id: str, *hosts: str, **facts: str) -> None:
    meter.job_started("crawl", job_id)
    meter.tell(job_id, counted(*hosts, **facts))
    meter.job_finished("crawl", job_id, 2.5)
    meter.job_left("crawl", job_id)


def test_names_and_labels_are_those_of_the_specification(meter: CrawlMeter) -> None:
    meter.job_submitted("crawl", "sequential", "high")
    meter.set_queue_depth(3)
    crawl(meter, "job_named", "a.example", error="timeout")
    exposed: dict[str, set[str]] = {}
    for family in registry.collect():
        for sample in family.samples:
            if sample.name.startswith(("crawler_", "scout_")):
                exposed.setdefault(sample.name, set()).update(sample.labels)
    rest = {"crawler_job_duration_seconds_count", "crawler_job_duration_seconds_sum"}
    assert {name: labels for name, labels in exposed.items() if name not in rest} == SPECIFIED


def test_a_thousand_jobs_within_a_minute_keep_the_exposition_small(meter: CrawlMeter, clock: Clock) -> None:
    for number in range(1000):
        hosts = [f"host{number}-{index}.example" for index in range(12)]
        crawl(meter, f"job_{number:04}", *hosts, error="timeout")
        clock.now += 0.06
    assert crawl_lines() < 1500
    assert samples("crawler_job_duration_seconds_count", job_id="job_0999")
    assert not samples("crawler_job_duration_seconds_count", job_id="job_0000")


def test_even_a_thousand_jobs_that_run_at_once_keep_the_exposition_small(meter: CrawlMeter) -> None:
    before = total("crawler_articles_processed_total")
    for number in range(1000):
        meter.job_started("crawl", f"job_{number:04}")
    for number in range(1000):
        meter.tell(f"job_{number:04}", counted(*(f"host{number}-{index}.example" for index in range(20))))
    assert crawl_lines() < 1500
    assert total("crawler_articles_processed_total") - before == 20_000
    assert registry.get_sample_value("crawler_jobs_running_gauge") == 1000
    for number in range(1000):
        meter.job_left("crawl", f"job_{number:04}")
    assert registry.get_sample_value("crawler_jobs_running_gauge") == 0


def test_a_job_is_named_until_some_time_after_its_end(meter: CrawlMeter, clock: Clock) -> None:
    meter.configure(keep_seconds=60, most_jobs=MOST_JOBS)
    crawl(meter, "job_kept", "a.example")
    meter.job_started("crawl", "job_running")
    meter.tell("job_running", counted("a.example"))
    clock.now += 59
    meter.forget_old()
    assert total("crawler_articles_inserted_total", job_id="job_kept") == 1
    clock.now += 2
    meter.forget_old()
    names = {dict(labels)["job_id"] for labels in samples("crawler_articles_inserted_total")}
    assert "job_kept" not in names
    assert "job_running" in names
    for name in ("crawler_job_duration_seconds_bucket", "crawler_articles_processed_total"):
        assert not samples(name, job_id="job_kept")


def test_a_job_that_goes_on_keeps_what_it_counted(meter: CrawlMeter, clock: Clock) -> None:
    crawl(meter, "job_paused", "a.example")
    clock.now += 10
    meter.job_started("crawl", "job_paused")
    clock.now += 10_000
    meter.forget_old()
    meter.tell("job_paused", counted("a.example"))
    assert total("crawler_articles_inserted_total", job_id="job_paused") == 2


def test_hosts_beyond_the_limit_count_together(meter: CrawlMeter) -> None:
    meter.job_started("crawl", "job_wide")
    hosts = [f"host{number}.example" for number in range(MOST_HOSTS_OF_JOB + 5)]
    meter.tell("job_wide", counted(*hosts))
    meter.tell("job_wide", counted(*hosts))
    lines = samples("crawler_articles_inserted_total", job_id="job_wide")
    assert len(lines) == MOST_HOSTS_OF_JOB + 1
    assert total("crawler_articles_inserted_total", job_id="job_wide", domain=OTHER) == 10
    assert sum(lines.values()) == 2 * len(hosts)


def test_pairs_of_job_and_host_are_limited_over_all_jobs(meter: CrawlMeter) -> None:
    for number in range(MOST_JOBS):
        meter.job_started("crawl", f"job_{number}")
        meter.tell(f"job_{number}", counted(*(f"host{index}.example" for index in range(MOST_HOSTS_OF_JOB))))
    own = {("job_id", f"job_{number}") for number in range(MOST_JOBS)}  # other meters share the registry
    named = [
        each for each in samples("crawler_articles_inserted_total") if ("domain", OTHER) not in each and each & own
    ]
    assert len(named) == MOST_PAIRS
    expected = MOST_JOBS * MOST_HOSTS_OF_JOB
    assert sum(total("crawler_articles_inserted_total", job_id=f"job_{n}") for n in range(MOST_JOBS)) == expected


def test_what_a_job_tells_after_its_end_does_not_outlive_it(meter: CrawlMeter, clock: Clock) -> None:
    """A job must not make room for its own hosts by being dropped: its lines would belong to nobody."""
    crawl(meter, "job_late", "a.example")
    for number in range(MOST_PAIRS // MOST_HOSTS_OF_JOB):
        meter.job_started("crawl", f"job_{number}")
        meter.tell(f"job_{number}", counted(*(f"host{index}.example" for index in range(MOST_HOSTS_OF_JOB - 1))))
    meter.tell("job_late", counted(*(f"late{index}.example" for index in range(MOST_PAIRS))))
    clock.now += 10_000
    meter.forget_old()
    assert not samples("crawler_articles_inserted_total", job_id="job_late")


def test_jobs_that_are_no_crawls_have_no_lines(meter: CrawlMeter) -> None:
    before = total("crawler_jobs_submitted_total")
    meter.job_submitted("ingest", "concurrent", "normal")
    meter.job_started("ingest", "job_upload")
    meter.job_finished("ingest", "job_upload", 1.0)
    assert total("crawler_jobs_submitted_total") == before
    assert not samples("crawler_job_duration_seconds_count", job_id="job_upload")
    assert registry.get_sample_value("crawler_jobs_running_gauge") == 0


def test_what_is_not_known_is_told_as_other(meter: CrawlMeter) -> None:
    before = total("crawler_extract_errors_total", error_type=OTHER)
    meter.job_started("crawl", "job_odd")
    meter.tell("job_odd", counted("a.example", method="<script>", error="error_of_the_day"))
    assert total("crawler_articles_processed_total", job_id="job_odd", extraction_method=OTHER) == 1
    assert total("crawler_extract_errors_total", error_type=OTHER) == before + 1
    assert not samples("crawler_extract_errors_total", error_type="error_of_the_day")


def test_errors_of_ever_new_hosts_count_together_and_old_ones_are_forgotten(meter: CrawlMeter, clock: Clock) -> None:
    crawler_extract_errors_total.clear()
    meter.job_started("crawl", "job_many")
    for number in range(MOST_ERRORS + 50):
        meter.tell("job_many", counted(f"host{number}.example", error="dns"))
    assert len(samples("crawler_extract_errors_total")) == MOST_ERRORS + 1
    assert total("crawler_extract_errors_total") == MOST_ERRORS + 50
    clock.now += 10_000
    meter.tell("job_many", counted("new.example", error="dns"))
    assert total("crawler_extract_errors_total", domain="new.example") == 1
    assert not samples("crawler_extract_errors_total", domain="host0.example")


def test_totals_do_not_fall_when_jobs_are_forgotten(meter: CrawlMeter, clock: Clock) -> None:
    before = crawl_pages_total.labels("inserted")._value.get()
    for number in range(3 * MOST_JOBS):
        crawl(meter, f"job_{number}", "a.example")
    clock.now += 10_000
    meter.forget_old()
    assert crawl_pages_total.labels("inserted")._value.get() == before + 3 * MOST_JOBS


def _said(argument: str, *, by: frozenset[str] | None = None) -> set[str]:
    """Every text that the code gives as `argument=`, to anybody or to some; or assigns to a name that ends so."""
    found: set[str] = set()
    for path in Path(scrubjay.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            values: list[ast.expr] = []
            if isinstance(node, ast.Call) and (by is None or ast.unparse(node.func) in by):
                values = [each.value for each in node.keywords if each.arg == argument]
            elif isinstance(node, ast.Assign) and by is None and ast.unparse(node.targets[0]).endswith(argument):
                values = [node.value]
            found |= {each.value for each in values if isinstance(each, ast.Constant) and isinstance(each.value, str)}
    return found


def test_every_type_of_error_that_the_code_knows_has_its_own_line() -> None:
    said = _said("error_type")
    assert len(said) > 20
    assert said - ERROR_TYPES <= {OTHER}


def test_every_method_of_extraction_has_its_own_line() -> None:
    said = _said("method", by=frozenset({"Extraction", "replace"}))
    assert len(said) > 4
    assert {crawl4ai.METHOD, html.METHOD, *said} <= METHODS


def test_only_the_front_door_s_own_routes_count_as_the_front() -> None:
    patterns = {place.path or "" for router in DOORS for place in iter_route_contexts(router.routes)}
    assert len(patterns) > 100
    front = {pattern for pattern in patterns if door_of(pattern) == "front" and not pattern.startswith("/ws/")}
    assert front <= {"/", "/metrics", "/signin"}
    assert door_of("unmatched") == "front"
