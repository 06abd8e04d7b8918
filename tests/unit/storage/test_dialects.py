"""The schema and every statement of the repositories, compiled for databases that need not run here."""

import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import ClauseElement, Connection, Dialect, Index, Table, event
from sqlalchemy.dialects import mssql, mysql, postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable
from sqlalchemy.sql import Executable
from tests.examples import LATER, MOMENT, Family, add_family, example, repositories

from scrubjay.model.content import GenerationState
from scrubjay.model.crawl_spec import CrawlStrategy
from scrubjay.model.crawling import (
    CrawledPage,
    FrontierItem,
    FrontierStatus,
    PageSeen,
    SharedCrawl,
    SiteMemory,
)
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job
from scrubjay.model.plan import Change, Fate, WorkState
from scrubjay.model.watching import Throttle, ThrottleLevel
from scrubjay.settings import Settings
from scrubjay.storage import schema
from scrubjay.storage.audit_log import AuditLog
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.contents import Contents
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import open_database
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.discarded_bodies import DiscardedBodies
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.embeddings import Embeddings
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.generations import Generations
from scrubjay.storage.inventory import Responses, VectorStoreFiles, file_status
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.keys import ApiKeys
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.numbered_jobs import NumberedJobs
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.plans import Plans
from scrubjay.storage.repository import Repository
from scrubjay.storage.shared_crawls import SharedCrawls
from scrubjay.storage.sign_ins import SignIns
from scrubjay.storage.site_memories import SiteMemories
from scrubjay.storage.tables import metadata
from scrubjay.storage.tags import Tags
from scrubjay.storage.tenants import Tenants
from scrubjay.storage.turns import Turns
from scrubjay.storage.types import EnumText
from scrubjay.storage.versions import DocumentVersions
from scrubjay.storage.vocabulary import Vocabulary
from scrubjay.storage.watches import Stories, Throttles, Watches, WatchItems
from scrubjay.storage.webhooks import Webhooks
from scrubjay.storage.workers import Workers

DIALECTS: Mapping[str, Dialect] = {
    "mssql": mssql.dialect(),
    "mysql": mysql.dialect(),
    "postgresql": postgresql.dialect(),
    "sqlite": sqlite.dialect(),
}
Call = Callable[[Any], Awaitable[Any]]
WITH_PARTIAL_INDEXES = ("mssql", "postgresql", "sqlite")
TABLES = metadata.sorted_tables
INDEXES = [index for table in TABLES for index in sorted(table.indexes, key=lambda index: str(index.name))]
PARTIAL = [index for index in INDEXES if index.dialect_options["postgresql"]["where"] is not None]


@pytest.fixture(params=DIALECTS)
def dialect(request: pytest.FixtureRequest) -> Dialect:
    return DIALECTS[request.param]


def ddl(element: Any, dialect: Dialect) -> str:
    return " ".join(str(element.compile(dialect=dialect)).split())


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_can_be_made(table: Table, dialect: Dialect) -> None:
    statement = ddl(CreateTable(table), dialect)
    assert statement.startswith(f"CREATE TABLE {table.name} (")
    for column in table.columns:
        assert re.search(rf'[(\s"`\[]{column.name}["`\]]? ', statement), column.name
    assert ("COLLATE utf8mb4_bin" in statement) == (dialect.name == "mysql")


def test_times_keep_their_microseconds_everywhere(dialect: Dialect) -> None:
    expected = {
        "mssql": "DATETIME2(6)",
        "mysql": "DATETIME(6)",
        "postgresql": "TIMESTAMP WITH TIME ZONE",
        "sqlite": "DATETIME",
    }
    statement = ddl(CreateTable(metadata.tables["tenants"]), dialect)
    assert f"created_at {expected[dialect.name]} NOT NULL" in statement


def test_text_takes_every_character_and_any_length_on_sql_server() -> None:
    statement = ddl(CreateTable(metadata.tables["documents"]), DIALECTS["mssql"])
    assert "title NVARCHAR(max) NULL" in statement
    assert "host NVARCHAR(255) NOT NULL" in statement
    assert not re.search(r"\bTEXT\b", statement)


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: index.name)
def test_every_index_can_be_made(index: Index, dialect: Dialect) -> None:
    statement = ddl(CreateIndex(index), dialect)
    unique = "UNIQUE " if index.unique else ""
    assert index.table is not None
    assert statement.startswith(f"CREATE {unique}INDEX {index.name} ON {index.table.name} (")


