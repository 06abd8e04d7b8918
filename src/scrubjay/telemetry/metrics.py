"""Every metric of the house, in the one Prometheus registry. `docs/observability.md` tells what to do with them.

Labels have few values, which are known beforehand. Where a label is a job or a host, `crawls.py` sees to it that
there are never many of them.
"""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, disable_created_metrics

from scrubjay import __version__

# When each counter was made is of no use here, and would be as many lines again.
disable_created_metrics()  # type: ignore[no-untyped-call]

registry = CollectorRegistry(auto_describe=True)

_QUICK = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_SLOW = (0.5, 1, 5, 15, 60, 300, 1800, 7200, 21_600)

build_info = Info("scrubjay_build", "The version that is running.", registry=registry)
build_info.info({"version": __version__})

http_requests_total = Counter(
    "scrubjay_http_requests_total",
    "HTTP requests answered.",
    ["method", "door", "status"],
    registry=registry,
)
http_request_seconds = Histogram(
    "scrubjay_http_request_seconds",
    "Time to answer an HTTP request, by door.",
    ["door"],
    buckets=_QUICK,
    registry=registry,
)

jobs_submitted_total = Counter(
    "scrubjay_jobs_submitted_total", "Jobs submitted.", ["kind", "priority"], registry=registry
)
jobs_finished_total = Counter(
    "scrubjay_jobs_finished_total", "Job runs that ended.", ["kind", "outcome"], registry=registry
)
jobs_running = Gauge("scrubjay_jobs_running", "Jobs running in this process.", registry=registry)
jobs_pending = Gauge(
    "scrubjay_jobs_pending", "Jobs that wait in the queue all processes share.", ["kind"], registry=registry
)
job_wait_seconds = Histogram(
    "scrubjay_job_wait_seconds",
    "Time between a job becoming due and its start.",
    ["kind"],
    buckets=(0.05, 0.5, 1, 5, 15, 60, 300, 1800, 7200),
    registry=registry,
)
job_run_seconds = Histogram(
    "scrubjay_job_run_seconds", "How long runs of jobs took.", ["kind"], buckets=_SLOW, registry=registry
)
jobs_taken_over_total = Counter(
    "scrubjay_jobs_taken_over_total", "Jobs taken up again after their worker fell silent.", registry=registry
)

crawler_jobs_submitted_total = Counter(
    "crawler_jobs_submitted_total", "Crawls and runs of plans submitted.", ["mode", "priority"], registry=registry
)
crawler_jobs_running_gauge = Gauge(
    "crawler_jobs_running_gauge", "Crawls and runs of plans that run in this process.", registry=registry
)
crawler_queue_depth_gauge = Gauge(
    "crawler_queue_depth_gauge",
    "Crawls and runs of plans that wait in the queue all processes share.",
    registry=registry,
)
crawler_job_duration_seconds = Histogram(
    "crawler_job_duration_seconds",
    "Time from a crawl's first start to its end.",
    ["job_id"],
    buckets=(5, 30, 120, 600, 3600, 21_600),
    registry=registry,
)
crawler_articles_processed_total = Counter(
    "crawler_articles_processed_total",
    "Pages that a crawl got content from; one that did not change has the method unchanged.",
    ["job_id", "domain", "extraction_method"],
    registry=registry,
)
crawler_articles_inserted_total = Counter(
    "crawler_articles_inserted_total",
    "Pages that became a document, or a new version of one.",
    ["job_id", "domain"],
    registry=registry,
)
crawler_articles_deduped_total = Counter(
    "crawler_articles_deduped_total",
    "Pages that said nothing which was not there already.",
    ["job_id", "domain"],
    registry=registry,
)
crawler_extract_errors_total = Counter(
    "crawler_extract_errors_total",
    "Pages that could not be fetched, read or taken in.",
    ["domain", "error_type"],
    registry=registry,
)
crawl_pages_total = Counter(
    "scrubjay_crawl_pages_total",
    "Addresses that crawls and plans are done with, of all jobs and hosts together.",
    ["outcome"],
    registry=registry,
)
PAGE_OUTCOMES = ("processed", "inserted", "deduped", "failed", "skipped", "redirected")
for _outcome in PAGE_OUTCOMES:
    crawl_pages_total.labels(outcome=_outcome)

