"""Does the index hold exactly what the documents say? Finds every difference, and has it repaired.

Documents, versions and chunks in the database are the truth. A point that differs or is missing makes its document
due again; a point of a document that does not exist is deleted.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from scrubjay.index.catalog import IndexCatalog, Served
from scrubjay.index.indexing import desired_states
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Document
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents

SLICE = 200
SHOWN = 5


@dataclass(slots=True)
class Differences:
    """What one generation lacks, has otherwise, or has too much; and of which documents."""

    points: int = 0
    missing: int = 0
    different: int = 0
    extra: list[str] = field(default_factory=list)
    documents: set[str] = field(default_factory=set)
    waiting: int = 0  # documents that the index owes anyway

    @property
    def none(self) -> bool:
        return not (self.missing or self.different or self.extra)

    def describe(self) -> str:
        if self.none:
            return f"{self.points:,} points, as the documents say"
        parts = [
            f"{self.missing:,} missing" if self.missing else "",
            f"{self.different:,} different" if self.different else "",
            f"{len(self.extra):,} too many" if self.extra else "",
        ]
        return f"{self.points:,} points: {', '.join(part for part in parts if part)}"


class Consistency:
    def __init__(self, database: Database, catalog: IndexCatalog) -> None:
        self._database = database
        self._catalog = catalog

    async def compare(self) -> Differences:
        """How the index that serves differs from the documents. What is due to be indexed is not counted."""
        return await self._compare(await self._catalog.live())

    async def _compare(self, served: Served) -> Differences:
        found = Differences()
        held = {point.id: (point.stamp, point.document_id) async for point in served.index.scan()}
        found.points = len(held)
        waiting: set[str] = set()
        async for documents in self._documents():
            late = {each.id for each in documents if each.index_due_at is not None or each.is_purging}
            waiting |= late
            settled = [each for each in documents if each.id not in late]
            for state in await desired_states(self._database, settled):
                for chunk_id, stamp in state.stamps.items():
                    stored = held.pop(chunk_id, None)
                    if stored is None:
                        found.missing += 1
                    elif stored[0] != stamp:
                        found.different += 1
                    else:
                        continue
                    found.documents.add(state.document.id)
        found.extra = [chunk_id for chunk_id, (_, document_id) in held.items() if document_id not in waiting]
        found.waiting = len(waiting)
        return found

    async def repair(self) -> Differences:
        """Find the differences and end them: returns what was found."""
        served = await self._catalog.live()
        found = await self._compare(served)
        for start in range(0, len(found.extra), SLICE):
            await served.index.delete(found.extra[start : start + SLICE])
        async with self._database.writing() as connection:
            for document_id in sorted(found.documents):
                await Documents(connection).change(document_id, index_due_at=utc_now())
        return found

    async def _documents(self) -> AsyncIterator[Sequence[Document]]:
        """All documents, some at a time."""
        after = ""
        while True:
            async with self._database.reading() as connection:
                page = await Documents(connection).page(DocumentRow.id > after, limit=SLICE)
            if not page.items:
                return
            yield page.items
            after = page.items[-1].id