@pytest.mark.parametrize("index", PARTIAL, ids=lambda index: index.name)
def test_a_partial_index_is_partial_wherever_that_exists(index: Index, dialect: Dialect) -> None:
    statement = ddl(CreateIndex(index), dialect)
    assert (" WHERE " in statement) == (dialect.name in WITH_PARTIAL_INDEXES)
    if dialect.name == "mssql":
        assert "true" not in statement.lower()  # which is no value there


@pytest.mark.parametrize(
    ("name", "columns", "condition"),
    [
        ("ix_api_keys_active", "api_keys (is_active)", "is_active = true"),
        ("ix_documents_active", "documents (tenant_id, id)", "deleted_at IS NULL"),
        ("ix_jobs_queue", "jobs (state, priority, due_at, id)", "state = 'pending'"),
        ("ix_frontier_best", "frontier (job_id, status, score DESC, id)", "status = 'pending'"),
        ("ix_frontier_depth", "frontier (job_id, status, depth, id)", "status = 'pending'"),
    ],
)
@pytest.mark.parametrize("dialect", [DIALECTS[name] for name in WITH_PARTIAL_INDEXES], ids=WITH_PARTIAL_INDEXES)
def test_the_partial_indexes_of_the_specification_exist(
    dialect: Dialect, name: str, columns: str, condition: str
) -> None:
    """Specification 001, section 13."""
    index = next(index for index in INDEXES if index.name == name)
    if dialect.name == "mssql":
        condition = condition.replace("= true", "= 1")
    assert ddl(CreateIndex(index), dialect) == f"CREATE INDEX {name} ON {columns} WHERE {condition}"


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("api_keys", {"key_hash"}),
        ("collections", {"tenant_id", "name"}),
        ("tags", {"tenant_id", "name"}),
        ("documents", {"tenant_id", "natural_key"}),
        ("chunks", {"document_id", "version", "chunk_index"}),
        ("frontier", {"job_id", "url_hash"}),
    ],
)
def test_the_unique_keys_of_the_specification_exist(table: str, columns: set[str]) -> None:
    unique = [set(each.columns.keys()) for each in metadata.tables[table].constraints if hasattr(each, "columns")]
    assert columns in unique


def test_every_name_fits_the_databases_limits() -> None:
    """PostgreSQL cuts names at 63 bytes, MariaDB at 64; index keys are limited too."""
    for table in TABLES:
        for item in (*table.indexes, *table.constraints):
            assert item.name is None or len(str(item.name)) <= 63
        keys = [table.primary_key, *table.indexes, *(c for c in table.constraints if hasattr(c, "columns"))]
        for key in keys:
            lengths = [getattr(column.type, "length", None) or 8 for column in key.columns]
            assert 4 * sum(lengths) <= 3072, (table.name, key.name)  # MariaDB, in bytes of utf8mb4
            assert 2 * sum(lengths) <= (900 if key is table.primary_key else 1700), (table.name, key.name)


def test_every_member_of_a_stored_enum_fits_its_column() -> None:
    for table in TABLES:
        for column in table.columns:
            if isinstance(column.type, EnumText) and not column.type.numeric:
                assert all(len(member.value) <= 24 for member in column.type.enum), (table.name, column.name)


def cascades() -> Iterator[tuple[str, str]]:
    """Which table's deletions change which other table's rows."""
    for table in TABLES:
        for key in table.foreign_key_constraints:
            if key.ondelete in ("CASCADE", "SET NULL"):
                yield key.referred_table.name, table.name


def paths(edges: Sequence[tuple[str, str]], start: str) -> Iterator[tuple[str, ...]]:
    """Every way from a table along the edges, a way back to where it was included."""
    stack: list[tuple[str, ...]] = [(start,)]
    while stack:
        path = stack.pop()
        for parent, child in edges:
            if parent == path[-1]:
                yield (*path, child)
                if child not in path:
                    stack.append((*path, child))


def test_no_table_is_reached_by_two_cascades() -> None:
    """SQL Server refuses a schema in which a deletion could reach the same table twice, or itself."""
    edges = list(cascades())
    assert ("documents", "chunks") in edges
    for table in TABLES:
        ways = list(paths(edges, table.name))
        for goal in {way[-1] for way in ways}:
            found = [way for way in ways if way[-1] == goal]
            assert len(found) == 1, f"{table.name} reaches {goal} more than once: {found}"
            assert goal != table.name, f"{table.name} reaches itself"


