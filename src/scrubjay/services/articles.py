"""Articles: what a crawl brought, in the words of specification 003, and the way to put one in from outside."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

from scrubjay.crawler.page_store import markdown_of, unpack_details
from scrubjay.documents.ingester import Ingester
from scrubjay.errors import InvalidRequest
from scrubjay.extract.paywall import is_paywalled
from scrubjay.model.clock import utc_now
from scrubjay.model.content import DocumentSource, IncomingDocument, IngestOutcome
from scrubjay.model.crawling import CrawledPage
from scrubjay.model.job import Job, JobState
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import hash_url, host_of, normal_form, normalize_url, parse_url
from scrubjay.plans.begin import KIND
from scrubjay.services.access import require
from scrubjay.services.crawls import CrawlService
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.watches import WatchItems

MAX_ARTICLES = 500  # in one result
_ENOUGH_CHARACTERS = 1_200  # for a text to count as a whole article
_PUBLISHER_FACTS = ("site_name", "author", "published_at", "modified_at", "language", "keywords", "image")
_EXTRACTION_FACTS = ("page_type", "description", "headings", "canonical_url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    url: str
    url_hash: str  # SHA-256 of the canonical address
    domain: str
    canonical: str
    title: str | None
    content: str
    extraction_method: str | None
    timestamp: datetime
    status: str
    paywall_flag: bool
    confidence: float
    publisher_meta: Mapping[str, Any] = field(default_factory=dict)
    crawl_mode: str | None = None
    news_score: float | None = None
    extraction_metadata: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        return {**asdict(self), "timestamp": self.timestamp.isoformat()}


class ArticleService:
    def __init__(
        self, database: Database, crawls: CrawlService, ingester: Ingester, wake_indexer: Callable[[], None]
    ) -> None:
        self._database = database
        self._crawls = crawls
        self._ingester = ingester
        self._wake_indexer = wake_indexer

    async def persist(
        self,
        principal: Principal,
        *,
        url: str,
        content: str,
        title: str | None = None,
        canonical: str | None = None,
        collection_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> tuple[bool, str]:
        """Make an article a document; whether it is a new one, and its id. Doing it again changes nothing."""
        require(principal, Scope.WRITE)
        address = parse_url(canonical or url, field="canonical" if canonical else "url").text
        if collection_id is not None:
            async with self._database.reading() as connection:
                await Collections(connection).get(principal.tenant_id, collection_id)
        ingested = await self._ingester.ingest(
            IncomingDocument(
                tenant_id=principal.tenant_id,
                url=normalize_url(address),
                source=DocumentSource.API,
                markdown=content,
                title=title,
                details={**(metadata or {}), "source_url": url},
                collection_id=collection_id,
                content_type="text/markdown",
                size_bytes=len(content.encode("utf-8", "replace")),
                crawled_at=utc_now(),
            )
        )
        self._wake_indexer()
        return ingested.outcome is IngestOutcome.ADDED, ingested.document_id

    async def of_job(self, principal: Principal, job: Job, limit: int = MAX_ARTICLES) -> list[Article]:
        """What a crawl brought, at most so many, in no particular order."""
        if job.kind != KIND:
            return []
        mode = str((job.payload.get("spec") or {}).get("mode") or "concurrent")
        found: list[Article] = []
        async for page in self._crawls.pages(principal, job.id):
            if page.content is not None:
                found.append(_article(page, mode))
            if len(found) >= limit:
                break
        hashes = [hash_url(normal_form(article.url)) for article in found]
        async with self._database.reading() as connection:
            scores = await WatchItems(connection).scores(principal.tenant_id, hashes)
        return [
            replace(article, news_score=scores.get(url_hash)) for article, url_hash in zip(found, hashes, strict=True)
        ]

    async def legacy_result(self, principal: Principal, job: Job) -> dict[str, Any]:
        """A finished crawl as the scripts that came before Scrubjay read it."""
        facts: Mapping[str, Any] = {**job.progress, **(job.result or {})}
        documents: Mapping[str, int] = facts.get("documents") or {}
        hosts: Mapping[str, Mapping[str, int]] = facts.get("hosts") or {}
        seconds = float(facts.get("seconds") or 0.0)
        pages = int(facts.get("pages") or 0)
        articles = await self.of_job(principal, job) if job.state is JobState.COMPLETED else []
        return {
            "unified_crawl": True,
            "sites_crawled": sum(numbers.get("pages", 0) > 0 for numbers in hosts.values()),
            "total_articles": pages,
            "articles_ingested": documents.get("added", 0) + documents.get("changed", 0),
            "duplicates_skipped": documents.get("unchanged", 0) + int(facts.get("duplicates") or 0),
            "ingestion_errors": documents.get("failed", 0) + int(facts.get("failed") or 0),
            "processing_time_seconds": round(seconds, 3),
            "articles_per_second": round(pages / seconds, 3) if seconds else 0.0,
            "strategy_breakdown": dict(facts.get("methods") or {}),
            "site_breakdown": {host: numbers.get("pages", 0) for host, numbers in hosts.items()},
            "articles": [article.record() for article in articles],
        }


def _article(page: CrawledPage, mode: str) -> Article:
    details = unpack_details(page.details)
    metadata: Mapping[str, Any] = details.get("metadata") or {}
    canonical = _canonical(page, metadata)
    content = markdown_of(page)
    return Article(
        url=page.url,
        url_hash=hash_url(canonical),
        domain=host_of(page.url),
        canonical=canonical,
        title=page.title,
        content=content,
        extraction_method=page.method,
        timestamp=page.fetched_at,
        status="success" if page.error_type is None else "failed",
        paywall_flag=is_paywalled(metadata, content),
        confidence=confidence(page.title, content, metadata),
        publisher_meta={name: metadata[name] for name in _PUBLISHER_FACTS if metadata.get(name)},
        crawl_mode=mode,
        extraction_metadata={name: metadata[name] for name in _EXTRACTION_FACTS if metadata.get(name)},
    )


def _canonical(page: CrawledPage, metadata: Mapping[str, Any]) -> str:
    """The address that the page calls its own, if that is one."""
    try:
        return normalize_url(metadata.get("canonical_url") or page.url)
    except InvalidRequest:
        return normal_form(page.url)


def confidence(title: str | None, content: str, metadata: Mapping[str, Any]) -> float:
    """How much the page looks like a whole article, 0 to 1: mostly how much text it has, and what it says of itself."""
    length = min(1.0, len(content) / _ENOUGH_CHARACTERS)
    told = sum(bool(fact) for fact in (title, metadata.get("published_at"), metadata.get("author"))) / 3
    return round(0.7 * length + 0.3 * told, 3) if content.strip() else 0.0
