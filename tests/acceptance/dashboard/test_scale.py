"""Why pages stay fast however much there is: they ask the same number of questions, and each is answered by an index.

`bench/dashboard.py` measures the times with 5,000 plans and 100,000 documents; these tests guard what made them short.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, text
from tests.acceptance.dashboard.conftest import SignIn
from tests.acceptance.house import House

from scrubjay.dashboard.documents import COUNTED, ROWS
from scrubjay.model.content import Document, DocumentSource, DocumentStatus, DocumentVersion
from scrubjay.model.ids import new_id
from scrubjay.model.plan import Operation, Plan
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.documents import DocumentQuery
from scrubjay.storage.documents import Documents
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.versions import DocumentVersions

Statement = tuple[str, Any]
NASTY = '<script>alert("x")</script>'


async def fill(house: House, who: Principal, plans: int, documents: int) -> Operation:
    """Plans with a run each; all documents belong to the run that is returned. Names are long, and none is harmless."""
    made = [Plan(tenant_id=who.tenant_id, name=(NASTY + "x" * 250)[:255]) for _ in range(plans)]
    runs = [Operation(tenant_id=who.tenant_id, plan_id=plan.id) for plan in made]
    each = [
        Document(
            tenant_id=who.tenant_id,
            natural_key=new_id("key"),
            url=f"https://example.org/{NASTY}/{number}",
            url_hash=new_id("url"),
            host="www.example.org",
            domain="example.org",
            source=DocumentSource.CRAWL,
            status=DocumentStatus.COMPLETED,
            plan_id=made[0].id,
            operation_id=runs[0].id,
            title=NASTY * 12,
            version=1,
        )
        for number in range(documents)
    ]
    versions = [
        DocumentVersion(
            tenant_id=who.tenant_id, document_id=one.id, version=1, content_sha256="0" * 64, operation_id=runs[0].id
        )
        for one in each
    ]
    async with house.jay.database.writing() as connection:
        await Plans(connection).add_many(made)
        await Operations(connection).add_many(runs)
        await Documents(connection).add_many(each)
        await DocumentVersions(connection).add_many(versions)
    return runs[0]


@contextmanager
def questions(house: House) -> Iterator[list[Statement]]:
    """Every statement that the database is sent."""
    asked: list[Statement] = []
    engine = house.jay.database.engine.sync_engine

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: bool) -> None:
        asked.append((statement, parameters))

    event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine, "before_cursor_execute", note)


def pages_of(run: Operation) -> list[str]:
    filters = ("", "?status=Completed", "?source=upload", "?host=www.example.org", "?host=example.org", "?deleted=true")
    paths = [f"/ui/documents{query}" for query in (*filters, f"?plan={run.plan_id}", f"?operation={run.id}")]
    return ["/", "/ui/plans", "/ui/jobs", "/ui/jobs?state=failed", "/ui/settings", f"/ui/plans/{run.plan_id}", *paths]


def filtered_by(path: str) -> str:
    """The column that an index must find the documents of a page by."""
    name = path.partition("?")[2].partition("=")[0]
    of_host = "host" if "www." in path else "domain"
    known = {"status": "status", "source": "source", "host": of_host, "plan": "plan_id", "operation": "operation_id"}
    return known.get(name, "") if path.startswith("/ui/documents") else ""


async def test_a_page_asks_as_much_of_many_as_of_few(house: House, signed_in: SignIn, tenant: str) -> None:
    who = await house.jay.access.create_tenant(house.admin, tenant)
    browser = await signed_in(Scope.ADMIN, tenant=tenant)
    counts = []
    for plans, documents in ((ROWS, ROWS), (3 * ROWS, 3 * ROWS)):
        run = await fill(house, who, plans, documents)
        found = {}
        for path in pages_of(run):
            tries = []
            for _ in range(3):  # the least of them: the house asks things of its own now and then
                with questions(house) as asked:
                    page = await browser.page(path)
                tries.append(len(asked))
            assert NASTY not in page, path
            found[path.replace(run.plan_id, "").replace(run.id, "")] = min(tries)
        counts.append(found)
    assert counts[0] == counts[1]
    assert max(counts[0].values()) < 80


async def test_documents_are_found_in_order_and_counted_without_reading_all_of_them(
    house: House, signed_in: SignIn, tenant: str
) -> None:
    who = await house.jay.access.create_tenant(house.admin, tenant)
    run = await fill(house, who, 1, 5)
    browser = await signed_in(Scope.READ, tenant=tenant)
    for path in pages_of(run):
        with questions(house) as asked:
            await browser.page(path)
        about = [(text_, given) for text_, given in asked if " documents" in text_ and text_.startswith("SELECT")]
        assert about or not path.startswith("/ui/documents"), path
        for statement, given in about:
            async with house.jay.database.reading() as connection:
                rows = await connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)
                steps = [str(row[3]) for row in rows]
            assert not [step for step in steps if step.startswith("SCAN documents")], (path, statement, steps)
            sorted_here = "ORDER BY documents.created_at" in statement and "USE TEMP B-TREE FOR ORDER BY" in steps
            assert not sorted_here, (path, statement, steps)
            if "ORDER BY documents.created_at" in statement and (column := filtered_by(path)):
                assert f"{column}=?" in steps[0], (path, statement, steps)


async def test_a_long_list_is_counted_up_to_a_thousand(house: House, signed_in: SignIn, tenant: str) -> None:
    who = await house.jay.access.create_tenant(house.admin, tenant)
    await fill(house, who, 1, COUNTED + 20)
    browser = await signed_in(Scope.READ, tenant=tenant)
    assert "1–50 of 1\u202f000+ documents" in await browser.page("/ui/documents")
    page = await browser.page("/ui/documents?offset=1000")
    assert "1\u202f001–1\u202f020 of 1\u202f020 documents" in page
    assert 'rel="next"' not in page
    assert 'rel="next"' in await browser.page("/ui/documents?offset=950")
    async with house.jay.database.writing() as connection:
        await connection.execute(
            text("UPDATE documents SET deleted_at = created_at WHERE tenant_id = :tenant AND url LIKE '%/5__'"),
            {"tenant": who.tenant_id},
        )
    assert "1–50 of 920 documents" in await browser.page("/ui/documents")
    exact = await house.jay.documents.page(who, DocumentQuery(limit=1))
    assert (exact.total, exact.is_counted) == (920, True)
