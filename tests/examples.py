"""One example of every noun, every field filled with something that is not its default.

A `Family` is one tenant with the things that others belong to; `example` makes a new member of it.
"""

import hashlib
import inspect
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Constraint, Table, UniqueConstraint
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.agent import Agent
from scrubjay.model.audit import AuditEntry
from scrubjay.model.content import (
    Chunk,
    ChunkContentType,
    Collection,
    Content,
    Document,
    DocumentLogLine,
    DocumentSource,
    DocumentStatus,
    DocumentVersion,
    Embedding,
    GenerationState,
    IndexGeneration,
    IngestionRule,
    OutboxEvent,
    Tag,
)
from scrubjay.model.crawling import (
    CrawlConfig,
    CrawledPage,
    FrontierItem,
    FrontierStatus,
    HostSettings,
    Proxy,
    ProxyRotation,
    SharedCrawl,
    SiteMemory,
)
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job, JobEvent, JobPriority, JobRequest, JobState, Worker
from scrubjay.model.knowledge import (
    Assistant,
    InventoryFile,
    Response,
    VectorStoreBatch,
    VectorStoreFile,
)
from scrubjay.model.numbered_job import NumberedJob
from scrubjay.model.plan import (
    Change,
    DeletionSettings,
    Fate,
    FilterSettings,
    IngestionSettings,
    IntervalType,
    LedgerEntry,
    Operation,
    OperationItem,
    OperationState,
    Plan,
    PlanState,
    RepositoryType,
    ScheduleSettings,
    Trigger,
    WorkState,
)
from scrubjay.model.tenant import ApiKey, Scope, SignIn, Tenant
from scrubjay.model.watching import ItemState, Story, Throttle, ThrottleLevel, Watch, WatchItem, WatchKind
from scrubjay.model.webhook import Delivery, DeliveryStatus, Webhook
from scrubjay.storage.agents import Agents
from scrubjay.storage.audit_log import AuditLog
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.configs import CrawlConfigs
from scrubjay.storage.contents import Contents
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.discarded_bodies import DiscardedBodies, DiscardedBody
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.embeddings import Embeddings
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.generations import Generations
from scrubjay.storage.hosts import Hosts
from scrubjay.storage.inventory import (
    Assistants,
    InventoryFiles,
    Responses,
    VectorStoreBatches,
    VectorStoreFiles,
)
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.keys import ApiKeys
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.numbered_jobs import NumberedJobs
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.plans import Plans
from scrubjay.storage.proxies import Proxies
from scrubjay.storage.repository import Base, Repository
from scrubjay.storage.rules import IngestionRules
from scrubjay.storage.shared_crawls import SharedCrawls
from scrubjay.storage.sign_ins import SignIns
from scrubjay.storage.site_memories import SiteMemories
from scrubjay.storage.tables import NOUNS
from scrubjay.storage.tags import Tags
from scrubjay.storage.tenants import Tenants
from scrubjay.storage.turns import Turn, Turns
from scrubjay.storage.versions import DocumentVersions
from scrubjay.storage.vocabulary import Vocabulary, VocabularyWord
from scrubjay.storage.watches import Stories, Throttles, Watches, WatchItems
from scrubjay.storage.webhooks import Webhooks
from scrubjay.storage.workers import Workers

AnyRepository = type[Repository[Any]]

MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123_456, tzinfo=UTC)
LATER = MOMENT + timedelta(days=300, microseconds=1)
BIG_NUMBER = 5_000_000_000_000  # beyond 32 bits, as bytes are
PRECISE = 0.1 + 0.2  # what single precision would round
UNICODE = "Grüße, 世界 𝒳 👩‍🚀 \\ ' \" % _ :x ?"
URL = "https://example.org/" + "ä🙂/" * 200 + "x" * 1428
NESTED = {
    "emoji": "🦜",
    "ключ": [1, 2.5, -0.0000001, None, True, {"tiefer": ["ß", "\u2028", "𝒳"]}],
    "empty": {},
    "none": None,
    "large": 2**53,
    UNICODE: UNICODE,
}


def unique(word: str = "name") -> str:
    """A name that nothing else has, with characters of all lengths."""
    return f"{word} {secrets.token_hex(8)} ß世🦜"


def new_hash() -> str:
    return hashlib.sha256(secrets.token_bytes(16)).hexdigest()