SCOUT_EVENTS = (
    "poll", "unchanged", "new", "updated", "suppressed", "debounced", "triggered", "deferred", "breaking", "ended",
    "failed", "over_budget",
)  # fmt: skip
scout_monitor_events_total = Counter(
    "scout_monitor_events_total", "What watches came upon, by event.", ["event_type"], registry=registry
)
for _event in SCOUT_EVENTS:
    scout_monitor_events_total.labels(event_type=_event)  # from the start, so that a rate has a zero to rise from

fetch_requests_total = Counter(
    "scrubjay_fetch_requests_total",
    "Requests sent out, by class of status or by what went wrong.",
    ["outcome"],
    registry=registry,
)
fetch_seconds = Histogram(
    "scrubjay_fetch_seconds",
    "Time until a request that was sent out had its whole answer.",
    buckets=_QUICK,
    registry=registry,
)
fetch_bytes_total = Counter("scrubjay_fetch_bytes_total", "Bytes of bodies fetched, decoded.", registry=registry)

extract_pages_total = Counter(
    "scrubjay_extract_pages_total",
    "Pages that extraction processes are done with: ok, or what went wrong.",
    ["outcome"],
    registry=registry,
)
extract_seconds = Histogram(
    "scrubjay_extract_seconds",
    "Time until a page was extracted, waiting for a process included.",
    buckets=_QUICK,
    registry=registry,
)
extract_waiting = Gauge(
    "scrubjay_extract_waiting", "Pages that wait for an extraction process to have room.", registry=registry
)
extract_processes = Gauge("scrubjay_extract_processes", "Extraction processes that run.", registry=registry)

documents_ingested_total = Counter(
    "scrubjay_documents_ingested_total", "Documents taken in, by what became of them.", ["outcome"], registry=registry
)
embedded_texts_total = Counter(
    "scrubjay_embedded_texts_total", "Texts whose vectors were needed: known already, or made.", ["source"],
    registry=registry,
)  # fmt: skip
index_documents_total = Counter(
    "scrubjay_index_documents_total",
    "Documents that the index was brought up to, or that were put off.",
    ["outcome"],
    registry=registry,
)
index_batch_seconds = Histogram(
    "scrubjay_index_batch_seconds",
    "Time to bring the index up to a batch of documents.",
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60),
    registry=registry,
)
index_backlog_documents = Gauge(
    "scrubjay_index_backlog_documents", "Documents that the index does not show as they are yet.", registry=registry
)
index_lag_seconds = Gauge(
    "scrubjay_index_lag_seconds", "How long the oldest of those has been waiting.", registry=registry
)
index_chunks = Gauge("scrubjay_index_chunks", "Chunks that the index is made from.", registry=registry)

search_seconds = Histogram(
    "scrubjay_search_seconds", "Time to answer a search.", ["mode"], buckets=_QUICK, registry=registry
)
cache_requests_total = Counter(
    "scrubjay_cache_requests_total", "Questions to the cache.", ["cache", "outcome"], registry=registry
)

plan_staleness_ratio = Gauge(
    "scrubjay_plan_staleness_ratio",
    "Share of a plan's objects that have probably changed since they were looked at; the stalest plans.",
    ["plan_id"],
    registry=registry,
)
plans_staleness_mean_ratio = Gauge(
    "scrubjay_plans_staleness_mean_ratio", "The same on average, of the plans that ran last.", registry=registry
)
metrics_failures_total = Counter(
    "scrubjay_metrics_failures_total",
    "Times that numbers which the database knows could not be asked for.",
    registry=registry,
)

webhook_deliveries_total = Counter(
    "scrubjay_webhook_deliveries_total",
    "Attempts to deliver a webhook: delivered, retried later, failed for good, or a failed probe of a dead address.",
    ["outcome"],
    registry=registry,
)
webhook_attempt_seconds = Histogram(
    "scrubjay_webhook_attempt_seconds", "How long webhooks took to answer.", buckets=_QUICK, registry=registry
)
webhook_lag_seconds = Histogram(
    "scrubjay_webhook_lag_seconds",
    "Time between an event and its delivery.",
    buckets=(0.1, 0.5, 1, 5, 30, 120, 900, 7200),
    registry=registry,
)
webhook_queue_depth = Gauge(
    "scrubjay_webhook_queue_depth", "Deliveries that wait in the queues all processes share.", registry=registry
)
webhook_circuits_open = Gauge(
    "scrubjay_webhook_circuits_open", "Webhooks that failed so often that they are only probed.", registry=registry
)
