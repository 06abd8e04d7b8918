"""What differs between a listing and the ledger becomes the work of a run.

Deletions are withheld when the listing is empty or lacks much at once, because an outage looks the same.
"""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Change, Fate, LedgerEntry, Operation, OperationItem, Plan, WorkState
from scrubjay.model.source import SourceItem
from scrubjay.plans.delta import Findings, compare
from scrubjay.plans.listing import SortedListing
from scrubjay.queue.context import JobContext
from scrubjay.storage.database import Database
from scrubjay.storage.ledger import Ledger, LedgerState
from scrubjay.storage.operation_items import OperationItems

WRITTEN_AT_ONCE = 1000  # rows of one transaction, which others wait for


@dataclass(slots=True)
class Comparison:
    """The comparison of one run."""

    context: JobContext
    plan: Plan
    operation: Operation
    database: Database
    is_partial: bool = False  # the run requests only some items
    unchanged: int = 0
    messages: list[str] = field(default_factory=list)  # for whoever looks at the run

    async def note(self, listing: SortedListing, *, is_complete: bool, gone: int) -> None:
        """Write the run's list of changes, and decide about what is missing; `gone` items do not exist any more."""
        may_delete = is_complete or self.is_partial
        known = fresh = unreadable = 0
        async for found in compare(listing.rows(), self._ledger_pages(), self._recall):
            known += found.known
            self.unchanged += len(found.unchanged)
            unreadable += found.unreadable
            fresh += sum(1 for _, _, missing_runs, _ in found.missing if missing_runs == 0)
            await self._note_findings(found, may_delete=may_delete)
            await self.context.checkpoint()
        if unreadable:
            self.messages.append(
                f"Known objects that could not be read this time: {unreadable:,}. Their documents are kept as they are."
            )
        withheld = self._withholding(known, fresh, listing.count, gone) if may_delete else None
        if withheld is not None:
            self.messages.append(withheld)
        await self._settle_missing(withheld is not None, nothing_seen=not (listing.count or gone))

    async def _ledger_pages(self) -> AsyncIterator[Sequence[LedgerState]]:
        # Of a partial run, and of a one-off crawl, only what was requested can be missing.
        is_asked = self.is_partial or (self.plan.is_one_off and not self.plan.ingestion_settings.keeps_files)
        after, asked_by = "", self.context.job.id if is_asked else None
        while True:
            async with self.database.reading() as connection:
                page = await Ledger(connection).states(self.plan.id, after=after, asked_by=asked_by)
            if not page:
                return
            yield page
            after = page[-1][0]

    async def _recall(self, hashes: Collection[str]) -> Mapping[str, LedgerEntry]:
        async with self.database.reading() as connection:
            return await Ledger(connection).by_hashes(self.plan.id, hashes)

    async def _note_findings(self, found: Findings, *, may_delete: bool) -> None:
        async with self.database.reading() as connection:
            noted = await OperationItems(connection).states(
                self.operation.id, [item.key_hash for _, item in found.changes]
            )
        rows = [work_item(self.operation, change, item) for change, item in found.changes if item.key_hash not in noted]
        missing = found.missing if may_delete else []
        if not (rows or missing or found.returned or (self.is_partial and found.unchanged)):
            return
        async with self.context.transaction() as connection:
            ledger = Ledger(connection)
            await ledger.set_fate(self.plan.id, found.returned, Fate.PRESENT, missing_runs=0)
            if self.is_partial:
                await ledger.note_unchanged(self.plan.id, found.unchanged, utc_now())
            entries = await ledger.by_hashes(self.plan.id, {key_hash for key_hash, *_ in missing})
            for key_hash, _, missing_runs, _ in missing:
                entry = entries[key_hash]
                # Missing for the first time: whether that is believed depends on how many are.
                first = missing_runs == 0 or missing_runs < self.plan.deletion.grace_runs
                rows.append(
                    OperationItem(
                        operation_id=self.operation.id,
                        key_hash=entry.key_hash,
                        tenant_id=entry.tenant_id,
                        key=entry.key,
                        change=Change.DELETED,
                        state=WorkState.SKIPPED if first else WorkState.PENDING,
                        content_type=entry.content_type,
                        content_length=entry.content_length,
                        etag=entry.etag,
                        content_sha256=entry.content_sha256,
                        last_modified_at=entry.last_modified_at,
                        document_id=entry.document_id,
                        reason="missing",
                        error="The source no longer has it.",
                    )
                )
        for start in range(0, len(rows), WRITTEN_AT_ONCE):
            async with self.context.transaction() as connection:
                await OperationItems(connection).put(rows[start : start + WRITTEN_AT_ONCE])

    def _withholding(self, known: int, fresh: int, seen: int, gone: int) -> str | None:
        """Why nothing is deleted now although much is missing: an outage looks the same."""
        if not fresh or self.context.payload.get("confirm_deletions"):
            return None
        settings = self.plan.deletion
        if not seen and not gone:
            return (
                f"Deletions are withheld: the listing is empty, where {known} objects are known. "
                "Run the plan with confirmed deletions if they are really gone."
            )
        if fresh > max(settings.min_missing_items, settings.max_missing_share * known):
            return (
                f"Deletions are withheld: {fresh} of {known} objects are missing at once. "
                "They are deleted when the next complete run misses them too, or deletions are confirmed."
            )
        return None

    async def _settle_missing(self, is_withheld: bool, *, nothing_seen: bool) -> None:
        """Believe that what is missing for the first time is gone, unless that is withheld or has to last longer."""
        confirmed = bool(self.context.payload.get("confirm_deletions"))
        async with self.context.transaction() as connection:
            if confirmed or (not is_withheld and self.plan.deletion.grace_runs == 0):
                await OperationItems(connection).unskip(self.operation.id, Change.DELETED)
            elif is_withheld and nothing_seen:
                await OperationItems(connection).skip(self.operation.id, Change.DELETED)


def work_item(operation: Operation, change: Change, item: SourceItem) -> OperationItem:
    """An item on the list of a run's changes."""
    return OperationItem(
        operation_id=operation.id,
        key_hash=item.key_hash,
        tenant_id=operation.tenant_id,
        key=item.key,
        change=change,
        content_type=(item.content_type or "")[:255] or None,
        content_length=item.content_length,
        etag=item.etag,
        content_sha256=item.sha256,
        content_sha1=item.sha1,
        content_md5=item.md5,
        text_sha256=item.text_sha256,
        last_modified_at=item.last_modified_at,
    )