@dataclass(frozen=True)
class Family:
    """One tenant, and the things of it that others belong to."""

    tenant: Tenant
    key: ApiKey
    job: Job
    plan: Plan
    operation: Operation
    collection: Collection
    document: Document
    webhook: Webhook
    watch: Watch
    uploads: list[Document]  # each is taken once, by a vector store
    crawls: list[Job]  # each is shared once

    @property
    def tenant_id(self) -> str:
        return self.tenant.id


async def add_family(connection: AsyncConnection) -> Family:
    tenant_id = new_id("ten")
    key = ApiKey(tenant_id=tenant_id, name="key", key_hash=new_hash())
    plan = Plan(tenant_id=tenant_id)
    family = Family(
        tenant=Tenant(id=tenant_id, name=unique("tenant")),
        key=key,
        job=Job(tenant_id=tenant_id, kind="example", state=JobState.PAUSED),
        plan=plan,
        operation=Operation(tenant_id=tenant_id, plan_id=plan.id),
        collection=Collection(tenant_id=tenant_id, name="collection"),
        document=Document(
            tenant_id=tenant_id, natural_key=new_hash(), url="https://example.org/", url_hash=new_hash(),
            host="example.org", domain="example.org", source=DocumentSource.API,
        ),
        webhook=Webhook(tenant_id=tenant_id, url="https://example.org/hook", host="example.org"),
        watch=Watch(tenant_id=tenant_id, name="watch", url="https://example.org/feed", kind=WatchKind.FEED),
        uploads=[
            Document(
                tenant_id=tenant_id, natural_key=new_hash(), url="upload://a.pdf", url_hash=new_hash(), host="",
                domain="", source=DocumentSource.UPLOAD,
            )
            for _ in range(8)
        ],
        crawls=[Job(tenant_id=tenant_id, kind="crawl", state=JobState.COMPLETED) for _ in range(8)],
    )  # fmt: skip
    for repository, item in (
        (Tenants, family.tenant),
        (ApiKeys, family.key),
        (Jobs, family.job),
        (Plans, family.plan),
        (Operations, family.operation),
        (Collections, family.collection),
        (Documents, family.document),
        (Webhooks, family.webhook),
        (Watches, family.watch),
        *((Documents, document) for document in family.uploads),
        *((Jobs, crawl) for crawl in family.crawls),
    ):
        await repository(connection).add(item)  # type: ignore[arg-type]
    return family


def repositories() -> Sequence[AnyRepository]:
    """Every repository of every noun, in the order in which the schema lists them."""
    return list(_find_repositories())


def _find_repositories() -> Iterator[AnyRepository]:
    for module in NOUNS:
        for _, value in inspect.getmembers(module, inspect.isclass):
            if issubclass(value, Repository) and value.__module__ == module.__name__:
                yield value


def with_unique_names() -> Sequence[AnyRepository]:
    """The repositories whose items have a name that their tenant may give only once."""

    def is_on_names(constraint: Constraint) -> bool:
        return isinstance(constraint, UniqueConstraint) and set(constraint.columns.keys()) == {"tenant_id", "name"}

    return [each for each in repositories() if any(map(is_on_names, table_of(each).constraints))]


def table_of(repository: AnyRepository) -> Table:
    return Base.metadata.tables[repository.row.__tablename__]


def example(repository: AnyRepository, family: Family) -> Any:
    return EXAMPLES[repository](family)


def _document(family: Family) -> Document:
    return Document(
        tenant_id=family.tenant_id,
        natural_key=new_hash(),
        url=URL,
        url_hash=new_hash(),
        host="höst.example.org",
        domain="example.org",
        source=DocumentSource.UPLOAD,
        status=DocumentStatus.TYPE_DETECTION_SUCCESS,
        collection_id=family.collection.id,
        plan_id=family.plan.id,
        operation_id=new_id("cop"),
        rule_id=new_id("irule"),
        parent_url=URL,
        title=UNICODE,
        filename=UNICODE,
        content_type="text/html; charset=utf-8",
        language="de-CH",
        details=NESTED,
        size_bytes=BIG_NUMBER,
        content_sha256=new_hash(),
        original_sha256=new_hash(),
        version=3,
        chunk_count=4,
        duplicate_of=new_id("adoc"),
        error=UNICODE * 1000,
        created_at=MOMENT,
        crawled_at=LATER,
        updated_at=LATER,
        deleted_at=MOMENT,
        chunking=NESTED,
        is_purging=True,
        indexed_version=3,
        index_revision=5,
        index_due_at=LATER,
        index_lease=new_id("wrk"),
        index_attempts=2,
    )


