"""What the program tells of itself: log lines (`logs.py`), metrics (`metrics.py`, `crawls.py`), `tracing.py`.

Metrics that only one room feeds are taken from `scrubjay.telemetry.metrics`; what many need is here.
"""

from scrubjay.telemetry.crawls import CrawlCounts, crawl_meter
from scrubjay.telemetry.logs import (
    REDACTED,
    SECRET_NAMES,
    configure_logging,
    get_logger,
    job_id,
    redact,
    request_id,
)
from scrubjay.telemetry.metrics import (
    SCOUT_EVENTS,
    http_request_seconds,
    http_requests_total,
    job_wait_seconds,
    jobs_finished_total,
    jobs_running,
    jobs_submitted_total,
    jobs_taken_over_total,
    registry,
    scout_monitor_events_total,
)
from scrubjay.telemetry.tracing import is_tracing, open_tracing, span, traceparent

__all__ = [
    "REDACTED",
    "SCOUT_EVENTS",
    "SECRET_NAMES",
    "CrawlCounts",
    "configure_logging",
    "crawl_meter",
    "get_logger",
    "http_request_seconds",
    "http_requests_total",
    "is_tracing",
    "job_id",
    "job_wait_seconds",
    "jobs_finished_total",
    "jobs_running",
    "jobs_submitted_total",
    "jobs_taken_over_total",
    "open_tracing",
    "redact",
    "registry",
    "request_id",
    "scout_monitor_events_total",
    "span",
    "traceparent",
]
