"""How many documents of a plan changed: on every database, and of one's own plans only."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest
from tests.acceptance.house import House, open_house

from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document, DocumentSource, DocumentVersion
from scrubjay.model.plan import Operation, Plan
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings
from scrubjay.storage.documents import Documents
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.versions import DocumentVersions


async def keep(
    house: House, plan: Plan, number: int, versions: Sequence[datetime], deleted_at: datetime | None = None
) -> None:
    document = Document(
        tenant_id=plan.tenant_id,
        natural_key=f"{plan.id}{number:032}",
        url=f"https://example.com/{number}",
        url_hash=f"{number:064}",
        host="example.com",
        domain="example.com",
        source=DocumentSource.CRAWL,
        plan_id=plan.id,
        version=len(versions),
        deleted_at=deleted_at,
    )
    runs = [Operation(tenant_id=plan.tenant_id, plan_id=plan.id, created_at=at) for at in versions]
    async with house.jay.database.writing() as connection:
        await Documents(connection).add(document)
        await Operations(connection).add_many(runs)
        for version, (at, run) in enumerate(zip(versions, runs, strict=True), 1):
            await DocumentVersions(connection).add(
                DocumentVersion(
                    tenant_id=plan.tenant_id,
                    document_id=document.id,
                    version=version,
                    content_sha256="0" * 64,
                    operation_id=run.id,
                    created_at=at,
                )
            )


async def add_plan(house: House, who: Principal) -> Plan:
    async with house.jay.database.writing() as connection:
        return await Plans(connection).add(Plan(tenant_id=who.tenant_id))


@pytest.mark.parametrize(
    "database",
    [
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("mariadb", marks=pytest.mark.mysql),
    ],
)
async def test_changes_are_counted_since_a_moment_and_for_own_plans_only(
    settings: Settings, database: str, request: pytest.FixtureRequest
) -> None:
    fixture = {"postgres": "postgres_url", "mariadb": "mysql_url"}.get(database)
    url = request.getfixturevalue(fixture) if fixture else None
    async with open_house(settings.model_copy(update={"database_url": url})) as house:
        now = utc_now()
        old, recent = now - timedelta(days=3), now - timedelta(hours=3)
        stranger = await house.jay.access.create_tenant(house.admin, "neighbour")
        mine, quiet = await add_plan(house, house.admin), await add_plan(house, house.admin)
        theirs = await add_plan(house, stranger)
        for number, (versions, ended) in enumerate(
            [([old, recent], None), ([recent], None), ([recent, recent, recent], None), ([old], recent), ([old], old)]
        ):
            await keep(house, mine, number, versions, ended)
            await keep(house, theirs, number, versions, ended)
        await keep(house, quiet, 9, [old])
        counts = await house.jay.operations.count_changes(
            house.admin, [mine.id, quiet.id, theirs.id], since=now - timedelta(days=1)
        )
        nothing = await house.jay.operations.count_changes(house.admin, [], since=old)
    assert counts == {mine.id: {"added": 2, "changed": 3, "removed": 1}}
    assert nothing == {}