def _job(family: Family) -> Job:
    return Job(
        tenant_id=family.tenant_id,
        kind="example",
        payload=NESTED,
        state=JobState.CANCELLED,
        priority=JobPriority.LOW,
        requested=JobRequest.PAUSE,
        progress=NESTED,
        checkpoint=NESTED,
        result=NESTED,
        error=UNICODE,
        retry_count=1,
        max_retries=2,
        crashes=4,
        parent_id=new_id("job"),
        run=5,
        worker_id=new_id("wrk"),
        unique_key=unique("unique key"),
        submitted_by=new_id("cred"),
        event_count=6,
        due_at=MOMENT,
        created_at=LATER,
        started_at=MOMENT,
        finished_at=LATER,
    )


def _plan(family: Family) -> Plan:
    return Plan(
        tenant_id=family.tenant_id,
        name=unique("plan"),
        repository_type=RepositoryType.SHAREPOINT.value,
        repository_settings=NESTED,
        ingestion_settings=IngestionSettings(
            ingestion_rule_id=new_id("irule"), collection_id=family.collection.id, bucket_name=UNICODE
        ),
        schedule=ScheduleSettings(
            interval_type=IntervalType.WEEKS, interval_value=3, cron="5 4 * * *", jitter_seconds=7
        ),
        filter=FilterSettings(object_prefix=UNICODE, allowed_content_types=("a/b", "c/d"), maximum_size=7),
        deletion=DeletionSettings(max_missing_share=0.25, min_missing_items=3, grace_runs=2),
        max_failed_share=0.25,
        is_one_off=True,
        crawl_key=unique("key"),
        crawl=NESTED,
        process_additions=False,
        process_updates=False,
        process_deletions=True,
        max_drain_tasks=2,
        retention_days=3,
        state=PlanState.RUNNING,
        is_active=False,
        operation_id=new_id("cop"),
        last_crawl_start_at=MOMENT,
        last_crawl_finish_at=LATER,
        last_crawl_success=False,
        last_complete_at=LATER,
        next_crawl_at=LATER,
        created_at=MOMENT,
        updated_at=LATER,
    )


def _operation(family: Family) -> Operation:
    numbers = {
        f"{unit}_{what}": BIG_NUMBER + place
        for place, (unit, what) in enumerate(
            (unit, what)
            for what in ("enumerated", "added", "updated", "deleted", "success", "failed")
            for unit in ("objects", "bytes")
        )
    }
    return Operation(
        tenant_id=family.tenant_id,
        plan_id=family.plan.id,
        job_id=family.job.id,
        state=OperationState.ENUMERATING,
        status_message=UNICODE,
        objects_unchanged=BIG_NUMBER,
        objects_withheld=BIG_NUMBER + 1,
        trigger=Trigger.ADAPTIVE,
        is_complete=True,
        report=NESTED,
        enumeration_file=UNICODE,
        started_at=MOMENT,
        enumeration_started_at=MOMENT,
        enumeration_finished_at=LATER,
        retrieval_started_at=LATER,
        retrieval_finished_at=LATER,
        finished_at=LATER,
        created_at=MOMENT,
        updated_at=LATER,
        **numbers,
    )


def _ledger_entry(family: Family) -> LedgerEntry:
    return LedgerEntry(
        tenant_id=family.tenant_id,
        plan_id=family.plan.id,
        key_hash=new_hash(),
        key=URL,
        fate=Fate.MISSING,
        document_id=family.document.id,
        content_type="application/pdf",
        content_length=BIG_NUMBER,
        etag='W/"ä"',
        last_modified_at=MOMENT,
        content_sha256=new_hash(),
        content_sha1="1" * 40,
        content_md5="5" * 32,
        text_sha256=new_hash(),
        fingerprint=new_hash(),
        error=UNICODE,
        seen_count=1,
        change_count=2,
        missing_runs=3,
        unchanged_seconds=PRECISE,
        change_intervals=(PRECISE, 2.0),
        first_seen_at=MOMENT,
        last_seen_at=LATER,
        last_changed_at=LATER,
        last_operation_id=new_id("cop"),
    )


