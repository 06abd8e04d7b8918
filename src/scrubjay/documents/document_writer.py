"""Writes documents in one transaction: the row, its version, its text, its chunks, its tags, its log and its event."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.identity import (
    ALSO_FROM,
    CRAWLED_URL,
    Prepared,
    document_address,
    is_from_alias,
    is_usurped,
    natural_key,
    wrote,
)
from scrubjay.documents.texts import hash_text, storable_text
from scrubjay.errors import Conflict
from scrubjay.model.clock import utc_now
from scrubjay.model.content import (
    Chunk,
    Document,
    DocumentLogLine,
    DocumentSource,
    DocumentStatus,
    DocumentVersion,
    IncomingDocument,
    Ingested,
    IngestOutcome,
    OutboxEvent,
)
from scrubjay.model.ids import id_from_uuid
from scrubjay.model.urls import hash_url
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.contents import Contents
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import Documents
from scrubjay.storage.inventory import VectorStoreFiles
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.tags import Tags
from scrubjay.storage.versions import DocumentVersions

HEAD_START = timedelta(seconds=30)  # in the queue for the index, for what somebody has just sent and waits for
MAX_TITLE_CHARACTERS = 2000
_LANGUAGE_LENGTH = 16


def chunk_id(document_id: str, version: int, index: int) -> str:
    digest = hashlib.sha256(f"{document_id}/{version}/{index}".encode()).digest()
    return id_from_uuid("chnk", UUID(bytes=digest[:16]))


def is_same(item: Prepared, known: Document | None) -> bool:
    """Whether a document says this already, cut the way that is asked for."""
    return (
        known is not None
        and known.deleted_at is None
        and not known.is_purging
        and known.version > 0
        and known.content_sha256 == item.digest
        and dict(known.chunking or {}) == dict(item.incoming.chunking or {})
        and known.status is not DocumentStatus.FAILED
    )


class DocumentWriter:
    """One transaction's worth of documents."""

    def __init__(self, connection: AsyncConnection, model: str = "", *, force: bool = False) -> None:
        self._connection = connection
        self._documents = Documents(connection)
        self._model = model
        self._force = force  # write also what is known already
        self._now = utc_now()

    async def write(self, prepared: Sequence[Prepared], ready: Mapping[str, Prepared]) -> dict[str, Ingested]:
        done: dict[str, Ingested] = {}
        for tenant_id in sorted({item.incoming.tenant_id for item in prepared}):
            own = {item.key: ready.get(item.key, item) for item in prepared if item.incoming.tenant_id == tenant_id}
            # In one order, so that two workers with the same documents do not wait for each other in a circle.
            known = await self._documents.by_keys(tenant_id, own)
            contents = {item.digest for item in own.values()}
            firsts = dict(await self._documents.first_with_content(tenant_id, contents))
            for key in sorted(own):
                done[key] = await self._write_one(own[key], known.get(key), firsts)
        return done

    async def _write_one(self, item: Prepared, known: Document | None, firsts: dict[str, str]) -> Ingested:
        waiting = item.incoming.document_id
        if waiting is not None and (known is None or known.is_purging or await self._is_superseded(item, known)):
            # Whoever reserved it removed it meanwhile: writing it would bring it back.
            return Ingested(document_id=waiting, outcome=IngestOutcome.REMOVED)
        if known is not None and known.is_purging:
            raise Conflict("The document is being removed.")
        if item.is_alias and known is not None and known.content_sha256 != item.digest and not wrote(item, known):
            raise Conflict("Another page took the canonical URL meanwhile.")
        if known is not None and waiting is None and is_usurped(item, known):
            known = None if await self._give_back(known) else known
        if item.error is not None:
            return await self._write_failure(item, known)
        if known is not None and is_same(item, known) and not self._force:
            await self._confirm(known)
            await self._claim(known, item)
            await self._merge_tags(known, item.incoming.tags)
            return Ingested(document_id=known.id, outcome=IngestOutcome.UNCHANGED, version=known.version)
        if item.content is None:
            raise Conflict("The document changed meanwhile.")
        document = await self._write_document(item, known, firsts)
        outcome = IngestOutcome.ADDED if known is None or known.version == 0 else IngestOutcome.CHANGED
        firsts.setdefault(item.digest, document.id)
        return Ingested(document_id=document.id, outcome=outcome, version=document.version)

    async def _is_superseded(self, item: Prepared, known: Document) -> bool:
        """Whether the vector store file was removed, or replaced by a newer file that another job reads."""
        job_id = item.incoming.reading_job_id
        if job_id is None:
            return False
        records = await VectorStoreFiles(self._connection).by_documents(known.tenant_id, [known.id])
        return known.deleted_at is not None or (known.id in records and records[known.id].job_id not in (None, job_id))

    async def _write_document(self, item: Prepared, known: Document | None, firsts: Mapping[str, str]) -> Document:
        same_text = known is not None and known.version > 0 and known.content_sha256 == item.digest
        version = 1 if known is None else known.version + (0 if same_text else 1)
        document = known or self._new_document(item)
        changes = self._changes(item, document, version, _other(firsts.get(item.digest), document.id))
        if known is None:
            await self._documents.add(replace(document, index_revision=1, **changes))
        else:
            await self._documents.change(known.id, **changes)
        if item.content is not None:
            await Contents(self._connection).put(item.content)
        if same_text:
            await Chunks(self._connection).remove_version(document.id, version)
            await DocumentVersions(self._connection).reopen(document.id, version)
        else:
            await self._add_version(item, document, version)
        await Chunks(self._connection).add_many(list(self._chunks(item, document, version)))
        if item.incoming.tags:
            tags = await Tags(self._connection).by_names(document.tenant_id, item.incoming.tags)
            await Tags(self._connection).attach(document.id, [tag.id for tag in tags])
        document = replace(document, **changes)
        await self._tell(document, item, version, is_new=known is None or known.version == 0)
        return document

    def _new_document(self, item: Prepared) -> Document:
        incoming = item.incoming
        document = Document(
            tenant_id=incoming.tenant_id,
            natural_key=item.key,
            url=item.url,
            url_hash=hash_url(item.url),
            host=item.host,
            domain=item.domain,
            source=incoming.source,
            collection_id=incoming.collection_id,
            created_at=self._now,
        )
        return document if incoming.document_id is None else replace(document, id=incoming.document_id)

    def _changes(self, item: Prepared, known: Document, version: int, duplicate_of: str | None) -> dict[str, Any]:
        incoming = item.incoming
        language = (incoming.language or "")[:_LANGUAGE_LENGTH] or None
        return {
            "status": DocumentStatus.STORING_EMBEDDINGS,
            **_provenance(incoming, known),
            "parent_url": incoming.parent_url,
            "title": _short(incoming.title),
            "filename": _short(incoming.filename),
            "content_type": (incoming.content_type or "")[:255] or None,
            "language": language,
            "details": _storable({**item.details, **_kept(known)}),
            "size_bytes": incoming.size_bytes or len(item.text.encode()),
            "content_sha256": item.digest,
            "original_sha256": incoming.original_sha256,
            "version": version,
            "chunk_count": len(item.spans),
            "duplicate_of": duplicate_of,
            "error": None,
            "chunking": dict(incoming.chunking) if incoming.chunking else None,
            "crawled_at": incoming.crawled_at,
            "updated_at": self._now,
            "deleted_at": None,
            "index_due_at": self._now if incoming.source is DocumentSource.CRAWL else self._now - HEAD_START,
        }

    async def _add_version(self, item: Prepared, document: Document, version: int) -> None:
        versions = DocumentVersions(self._connection)
        await versions.end([document.id], self._now)
        await versions.add(
            DocumentVersion(
                tenant_id=document.tenant_id,
                document_id=document.id,
                version=version,
                title=_short(item.incoming.title),
                content_sha256=item.digest,
                original_sha256=item.incoming.original_sha256,
                size_bytes=len(item.text.encode()),
                details=_storable(item.details),
                operation_id=item.incoming.operation_id,
                created_at=self._now,
            )
        )

    def _chunks(self, item: Prepared, document: Document, version: int) -> Sequence[Chunk]:
        chunks = []
        for index, span in enumerate(item.spans):
            content = item.text[span.start : span.end]
            chunk = Chunk(
                id=chunk_id(document.id, version, index),
                tenant_id=document.tenant_id,
                document_id=document.id,
                version=version,
                chunk_index=index,
                content=content,
                content_sha256="",
                start_char=span.start,
                end_char=span.end,
                token_count=span.token_count,
                embedding_model=self._model,
                section_header=span.section,
                context=span.context,
                content_type=span.kind,
                created_at=self._now,
            )
            chunks.append(replace(chunk, content_sha256=hash_text(chunk.embedded_text)))
        return chunks

    async def _tell(self, document: Document, item: Prepared, version: int, *, is_new: bool) -> None:
        what = f"version {version}: {len(item.text):,} characters cut into {len(item.spans):,} chunks"
        await self._log(document, f"Step completed in {item.milliseconds:.2f}ms — {what}")
        topic = "document.created" if is_new else "document.updated"
        await Outbox(self._connection).add(document_event(document, topic, self._now, version=version))

    async def _write_failure(self, item: Prepared, known: Document | None) -> Ingested:
        reason = item.error or ""
        changes: dict[str, Any] = {"status": DocumentStatus.FAILED, "error": reason, "updated_at": self._now}
        if known is None:
            document = replace(self._new_document(item), title=_short(item.incoming.title), **changes)
            await self._documents.add(replace(document, filename=_short(item.incoming.filename)))
        else:
            document = known
            await self._documents.change(known.id, **changes)
        await self._log(document, reason, level="ERROR")
        return Ingested(document_id=document.id, outcome=IngestOutcome.FAILED, version=document.version, error=reason)

    async def _confirm(self, document: Document) -> None:
        """It was being read, and says what it said before."""
        found = document.indexed_version == document.version
        status = DocumentStatus.COMPLETED if found else DocumentStatus.STORING_EMBEDDINGS
        if document.status is not status:
            await self._documents.update(document.tenant_id, document.id, status=status, error=None)

    async def _claim(self, document: Document, item: Prepared) -> None:
        """Record which plan holds an unchanged document, and that the page at its own URL says the same."""
        changes: dict[str, Any] = {}
        provenance = _provenance(item.incoming, document)
        if provenance["plan_id"] != document.plan_id:
            changes = provenance
        if not item.is_alias and is_from_alias(document):
            changes["details"] = {name: value for name, value in document.details.items() if name != CRAWLED_URL}
        if changes:
            await self._documents.update(document.tenant_id, document.id, **changes)

    async def _give_back(self, document: Document) -> bool:
        """Return a document to the alias that wrote it, because the page at the canonical URL has another text; False
        when there is a document at the alias's URL already."""
        url, host, domain = document_address(str(document.details[CRAWLED_URL]))
        key = natural_key(document.collection_id, url)
        if await self._documents.by_keys(document.tenant_id, [key]):
            return False
        details = {name: value for name, value in document.details.items() if name != CRAWLED_URL}
        await self._documents.change(
            document.id,
            natural_key=key,
            url=url,
            url_hash=hash_url(url),
            host=host,
            domain=domain,
            details=details,
            updated_at=self._now,
            index_due_at=self._now,
        )
        return True

    async def _merge_tags(self, document: Document, names: Sequence[str]) -> None:
        if names:
            tags = await Tags(self._connection).by_names(document.tenant_id, names)
            if await Tags(self._connection).attach(document.id, [tag.id for tag in tags]):
                await self._documents.change(document.id, index_due_at=self._now)

    async def _log(self, document: Document, message: str, level: str = "INFO") -> None:
        line = DocumentLogLine(
            tenant_id=document.tenant_id, document_id=document.id, level=level, message=message, at=self._now
        )
        await DocumentLogs(self._connection).add(line)


