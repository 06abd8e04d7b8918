"""Plans for tests: an open Scrubjay, a site that changes, and short ways to run plans and to compare what they left."""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select
from tests.site import Reply, Site
from tests.workshop import wait_until

from scrubjay.app import Scrubjay
from scrubjay.index.consistency import Consistency
from scrubjay.model.plan import ENDED_STATES, DeletionSettings, Fate, Operation, Plan, PlanState, ScheduleSettings
from scrubjay.model.tenant import Principal
from scrubjay.model.urls import normalize_url
from scrubjay.services.plans import PlanValues
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.ledger import LedgerRow

ONCE = ScheduleSettings(interval_type="OneTime")  # type: ignore[arg-type]
NO_GUARD = DeletionSettings(min_missing_items=100_000)


def article(title: str, *links: str, text: str = "") -> str:
    """A page that says something of its own."""
    words = (
        text or f"This is the page about {title}. It says what there is to say about {title}, and a little more. " * 5
    )
    items = "".join(f'<li><a href="{link}">To {link}</a></li>' for link in links)
    return (
        f"<html><head><title>{title}</title></head><body><main><h1>{title}</h1><p>{words}</p>"
        f"<nav><ul>{items}</ul></nav></main></body></html>"
    )


def set_pages(site: Site, names: Iterable[str], **texts: str) -> None:
    """Make the site a home page and these pages, and nothing else."""
    names = list(names)
    site.pages.clear()
    site.add("/", article("home", *(f"/{name}" for name in names)))
    for name in names:
        site.add(f"/{name}", Reply(article(name, "/", text=texts.get(name, "")), headers={"ETag": f'"{name}"'}))


def _path(url: str) -> str:
    """Documents have addresses in normal form, the ledger those that are asked for."""
    return "/" + normalize_url(url).split("/", 3)[3]


class Planner:
    def __init__(self, jay: Scrubjay, who: Principal) -> None:
        self.jay = jay
        self.who = who

    async def plan(self, url: str, **values: Any) -> Plan:
        web = {"start_url": url, "crawl_delay_ms": 0, **values.pop("web", {})}
        wanted = {"schedule": ONCE, "process_deletions": True, "deletion": NO_GUARD, "is_active": False, **values}
        return await self.jay.plans.create(self.who, PlanValues(repository_settings=web, **wanted))

    async def start(self, plan: Plan, **options: Any) -> Operation:
        return await self.jay.plans.start(self.who, plan.id, **options)

    async def run(self, plan: Plan, **options: Any) -> Operation:
        return await self.finish(plan, await self.start(plan, **options))

    async def finish(self, plan: Plan, operation: Operation) -> Operation:
        async def there() -> Operation | None:
            now = await self.jay.operations.get(self.who, plan.id, operation.id)
            mine = await self.jay.plans.get(self.who, plan.id)
            return now if now.state in ENDED_STATES and mine.state is PlanState.STOPPED else None

        found: Operation = await wait_until(there, "the run is over", seconds=100)
        return found

    async def documents(self, plan: Plan) -> Mapping[str, str]:
        """What the plan's documents say, by address."""
        async with self.jay.database.reading() as connection:
            found = await Documents(connection).page(
                DocumentRow.plan_id == plan.id, DocumentRow.deleted_at.is_(None), limit=100_000
            )
        said: dict[str, str] = {}
        for document in found.items:
            assert document.url not in said, f"{document.url} is there twice"
            if document.version:
                said[document.url] = (await self.jay.documents.content(self.who, document.id))[1]
        return said

    async def ledger(self, plan: Plan) -> Mapping[str, Fate]:
        async with self.jay.database.reading() as connection:
            rows = await connection.execute(select(LedgerRow.key, LedgerRow.fate).where(LedgerRow.plan_id == plan.id))
            return {row.key: row.fate for row in rows}

    async def paths(self, plan: Plan) -> set[str]:
        """The paths that the plan has documents of; the ledger must say the same."""
        documents = {_path(url) for url in await self.documents(plan)}
        present = {key for key, fate in (await self.ledger(plan)).items() if fate is not Fate.RETIRED}
        assert documents == {_path(key) for key in present}
        return documents

    async def index_agrees(self) -> None:
        """The index catches up, and holds exactly what the documents say."""

        async def caught_up() -> bool:
            async with self.jay.database.reading() as connection:
                return await Documents(connection).count(DocumentRow.index_due_at.is_not(None)) == 0

        await wait_until(caught_up, "the index has caught up", seconds=60)
        found = await Consistency(self.jay.database, self.jay.catalog).compare()
        assert found.none, found.describe()
