"""What every database must do: SQLite, PostgreSQL and MariaDB/MySQL through one suite."""

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import MISSING, fields, replace
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import ColumnElement, UniqueConstraint, and_, func, insert, or_, select
from sqlalchemy.exc import StatementError
from sqlalchemy.ext.asyncio import AsyncConnection
from tests import servers
from tests.examples import (
    LATER,
    MOMENT,
    URL,
    AnyRepository,
    Family,
    add_family,
    example,
    new_hash,
    repositories,
    table_of,
    unique,
    with_unique_names,
)

from scrubjay.errors import Conflict, NotFound
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Tag
from scrubjay.model.crawl_spec import CrawlStrategy
from scrubjay.model.crawling import CrawledPage, FrontierItem, FrontierStatus, PageSeen, SiteMemory
from scrubjay.model.ids import new_id
from scrubjay.model.job import Job, JobEvent, JobPriority, JobState, Worker
from scrubjay.model.plan import LedgerEntry, Plan
from scrubjay.model.tenant import ApiKey, Tenant
from scrubjay.settings import Settings
from scrubjay.storage import schema
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.crawled_pages import CrawledPages
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.frontier import Frontier
from scrubjay.storage.job_events import JobEvents
from scrubjay.storage.jobs import Jobs
from scrubjay.storage.keys import ApiKeys
from scrubjay.storage.ledger import Ledger
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.sign_ins import SignIns
from scrubjay.storage.site_memories import SiteMemories
from scrubjay.storage.tags import DocumentTagRow, Tags
from scrubjay.storage.tenants import Tenants
from scrubjay.storage.versions import DocumentVersions
from scrubjay.storage.watches import Watches, WatchItems
from scrubjay.storage.webhooks import Webhooks
from scrubjay.storage.workers import Workers

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPOSITORIES = repositories()
OWNED = [repository for repository in REPOSITORIES if "tenant_id" in repository.table.c]
NAMED = with_unique_names()
PATIENCE_SECONDS = 40  # a wait for a lock is a failure long before MariaDB gives up by itself (50 s)


def by_name(repository: AnyRepository) -> str:
    return repository.__name__


@pytest.fixture(
    scope="module",
    params=[
        "sqlite",
        pytest.param("postgresql", marks=pytest.mark.postgres),
        # In `make test`, the tests of jobs stand for MariaDB (`on_every_database`).
        pytest.param("mysql", marks=[pytest.mark.mysql, pytest.mark.slow]),
    ],
)
def database_settings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings for a new database, shared by this module: every test brings a tenant of its own."""
    home = tmp_path_factory.mktemp("home")
    with ExitStack() as stack:
        url = None
        if request.param == "postgresql":
            url = stack.enter_context(servers.fresh_postgres_database())
        elif request.param == "mysql":
            url = stack.enter_context(servers.fresh_mysql_database())
        yield Settings(home=home, database_url=url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(database_settings: Settings) -> AsyncIterator[Database]:
    """Shared by this module, because every engine compiles all statements anew."""
    database = open_database(database_settings)
    await schema.require_current(database, auto_migrate=True)
    yield database
    await database.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def databases(database_settings: Settings, database: Database) -> AsyncIterator[Sequence[Database]]:
    """What two processes would have: an engine each. SQLite has one writing process, so one."""
    if database.dialect == "sqlite":
        yield [database]
        return
    other = open_database(database_settings)
    yield [database, other]
    await other.close()


@pytest_asyncio.fixture(loop_scope="module")
async def family(database: Database) -> Family:
    async with database.writing() as connection:
        return await add_family(connection)


@pytest.fixture
def kind() -> str:
    """A kind of job that no other test has, because workers claim jobs of all tenants."""
    return f"kind-{secrets.token_hex(6)}"


async def together(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """All results, or a TimeoutError when somebody waits for a lock that nobody releases."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await asyncio.gather(*work)


async def save(database: Database, repository: AnyRepository, *items: Any) -> None:
    async with database.writing() as connection:
        for item in items:
            await repository(connection).add(item)


def identity(repository: AnyRepository, item: Any) -> Sequence[ColumnElement[bool]]:
    """Conditions that only this item fulfils."""
    table = table_of(repository)
    names = {field.name for field in fields(item)}
    candidates = [table.primary_key, *(each for each in table.constraints if isinstance(each, UniqueConstraint))]
    for constraint in candidates:
        columns = list(constraint.columns)
        if names.issuperset(column.name for column in columns):
            return [column == getattr(item, column.name) for column in columns]
    assert repository is DocumentLogs
    return [table.c.document_id == item.document_id, table.c.message == item.message]


def key_of(repository: AnyRepository, item: Any) -> Sequence[str]:
    return [getattr(item, name) for name in repository.key]


def a_change(repository: AnyRepository, item: Any) -> Mapping[str, Any]:
    """Another value for one field that is not part of any key."""
    for name in ("created_at", "updated_at", "at", "last_seen_at", "seen_at", "changed_at", "last_modified_at"):
        if hasattr(item, name):
            return {name: LATER + timedelta(seconds=1)}
    raise AssertionError(f"{repository.__name__} has no time to change")


async def read_back(connection: AsyncConnection, repository: AnyRepository, item: Any) -> Any:
    return await repository(connection).find(*identity(repository, item))


