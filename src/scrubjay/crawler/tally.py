"""What a crawl has done so far, in numbers: in its checkpoint, its progress, and its summary."""

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from scrubjay.model.crawl_spec import CrawlSpec

MAX_HOSTS = 50  # told one by one; the rest is one line
MAX_LIMITED_HOSTS = 2500  # the same for a crawl that may ask each host only for so much
MAX_ERROR_TYPES = 40
OTHER = "(other hosts)"
RATE_SECONDS = 10.0
_COUNTED = (
    "fetched", "pages", "unchanged", "duplicates", "redirects", "failed", "skipped", "discovered", "bytes"
)  # fmt: skip
_PASSING = frozenset({"waiting", "max_hosts", "_recent"})  # what means nothing to the next run


def sum_counts(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0) + number
    return total


def name_limits(
    spec: CrawlSpec, tally: "CrawlTally", left: int, refused: Mapping[str, int], *, timed_out: bool
) -> dict[str, int]:
    """The limits of the whole crawl that were hit, each with the number of links it left out."""
    traps = sum(count for reason, count in refused.items() if reason.startswith("trap:"))
    if timed_out:
        stopped_by = "max_seconds"
    else:
        stopped_by = "max_pages" if tally.fetched >= spec.max_pages else "max_pages_per_host"
    return {name: count for name, count in ((stopped_by, left), ("traps", traps)) if count}


@dataclass(slots=True)
class HostTally:
    pages: int = 0
    failed: int = 0
    bytes: int = 0


@dataclass(slots=True)
class CrawlTally:
    """`pages` counts pages with content, new or unchanged; `fetched` everything that was asked for."""

    fetched: int = 0
    pages: int = 0
    unchanged: int = 0
    duplicates: int = 0
    redirects: int = 0
    failed: int = 0
    skipped: int = 0
    discovered: int = 0
    bytes: int = 0
    depth: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    methods: dict[str, int] = field(default_factory=dict)
    hosts: dict[str, HostTally] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)  # every limit that was hit → how often
    seconds: float = 0.0
    waiting: dict[str, float] = field(default_factory=dict)  # host → when it is asked again, by the monotonic clock
    max_hosts: int = MAX_HOSTS
    _recent: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=200))

    @classmethod
    def load(cls, stored: Mapping[str, Any] | None, *, every_host: bool = False) -> "CrawlTally":
        facts = dict(stored or {})
        hosts = {host: HostTally(**numbers) for host, numbers in facts.pop("hosts", {}).items()}
        return cls(**facts, hosts=hosts, max_hosts=MAX_LIMITED_HOSTS if every_host else MAX_HOSTS)

    def dump(self) -> dict[str, Any]:
        facts = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in _PASSING}
        facts["errors"], facts["methods"], facts["limits"] = dict(self.errors), dict(self.methods), dict(self.limits)
        facts["hosts"] = {host: asdict(numbers) for host, numbers in self.hosts.items()}
        return facts

    def add_up(self, parts: Sequence[Mapping[str, Any]]) -> None:
        """Become the sum of what `dump` gave for each part of a crawl."""
        for name in _COUNTED:
            setattr(self, name, sum(part.get(name, 0) for part in parts))
        self.depth = max((part.get("depth", 0) for part in parts), default=0)
        self.errors = sum_counts(part.get("errors") or {} for part in parts)
        self.methods = sum_counts(part.get("methods") or {} for part in parts)
        self.limits = sum_counts(part.get("limits") or {} for part in parts)
        self.hosts = {}
        for part in parts:
            for host, numbers in (part.get("hosts") or {}).items():
                of_host = self.host(host)  # a host is of one part, but the rest of every part is one line
                of_host.pages += numbers["pages"]
                of_host.failed += numbers["failed"]
                of_host.bytes += numbers["bytes"]

    def host(self, host: str) -> HostTally:
        if host not in self.hosts and len(self.hosts) >= self.max_hosts:
            host = OTHER
        return self.hosts.setdefault(host, HostTally())

    def count_error(self, error_type: str) -> None:
        if error_type not in self.errors and len(self.errors) >= MAX_ERROR_TYPES:
            error_type = "other"
        self.errors[error_type] = self.errors.get(error_type, 0) + 1

    def count_method(self, method: str) -> None:
        self.methods[method] = self.methods.get(method, 0) + 1

    def count_limit(self, limit: str, times: int = 1) -> None:
        if times > 0:
            self.limits[limit] = self.limits.get(limit, 0) + times

    def note_waiting(self, host: str, seconds: float) -> None:
        if len(self.waiting) < MAX_HOSTS:
            self.waiting[host] = time.monotonic() + seconds

    def is_waiting(self, host: str) -> bool:
        return self.waiting.get(host, 0.0) > time.monotonic()

    @property
    def queued(self) -> int:
        """What was discovered and is not settled yet."""
        return max(0, self.discovered - self.redirects - self.pages - self.failed - self.skipped)

    def note_rate(self) -> None:
        now = time.monotonic()
        self._recent.append((now, self.fetched))
        while self._recent and now - self._recent[0][0] > RATE_SECONDS:
            self._recent.popleft()

    @property
    def pages_per_second(self) -> float:
        if len(self._recent) < 2:
            return 0.0
        (then, before), (now, after) = self._recent[0], self._recent[-1]
        return (after - before) / (now - then) if now > then else 0.0

    def facts(self) -> dict[str, Any]:
        """For the job's progress: what changes while it runs, with the busiest hosts first."""
        busiest = sorted(self.hosts.items(), key=lambda entry: -(entry[1].pages + entry[1].failed))
        now = time.monotonic()
        self.waiting = {host: until for host, until in self.waiting.items() if until > now}
        return {
            "pages": self.pages,
            "failed": self.failed,
            "skipped": self.skipped,
            "unchanged": self.unchanged,
            "duplicates": self.duplicates,
            "discovered": self.discovered,
            "queued": self.queued,
            "bytes": self.bytes,
            "depth": self.depth,
            "pages_per_second": round(self.pages_per_second, 1),
            "errors": self.errors,
            "hosts": {host: asdict(numbers) for host, numbers in busiest[:10]},
            "waiting": {host: round(until - now) for host, until in self.waiting.items()},
        }