def test_the_check_for_cascades_sees_a_diamond_and_a_cycle() -> None:
    diamond = [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]
    assert sum(path[-1] == "d" for path in paths(diamond, "a")) == 2
    assert ("a", "b", "a") in list(paths([("a", "b"), ("b", "a")], "a"))


@dataclass(frozen=True)
class Recorded:
    """A statement as a repository handed it to SQLAlchemy, and the names of its parameters."""

    method: str
    statement: ClauseElement
    parameters: tuple[str, ...]

    def compile(self, dialect: Dialect) -> str:
        keys = list(self.parameters) or None
        return " ".join(str(self.statement.compile(dialect=dialect, column_keys=keys)).split())


class Recorder:
    """Writes down every statement that is run, under the name of the repository method that runs it."""

    def __init__(self) -> None:
        self.method = ""
        self.recorded: list[Recorded] = []

    def __call__(
        self, _: Connection, statement: Executable, many: Sequence[Mapping[str, Any]], one: Mapping[str, Any], __: Any
    ) -> None:
        if self.method and isinstance(statement, ClauseElement):
            parameters = tuple(dict(many[0]) if many else dict(one))
            self.recorded.append(Recorded(self.method, statement, parameters))

    @contextmanager
    def during(self, method: str) -> Iterator[None]:
        self.method = method
        yield
        self.method = ""


def methods_of(repository: type[Repository[Any]]) -> set[str]:
    coroutines = inspect.getmembers(repository, inspect.iscoroutinefunction)
    return {name for name, _ in coroutines if not name.startswith("_")}


def shared_calls(repository: type[Repository[Any]], family: Family) -> Mapping[str, Call]:
    """How the methods that every repository has can be called; some are only for what a tenant owns."""
    item, another = example(repository, family), example(repository, family)
    calls: Mapping[str, Call] = {
        "add": lambda nouns: nouns.add(item),
        "add_many": lambda nouns: nouns.add_many([another]),
        "find": lambda nouns: nouns.find(),
        "page": lambda nouns: nouns.page(limit=2, offset=3),
        "count": lambda nouns: nouns.count(),
    }
    if repository is DocumentLogs or "tenant_id" not in repository.table.c:
        return calls
    key = [family.tenant_id, *(getattr(item, name) for name in repository.key)]
    return {
        **calls,
        "get": lambda nouns: nouns.get(*key),
        "update": lambda nouns: nouns.update(*key, **{repository.key[0]: key[1]}),
        "delete": lambda nouns: nouns.delete(*key),
    }