def _watch(family: Family) -> Watch:
    return Watch(
        tenant_id=family.tenant_id,
        name=unique("watch"),
        url=URL,
        kind=WatchKind.SITEMAP,
        plan_id=family.plan.id,
        enabled=False,
        poll_interval_seconds=60,
        daily_budget=5,
        weight=PRECISE,
        requests_today=4,
        budget_day="2024-02-29",
        etag='"🦜"',
        last_modified="Thu, 29 Feb 2024 23:59:59 GMT",
        last_fingerprint=new_hash(),
        collection_id=family.collection.id,
        threshold=PRECISE,
        catch_up=True,
        memory=NESTED,
        failures=2,
        last_error=UNICODE,
        notice=UNICODE,
        escalated_until=LATER,
        lease=new_id("wrk"),
        last_success_at=MOMENT,
        last_polled_at=MOMENT,
        next_poll_at=LATER,
        created_at=MOMENT,
    )


def _delivery(family: Family) -> Delivery:
    return Delivery(
        tenant_id=family.tenant_id,
        webhook_id=family.webhook.id,
        event="completed",
        event_id=new_id("evt"),
        position=BIG_NUMBER,
        replay=2,
        body=UNICODE * 100,
        job_id=family.job.id,
        job_type="crawl",
        status=DeliveryStatus.FAILED,
        attempts=2,
        max_attempts=3,
        response_status=503,
        response_body=UNICODE,
        error=UNICODE,
        last_attempt_at=MOMENT,
        next_attempt_at=LATER,
        created_at=MOMENT,
    )


def _config(family: Family) -> CrawlConfig:
    return CrawlConfig(
        tenant_id=family.tenant_id,
        name=unique("config"),
        max_depth=3,
        rate_limit_rps=PRECISE,
        respect_robots_txt=False,
        headers={"X-Ä": UNICODE},
        extraction_strategy="text",
        chunking_strategy="headings",
        chunk_size=10,
        chunk_overlap=2,
        min_chunk_size=1,
        page_timeout_ms=5,
        max_page_size_mb=6,
        max_redirects=7,
        created_at=MOMENT,
    )