@pytest.mark.parametrize("repository", REPOSITORIES, ids=by_name)
async def test_what_is_written_is_read_back_equal(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    item = example(repository, family)
    for field in fields(item):  # the example must be able to show that a field was lost
        assert getattr(item, field.name) is not None
        assert field.default is MISSING or getattr(item, field.name) != field.default
    await save(database, repository, item)
    async with database.reading() as connection:
        stored = await read_back(connection, repository, item)
    assert stored == item
    for field in fields(item):
        wrote, read = getattr(item, field.name), getattr(stored, field.name)
        # 1 == True and "a" == Enum.A, so equality alone is not enough.
        assert type(read) is type(wrote), field.name
        if isinstance(wrote, tuple):
            assert [type(part) for part in read] == [type(part) for part in wrote]
        if isinstance(wrote, datetime):
            assert read.utcoffset() == timedelta(0)


@pytest.mark.parametrize("repository", REPOSITORIES, ids=by_name)
async def test_what_may_be_absent_stays_absent(database: Database, family: Family, repository: AnyRepository) -> None:
    table = table_of(repository)
    item = example(repository, family)
    absent = {field.name: None for field in fields(item) if table.c[field.name].nullable}
    item = replace(item, **absent)
    await save(database, repository, item)
    async with database.reading() as connection:
        assert await read_back(connection, repository, item) == item
        empty = [table.c[name].is_(None) for name in absent]
        assert await repository(connection).count(*identity(repository, item), *empty) == 1


@pytest.mark.parametrize("repository", REPOSITORIES, ids=by_name)
async def test_pages_give_everything_once_and_count_it(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    items = [example(repository, family) for _ in range(5)]
    these = or_(*(and_(*identity(repository, item)) for item in items))
    async with database.writing() as connection:
        nouns = repository(connection)
        await nouns.add(example(repository, family))
        assert await nouns.count(these) == 0
        await nouns.add_many(items)
        pages = [await nouns.page(these, limit=2, offset=offset) for offset in (0, 2, 4, 6)]
    assert [(page.total, page.limit, page.offset) for page in pages] == [(5, 2, 0), (5, 2, 2), (5, 2, 4), (5, 2, 6)]
    assert [(len(page.items), page.has_more) for page in pages] == [(2, True), (2, True), (1, False), (0, False)]
    seen = [item for page in pages for item in page.items]
    assert all(seen.count(item) == 1 for item in items)


@pytest.mark.parametrize("repository", OWNED, ids=by_name)
async def test_pages_of_a_tenant_hold_nothing_of_others(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    async with database.writing() as connection:
        nouns = repository(connection)
        before = await nouns.count(nouns.of_tenant(family.tenant_id))
        await nouns.add(example(repository, await add_family(connection)))
        own = example(repository, family)
        await nouns.add(own)
        page = await nouns.page(nouns.of_tenant(family.tenant_id))
    assert page.total == len(page.items) == before + 1
    assert own in page.items
    assert not page.has_more


BY_KEY = [repository for repository in OWNED if repository is not DocumentLogs]  # whose lines have no name


@pytest.mark.parametrize("repository", BY_KEY, ids=by_name)
async def test_an_item_is_got_changed_and_deleted_by_its_key(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    item, bystander = example(repository, family), example(repository, family)
    change = a_change(repository, item)
    await save(database, repository, item, bystander)
    async with database.writing() as connection:
        nouns = repository(connection)
        assert await nouns.get(family.tenant_id, *key_of(repository, item)) == item
        changed = await nouns.update(family.tenant_id, *key_of(repository, item), **change)
        assert changed == replace(item, **change) != item
    async with database.writing() as connection:
        nouns = repository(connection)
        assert await nouns.get(family.tenant_id, *key_of(repository, item)) == changed
        assert await nouns.delete(family.tenant_id, *key_of(repository, item)) is True
        assert await nouns.delete(family.tenant_id, *key_of(repository, item)) is False
    async with database.reading() as connection:
        with pytest.raises(NotFound):
            await repository(connection).get(family.tenant_id, *key_of(repository, item))
        assert await read_back(connection, repository, bystander) == bystander


@pytest.mark.parametrize("repository", BY_KEY, ids=by_name)
async def test_what_another_tenant_has_is_not_found_not_changed_and_not_deleted(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    item = example(repository, family)
    await save(database, repository, item)
    async with database.writing() as connection:
        stranger = (await add_family(connection)).tenant_id
        nouns = repository(connection)
        with pytest.raises(NotFound):
            await nouns.get(stranger, *key_of(repository, item))
        with pytest.raises(NotFound):
            await nouns.update(stranger, *key_of(repository, item), **a_change(repository, item))
        assert await nouns.delete(stranger, *key_of(repository, item)) is False
    async with database.reading() as connection:
        assert await read_back(connection, repository, item) == item


async def test_the_same_key_in_two_plans_is_two_ledger_entries(database: Database, family: Family) -> None:
    other_plan = Plan(tenant_id=family.tenant_id)
    one = example(Ledger, family)
    two = replace(one, plan_id=other_plan.id)
    await save(database, Plans, other_plan)
    await save(database, Ledger, one, two)
    async with database.writing() as connection:
        ledger = Ledger(connection)
        changed = await ledger.update(family.tenant_id, one.plan_id, one.key_hash, seen_count=77)
        assert changed == replace(one, seen_count=77)
        assert await ledger.get(family.tenant_id, two.plan_id, two.key_hash) == two
        assert await ledger.delete(family.tenant_id, two.plan_id, two.key_hash)
        assert await ledger.get(family.tenant_id, one.plan_id, one.key_hash) == changed


@pytest.mark.parametrize("repository", NAMED, ids=by_name)
async def test_a_name_is_unique_within_its_tenant_only(
    database: Database, family: Family, repository: AnyRepository
) -> None:
    first, name = example(repository, family), unique()
    await save(database, repository, replace(first, name=name))
    with pytest.raises(Conflict):
        await save(database, repository, replace(example(repository, family), name=name))
    second = example(repository, family)
    await save(database, repository, second)
    with pytest.raises(Conflict):
        async with database.writing() as connection:
            await repository(connection).update(family.tenant_id, second.id, name=name)
    async with database.writing() as connection:
        other = await add_family(connection)
        await repository(connection).add(replace(example(repository, other), name=name))
        assert await repository(connection).count(repository.table.c.name == name) == 2


@pytest.mark.parametrize("repository", NAMED, ids=by_name)
async def test_names_are_compared_byte_by_byte(database: Database, family: Family, repository: AnyRepository) -> None:
    names = ["A", "a", "Ä", "ä", "A\u0308", "ß", "ss", " a", "🦜", "🦚", "%", "_"]
    async with database.writing() as connection:
        nouns = repository(connection)
        await nouns.add_many([replace(example(repository, family), name=name) for name in names])
        for name in names:
            page = await nouns.page(nouns.of_tenant(family.tenant_id), repository.table.c.name == name)
            assert [item.name for item in page.items] == [name]


async def test_names_of_tenants_are_unique_and_compared_byte_by_byte(database: Database) -> None:
    suffix = secrets.token_hex(6)
    await save(database, Tenants, Tenant(name=f"A{suffix}"), Tenant(name=f"a{suffix}"))
    with pytest.raises(Conflict):
        await save(database, Tenants, Tenant(name=f"a{suffix}"))


async def test_a_key_hash_is_taken_once(database: Database, family: Family) -> None:
    with pytest.raises(Conflict):
        await save(database, ApiKeys, ApiKey(tenant_id=family.tenant_id, name="x", key_hash=family.key.key_hash))
    async with database.reading() as connection:
        assert await ApiKeys(connection).find_by_hash(family.key.key_hash) == family.key
        assert await ApiKeys(connection).find_by_id(family.key.id) == family.key


async def test_long_addresses_survive(database: Database, family: Family) -> None:
    assert len(URL) == 2048
    item = example(Documents, family)
    await save(database, Documents, item)
    async with database.reading() as connection:
        stored = await Documents(connection).get(family.tenant_id, item.id)
        assert stored.url == stored.parent_url == URL
        assert await Documents(connection).count(Documents.table.c.url == URL, Documents.table.c.id == item.id) == 1


async def test_two_thousand_rows_are_added_at_once(database: Database, family: Family) -> None:
    entries = [
        LedgerEntry(tenant_id=family.tenant_id, plan_id=family.plan.id, key_hash=new_hash(), key=f"🦜{number}")
        for number in range(2000)
    ]
    async with database.writing() as connection:
        await Ledger(connection).add_many(entries)
    async with database.reading() as connection:
        ledger = Ledger(connection)
        page = await ledger.page(ledger.of_tenant(family.tenant_id), limit=5000)
    assert page.total == 2000
    assert {entry.key: entry for entry in page.items} == {entry.key: entry for entry in entries}


async def test_adding_many_with_a_name_that_is_taken_is_a_conflict(database: Database, family: Family) -> None:
    tags = [Tag(tenant_id=family.tenant_id, name="same"), Tag(tenant_id=family.tenant_id, name="same")]
    with pytest.raises(Conflict):
        async with database.writing() as connection:
            await Tags(connection).add_many(tags)


async def test_a_time_without_a_zone_is_refused(database: Database, family: Family) -> None:
    naive = datetime(2024, 1, 1)  # noqa: DTZ001
    with pytest.raises(StatementError, match="time zone"):
        await save(database, Tags, Tag(tenant_id=family.tenant_id, name="x", created_at=naive))
    async with database.reading() as connection:
        assert await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id)) == 0


async def test_a_time_of_another_zone_is_the_same_moment(database: Database, family: Family) -> None:
    abroad = MOMENT.astimezone(timezone(timedelta(hours=-9, minutes=-30)))
    tag = Tag(tenant_id=family.tenant_id, name="abroad", created_at=abroad)
    await save(database, Tags, tag)
    async with database.reading() as connection:
        stored = await Tags(connection).get(family.tenant_id, tag.id)
        assert await Tags(connection).count(Tags.table.c.created_at == abroad, Tags.table.c.id == tag.id) == 1
    assert stored.created_at == MOMENT
    assert stored.created_at.utcoffset() == timedelta(0)


async def test_a_document_takes_everything_of_it_along(database: Database, family: Family) -> None:
    tag = example(Tags, family)
    await save(database, Tags, tag)
    children = [DocumentVersions, Chunks, DocumentLogs]
    async with database.writing() as connection:
        for repository in children:
            await repository(connection).add(example(repository, family))
        await connection.execute(insert(DocumentTagRow).values(document_id=family.document.id, tag_id=tag.id))
    of_document = DocumentTagRow.document_id == family.document.id
    statement = select(func.count()).select_from(DocumentTagRow).where(of_document)
    async with database.reading() as connection:
        assert [await children_of(connection, each, document_id=family.document.id) for each in children] == [1] * 3
        assert (await connection.execute(statement)).scalar_one() == 1
    async with database.writing() as connection:
        await Documents(connection).delete(family.tenant_id, family.document.id)
    async with database.reading() as connection:
        assert [await children_of(connection, each, document_id=family.document.id) for each in children] == [0] * 3
        assert (await connection.execute(statement)).scalar_one() == 0
        assert await Tags(connection).get(family.tenant_id, tag.id) == tag


async def children_of(connection: AsyncConnection, repository: AnyRepository, **parent: str) -> int:
    return await repository(connection).count(*(repository.table.c[name] == value for name, value in parent.items()))


@pytest.mark.parametrize(
    ("parents", "parent", "column", "children"),
    [
        (Plans, "plan", "plan_id", [Operations, Ledger, Webhooks]),
        (Jobs, "job", "job_id", [JobEvents, Frontier]),
        (Webhooks, "webhook", "webhook_id", [Deliveries]),
        (Watches, "watch", "watch_id", [WatchItems]),
        (ApiKeys, "key", "key_id", [SignIns]),
    ],
    ids=lambda value: by_name(value) if isinstance(value, type) else "",
)
async def test_a_deleted_parent_takes_its_children_along(
    database: Database,
    family: Family,
    parents: AnyRepository,
    parent: str,
    column: str,
    children: Sequence[AnyRepository],
) -> None:
    parent_id = getattr(family, parent).id
    async with database.writing() as connection:
        other = await add_family(connection)
        for repository in children:
            await repository(connection).add(example(repository, family))
            await repository(connection).add(example(repository, other))
    async with database.writing() as connection:
        assert all([await children_of(connection, each, **{column: parent_id}) for each in children])
        others = [await children_of(connection, each, **{column: getattr(other, parent).id}) for each in children]
        assert all(others)
        assert await parents(connection).delete(family.tenant_id, parent_id)
    async with database.reading() as connection:
        for repository, number in zip(children, others, strict=True):
            assert await children_of(connection, repository, **{column: parent_id}) == 0
            assert await children_of(connection, repository, **{column: getattr(other, parent).id}) == number


async def test_a_deleted_collection_leaves_its_documents(database: Database, family: Family) -> None:
    document = example(Documents, family)
    await save(database, Documents, document)
    async with database.writing() as connection:
        await Collections(connection).delete(family.tenant_id, family.collection.id)
    async with database.reading() as connection:
        stored = await Documents(connection).get(family.tenant_id, document.id)
    assert stored == replace(document, collection_id=None)


async def test_nothing_belongs_to_a_parent_that_does_not_exist(database: Database, family: Family) -> None:
    orphan = replace(example(Operations, family), plan_id=new_id("cplan"))
    with pytest.raises(Conflict):
        await save(database, Operations, orphan)
    async with database.reading() as connection:
        assert await read_back(connection, Operations, orphan) is None


async def test_leaving_a_writing_transaction_commits_it(database: Database, family: Family) -> None:
    tag = Tag(tenant_id=family.tenant_id, name="kept")
    async with database.writing() as connection:
        await Tags(connection).add(tag)
    async with database.reading() as connection:
        assert await Tags(connection).get(family.tenant_id, tag.id) == tag


async def test_an_exception_rolls_everything_back(database: Database, family: Family) -> None:
    async def change_and_fail() -> None:
        async with database.writing() as connection:
            await Tags(connection).add(Tag(tenant_id=family.tenant_id, name="lost"))
            await Collections(connection).delete(family.tenant_id, family.collection.id)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await change_and_fail()
    async with database.writing() as connection:
        assert await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id)) == 0
        assert await Collections(connection).get(family.tenant_id, family.collection.id) == family.collection


async def test_a_failed_statement_rolls_back_what_came_before_it(database: Database, family: Family) -> None:
    async def add_both() -> None:
        async with database.writing() as connection:
            await Tags(connection).add(Tag(tenant_id=family.tenant_id, name="before"))
            await ApiKeys(connection).add(family.key)

    with pytest.raises(Conflict):
        await add_both()
    async with database.reading() as connection:
        assert await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id)) == 0


