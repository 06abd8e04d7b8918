"""How pages say things: times, sizes, addresses, and what a job is called."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode, urlsplit

from markupsafe import Markup

from scrubjay.model.clock import utc_now
from scrubjay.model.job import Job, JobState

_STEPS = ((60, "second"), (60, "minute"), (24, "hour"), (7, "day"), (4.35, "week"), (12, "month"))
_WEB = ("http", "https")
JOB_TITLES = {
    "crawl": "Crawl",
    "discovery": "Discovery",
    "preview": "Preview of a source",
    "ingest": "Upload",
    "reindex": "Reindex",
}


def in_words(span: timedelta) -> str:
    """The largest unit that suits: `3 minutes`, `2 days`."""
    value = abs(span.total_seconds())
    for size, unit in _STEPS:
        if value < size:
            number = int(value)
            return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
        value /= size
    return "1 year" if int(value) == 1 else f"{int(value)} years"


def ago(moment: datetime | None, nothing: str = "never") -> str:
    """A moment relative to now; the exact one shows when the pointer rests on it."""
    if moment is None:
        return nothing
    span = utc_now() - moment
    words = f"{in_words(span)} ago" if span > timedelta() else f"in {in_words(span)}"
    if abs(span) < timedelta(seconds=2):
        words = "just now"
    exact = f"{moment:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(moment.isoformat(), exact, words)


def epoch(seconds: int) -> datetime:
    """A moment as OpenAI's objects have it."""
    return datetime.fromtimestamp(seconds, UTC)


def duration(start: datetime | None, end: datetime | None) -> str:
    if start is None:
        return "–"
    seconds = max(0.0, ((end or utc_now()) - start).total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def size(count: float | None) -> str:
    value = float(count or 0)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}".replace(",", "\u202f")


def plain(value: float) -> str:
    """A number without a fraction that says nothing."""
    return f"{value:g}" if abs(value) < 1_000_000 else f"{value:.0f}"


def web_address(url: str | None) -> str | None:
    """An address that may be a link: of a web page, and nothing that a browser would run."""
    if not url:
        return None
    try:
        return url if urlsplit(url).scheme.lower() in _WEB else None
    except ValueError:
        return None


def short_address(url: str, most: int = 80) -> str:
    shown = url.removeprefix("https://").removeprefix("http://")
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def with_query(path: str, known: Mapping[str, str], **changes: str | int | None) -> str:
    """The same page with some of its query changed; nothing takes a part away."""
    query = {**known, **{name: str(value) for name, value in changes.items() if value is not None}}
    query = {name: value for name, value in query.items() if value and changes.get(name, value) is not None}
    return f"{path}?{urlencode(query)}" if query else path


def job_title(job: Job) -> str:
    return JOB_TITLES.get(job.kind, job.kind.replace(".", " ").replace("_", " ").capitalize())


def job_target(job: Job) -> str:
    """What it is about: where it starts, or what it is asked to do."""
    spec: Mapping[str, object] = job.payload.get("spec") or {}
    starts = spec.get("start_urls")
    if isinstance(starts, list | tuple) and starts:
        more = f" and {len(starts) - 1} more" if len(starts) > 1 else ""
        return short_address(str(starts[0]), 60) + more
    items = job.payload.get("items")
    if isinstance(items, list) and items:
        return str(items[0].get("filename") or items[0].get("url") or "") + (f" +{len(items) - 1}" * (len(items) > 1))
    return ""


def job_share(job: Job) -> int | None:
    """How much of it is done, in percent, where that can be told."""
    if job.state is JobState.COMPLETED:
        return 100
    current, total = job.progress.get("current"), job.progress.get("total")
    if isinstance(current, int | float) and isinstance(total, int | float) and total > 0:
        return max(0, min(100, round(100 * current / total)))
    return None