EXAMPLES: Mapping[AnyRepository, Callable[[Family], Any]] = {
    Tenants: lambda family: Tenant(name=unique("tenant"), created_at=MOMENT),
    ApiKeys: lambda family: ApiKey(
        tenant_id=family.tenant_id, name=unique(), key_hash=new_hash(), scopes=(Scope.WRITE, Scope.ADMIN),
        rate_limit_rpm=7, created_at=MOMENT, expires_at=LATER, is_active=False,
    ),
    SignIns: lambda family: SignIn(
        token_hash=new_hash(), key_id=family.key.id, kind="session", created_at=MOMENT, expires_at=LATER
    ),
    Jobs: _job,
    JobEvents: lambda family: JobEvent(
        job_id=family.job.id, sequence=1 + secrets.randbelow(2**30), type="job.log", payload=NESTED, at=MOMENT
    ),
    Workers: lambda family: Worker(
        host="höst", pid=42, concurrency=3, version="1.2.3", started_at=MOMENT, heartbeat_at=LATER
    ),
    Collections: lambda family: Collection(
        tenant_id=family.tenant_id, name=unique(), description=UNICODE, details=NESTED, created_at=MOMENT,
        last_active_at=LATER,
    ),
    Tags: lambda family: Tag(tenant_id=family.tenant_id, name=unique(), created_at=MOMENT),
    IngestionRules: lambda family: IngestionRule(
        tenant_id=family.tenant_id, name=unique(), description=UNICODE, bucket="bücket",
        collection_id=family.collection.id, labels=("a", UNICODE), tags={"ß": UNICODE}, summarization=NESTED,
        chunking=NESTED, embedding=NESTED, created_at=MOMENT, updated_at=LATER,
    ),
    Plans: _plan,
    Operations: _operation,
    Ledger: _ledger_entry,
    CrawlConfigs: _config,
    Hosts: lambda family: HostSettings(
        tenant_id=family.tenant_id, host=f"{secrets.token_hex(8)}.example", rate_limit_rps=PRECISE,
        circuit_breaker_threshold=2, circuit_breaker_timeout_seconds=3, is_blocked=True,
        blocked_reason=UNICODE, updated_at=MOMENT,
    ),
    Proxies: lambda family: Proxy(
        tenant_id=family.tenant_id, name=unique(), servers=({"url": URL, "password": UNICODE}, {"url": "b"}),
        rotation=ProxyRotation.LEAST_USED, is_active=False, created_at=MOMENT,
    ),
    Frontier: lambda family: FrontierItem(
        job_id=family.job.id, url_hash=new_hash(), url=URL, host="höst", depth=2, redirects=1, score=PRECISE,
        status=FrontierStatus.SKIPPED, parent_url=URL, lease_id=new_id("wrk"), leased_until=LATER, attempts=3,
        error=UNICODE, discovered_at=MOMENT,
    ),
    SharedCrawls: lambda family: SharedCrawl(
        job_id=family.crawls.pop().id, granted=BIG_NUMBER, is_over=True, roots=[URL], yielding=["job"]
    ),
    CrawledPages: lambda family: CrawledPage(
        scope_id=new_id("site"), url_hash=new_hash(), tenant_id=family.tenant_id, job_id=family.job.id, url=URL,
        depth=3, parent_url=URL, status=200, error_type="timeout", error=UNICODE, content_type="text/html",
        etag=UNICODE, last_modified="Wed", size_bytes=BIG_NUMBER, body_sha256=new_hash(), content_sha256=new_hash(),
        duplicate_of=new_hash(), title=UNICODE, method="scrubjay", content=bytes(range(256)), details=b"\0\xff",
        duration_ms=5, attempts=3, fetched_at=MOMENT, changed_at=LATER,
    ),
    SiteMemories: lambda family: SiteMemory(
        scope_id=new_id("site"), host="höst", tenant_id=family.tenant_id, memory=bytes(range(256)), updated_at=MOMENT,
    ),
    Documents: _document,
    DocumentVersions: lambda family: DocumentVersion(
        tenant_id=family.tenant_id, document_id=family.document.id, version=1 + secrets.randbelow(2**30),
        title=UNICODE, content_sha256=new_hash(), original_sha256=new_hash(), size_bytes=BIG_NUMBER,
        details=NESTED, operation_id=new_id("cop"), created_at=MOMENT, ended_at=LATER,
    ),
    DocumentLogs: lambda family: DocumentLogLine(
        tenant_id=family.tenant_id, document_id=family.document.id, level="warning", message=unique() + UNICODE,
        at=MOMENT,
    ),
    Chunks: lambda family: Chunk(
        id=new_id("chnk"), tenant_id=family.tenant_id, document_id=family.document.id, version=2,
        chunk_index=secrets.randbelow(2**30), content=UNICODE * 2000, content_sha256=new_hash(), start_char=5,
        end_char=6, token_count=7, embedding_model="mödel", section_header=UNICODE, context=UNICODE,
        content_type=ChunkContentType.TABLE, created_at=MOMENT,
    ),
    Embeddings: lambda family: Embedding(
        content_sha256=new_hash(), model="mödel", dimensions=3, vector=bytes(range(256)) * 300, created_at=MOMENT
    ),
    Contents: lambda family: Content(
        tenant_id=family.tenant_id, content_sha256=new_hash(), body=bytes(range(256)) * 300,
        created_at=MOMENT,
    ),
    Generations: lambda family: IndexGeneration(
        embedder=UNICODE, model="mödel", dimensions=3, place=UNICODE, state=GenerationState.RETIRED,
        created_at=MOMENT, live_at=LATER,
    ),
    OperationItems: lambda family: OperationItem(
        operation_id=family.operation.id, key_hash=new_hash(), tenant_id=family.tenant_id, key=URL,
        change=Change.DELETED, state=WorkState.FAILED, content_type="a/b", content_length=BIG_NUMBER, etag=UNICODE,
        content_sha256=new_hash(), content_sha1="1" * 40, content_md5="5" * 32, text_sha256=new_hash(),
        last_modified_at=MOMENT, document_id=new_id("adoc"), reason="http_404", error=UNICODE, http_status=404,
        attempts=3, part_id=new_id("job"),
    ),
    Agents: lambda family: Agent(
        tenant_id=family.tenant_id, name=f"agent-{secrets.token_hex(8)}", address=URL, created_at=MOMENT
    ),
    AuditLog: lambda family: AuditEntry(
        tenant_id=family.tenant_id, at=MOMENT, key_id=new_id("cred"), key_name=UNICODE, action="key.created",
        target_id=UNICODE, details=NESTED, door="dashboard", remote_address="2001:db8::1", request_id="r-1",
    ),
    DiscardedBodies: lambda family: DiscardedBody(sha256=secrets.token_hex(32), discarded_at=MOMENT),
    Turns: lambda family: Turn(name=f"turn {secrets.token_hex(8)}", next_at=MOMENT),
    Vocabulary: lambda family: VocabularyWord(
        tenant_id=family.tenant_id, word=secrets.token_hex(8) + "ß世🦜", created_at=MOMENT
    ),
    Outbox: lambda family: OutboxEvent(
        tenant_id=family.tenant_id, topic="document.changed", payload=NESTED, created_at=MOMENT,
        published_at=LATER,
    ),
    Watches: _watch,
    WatchItems: lambda family: WatchItem(
        tenant_id=family.tenant_id, watch_id=family.watch.id, key_hash=new_hash(), url=URL, title=UNICODE,
        url_hash=new_hash(), site="example.org", lead=UNICODE, entry_hash=new_hash(), fingerprint=new_hash(),
        state=ItemState.SUPPRESSED, reason=UNICODE, news_score=PRECISE, factors=NESTED, story_id=new_id("story"),
        job_id=family.job.id, updates=3, published_at=MOMENT, news_at=LATER, seen_at=LATER,
    ),
    Throttles: lambda family: Throttle(
        name=f"brake {secrets.token_hex(8)}", level=ThrottleLevel.SLOW, reason=UNICODE, changed_at=MOMENT
    ),
    Stories: lambda family: Story(
        tenant_id=family.tenant_id, title=UNICODE, features=NESTED, source_count=2, first_seen_at=MOMENT,
        last_seen_at=LATER, breaking_at=LATER, ended_at=LATER,
    ),
    Webhooks: lambda family: Webhook(
        tenant_id=family.tenant_id, url=URL, host="höst", plan_id=family.plan.id, job_id=family.job.id,
        events=("completed", UNICODE), headers={"X-Ä": UNICODE}, sealed_secret="sealed:ß",
        sealed_previous_secret="sealed:ä", previous_secret_until=LATER, is_active=False, failures=3,
        circuit_opened_at=MOMENT, last_position=BIG_NUMBER, next_attempt_at=LATER, lease_id=new_id("wrk"),
        leased_until=LATER, created_at=MOMENT,
    ),
    Deliveries: _delivery,
    NumberedJobs: lambda family: NumberedJob(
        number=secrets.randbelow(2**40) + 1, tenant_id=family.tenant_id, job_id=family.job.id, endpoint=URL,
        folder="inventory/vector_stores", action="replicate", object_id=UNICODE, is_filed=True, created_at=MOMENT,
    ),
    InventoryFiles: lambda family: InventoryFile(
        tenant_id=family.tenant_id, filename=UNICODE, purpose="batch", content_type="text/x-ß", size_bytes=BIG_NUMBER,
        blob_sha256=new_hash(), status="uploaded", created_at=MOMENT,
    ),
    VectorStoreFiles: lambda family: VectorStoreFile(
        document_id=family.uploads.pop().id, tenant_id=family.tenant_id, file_id=new_id("file"), job_id=family.job.id,
        batch_id=new_id("vsfb"), is_cancelled=True, attributes=NESTED, created_at=MOMENT,
    ),
    VectorStoreBatches: lambda family: VectorStoreBatch(
        tenant_id=family.tenant_id, collection_id=family.collection.id, cancelled_at=LATER, created_at=MOMENT,
    ),
    Assistants: lambda family: Assistant(
        tenant_id=family.tenant_id, name=UNICODE, description=UNICODE, model="mödel", instructions=UNICODE,
        details=NESTED, created_at=MOMENT,
    ),
    Responses: lambda family: Response(
        tenant_id=family.tenant_id, id=f"resp_{secrets.token_hex(24)}", model="mödel", status="failed",
        previous_response_id=f"resp_{secrets.token_hex(24)}", conversation_id=f"conv_{secrets.token_hex(24)}",
        body=NESTED, created_at=MOMENT,
    ),
}  # fmt: skip