async def test_a_reader_that_fails_leaves_its_connection_usable(database: Database, family: Family) -> None:
    for _ in range(30):
        with pytest.raises(NotFound):
            async with database.reading() as connection:
                await Tags(connection).get(family.tenant_id, new_id("tag"))
    await save(database, Tags, Tag(tenant_id=family.tenant_id, name="after"))


async def test_what_a_reader_writes_is_never_kept(database: Database, family: Family) -> None:
    async with database.reading() as connection:
        await Tags(connection).add(Tag(tenant_id=family.tenant_id, name="never"))
    async with database.reading() as connection:
        assert await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id)) == 0


async def test_writers_that_lock_the_row_first_lose_no_increment(databases: Sequence[Database], family: Family) -> None:
    async def increment(database: Database) -> None:
        async with database.writing() as connection:
            job = await Jobs(connection).lock(family.job.id)
            assert job is not None
            await asyncio.sleep(0)
            await Jobs(connection).change(job.id, event_count=job.event_count + 1)

    await together(*(increment(databases[number % len(databases)]) for number in range(50)))
    async with databases[0].reading() as connection:
        assert (await Jobs(connection).get(family.tenant_id, family.job.id)).event_count == 50


async def test_a_reader_beside_a_writer_sees_the_old_state_at_once(database: Database, family: Family) -> None:
    async def look() -> tuple[str, int]:
        async with database.reading() as connection:
            job = await Jobs(connection).get(family.tenant_id, family.job.id)
            return job.kind, await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id))

    async with database.writing() as connection:
        await Jobs(connection).change(family.job.id, kind="changed")
        await Tags(connection).add(Tag(tenant_id=family.tenant_id, name="new"))
        async with asyncio.timeout(5):
            assert await look() == ("example", 0)
    assert await look() == ("changed", 1)