def document_event(document: Document, topic: str, now: datetime, **facts: Any) -> OutboxEvent:
    payload = {
        "document_id": document.id,
        "url": document.url,
        "title": document.title,
        "collection_id": document.collection_id,
        "plan_id": document.plan_id,
        **facts,
    }
    return OutboxEvent(tenant_id=document.tenant_id, topic=topic, payload=payload, created_at=now)


def _provenance(incoming: IncomingDocument, known: Document) -> dict[str, str | None]:
    """The plan that a document has: a page that a plan keeps stays the plan's, whoever reads it in between."""
    if known.plan_id is not None and not incoming.takes_over:
        return {"plan_id": known.plan_id, "operation_id": known.operation_id, "rule_id": known.rule_id}
    return {
        "plan_id": incoming.plan_id or known.plan_id,
        "operation_id": incoming.operation_id or known.operation_id,
        "rule_id": incoming.rule_id or known.rule_id,
    }


def _kept(document: Document) -> Mapping[str, Any]:
    return {ALSO_FROM: document.details[ALSO_FROM]} if ALSO_FROM in document.details else {}


def _other(first: str | None, own: str) -> str | None:
    return None if first == own else first


def _short(text: str | None) -> str | None:
    return None if text is None else storable_text(text)[:MAX_TITLE_CHARACTERS]


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, Mapping):
        return {storable_text(str(key)): _storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value
