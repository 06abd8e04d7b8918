"""What a crawl tells those who follow it: of each page that it is done with, and now and then of each host."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from scrubjay.crawler.pages import PageOutcome
from scrubjay.crawler.tally import CrawlTally, HostTally
from scrubjay.model.content import IngestOutcome

PAGE_EVENT = "article.processed"
HOST_EVENT = "domain.metrics"
HOST_SECONDS = 2.0
MAX_HOSTS_AT_ONCE = 20
MAX_ERROR_LENGTH = 300

NewEvents = list[tuple[str, Mapping[str, Any]]]

# In the words of those who ask for articles.
STATUSES: Mapping[IngestOutcome, str] = {
    IngestOutcome.ADDED: "inserted",
    IngestOutcome.CHANGED: "updated",
    IngestOutcome.UNCHANGED: "deduped",
    IngestOutcome.FAILED: "failed",
    IngestOutcome.REMOVED: "removed",
}


class CrawlTeller:
    """Knows what was told, so that a host is told of only when it has news."""

    def __init__(self, tally: CrawlTally, *, kept: bool) -> None:
        self._tally = tally
        self._kept = kept  # pages become documents, and are told of when they have
        self._told_at = 0.0
        self._told: dict[str, HostTally] = {}

    def of_pages(self, outcomes: Sequence[PageOutcome]) -> NewEvents:
        return [event for outcome in outcomes if (event := self._of_page(outcome)) is not None]

    def _of_page(self, outcome: PageOutcome) -> tuple[str, Mapping[str, Any]] | None:
        if outcome.target is not None or outcome.skipped:
            return None
        facts: dict[str, Any] = {"url": outcome.item.url, "domain": outcome.item.host}
        if outcome.error_type is not None:
            error = (outcome.error or "")[:MAX_ERROR_LENGTH]
            return PAGE_EVENT, {**facts, "status": "failed", "error_type": outcome.error_type, "error": error}
        if self._kept:
            return None
        if outcome.extraction is None:
            return PAGE_EVENT, {**facts, "status": "deduped"}
        found = {"title": outcome.extraction.title, "extraction_method": outcome.extraction.method}
        return PAGE_EVENT, {**facts, "status": "extracted", **found}

    def of_hosts(self, *, all_of_them: bool = False) -> NewEvents:
        """Of the hosts that have done something since they were told of."""
        now = time.monotonic()
        if not all_of_them and now - self._told_at < HOST_SECONDS:
            return []
        self._told_at = now
        news = {host: numbers for host, numbers in self._tally.hosts.items() if self._told.get(host) != numbers}
        chosen = sorted(news, key=lambda host: -news[host].pages)[:MAX_HOSTS_AT_ONCE]
        for host in chosen:
            self._told[host] = HostTally(**asdict(news[host]))
        return [(HOST_EVENT, {"domain": host, **asdict(news[host])}) for host in chosen]