async def test_a_task_that_only_writes_lets_others_have_their_turn(database: Database, family: Family) -> None:
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    others = asyncio.create_task(take_turns())
    for number in range(50):
        await save(database, Tags, Tag(tenant_id=family.tenant_id, name=str(number)))
    others.cancel()
    assert turns >= 49  # the first turn was its start


async def test_a_task_cancelled_while_it_writes_leaves_the_database_usable(database: Database, family: Family) -> None:
    inside = asyncio.Event()

    async def write_and_wait() -> None:
        async with database.writing() as connection:
            await Tags(connection).add(Tag(tenant_id=family.tenant_id, name="half done"))
            inside.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(write_and_wait())
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with asyncio.timeout(5):
        await save(database, Tags, Tag(tenant_id=family.tenant_id, name="half done"))


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("turns", [*range(10), 15, 25, 50, 100, 400])
async def test_a_task_may_be_cancelled_at_any_point(database: Database, family: Family, turns: int, long: bool) -> None:
    """Ends a writer and a reader after some turns of the event loop: in connecting, in a statement, in commit."""

    async def write() -> None:
        async with database.writing(long=long) as connection:
            for number in range(3):
                await Tags(connection).add(Tag(tenant_id=family.tenant_id, name=f"{turns} {number}"))

    async def read() -> None:
        async with database.reading() as connection:
            for _ in range(3):
                await Tags(connection).count()

    tasks = [asyncio.create_task(work()) for work in (write, read, write, read)]
    for _ in range(turns):
        await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    # The second writer finds the names taken when the first got through.
    outcomes = await together(*(settle(task) for task in tasks))
    assert all(outcome is None or isinstance(outcome, asyncio.CancelledError | Conflict) for outcome in outcomes)

    async def count() -> int:
        async with database.reading() as connection:
            return await Tags(connection).count(Tags(connection).of_tenant(family.tenant_id))

    async with asyncio.timeout(5):
        counts = await asyncio.gather(*(count() for _ in range(8)))  # so that every connection has its turn
        # All or nothing; a server may still finish a commit that nobody waits for any more.
        assert set(counts) <= {0, 3}
        await save(database, Tags, Tag(tenant_id=family.tenant_id, name="after"))
        assert await count() in (1, 4)


async def settle(task: asyncio.Task[None]) -> BaseException | None:
    return (await asyncio.gather(task, return_exceptions=True))[0]


def queued(family: Family, kind: str, **changes: Any) -> Job:
    return Job(tenant_id=family.tenant_id, kind=kind, **{"due_at": MOMENT, **changes})


async def test_the_most_urgent_job_is_claimed_first(database: Database, family: Family, kind: str) -> None:
    def after(seconds: int) -> datetime:
        return MOMENT + timedelta(seconds=seconds)

    ordered = [
        queued(family, kind, priority=JobPriority.HIGH, due_at=after(5)),
        queued(family, kind, priority=JobPriority.HIGH, due_at=after(6)),
        queued(family, kind, priority=JobPriority.NORMAL, due_at=after(1)),
        queued(family, kind, priority=JobPriority.NORMAL, due_at=after(2)),
        queued(family, kind, priority=JobPriority.NORMAL, due_at=after(2)),
        queued(family, kind, priority=JobPriority.LOW, due_at=after(0)),
    ]
    await save(database, Jobs, *reversed(ordered[:4]), *ordered[4:])
    worker_id, claimed = new_id("wrk"), []
    for _ in range(4):
        async with database.writing() as connection:
            claimed += await Jobs(connection).claim(worker_id, [kind], 2, LATER)
    assert [job.id for job in claimed] == [job.id for job in ordered]


async def test_a_claimed_job_is_stored_as_it_was_returned(database: Database, family: Family, kind: str) -> None:
    fresh = queued(family, kind, run=3, event_count=7)
    again = queued(family, kind, run=3, event_count=7, started_at=MOMENT)
    worker_id = new_id("wrk")
    await save(database, Jobs, fresh, again)
    async with database.writing() as connection:
        claimed = await Jobs(connection).claim(worker_id, [kind], 10, LATER)
    running = {"state": JobState.RUNNING, "worker_id": worker_id, "run": 4}
    assert {job.id: job for job in claimed} == {
        fresh.id: replace(fresh, **running, started_at=LATER),
        again.id: replace(again, **running, started_at=MOMENT),
    }
    async with database.reading() as connection:
        for job in claimed:
            assert await Jobs(connection).get(family.tenant_id, job.id) == job


async def test_only_due_pending_jobs_of_the_kinds_asked_for_are_claimed(
    database: Database, family: Family, kind: str
) -> None:
    due = queued(family, kind)
    others = [queued(family, kind, state=state) for state in JobState if state is not JobState.PENDING]
    await save(
        database, Jobs, due, *others,
        queued(family, kind, due_at=LATER + timedelta(microseconds=1)), queued(family, kind + "-other"),
    )  # fmt: skip
    async with database.writing() as connection:
        assert await Jobs(connection).claim(new_id("wrk"), [], 10, LATER) == []
        claimed = await Jobs(connection).claim(new_id("wrk"), [kind, "unknown"], 10, LATER)
    assert [job.id for job in claimed] == [due.id]