def own_calls(family: Family) -> Mapping[type[Repository[Any]], Mapping[str, Call]]:  # noqa: C901 - a table
    """How the methods that only one repository has can be called."""
    tenant_id, job_id = family.tenant_id, family.job.id
    due = Job(tenant_id=tenant_id, kind="k", due_at=MOMENT)
    item = FrontierItem(job_id=job_id, url_hash="h", url="u", host="h")
    lease = {"limit": 5, "now": MOMENT, "until": LATER}

    page = CrawledPage(scope_id="s", url_hash="h", tenant_id=tenant_id, job_id=job_id, url="u", content_sha256="c")
    seen = PageSeen(url_hash="h", depth=1, seen_at=MOMENT)
    memory = SiteMemory(scope_id="s", host="h", tenant_id=tenant_id, memory=b"m")

    async def read_pages(pages: CrawledPages) -> None:
        assert "h" in [each.url_hash for each in await pages.of_job(job_id)]

    document = family.document

    async def lease_due(documents: Documents) -> None:
        assert document.id in await documents.make_due(MOMENT, after="", limit=5)
        assert await documents.lease_due("l", limit=5, now=MOMENT, until=LATER)

    async def use_tags(tags: Tags) -> None:
        made = await tags.by_names(tenant_id, ["a", "b"])
        assert await tags.attach(document.id, [made[0].id])

    async def read_states(ledger: Ledger) -> None:
        await ledger.states(family.plan.id)
        await ledger.states(family.plan.id, asked_by=job_id)

    async def note_unchanged(ledger: Ledger) -> None:
        entry = example(Ledger, family)
        await ledger.add(entry)
        await ledger.note_unchanged(family.plan.id, [entry.key_hash], LATER)

    async def lease_watches(watches: Watches) -> None:
        assert await watches.lease_due("l", limit=5, now=LATER + timedelta(days=9999), until=LATER)

    async def cancel_unread(files: VectorStoreFiles) -> None:
        waiting = replace(example(VectorStoreFiles, family), batch_id="b")
        await files.add(waiting)
        await files.cancel_unread(tenant_id, "b", "Cancelled.")

    async def take_turn(turns: Turns) -> None:
        assert await turns.take("a turn", 60, MOMENT)
        assert not await turns.take("a turn", 60, MOMENT)

    async def remove_published(outbox: Outbox) -> None:
        await outbox.add(example(Outbox, family))
        assert await outbox.remove_before(LATER + timedelta(days=1), 5)

    async def remove_old_acts(acts: AuditLog) -> None:
        await acts.add(example(AuditLog, family))
        assert await acts.remove_before(LATER, 5)

    async def remove_old_deliveries(deliveries: Deliveries) -> None:
        await deliveries.add(example(Deliveries, family))
        assert await deliveries.remove_before(LATER, 5)

    async def claim(jobs: Jobs) -> None:
        await jobs.add(due)
        assert len(await jobs.claim("w", ["j", "k"], 5, LATER)) == 1

    async def begin_sharing(crawls: SharedCrawls) -> None:
        crawl = await Jobs(crawls.connection).add(replace(due, id=new_id("job")))
        for granted in (3, 5):
            await crawls.begin(SharedCrawl(job_id=crawl.id, granted=granted))
        found = await crawls.find_by_job(crawl.id)
        assert found is not None
        assert found.granted == 5

    async def share_budget(crawls: SharedCrawls) -> None:
        crawl = await Jobs(crawls.connection).add(replace(due, id=new_id("job")))
        await crawls.add(SharedCrawl(job_id=crawl.id))
        assert [await crawls.grant(crawl.id, 4, 5), await crawls.grant(crawl.id, 4, 5)] == [4, 1]

    async def lease_both_ways(frontier: Frontier) -> None:
        assert len(await frontier.lease(job_id, "l", **lease)) == 1
        for strategy in CrawlStrategy:
            await frontier.lease(job_id, "l", strategy=strategy, avoid_hosts=["h"], only_hosts=["i"], **lease)

    return {
        Tenants: {
            "find_by_id": lambda tenants: tenants.find_by_id(tenant_id),
            "find_by_name": lambda tenants: tenants.find_by_name("n"),
        },
        ApiKeys: {
            "find_by_hash": lambda keys: keys.find_by_hash("h"),
            "find_by_id": lambda keys: keys.find_by_id("k"),
        },
        SignIns: {
            "find_valid": lambda sign_ins: sign_ins.find_valid("h", "link", MOMENT),
            "consume": lambda sign_ins: sign_ins.consume("h"),
            "end_of_key": lambda sign_ins: sign_ins.end_of_key("k"),
            "delete_expired": lambda sign_ins: sign_ins.delete_expired(MOMENT),
        },
        Jobs: {
            "find_by_id": lambda jobs: jobs.find_by_id(job_id),
            "lock": lambda jobs: jobs.lock(job_id),
            "find_by_unique_key": lambda jobs: jobs.find_by_unique_key("k"),
            "parts": lambda jobs: jobs.parts(job_id),
            "claim": claim,
            "change": lambda jobs: jobs.change(job_id, error="x"),
            "change_held": lambda jobs: jobs.change_held(job_id, 0, new_events=1, error="x"),
            "log_states": lambda jobs: jobs.log_states([job_id]),
            "finished_of": lambda jobs: jobs.finished_of(family.tenant_id, ["j"], 5),
            "requests_of": lambda jobs: jobs.requests_of([job_id, "x"]),
            "orphans_exist": lambda jobs: jobs.orphans_exist(),
            "pending_by_kind": lambda jobs: jobs.pending_by_kind(),
            "orphans": lambda jobs: jobs.orphans(),
            "finished_before": lambda jobs: jobs.finished_before(LATER, 5),
        },
        JobEvents: {
            "after_each": lambda events: events.after_each({job_id: 0, "other": 3}, 5),
            "newest": lambda events: events.newest(job_id, ["job.log"], 5),
            "after_position": lambda events: events.after_position(0, 5),
            "between": lambda events: events.between(family.tenant_id, after=0, until=9, limit=5),
            "last_before": lambda events: events.last_before(MOMENT),
            "last_position": lambda events: events.last_position(),
            "append": lambda events: events.append(job_id, [("t", {}, MOMENT)]),
            "after": lambda events: events.after(job_id, 0),
        },
        Workers: {
            "beat": lambda workers: workers.beat("w", MOMENT),
            "all": lambda workers: workers.all(),
            "remove": lambda workers: workers.remove(["w"]),
        },
        Frontier: {
            "add_new": lambda frontier: frontier.add_new([item], raise_scores=True),
            "known": lambda frontier: frontier.known(job_id, ["h"]),
            "waiting_hosts": lambda frontier: frontier.waiting_hosts(job_id),
            "lease": lease_both_ways,
            "give_back": lambda frontier: frontier.give_back(job_id, ["h"]),
            "finish": lambda frontier: frontier.finish(job_id, "h", "l", FrontierStatus.COMPLETED),
            "settle": lambda frontier: frontier.settle(job_id, [("h", FrontierStatus.COMPLETED, None)]),
            "release": lambda frontier: frontier.release(job_id),
            "leased_hosts": lambda frontier: frontier.leased_hosts(job_id),
            "note_of": lambda frontier: frontier.note_of(job_id, "h"),
            "pending_urls": lambda frontier: frontier.pending_urls(job_id, 5),
            "tally": lambda frontier: frontier.tally(job_id),
            "clear": lambda frontier: frontier.clear("x"),
        },
        SharedCrawls: {
            "find_by_job": lambda crawls: crawls.find_by_job(job_id),
            "begin": begin_sharing,
            "grant": share_budget,
            "give_back": lambda crawls: crawls.give_back("x", 3),
            "change": lambda crawls: crawls.change("x", is_over=True, roots=["u"]),
        },
        Plans: {
            "take": lambda plans: plans.take(family.plan, "o", MOMENT, next_crawl_at=LATER),
            "end_run": lambda plans: plans.end_run(family.plan.id, "o", last_crawl_success=True),
            "find_by_crawl_key": lambda plans: plans.find_by_crawl_key(tenant_id, "k"),
            "due": lambda plans: plans.due(LATER),
            "running": lambda plans: plans.running(),
            "all": lambda plans: plans.all(),
        },
        Operations: {
            "change": lambda operations: operations.change("o", status_message="x"),
            "of_plan": lambda operations: operations.of_plan(family.plan.id, "o"),
            "newest": lambda operations: operations.newest(family.plan.id),
            "find_by_id": lambda operations: operations.find_by_id(tenant_id, "o"),
            "ended_before": lambda operations: operations.ended_before(family.plan.id, LATER),
            "statistics": lambda operations: operations.statistics(family.plan.id),
        },
        OperationItems: {
            "clear_undone": lambda items: items.clear_undone("o", with_work=True),
            "clear_failed": lambda items: items.clear_failed("o"),
            "put": lambda items: items.put([example(OperationItems, family)]),
            "states": lambda items: items.states("o", ["k"]),
            "pending": lambda items: items.pending("o", [Change.ADDED], 5, part_id="j"),
            "count_taken": lambda items: items.count_taken("o"),
            "with_outcomes": lambda items: items.with_outcomes(
                "o", ["failed", "added"], contains="x", limit=5, offset=0
            ),
            "count_outcomes": lambda items: items.count_outcomes("o", [], contains="x"),
            "problems": lambda items: items.problems("o"),
            "listing": lambda items: items.listing("o", change=Change.ADDED, states=[WorkState.DONE]),
            "settle": lambda items: items.settle(
                "o", [{"key_hash": "k", "change": Change.ADDED, "state": WorkState.DONE}]
            ),
            "skip": lambda items: items.skip("o", Change.DELETED),
            "unskip": lambda items: items.unskip("o", Change.DELETED),
            "tally": lambda items: items.tally("o"),
        },
        Ledger: {
            "states": read_states,
            "listing": lambda ledger: ledger.listing(family.plan.id, fates=[Fate.PRESENT]),
            "by_hashes": lambda ledger: ledger.by_hashes(family.plan.id, ["k"]),
            "owners": lambda ledger: ledger.owners(tenant_id, ["k"]),
            "other_holders": lambda ledger: ledger.other_holders(family.plan.id, ["d"], but=["k"]),
            "release": lambda ledger: ledger.release(["d"]),
            "documents": lambda ledger: ledger.documents(family.plan.id),
            "put": lambda ledger: ledger.put([example(Ledger, family)]),
            "forget": lambda ledger: ledger.forget(family.plan.id, ["k"]),
            "set_fate": lambda ledger: ledger.set_fate(family.plan.id, ["k"], Fate.RETIRED, missing_runs=0),
            "note_missing": lambda ledger: ledger.note_missing(family.plan.id, "o"),
            "note_unchanged": note_unchanged,
            "tally": lambda ledger: ledger.tally(family.plan.id),
            "unvisited": lambda ledger: ledger.unvisited(family.plan.id, job_id),
            "history": lambda ledger: ledger.history(family.plan.id),
        },
        Turns: {"take": take_turn},
        AuditLog: {"remove_before": remove_old_acts},
        DiscardedBodies: {
            "note": lambda bodies: bodies.note(["a" * 64], MOMENT),
            "due": lambda bodies: bodies.due(LATER, 5),
            "forget": lambda bodies: bodies.forget("a" * 64, LATER),
        },
        NumberedJobs: {
            "give_number": lambda jobs: jobs.give_number(example(NumberedJobs, family)),
            "with_job": lambda jobs: jobs.with_job(tenant_id, 1),
            "newest": lambda jobs: jobs.newest(tenant_id, limit=5, offset=2),
            "unfinished_of": lambda jobs: jobs.unfinished_of(tenant_id, "o", ["crawl"]),
            "to_be_filed": lambda jobs: jobs.to_be_filed(5),
            "set_filed": lambda jobs: jobs.set_filed(1, False),
            "existing": lambda jobs: jobs.existing([1, 2]),
        },
        VectorStoreFiles: {
            "listed": lambda files: files.listed(tenant_id, "c", file_status == "failed", limit=5),
            "counts": lambda files: files.counts(tenant_id, ["c", "d"]),
            "batch_counts": lambda files: files.batch_counts(tenant_id, "b"),
            "batch_jobs": lambda files: files.batch_jobs(tenant_id, "b"),
            "cancel_unread": cancel_unread,
            "documents_of": lambda files: files.documents_of(tenant_id, "f"),
            "with_attributes": lambda files: files.with_attributes(tenant_id, "c"),
            "by_documents": lambda files: files.by_documents(tenant_id, ["d"]),
        },
        Responses: {"forget_conversation": lambda responses: responses.forget_conversation(tenant_id, "c")},
        Watches: {
            "any_due": lambda watches: watches.any_due(LATER),
            "lease_due": lease_watches,
            "lease_one": lambda watches: watches.lease_one(family.watch, "l", now=MOMENT, until=LATER),
            "renew_lease": lambda watches: watches.renew_lease([family.watch.id], "l", LATER),
            "settle": lambda watches: watches.settle(family.watch.id, "l", failures=1),
            "free_leases": lambda watches: watches.free_leases(MOMENT),
            "lock_news": lambda watches: watches.lock_news(tenant_id),
            "escalate": lambda watches: watches.escalate([family.watch.id], LATER),
            "hurry": lambda watches: watches.hurry([family.watch.id], MOMENT),
            "pending_jobs": lambda watches: watches.pending_jobs(),
        },
        WatchItems: {
            "scores": lambda items: items.scores(tenant_id, ["u"]),
            "known": lambda items: items.known(family.watch.id, ["k"], ["u"], ["e"]),
            "elsewhere": lambda items: items.elsewhere(tenant_id, family.watch.id, ["u"], ["f"]),
            "indexed": lambda items: items.indexed(tenant_id, ["u"]),
            "change": lambda items: items.change(family.watch.id, "k", updates=1),
            "rehash": lambda items: items.rehash(family.watch.id, [("k", "e")]),
            "waiting": lambda items: items.waiting(5),
            "enqueue": lambda items: items.enqueue(family.watch.id, ["k"], job_id),
            "remove_old": lambda items: items.remove_old(MOMENT),
        },
        Stories: {
            "recent": lambda stories: stories.recent(tenant_id, MOMENT, 5),
            "by_ids": lambda stories: stories.by_ids(tenant_id, ["s"]),
            "sites": lambda stories: stories.sites("s", MOMENT),
            "watches": lambda stories: stories.watches("s"),
            "end_quiet": lambda stories: stories.end_quiet(breaking_before=MOMENT, other_before=MOMENT, now=LATER),
            "remove_old": lambda stories: stories.remove_old(MOMENT),
        },
        Throttles: {
            "read": lambda throttles: throttles.read(),
            "put": lambda throttles: throttles.put(Throttle(level=ThrottleLevel.SLOW)),
        },
        Outbox: {
            "any_unpublished": lambda outbox: outbox.any_unpublished(),
            "unpublished": lambda outbox: outbox.unpublished(5),
            "mark_published": lambda outbox: outbox.mark_published(["e"], MOMENT),
            "remove_before": remove_published,
        },
        Webhooks: {
            "listening": lambda webhooks: webhooks.listening([tenant_id]),
            "lock": lambda webhooks: webhooks.lock([family.webhook.id]),
            "change": lambda webhooks: webhooks.change(family.webhook.id, next_attempt_at=MOMENT),
            "any_due": lambda webhooks: webhooks.any_due(LATER),
            "due": lambda webhooks: webhooks.due(LATER, 5, ["h"]),
            "lease": lambda webhooks: webhooks.lease(family.webhook.id, "l", LATER, LATER),
            "hold": lambda webhooks: webhooks.hold(family.webhook.id, "l", LATER),
            "free_leases": lambda webhooks: webhooks.free_leases(),
            "of_lost_jobs": lambda webhooks: webhooks.of_lost_jobs(MOMENT, 5),
            "open_circuits": lambda webhooks: webhooks.open_circuits(),
        },
        Deliveries: {
            "head": lambda deliveries: deliveries.head(family.webhook.id),
            "change": lambda deliveries: deliveries.change("d", attempts=1),
            "end_pending": lambda deliveries: deliveries.end_pending(family.webhook.id, "r"),
            "replays": lambda deliveries: deliveries.replays(family.webhook.id, "e"),
            "pending_count": lambda deliveries: deliveries.pending_count(),
            "remove_before": remove_old_deliveries,
        },
        CrawledPages: {
            "of_scope": lambda pages: pages.of_scope("s"),
            "put": lambda pages: pages.put([page]),
            "confirm": lambda pages: pages.confirm("s", job_id, [seen]),
            "known": lambda pages: pages.known("s", ["h"]),
            "known_elsewhere": lambda pages: pages.known_elsewhere(tenant_id, "s", ["h"]),
            "by_hashes": lambda pages: pages.by_hashes("s", ["h"]),
            "first_with_content": lambda pages: pages.first_with_content("s", job_id, ["c"]),
            "of_job": read_pages,
            "doubtful_duplicates": lambda pages: pages.doubtful_duplicates(job_id),
            "with_content": lambda pages: pages.with_content("s", job_id, ["h"]),
            "acquit": lambda pages: pages.acquit("s", ["h"]),
            "listing": lambda pages: pages.listing("s", job_id),
            "move_scope": lambda pages: pages.move_scope("s", "t"),
            "depths": lambda pages: pages.depths("s", ["h"]),
            "remove": lambda pages: pages.remove("s", ["x"]),
            "remove_scope": lambda pages: pages.remove_scope("x"),
            "sweep": lambda pages: pages.sweep("x", job_id),
        },
        Documents: {
            "by_keys": lambda documents: documents.by_keys(tenant_id, ["k"]),
            "by_ids": lambda documents: documents.by_ids(["d"]),
            "first_with_content": lambda documents: documents.first_with_content(tenant_id, ["c"]),
            "change": lambda documents: documents.change(document.id, title="t"),
            "hand_over": lambda documents: documents.hand_over(document.id, "p"),
            "make_due": lambda documents: documents.make_due(MOMENT, after="", limit=5),
            "lease_due": lease_due,
            "settle_index": lambda documents: documents.settle_index(document),
            "any_due": lambda documents: documents.any_due(MOMENT),
            "hand_back": lambda documents: documents.hand_back(document, LATER),
            "free_leases": lambda documents: documents.free_leases(MOMENT),
            "renew_lease": lambda documents: documents.renew_lease([document.id], "l", LATER),
            "postpone_index": lambda documents: documents.postpone_index(document, LATER),
            "due_count": lambda documents: documents.due_count(),
            "oldest_due": lambda documents: documents.oldest_due(),
            "adopt_duplicates": lambda documents: documents.adopt_duplicates(document.id),
            "languages": lambda documents: documents.languages(tenant_id),
        },
        DocumentLogs: {"of_document": lambda logs: logs.of_document(document.id)},
        DocumentVersions: {
            "of_document": lambda versions: versions.of_document(document.id),
            "of_documents": lambda versions: versions.of_documents([document.id]),
            "at": lambda versions: versions.at(tenant_id, [document.id], MOMENT),
            "end": lambda versions: versions.end([document.id], MOMENT),
            "reopen": lambda versions: versions.reopen(document.id, 1),
            "holders": lambda versions: versions.holders(tenant_id, "h"),
        },
        Chunks: {
            "of_document": lambda chunks: chunks.of_document(document.id, version=1),
            "outlines": lambda chunks: chunks.outlines([document.id]),
            "by_ids": lambda chunks: chunks.by_ids(tenant_id, ["c"]),
            "neighbours": lambda chunks: chunks.neighbours(document.id, 1, [1, 2]),
            "relabel": lambda chunks: chunks.relabel("m"),
            "remove_version": lambda chunks: chunks.remove_version(document.id, 1),
        },
        Embeddings: {
            "known": lambda embeddings: embeddings.known("m", ["h"]),
            "add_new": lambda embeddings: embeddings.add_new([example(Embeddings, family)]),
        },
        Tags: {
            "by_names": lambda tags: tags.by_names(tenant_id, ["c"]),
            "attach": use_tags,
            "of_documents": lambda tags: tags.of_documents([document.id]),
            "detach": lambda tags: tags.detach(document.id, "t"),
            "documents_with": lambda tags: tags.documents_with("t"),
            "usage": lambda tags: tags.usage(tenant_id),
        },
        Contents: {
            "put": lambda contents: contents.put(example(Contents, family)),
            "bodies": lambda contents: contents.bodies(tenant_id, ["h"]),
            "remove": lambda contents: contents.remove(tenant_id, "h"),
        },
        Generations: {
            "all": lambda generations: generations.all(),
            "set_state": lambda generations: generations.set_state("g", GenerationState.LIVE, live_at=MOMENT),
            "remove": lambda generations: generations.remove("g"),
            "epoch": lambda generations: generations.epoch(tenant_id),
            "advance": lambda generations: generations.advance([tenant_id]),
        },
        Vocabulary: {
            "learn": lambda vocabulary: vocabulary.learn(tenant_id, ["w"]),
            "words": lambda vocabulary: vocabulary.words(tenant_id, 5),
        },
        SiteMemories: {
            "recall": lambda memories: memories.recall(tenant_id, "h"),
            "newest_of_host": lambda memories: memories.newest_of_host(tenant_id, "h"),
            "put": lambda memories: memories.put(memory),
            "remove_scope": lambda memories: memories.remove_scope("x"),
        },
    }


