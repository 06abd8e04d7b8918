"""Content becomes documents: recognised, versioned, cut into chunks and committed. Steps 8 and 9 of a page's journey.

Everything that one batch changes is one transaction, with an outbox event for each document. From then on the index
owes it (`indexing.py`): it is found as soon as the index has caught up, and not a moment before.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy.exc import DBAPIError

from scrubjay.documents.chunking import Tokenizer, cut
from scrubjay.documents.document_writer import DocumentWriter, is_same
from scrubjay.documents.identity import Prepared, as_alias, look_at, one_per_key, settle_identities
from scrubjay.documents.texts import TextStore, storable_text
from scrubjay.errors import Conflict
from scrubjay.index.catalog import IndexCatalog
from scrubjay.model.chunking import read_chunking
from scrubjay.model.content import Document, IncomingDocument, Ingested, IngestOutcome
from scrubjay.storage.database import Database
from scrubjay.storage.documents import Documents
from scrubjay.telemetry import span
from scrubjay.telemetry.metrics import documents_ingested_total

WRITE_ATTEMPTS = 6
EMPTY = "There is no text in it."
_KEPT = (
    "title", "language", "details", "collection_id", "plan_id", "operation_id", "rule_id", "parent_url", "filename",
    "content_type", "size_bytes", "original_sha256", "crawled_at",
)  # fmt: skip


def _once_each(items: Sequence[Prepared], done: Mapping[str, Ingested]) -> list[Ingested]:
    """What became of each item; of those that share a document, one added or changed it and the others did not."""
    results: list[Ingested] = []
    written: set[str] = set()
    for item in items:
        result = done[item.key]
        if item.key in written and result.outcome in (IngestOutcome.ADDED, IngestOutcome.CHANGED):
            result = replace(result, outcome=IngestOutcome.UNCHANGED)
        written.add(item.key)
        results.append(result)
    return results


class Ingester:
    def __init__(self, database: Database, texts: TextStore, catalog: IndexCatalog) -> None:
        self._database = database
        self._texts = texts
        self._catalog = catalog

    async def ingest(self, incoming: IncomingDocument) -> Ingested:
        [ingested] = await self.ingest_many([incoming])
        return ingested

    async def ingest_many(self, incoming: Sequence[IncomingDocument]) -> list[Ingested]:
        """Commit what is new or changed; what came twice in one batch counts once, as it came last."""
        with span("ingest", ingest__documents=len(incoming)):
            done = await self._ingest(incoming)
        for each in done:
            documents_ingested_total.labels(str(each.outcome)).inc()
        return done

    async def _ingest(self, incoming: Sequence[IncomingDocument]) -> list[Ingested]:
        tokenizer = await self._catalog.wanted_embedder()
        seen = [look_at(each) for each in incoming]
        ready: dict[str, Prepared] = {}
        for attempt in range(WRITE_ATTEMPTS):
            known = await self._known(seen)
            settled = settle_identities(seen, known)
            chosen = one_per_key(settled)
            # What an earlier attempt prepared counts only where the key still gets the same content.
            wanted = {key: item.incoming for key, item in chosen.items()}
            ready = {key: item for key, item in ready.items() if wanted.get(key) is item.incoming}
            for key, item in chosen.items():
                if key not in ready and not is_same(item, known.get(key)):
                    ready[key] = await self._prepare(item, tokenizer)
            try:
                async with self._database.writing(long=True) as connection:
                    done = await DocumentWriter(connection, tokenizer.model).write(list(chosen.values()), ready)
                break
            except (Conflict, DBAPIError):
                # Another worker wrote one of these documents in the same moment; what it wrote is looked at anew.
                if attempt == WRITE_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.05 * 2**attempt)
        return _once_each(settled, done)

    async def _known(self, prepared: Sequence[Prepared]) -> Mapping[str, Document]:
        known: dict[str, Document] = {}
        async with self._database.reading() as connection:
            for tenant_id in {item.incoming.tenant_id for item in prepared}:
                own = [item for item in prepared if item.incoming.tenant_id == tenant_id]
                keys = {item.key for item in own} | {alias.key for item in own if (alias := as_alias(item))}
                known |= await Documents(connection).by_keys(tenant_id, keys)
        return known

    async def _prepare(self, item: Prepared, tokenizer: Tokenizer) -> Prepared:
        started = time.perf_counter()
        options = read_chunking(item.incoming.chunking)
        spans = await asyncio.to_thread(cut, item.text, options, tokenizer)
        milliseconds = (time.perf_counter() - started) * 1000
        if not spans:
            return replace(item, error=EMPTY, milliseconds=milliseconds)
        content = await self._texts.prepare(item.incoming.tenant_id, item.text)
        return replace(item, content=content, spans=tuple(spans), milliseconds=milliseconds)

    async def recut(self, document: Document, chunking: Mapping[str, Any] | None) -> Ingested:
        """Cut what a document says anew, whether or not it changed."""
        tokenizer = await self._catalog.wanted_embedder()
        text = await self._texts.read(document.tenant_id, document.content_sha256 or "")
        incoming = IncomingDocument(
            tenant_id=document.tenant_id,
            url=document.url,
            source=document.source,
            markdown=text,
            chunking=chunking,
            **{name: getattr(document, name) for name in _KEPT},
        )
        item = await self._prepare(replace(look_at(incoming), key=document.natural_key), tokenizer)
        async with self._database.writing(long=True) as connection:
            writer = DocumentWriter(connection, tokenizer.model, force=True)
            done = await writer.write([item], {item.key: item})
        return done[item.key]

    async def fail(self, incoming: IncomingDocument, reason: str) -> Ingested:
        """Note why content could not become a document; what the document said before stays findable."""
        seen = [look_at(incoming)]
        [settled] = settle_identities(seen, await self._known(seen))
        item = replace(settled, error=storable_text(reason)[:2000])
        async with self._database.writing() as connection:
            done = await DocumentWriter(connection).write([item], {item.key: item})
        documents_ingested_total.labels("failed").inc()
        return done[item.key]