async def test_a_claim_under_way_leaves_the_other_jobs_to_others(
    databases: Sequence[Database], family: Family, kind: str
) -> None:
    """A database that locked every due job to choose some would leave the other workers idle."""
    if databases[0].dialect == "sqlite":
        pytest.skip("has one writer at a time")
    jobs = [queued(family, kind, due_at=MOMENT + timedelta(seconds=number)) for number in range(300)]
    await save_many(databases[0], Jobs, jobs)
    async with databases[0].writing() as one, databases[1].writing() as two, asyncio.timeout(PATIENCE_SECONDS):
        first = await Jobs(one).claim(new_id("wrk"), [kind], 2, LATER)
        second = await Jobs(two).claim(new_id("wrk"), [kind], 3, LATER)
        assert await Jobs(two).lock(jobs[200].id) is not None  # to pause it, say
    assert [job.id for job in [*first, *second]] == [job.id for job in jobs[:5]]


async def save_many(database: Database, repository: AnyRepository, items: Sequence[Any]) -> None:
    async with database.writing(long=True) as connection:
        await repository(connection).add_many(items)


async def test_no_job_is_claimed_twice(databases: Sequence[Database], family: Family, kind: str) -> None:
    jobs = [queued(family, kind) for _ in range(200)]
    async with databases[0].writing() as connection:
        await Jobs(connection).add_many(jobs)

    async def claim_all(database: Database) -> list[tuple[str, int]]:
        worker_id, claimed = new_id("wrk"), []
        while True:
            async with database.writing() as connection:
                batch = await Jobs(connection).claim(worker_id, [kind], 3, LATER)
                left = await Jobs(connection).count(Jobs.table.c.kind == kind, Jobs.table.c.state == JobState.PENDING)
            claimed += [(job.id, job.run) for job in batch]
            if not left:
                return claimed

    claimers = [claim_all(databases[number % len(databases)]) for number in range(8)]
    claimed = Counter(itertools.chain.from_iterable(await together(*claimers)))
    assert claimed == Counter({(job.id, 1): 1 for job in jobs})


async def test_workers_that_claim_and_finish_jobs_do_not_block_each_other(
    databases: Sequence[Database], family: Family, kind: str
) -> None:
    """The whole traffic of the engine at once: submit, claim, checkpoint, log, finish, beat, look for orphans."""
    workers = [Worker(host="h", pid=number, concurrency=1) for number in range(6)]
    await save(databases[0], Workers, *workers)
    places = list(zip(itertools.cycle(databases), workers))
    submitted, finished = asyncio.Event(), asyncio.Event()
    done: list[str] = []

    async def submit_all() -> None:
        await asyncio.gather(*(submit_some(database, family, kind, 20) for database, _ in places[:3]))
        submitted.set()

    async def work_until_done() -> None:
        for ids in await asyncio.gather(*(work(database, worker, kind, submitted) for database, worker in places)):
            done.extend(ids)
        finished.set()

    await together(
        submit_all(),
        work_until_done(),
        *(look_after(database, worker, kind, finished) for database, worker in places[:4]),
    )
    assert len(set(done)) == len(done) == 60
    async with databases[0].reading() as connection:
        for job_id in done:
            events = await JobEvents(connection).after(job_id, 0)
            assert [event.sequence for event in events] == [1, 2, 3, 4, 5]


async def submit_some(database: Database, family: Family, kind: str, count: int) -> None:
    for _ in range(count):
        async with database.writing() as connection:
            job = queued(family, kind, event_count=1)
            await Jobs(connection).add(job)
            await JobEvents(connection).append(job.id, [("job.submitted", {}, MOMENT)])


async def work(database: Database, worker: Worker, kind: str, submitted: asyncio.Event) -> list[str]:
    """Run jobs until there are none, and return the ids of those that were finished."""
    finished = []
    while True:
        nothing_comes = submitted.is_set()
        async with database.writing() as connection:
            batch = await Jobs(connection).claim(worker.id, [kind], 2, LATER)
        for job in batch:
            await step(database, job, crashes=0)
            await step(database, job, state=JobState.COMPLETED, finished_at=LATER, worker_id=None)
            finished.append(job.id)
        if not batch and nothing_comes:
            return finished
        if not batch:
            await asyncio.sleep(0.005)


async def step(database: Database, job: Job, **changes: Any) -> None:
    async with database.writing() as connection:
        assert await Jobs(connection).change_held(job.id, job.run, new_events=2, **changes)
        await JobEvents(connection).append(job.id, [("job.log", {}, LATER)] * 2)


async def look_after(database: Database, worker: Worker, kind: str, finished: asyncio.Event) -> None:
    while not finished.is_set():
        async with database.writing() as connection:
            assert await Workers(connection).beat(worker.id, utc_now())
            assert not [job for job in await Jobs(connection).orphans() if job.kind == kind]
        await asyncio.sleep(0.005)


async def claimed_job(database: Database, family: Family, kind: str) -> Job:
    await save(database, Jobs, queued(family, kind))
    async with database.writing() as connection:
        (job,) = await Jobs(connection).claim(new_id("wrk"), [kind], 1, LATER)
    return job


async def test_only_the_run_that_holds_a_job_may_change_it(database: Database, family: Family, kind: str) -> None:
    job = await claimed_job(database, family, kind)
    async with database.writing() as connection:
        jobs = Jobs(connection)
        assert not await jobs.change_held(job.id, job.run - 1, crashes=9)
        assert not await jobs.change_held(job.id, job.run + 1, crashes=9, new_events=3)
        assert not await jobs.change_held(new_id("job"), job.run, crashes=9)
        assert await jobs.get(family.tenant_id, job.id) == job
        assert await jobs.change_held(job.id, job.run)  # true although nothing is different afterwards
        assert await jobs.change_held(job.id, job.run, checkpoint={"at": "🦜"}, new_events=2)
        assert await jobs.get(family.tenant_id, job.id) == replace(
            job, checkpoint={"at": "🦜"}, event_count=job.event_count + 2
        )


@pytest.mark.parametrize("state", [state for state in JobState if state is not JobState.RUNNING])
async def test_a_job_that_does_not_run_is_held_by_nobody(
    database: Database, family: Family, kind: str, state: JobState
) -> None:
    job = await claimed_job(database, family, kind)
    async with database.writing() as connection:
        await Jobs(connection).change(job.id, state=state)
        assert not await Jobs(connection).change_held(job.id, job.run, crashes=9)
        assert (await Jobs(connection).get(family.tenant_id, job.id)).crashes == 0