@pytest.fixture
async def recorded(settings: Settings) -> Sequence[Recorded]:
    """Every statement of every method of every repository, run on a real SQLite."""
    database, recorder = open_database(settings), Recorder()
    await schema.upgrade(database)
    event.listen(database.engine.sync_engine, "before_execute", recorder)
    async with database.writing() as connection:
        family = await add_family(connection)
        own = own_calls(family)
        for repository in repositories():
            calls = {**shared_calls(repository, family), **own.get(repository, {})}
            assert methods_of(repository) - methods_of(Repository) == set(own.get(repository, {})), repository
            for name, call in calls.items():
                with recorder.during(f"{repository.__name__}.{name}"):
                    await call(repository(connection))
    await database.close()
    return recorder.recorded


async def test_every_statement_of_every_repository_compiles_everywhere(recorded: Sequence[Recorded]) -> None:
    methods = {each.method for each in recorded}
    assert {f"{Jobs.__name__}.claim", f"{Frontier.__name__}.lease", f"{Documents.__name__}.page"} <= methods
    assert len(methods) > 200
    for each in recorded:
        for dialect in DIALECTS.values():
            assert re.match(r"(SELECT|INSERT|UPDATE|DELETE)\b", each.compile(dialect)), each.method


async def test_rows_that_must_be_locked_are_locked_on_every_server(recorded: Sequence[Recorded]) -> None:
    """SQL Server has no FOR UPDATE; SQLAlchemy leaves it out there without a word, and hints must say it."""
    keyless = ("Jobs.lock", "Jobs.orphans")  # FOR NO KEY UPDATE
    locking = [
        each for each in recorded if "FOR UPDATE" in each.compile(DIALECTS["postgresql"]) or each.method in keyless
    ]
    locking = [each for each in locking if "UPDATE" in each.compile(DIALECTS["postgresql"])]
    assert {each.method for each in locking} == {
        "Jobs.lock",
        "Jobs.claim",
        "Jobs.orphans",
        "Frontier.lease",
        "Documents.lease_due",
        "Watches.lease_due",
        "Outbox.unpublished",
        "SharedCrawls.grant",
        "Webhooks.lock",
    }
    for each in locking:
        skips = "SKIP LOCKED" in each.compile(DIALECTS["postgresql"])
        assert each.compile(DIALECTS["mysql"]).endswith("FOR UPDATE SKIP LOCKED" if skips else "FOR UPDATE")
        hints = "WITH (UPDLOCK, READPAST, ROWLOCK)" if skips else "WITH (UPDLOCK, ROWLOCK)"
        assert hints in each.compile(DIALECTS["mssql"]), each.method
