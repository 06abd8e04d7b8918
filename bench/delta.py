"""The delta of a large plan: a listing of 1,000,000 keys beside a ledger of as many, of which 1 % changed.

Counted is all that a run does between listing and retrieving: hashing and sorting the listing, reading the ledger,
comparing, and writing the operation's list of changes. Making the ledger beforehand is not.
"""

import argparse
import hashlib
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import insert

sys.path.insert(0, str(Path(__file__).parents[1]))

from scrubjay.cli.context import run
from scrubjay.model.plan import Change, Fate, LedgerEntry, Operation, OperationItem, Plan
from scrubjay.model.source import SourceItem, hash_key
from scrubjay.model.tenant import Tenant
from scrubjay.plans.delta import compare
from scrubjay.plans.listing import SortedListing
from scrubjay.settings import Settings
from scrubjay.storage import schema
from scrubjay.storage.database import Database, open_database
from scrubjay.storage.ledger import Ledger, LedgerRow, LedgerState
from scrubjay.storage.operation_items import OperationItems
from scrubjay.storage.operations import Operations
from scrubjay.storage.plans import Plans
from scrubjay.storage.tenants import Tenants

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
BATCH = 20_000


def key_of(number: int) -> str:
    return f"https://example.org/section/{number % 997}/article-{number}.html"


def digest_of(number: int, version: int = 0) -> str:
    return hashlib.sha256(f"{number}/{version}".encode()).hexdigest()


def item(number: int, version: int = 0) -> SourceItem:
    key = key_of(number)
    return SourceItem(
        key=key,
        key_hash=hash_key(key),
        content_type="text/html",
        content_length=4000 + number % 500 + version,
        etag=f'"{number}-{version}"',
        sha256=digest_of(number, version),
        last_modified_at=NOON + timedelta(seconds=number % 86_400),
    )


def items(total: int, changed_every: int, added: int, removed_every: int) -> Iterator[SourceItem]:
    for number in range(total + added):
        if number % removed_every == 1:
            continue
        yield item(number, int(number % changed_every == 0))


async def fill(database: Database, plan: Plan, total: int) -> None:
    for start in range(0, total, BATCH):
        rows = [
            {
                "plan_id": plan.id, "key_hash": each.key_hash, "tenant_id": plan.tenant_id, "key": each.key,
                "fate": Fate.PRESENT, "content_type": each.content_type, "content_length": each.content_length,
                "etag": each.etag, "content_sha256": each.sha256, "last_modified_at": each.last_modified_at,
                "fingerprint": each.fingerprint, "seen_count": 1, "change_count": 0, "missing_runs": 0,
                "unchanged_seconds": 0.0, "change_intervals": (), "first_seen_at": NOON, "last_seen_at": NOON,
            }
            for each in map(item, range(start, min(start + BATCH, total)))
        ]  # fmt: skip
        async with database.writing() as connection:
            await connection.execute(insert(LedgerRow), rows)


async def pages(database: Database, plan_id: str) -> AsyncIterator[Sequence[LedgerState]]:
    after = ""
    while True:
        async with database.reading() as connection:
            page = await Ledger(connection).states(plan_id, after=after)
        if not page:
            return
        yield page
        after = page[-1][0]


async def find(database: Database, plan: Plan, operation: Operation, source: Iterator[SourceItem]) -> dict[str, int]:
    counts = {"added": 0, "changed": 0, "missing": 0, "unchanged": 0}
    listing = SortedListing()

    async def recall(hashes: Collection[str]) -> Mapping[str, LedgerEntry]:
        async with database.reading() as connection:
            return await Ledger(connection).by_hashes(plan.id, hashes)

    for item in source:
        if listing.add(item):
            await listing.spill()
    async for found in compare(listing.rows(), pages(database, plan.id), recall):
        rows = [
            OperationItem(
                operation_id=operation.id, key_hash=item.key_hash, tenant_id=plan.tenant_id,
                key=item.key, change=change, content_type=item.content_type, content_length=item.content_length,
                etag=item.etag, content_sha256=item.sha256, last_modified_at=item.last_modified_at,
            )
            for change, item in found.changes
        ]  # fmt: skip
        async with database.writing() as connection:
            await OperationItems(connection).add_many(rows)
        counts["added"] += sum(change is Change.ADDED for change, _ in found.changes)
        counts["changed"] += sum(change is Change.CHANGED for change, _ in found.changes)
        counts["missing"] += len(found.missing)
        counts["unchanged"] += len(found.unchanged)
    listing.close()
    return counts


async def bench(total: int) -> None:
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as home:
        database = open_database(Settings(home=Path(home)))
        await schema.require_current(database, auto_migrate=True)
        tenant = Tenant(name="bench")
        plan = Plan(tenant_id=tenant.id)
        operation = Operation(tenant_id=tenant.id, plan_id=plan.id)
        async with database.writing() as connection:
            await Tenants(connection).add(tenant)
            await Plans(connection).add(plan)
            await Operations(connection).add(operation)
        await fill(database, plan, total)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        making = time.process_time()
        for _ in items(total, 125, total // 1000, 1000):
            pass
        making = time.process_time() - making
        wall, cpu = time.perf_counter(), time.process_time()
        counts = await find(database, plan, operation, items(total, 125, total // 1000, 1000))
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{total:,} keys: {counts}")
        print(f"  {cpu - making:.1f} s CPU for the delta ({making:.1f} s more for making it), {wall:.1f} s in all")
        print(f"  peak {peak / 1024:.0f} MB ({before / 1024:.0f} MB before)")
        await database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=1_000_000)
    options = parser.parse_args()
    run(lambda: bench(options.keys))  # with the event loop and the garbage collection of the product


if __name__ == "__main__":
    main()