async def test_events_have_no_gaps_and_no_doubles(databases: Sequence[Database], family: Family, kind: str) -> None:
    job = await claimed_job(databases[0], family, kind)

    async def append(number: int) -> None:
        async with databases[number % len(databases)].writing() as connection:
            count = 1 + number % 3
            assert await Jobs(connection).change_held(job.id, job.run, new_events=count)
            events = [("job.log", {"from": number, "part": part, "🦜": "ß"}, LATER) for part in range(count)]
            await JobEvents(connection).append(job.id, events)

    await together(*(append(number) for number in range(20)))
    async with databases[0].reading() as connection:
        events = await JobEvents(connection).after(job.id, 0)
        total = (await Jobs(connection).get(family.tenant_id, job.id)).event_count
        assert list(await JobEvents(connection).after(job.id, 10, limit=5)) == list(events[10:15])
    assert [event.sequence for event in events] == list(range(1, total + 1))
    first = {"from": events[0].payload["from"], "part": 0, "🦜": "ß"}
    assert events[0] == JobEvent(job_id=job.id, sequence=1, type="job.log", payload=first, at=LATER)
    # Those of one call stay together, in their order.
    parts = [(event.payload["from"], event.payload["part"]) for event in events]
    assert sorted(parts) == [(number, part) for number in range(20) for part in range(1 + number % 3)]
    grouped = [(number, [part for _, part in group]) for number, group in itertools.groupby(parts, lambda p: p[0])]
    assert sorted(grouped) == [(number, list(range(1 + number % 3))) for number in range(20)]


async def test_a_rolled_back_append_leaves_no_gap(database: Database, family: Family, kind: str) -> None:
    job = await claimed_job(database, family, kind)

    async def append(*, fail: bool) -> None:
        async with database.writing() as connection:
            await Jobs(connection).change_held(job.id, job.run, new_events=1)
            await JobEvents(connection).append(job.id, [("job.log", {}, LATER)])
            if fail:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await append(fail=True)
    await append(fail=False)
    async with database.reading() as connection:
        events = await JobEvents(connection).after(job.id, 0)
    assert [event.sequence for event in events] == [job.event_count + 1]


async def test_orphans_are_running_jobs_whose_worker_is_not_registered(
    database: Database, family: Family, kind: str
) -> None:
    alive, gone = Worker(host="h", pid=1, concurrency=1), Worker(host="h", pid=2, concurrency=1)
    await save(database, Workers, alive, gone)
    running = {"state": JobState.RUNNING}
    lost = queued(family, kind, worker_id=gone.id, **running)
    nobodys = queued(family, kind, **running)
    await save(
        database, Jobs, lost, nobodys, queued(family, kind, worker_id=alive.id, **running),
        queued(family, kind, worker_id=gone.id, state=JobState.COMPLETED), queued(family, kind),
    )  # fmt: skip

    async def orphans() -> set[str]:
        async with database.writing() as connection:
            return {job.id for job in await Jobs(connection).orphans() if job.kind == kind}

    assert await orphans() == {nobodys.id}
    async with database.writing() as connection:
        await Workers(connection).remove([gone.id])
        assert not await Workers(connection).beat(gone.id, LATER)
        assert await Workers(connection).beat(alive.id, LATER)
        assert alive.id in {worker.id for worker in await Workers(connection).all()}
    assert await orphans() == {lost.id, nobodys.id}
    async with database.reading() as connection:
        assert await Jobs(connection).orphans_exist()


async def test_two_who_look_for_orphans_do_not_get_the_same(
    databases: Sequence[Database], family: Family, kind: str
) -> None:
    jobs = [queued(family, kind, state=JobState.RUNNING) for _ in range(20)]
    await save(databases[0], Jobs, *jobs)

    async def adopt(database: Database) -> list[str]:
        async with database.writing() as connection:
            mine = [job for job in await Jobs(connection).orphans() if job.kind == kind]
            await asyncio.sleep(0.02)
            for job in mine:
                await Jobs(connection).change(job.id, state=JobState.PENDING)
            return [job.id for job in mine]

    adopted = await together(*(adopt(database) for database in databases * 3))
    assert sorted(itertools.chain.from_iterable(adopted)) == sorted(job.id for job in jobs)


async def test_a_unique_key_names_one_job_ever(database: Database, family: Family, kind: str) -> None:
    job = queued(family, kind, unique_key=unique("key"))
    await save(database, Jobs, job, queued(family, kind), queued(family, kind))  # those without a key are many
    with pytest.raises(Conflict):
        await save(database, Jobs, queued(family, kind, unique_key=job.unique_key))
    async with database.reading() as connection:
        assert await Jobs(connection).find_by_unique_key(str(job.unique_key)) == job
        assert await Jobs(connection).find_by_id(job.id) == job


async def test_what_is_asked_of_jobs_is_read_in_one_go(database: Database, family: Family, kind: str) -> None:
    job = await claimed_job(database, family, kind)
    async with database.reading() as connection:
        asked = await Jobs(connection).requests_of([job.id, family.job.id, new_id("job")])
        assert await Jobs(connection).requests_of([]) == {}
    assert asked == {job.id: (1, JobState.RUNNING, None), family.job.id: (0, JobState.PAUSED, None)}


async def test_jobs_that_finished_long_ago_are_found_oldest_first(
    database: Database, family: Family, kind: str
) -> None:
    old = [
        queued(family, kind, state=state, finished_at=datetime(2001, 1, day, tzinfo=MOMENT.tzinfo))
        for day, state in [(3, JobState.FAILED), (1, JobState.COMPLETED), (2, JobState.CANCELLED)]
    ]
    fresh = queued(family, kind, state=JobState.COMPLETED, finished_at=LATER)
    await save(database, Jobs, *old, fresh)
    async with database.reading() as connection:
        found = await Jobs(connection).finished_before(datetime(2002, 1, 1, tzinfo=MOMENT.tzinfo), 2)
    assert [job.id for job in found] == [old[1].id, old[2].id]


async def test_sign_ins_are_valid_until_they_expire_and_used_once(database: Database, family: Family) -> None:
    sign_in = replace(example(SignIns, family), kind="link")
    await save(database, SignIns, sign_in)
    async with database.writing() as connection:
        sign_ins = SignIns(connection)
        assert await sign_ins.find_valid(sign_in.token_hash, "link", MOMENT) == sign_in
        assert await sign_ins.find_valid(sign_in.token_hash, "session", MOMENT) is None
        assert await sign_ins.find_valid(sign_in.token_hash, "link", sign_in.expires_at) is None

    async def consume() -> bool:
        async with database.writing() as connection:
            return await SignIns(connection).consume(sign_in.token_hash)

    assert sorted(await together(*(consume() for _ in range(10)))) == [False] * 9 + [True]


async def test_expired_sign_ins_are_deleted_and_counted(database: Database, family: Family) -> None:
    long_ago = datetime(1999, 1, 1, tzinfo=MOMENT.tzinfo)
    expired = [replace(example(SignIns, family), expires_at=long_ago) for _ in range(3)]
    valid = example(SignIns, family)
    await save(database, SignIns, *expired, valid)
    async with database.writing() as connection:
        assert await SignIns(connection).delete_expired(long_ago) == 3
        assert await SignIns(connection).delete_expired(long_ago) == 0
        assert await read_back(connection, SignIns, valid) == valid


