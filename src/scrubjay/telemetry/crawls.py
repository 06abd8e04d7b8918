"""The metrics that name jobs and hosts (spec 003 §5), bounded: a crawler meets more of both than a registry can hold.

A job has lines of its own from its start until some time after its end. There is room for so many jobs, and for so
many pairs of job and host; what finds no room counts for "other". What a job that is dropped has counted goes with
it, because adding it to "other" would count it a second time in every rate.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Counter, Histogram

from scrubjay.telemetry.metrics import (
    crawl_pages_total,
    crawler_articles_deduped_total,
    crawler_articles_inserted_total,
    crawler_articles_processed_total,
    crawler_extract_errors_total,
    crawler_job_duration_seconds,
    crawler_jobs_running_gauge,
    crawler_jobs_submitted_total,
    crawler_queue_depth_gauge,
)

CRAWL_KINDS = frozenset({"crawl"})
OTHER = "other"
KEEP_SECONDS = 600.0
MOST_JOBS = 40
MOST_HOSTS_OF_JOB = 8
MOST_PAIRS = 120
MOST_ERRORS = 150
UNCHANGED = "unchanged"
METHODS = frozenset(
    {
        "scrubjay", "trafilatura", "crawl4ai", "browser", "llm", "raw", "text", "markdown", "csv", "xml", "feedparser",
        "structured", "kreuzberg", "none", UNCHANGED,
    }
)  # fmt: skip
ERROR_TYPES = frozenset(
    {
        "archive_bomb", "bad_answer", "bad_canvas", "bad_encoding", "bad_redirect", "bad_xml", "blocked",
        "blocked_address", "blocked_host", "blocked_page", "broken_file", "browser_crashed", "browser_timeout",
        "circuit_open", "connection", "dns", "empty", "empty_page", "encrypted", "extraction",
        "extraction_crashed", "extraction_error", "extraction_memory", "extraction_timeout",
        "extraction_unavailable", "forbidden", "gone", "http_error", "incomplete", "ingest", "internal",
        "invalid_url", "llm_failed", "login_wall", "not_a_feed", "not_a_page", "not_a_sitemap",
        "not_configured", "not_found", "not_s3", "not_sharepoint", "protocol", "proxy", "redirect_loop",
        "robots_unreachable", "server_error", "soft_404", "source_unreadable", "strategy_unavailable",
        "threshold", "throttled", "timeout", "tls", "too_deep", "too_large", "too_many_redirects", "unauthorized",
        "unknown", "unreadable", "unsupported_type", "unwritable", "wrong_region",
    }
)  # fmt: skip


@dataclass(slots=True)
class CrawlCounts:
    """What a batch of pages came to, counted before it is written and told once it is."""

    processed: dict[tuple[str, str], int] = field(default_factory=dict)  # host and method → pages
    inserted: dict[str, int] = field(default_factory=dict)  # host → pages
    deduped: dict[str, int] = field(default_factory=dict)
    errors: dict[tuple[str, str], int] = field(default_factory=dict)  # host and error type → pages
    outcomes: dict[str, int] = field(default_factory=dict)  # skipped, redirected

    def note_processed(self, host: str, method: str | None) -> None:
        key = host, method or "none"
        self.processed[key] = self.processed.get(key, 0) + 1

    def note_inserted(self, host: str) -> None:
        self.inserted[host] = self.inserted.get(host, 0) + 1

    def note_deduped(self, host: str) -> None:
        self.deduped[host] = self.deduped.get(host, 0) + 1

    def note_error(self, host: str, error_type: str | None) -> None:
        key = host, error_type or "unknown"
        self.errors[key] = self.errors.get(key, 0) + 1

    def note_outcome(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1


@dataclass(slots=True)
class _JobLines:
    hosts: set[str] = field(default_factory=set)
    children: dict[tuple[Any, ...], Any] = field(default_factory=dict)  # metric and labels → its child
    running: int = 0
    ended_at: float | None = None


class CrawlMeter:
    """One per process, used from its event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._keep_seconds = KEEP_SECONDS
        self._most_jobs = MOST_JOBS
        self._jobs: OrderedDict[str, _JobLines] = OrderedDict()  # in the order in which they began or ended
        self._errors: OrderedDict[tuple[str, str], tuple[Any, float]] = OrderedDict()  # the latest one last
        self._running = 0

    def configure(self, *, keep_seconds: float, most_jobs: int) -> None:
        self._keep_seconds = keep_seconds
        self._most_jobs = most_jobs
        self.forget_old()

    def job_submitted(self, kind: str, mode: str, priority: str) -> None:
        if kind in CRAWL_KINDS:
            known = mode if mode in ("sequential", "concurrent") else "concurrent"
            crawler_jobs_submitted_total.labels(mode=known, priority=priority).inc()

    def job_started(self, kind: str, job_id: str) -> None:
        if kind not in CRAWL_KINDS:
            return
        self._running += 1
        crawler_jobs_running_gauge.set(self._running)
        self.forget_old()
        lines = self._jobs.get(job_id)
        if lines is None and not self._make_room():
            return
        lines = self._jobs.setdefault(job_id, _JobLines())
        lines.running += 1
        lines.ended_at = None
        self._jobs.move_to_end(job_id)

    def job_finished(self, kind: str, job_id: str, seconds: float) -> None:
        if kind in CRAWL_KINDS:
            self._child(crawler_job_duration_seconds, job_id).observe(seconds)

    def job_left(self, kind: str, job_id: str) -> None:
        """A run is over, and with it the job or not."""
        if kind not in CRAWL_KINDS:
            return
        self._running = max(0, self._running - 1)
        crawler_jobs_running_gauge.set(self._running)
        lines = self._jobs.get(job_id)
        if lines is not None:
            lines.running = max(0, lines.running - 1)
            if not lines.running:
                lines.ended_at = self._clock()
            self._jobs.move_to_end(job_id)

    def tell(self, job_id: str, counts: CrawlCounts) -> None:
        """Count what a batch came to, once it is committed."""
        for (host, method), number in counts.processed.items():
            known = method if method in METHODS else OTHER
            self._child(crawler_articles_processed_total, job_id, host, known).inc(number)
        for host, number in counts.inserted.items():
            self._child(crawler_articles_inserted_total, job_id, host).inc(number)
        for host, number in counts.deduped.items():
            self._child(crawler_articles_deduped_total, job_id, host).inc(number)
        for (host, error_type), number in counts.errors.items():
            self._error(host, error_type).inc(number)
        totals = {
            "processed": counts.processed.values(),
            "inserted": counts.inserted.values(),
            "deduped": counts.deduped.values(),
            "failed": counts.errors.values(),
        }
        for outcome, numbers in totals.items():
            if numbers:
                crawl_pages_total.labels(outcome=outcome).inc(sum(numbers))
        for outcome, number in counts.outcomes.items():
            crawl_pages_total.labels(outcome=outcome).inc(number)

    def set_queue_depth(self, pending: float) -> None:
        crawler_queue_depth_gauge.set(pending)

    def forget_old(self) -> None:
        """Drop the lines of jobs that ended some time ago, and of errors that have not come up for as long."""
        before = self._clock() - self._keep_seconds
        for job_id in [job_id for job_id, lines in self._jobs.items() if _is_over(lines, before)]:
            self._drop(job_id)
        while len(self._jobs) > self._most_jobs and self._drop_oldest():
            continue
        for key in [key for key, (_, used_at) in self._errors.items() if used_at <= before]:
            del self._errors[key]
            crawler_extract_errors_total.remove(*key)

    def _child(self, metric: Counter | Histogram, job_id: str, host: str | None = None, *rest: str) -> Any:
        lines = self._jobs.get(job_id)
        if lines is None:
            labels = (OTHER,) if host is None else (OTHER, OTHER, *rest)
            return metric.labels(*labels)
        labels = (job_id,) if host is None else (job_id, self._host(job_id, lines, host), *rest)
        child = lines.children.get((metric, *labels))
        if child is None:
            child = lines.children[(metric, *labels)] = metric.labels(*labels)
        return child

    def _host(self, job_id: str, lines: _JobLines, host: str) -> str:
        if host in lines.hosts:
            return host
        if len(lines.hosts) >= MOST_HOSTS_OF_JOB:
            return OTHER
        while sum(len(each.hosts) for each in self._jobs.values()) >= MOST_PAIRS:
            if not self._drop_oldest(but=job_id):
                return OTHER
        lines.hosts.add(host)
        return host

    def _make_room(self) -> bool:
        return len(self._jobs) < self._most_jobs or self._drop_oldest()

    def _drop_oldest(self, but: str | None = None) -> bool:
        """Drop the job that ended first; false when all the others are running."""
        over = (job_id for job_id, lines in self._jobs.items() if lines.ended_at is not None and job_id != but)
        ended = next(over, None)
        if ended is None:
            return False
        self._drop(ended)
        return True

    def _drop(self, job_id: str) -> None:
        for metric, *labels in self._jobs.pop(job_id).children:
            metric.remove(*labels)

    def _error(self, host: str, error_type: str) -> Any:
        known = error_type if error_type in ERROR_TYPES else OTHER
        key = host, known
        if key not in self._errors and len(self._errors) >= MOST_ERRORS:
            self.forget_old()
            if len(self._errors) >= MOST_ERRORS:
                # For all hosts together: there are only so many types.
                return crawler_extract_errors_total.labels(OTHER, known)
        child, _ = self._errors.pop(key, (None, 0.0))
        child = child or crawler_extract_errors_total.labels(*key)
        self._errors[key] = child, self._clock()
        return child


def _is_over(lines: _JobLines, before: float) -> bool:
    return lines.ended_at is not None and lines.ended_at <= before


crawl_meter = CrawlMeter()