def found(family: Family, number: int, **changes: Any) -> FrontierItem:
    return FrontierItem(
        job_id=family.job.id, url_hash=f"{number:064}", url=f"https://example.org/{number}", host="example.org",
        **changes,
    )  # fmt: skip


async def test_only_new_urls_are_added_to_a_frontier(database: Database, family: Family) -> None:
    async with database.writing() as connection:
        other = await add_family(connection)
        frontier = Frontier(connection)
        assert await frontier.add_new([]) == 0
        assert await frontier.add_new([found(family, number) for number in (1, 2, 2, 3, 1)]) == 3
        assert await frontier.add_new([found(family, number) for number in (3, 4)]) == 1
        assert await frontier.add_new([found(other, number) for number in (3, 4)]) == 2
        # Doubles far apart, in different batches of one call.
        assert await frontier.add_new([found(family, number % 600) for number in range(1200)]) == 596
        assert await frontier.count(Frontier.table.c.job_id == family.job.id) == 600


async def lease(database: Database, family: Family, limit: int, **options: Any) -> Sequence[FrontierItem]:
    options = {"now": MOMENT, "until": LATER, **options}
    async with database.writing() as connection:
        return await Frontier(connection).lease(family.job.id, new_id("wrk"), limit=limit, **options)


async def test_a_lease_takes_the_best_or_the_shallowest_first(database: Database, family: Family) -> None:
    facts = [(2, 0.5), (1, 0.1), (1, 0.9), (0, 0.2), (3, 0.9), (0, 0.2)]
    async with database.writing() as connection:
        other = await add_family(connection)
        await Frontier(connection).add_new([found(other, 99, depth=0, score=1.0)])
        await Frontier(connection).add_new(
            [found(family, number, depth=depth, score=score) for number, (depth, score) in enumerate(facts)]
        )
    best = await lease(database, family, 2, strategy=CrawlStrategy.BEST_FIRST)
    assert [item.url_hash for item in best] == [f"{number:064}" for number in (2, 4)]
    rest = await lease(database, family, 10)
    assert [item.url_hash for item in rest] == [f"{number:064}" for number in (3, 5, 1, 0)]
    for item in [*best, *rest]:
        assert (item.status, item.attempts, item.leased_until) == (FrontierStatus.LEASED, 1, LATER)
    assert await lease(database, family, 10) == []


@pytest.mark.parametrize("strategy", list(CrawlStrategy))
async def test_a_lease_under_way_leaves_the_other_urls_to_others(
    databases: Sequence[Database], family: Family, strategy: CrawlStrategy
) -> None:
    if databases[0].dialect == "sqlite":
        pytest.skip("has one writer at a time")
    await save_many(
        databases[0], Frontier, [found(family, number, depth=number, score=-number) for number in range(300)]
    )
    options = {"now": MOMENT, "until": LATER, "strategy": strategy}
    async with databases[0].writing() as one, databases[1].writing() as two, asyncio.timeout(PATIENCE_SECONDS):
        first = await Frontier(one).lease(family.job.id, "one", limit=2, **options)
        second = await Frontier(two).lease(family.job.id, "two", limit=3, **options)
    expected = range(299, 294, -1) if strategy is CrawlStrategy.DFS else range(5)
    assert [item.url_hash for item in [*first, *second]] == [f"{number:064}" for number in expected]


@pytest.mark.parametrize("strategy", list(CrawlStrategy))
async def test_no_url_is_leased_to_two(databases: Sequence[Database], family: Family, strategy: CrawlStrategy) -> None:
    if databases[0].dialect == "mysql" and strategy is CrawlStrategy.DFS:
        pytest.skip("walking an index backwards from two sides, it ends one side, which a crawl does not do")
    async with databases[0].writing() as connection:
        await Frontier(connection).add_new([found(family, number, score=number % 7) for number in range(200)])

    async def lease_all(database: Database) -> list[str]:
        mine: list[str] = []
        while True:
            items = await lease(database, family, 7, strategy=strategy)
            async with database.writing() as connection:
                for item in items:
                    finished = await Frontier(connection).finish(
                        family.job.id, item.url_hash, str(item.lease_id), FrontierStatus.COMPLETED
                    )
                    assert finished
                left = await Frontier(connection).count(
                    Frontier.table.c.job_id == family.job.id,
                    Frontier.table.c.status == FrontierStatus.PENDING,
                )
            mine += [item.url_hash for item in items]
            if not left:
                return mine

    leased = await together(*(lease_all(database) for database in (list(databases) * 8)[:8]))
    assert Counter(itertools.chain.from_iterable(leased)) == Counter({f"{number:064}": 1 for number in range(200)})


async def test_an_expired_lease_is_handed_out_again_and_fences_the_first(database: Database, family: Family) -> None:
    async with database.writing() as connection:
        await Frontier(connection).add_new([found(family, number) for number in range(3)])
    first = await lease(database, family, 2, until=MOMENT + timedelta(seconds=60))
    (third,) = await lease(database, family, 10, now=MOMENT + timedelta(seconds=60))  # not yet: at, not after
    assert third.url_hash not in {item.url_hash for item in first}
    second = await lease(database, family, 10, now=MOMENT + timedelta(seconds=60, microseconds=1))
    assert [item.url_hash for item in second] == [item.url_hash for item in first]
    assert {item.attempts for item in second} == {2}
    url_hash = first[0].url_hash
    async with database.writing() as connection:
        frontier = Frontier(connection)
        old, new = str(first[0].lease_id), str(second[0].lease_id)
        assert not await frontier.finish(family.job.id, url_hash, old, FrontierStatus.COMPLETED)
        assert await read_back(connection, Frontier, second[0]) == second[0]
        assert await frontier.finish(family.job.id, url_hash, new, FrontierStatus.FAILED, "🦜")
        settled = await read_back(connection, Frontier, second[0])
    assert (settled.status, settled.error, settled.leased_until) == (FrontierStatus.FAILED, "🦜", None)
    expired = await lease(database, family, 10, now=LATER + timedelta(days=1))
    assert {item.url_hash for item in expired} == {third.url_hash, second[1].url_hash}


async def test_a_depth_first_lease_takes_the_deepest_and_newest_first(database: Database, family: Family) -> None:
    await save_many(database, Frontier, [found(family, number, depth=number % 3) for number in range(6)])
    taken = await lease(database, family, 3, strategy=CrawlStrategy.DFS)
    assert [item.url_hash for item in taken] == [f"{number:064}" for number in (5, 2, 4)]


async def test_a_lease_can_leave_hosts_out(database: Database, family: Family) -> None:
    hosts = ["slow.example", "fast.example", "slow.example"]
    items = [replace(found(family, number), host=host) for number, host in enumerate(hosts)]
    await save_many(database, Frontier, items)
    taken = await lease(database, family, 3, avoid_hosts=["slow.example"])
    assert [item.host for item in taken] == ["fast.example"]


async def test_settled_urls_stay_settled_and_leased_ones_are_given_back(database: Database, family: Family) -> None:
    await save_many(database, Frontier, [found(family, number) for number in range(4)])
    taken = await lease(database, family, 3)
    async with database.writing() as connection:
        frontier = Frontier(connection)
        done = [(taken[0].url_hash, FrontierStatus.COMPLETED, None), (taken[1].url_hash, FrontierStatus.FAILED, "no")]
        await frontier.settle(family.job.id, done)
        await frontier.release(family.job.id)
        assert await frontier.tally(family.job.id) == {
            FrontierStatus.COMPLETED: 1,
            FrontierStatus.FAILED: 1,
            FrontierStatus.PENDING: 2,
        }


async def test_of_two_addresses_with_one_hash_the_first_is_kept(database: Database, family: Family) -> None:
    first = found(family, 1)
    async with database.writing() as connection:
        assert await Frontier(connection).add_new([first, replace(first, url="http://other.example/")]) == 1
        assert await Frontier(connection).add_new([replace(first, url="http://third.example/")]) == 0
        kept = await Frontier(connection).find(Frontier.table.c.job_id == family.job.id)
    assert kept is not None
    assert kept.url == first.url


def crawled(family: Family, number: int, **facts: Any) -> CrawledPage:
    return CrawledPage(
        scope_id="site_x", url_hash=f"{number:064}", tenant_id=family.tenant_id, job_id=family.job.id,
        url=f"http://example.org/{number}", content=b"text", details=b"details", etag="e", **facts,
    )  # fmt: skip


async def test_a_page_replaces_what_was_known_of_it(database: Database, family: Family) -> None:
    async with database.writing() as connection:
        pages = CrawledPages(connection)
        await pages.put([crawled(family, 1, title="old"), crawled(family, 2)])
        await pages.put([crawled(family, 1, title="new"), crawled(family, 3), crawled(family, 3, title="last")])
        kept = {page.url_hash[-1]: page.title for page in await pages.of_job(family.job.id)}
    assert kept == {"1": "new", "2": None, "3": "last"}


async def test_a_confirmed_page_keeps_its_content_and_belongs_to_the_new_job(
    database: Database, family: Family
) -> None:
    async with database.writing() as connection:
        pages = CrawledPages(connection)
        await pages.put([crawled(family, 1, content_sha256="c"), crawled(family, 2)])
        seen = PageSeen(url_hash=f"{1:064}", depth=4, seen_at=LATER, error_type="timeout", error="slow")
        await pages.confirm("site_x", "job_2", [seen])
        confirmed = await pages.of_job("job_2")
        known = await pages.known("site_x", [f"{1:064}", f"{9:064}"])
        elsewhere = await pages.known_elsewhere(family.tenant_id, "site_y", [f"{1:064}", f"{2:064}", f"{9:064}"])
        assert await pages.known_elsewhere(family.tenant_id, "site_x", [f"{1:064}"]) == {}
        assert await pages.known_elsewhere("ten_other", "site_y", [f"{1:064}"]) == {}
    assert [(page.content, page.depth, page.error_type, page.fetched_at) for page in confirmed] == [
        (b"text", 4, "timeout", LATER)
    ]
    assert {url_hash: (page.etag, page.details) for url_hash, page in known.items()} == {f"{1:064}": ("e", b"details")}
    assert {url_hash: [page.scope_id for page in found] for url_hash, found in elsewhere.items()} == {
        f"{1:064}": ["site_x"]
    }


async def test_the_first_page_with_a_content_is_found_within_its_job(database: Database, family: Family) -> None:
    async with database.writing() as connection:
        pages = CrawledPages(connection)
        await pages.put(
            [crawled(family, 1, content_sha256="c"), crawled(family, 2, content_sha256="c", duplicate_of="1")]
        )
        assert await pages.first_with_content("site_x", family.job.id, ["c", "d"]) == {"c": f"{1:064}"}
        assert await pages.first_with_content("site_x", "job_2", ["c"]) == {}


async def test_a_duplicate_of_what_the_job_has_not_found_is_doubtful(database: Database, family: Family) -> None:
    def of(number: int) -> str:
        return f"{number:064}"

    async with database.writing() as connection:
        pages = CrawledPages(connection)
        await pages.put(
            [
                crawled(family, 1, content_sha256="c"),
                crawled(family, 2, content_sha256="c", duplicate_of=of(1)),
                crawled(family, 3, content_sha256="d", duplicate_of=of(1)),
                crawled(family, 4, content_sha256="e", duplicate_of=of(9)),
                crawled(family, 5, content_sha256="f", duplicate_of=of(6)),
                crawled(family, 6, error_type="http_error"),
            ]
        )
        doubtful = [page.url_hash for page in await pages.doubtful_duplicates(family.job.id)]
        assert doubtful == [of(3), of(4), of(5)]
        assert await pages.with_content("site_x", family.job.id, [of(1), of(2), of(6), of(9)]) == {of(1)}
        await pages.acquit("site_x", [of(4), of(5)])
        assert [page.url_hash for page in await pages.doubtful_duplicates(family.job.id)] == [of(3)]
        assert await pages.doubtful_duplicates(family.job.id, after=of(3)) == []


async def test_a_lease_that_ran_out_is_free_for_others_only(database: Database, family: Family) -> None:
    options: dict[str, Any] = {"now": LATER + timedelta(hours=1), "until": LATER, "limit": 10}
    async with database.writing() as connection:
        frontier = Frontier(connection)
        await frontier.add_new([FrontierItem(job_id=family.job.id, url_hash="1" * 64, url="http://a/", host="a")])
        assert len(await frontier.lease(family.job.id, "one", **options)) == 1
        assert await frontier.lease(family.job.id, "one", **options) == []
        assert len(await frontier.lease(family.job.id, "two", **options)) == 1


async def test_a_site_memory_is_replaced_and_the_newest_of_a_host_is_found(database: Database, family: Family) -> None:
    def memory(scope_id: str, content: bytes, at: datetime) -> SiteMemory:
        return SiteMemory(
            scope_id=scope_id, host="example.org", tenant_id=family.tenant_id, memory=content, updated_at=at
        )

    async with database.writing() as connection:
        memories = SiteMemories(connection)
        for each in (memory("a", b"1", MOMENT), memory("a", b"2", MOMENT), memory("b", b"3", LATER)):
            await memories.put(each)
        of_a_scope = await memories.recall(family.tenant_id, "example.org")
        await memories.put(memory(family.tenant_id, b"4", MOMENT))
        recalled = await memories.recall(family.tenant_id, "example.org")
        newest = await memories.newest_of_host(family.tenant_id, "example.org")
        assert await memories.recall("ten_other", "example.org") is None
        assert await memories.newest_of_host("ten_other", "example.org") is None
    assert (of_a_scope and of_a_scope.memory, newest and newest.memory) == (b"3", b"3")
    assert recalled is not None
    assert recalled.memory == b"4"
