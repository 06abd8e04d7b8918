"""Documents as doors see them: add, read as of any moment, compare, tag, end, restore, and have them cut anew."""

import asyncio
import difflib
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, select
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.chunking import compile_pattern
from scrubjay.documents.cleanup import mark_for_removal, restore, retire
from scrubjay.documents.identity import document_address, natural_key
from scrubjay.documents.texts import TextStore, storable_text
from scrubjay.documents.uploads import INGEST_KIND, MAX_UPLOAD_BYTES, REINDEX_KIND
from scrubjay.errors import Conflict, Forbidden, InvalidRequest, NotFound
from scrubjay.model.chunking import ChunkingOptions
from scrubjay.model.clock import utc_now
from scrubjay.model.content import (
    Chunk,
    Document,
    DocumentLogLine,
    DocumentSource,
    DocumentStatus,
    DocumentVersion,
    Tag,
)
from scrubjay.model.job import FINISHED_STATES, Job
from scrubjay.model.page import Page
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.model.urls import MAX_URL_LENGTH, hash_url, normalize_url, registrable_domain
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.collections import clean_tag
from scrubjay.services.jobs import JobService
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.document_logs import DocumentLogs
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.tags import DocumentTagRow, Tags
from scrubjay.storage.versions import DocumentVersions

WAIT_SECONDS = 20.0
PURGE_SECONDS = 5.0
MAX_BATCH = 50
REMOVED_AT_ONCE = 200
MAX_BYTES = MAX_UPLOAD_BYTES
MAX_TAGS = 100
OTHER_SCHEMES = frozenset({"api", "file", "s3", "upload"})
MAX_DIFF_LINES = 20_000
_LOOK_SECONDS = 0.04
_LONGEST_LOOK_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """Bytes that somebody gives, and what is said about them."""

    data: bytes
    source: DocumentSource = DocumentSource.UPLOAD
    url: str | None = None
    filename: str | None = None
    content_type: str | None = None
    title: str | None = None
    language: str | None = None
    collection_id: str | None = None
    tags: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    chunking: ChunkingOptions | None = None
    rule_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentQuery:
    """Which documents to list. Deleted ones are listed only when asked for."""

    collection_id: str | None = None
    tag_id: str | None = None
    host: str | None = None
    source: DocumentSource | None = None
    status: DocumentStatus | None = None
    url: str | None = None
    plan_id: str | None = None
    operation_id: str | None = None
    deleted: bool = False
    newest_first: bool = True
    limit: int = 100
    offset: int = 0
    count_up_to: int | None = None  # for people, who only need to know that there are many more


@dataclass(frozen=True, slots=True)
class DocumentDiff:
    from_version: int
    to_version: int
    added_lines: int
    removed_lines: int
    unified: str
    hunks: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class AddOutcome:
    """What became of one upload among several: a document, or the reason why there is none."""

    document: Document | None
    error: str | None = None


class DocumentService:
    def __init__(
        self, database: Database, blobs: BlobStore, texts: TextStore, jobs: JobService, wake: Callable[[], None]
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._texts = texts
        self._jobs = jobs
        self._wake = wake

    async def add(
        self, principal: Principal, uploads: Sequence[Upload], *, wait_seconds: float = WAIT_SECONDS
    ) -> list[Document]:
        """Take content in. What can be checked is checked at once; the rest is a job that this waits for a while."""
        require(principal, Scope.WRITE)
        return await self._take_in(principal, [_check_upload(upload) for upload in uploads], wait_seconds)

    async def add_each(
        self, principal: Principal, uploads: Sequence[Upload], *, wait_seconds: float = WAIT_SECONDS
    ) -> list[AddOutcome]:
        """As `add`, but what is wrong with one keeps none of the others out."""
        require(principal, Scope.WRITE)
        checked: list[Upload | InvalidRequest] = []
        for upload in uploads:
            try:
                checked.append(_check_upload(upload))
            except InvalidRequest as error:
                checked.append(error)
        good = [each for each in checked if isinstance(each, Upload)]
        documents = iter(await self._take_in(principal, good, wait_seconds) if good else ())
        outcomes = []
        for each in checked:
            if isinstance(each, InvalidRequest):
                outcomes.append(AddOutcome(None, each.message))
            else:
                document = next(documents)
                failed = document.status in (DocumentStatus.FAILED, DocumentStatus.TYPE_DETECTION_FAILED)
                outcomes.append(AddOutcome(document, document.error if failed else None))
        return outcomes

    async def _take_in(self, principal: Principal, uploads: Sequence[Upload], wait_seconds: float) -> list[Document]:
        if not 1 <= len(uploads) <= MAX_BATCH:
            raise InvalidRequest(f"documents: 1 to {MAX_BATCH} at a time.", field="documents")
        await self._check_collections(principal.tenant_id, {upload.collection_id for upload in uploads})
        items, ids = [], []
        for upload in uploads:
            stored = await self._blobs.put(upload.data)
            document_id = await self._reserve_patiently(principal.tenant_id, upload, stored.sha256)
            ids.append(document_id)
            items.append(_item(upload, document_id, stored.sha256))
        job = await self._jobs.submit(principal, INGEST_KIND, {"items": items})
        await self._wait(principal, job, ids, wait_seconds)
        async with self._database.reading() as connection:
            found = await Documents(connection).by_ids(ids)
        return [found[each] for each in ids]

    async def _reserve_patiently(self, tenant_id: str, upload: Upload, sha256: str) -> str:
        """What was purged a moment ago is gone in another; whoever adds it again need not know."""
        deadline = time.monotonic() + PURGE_SECONDS
        while True:
            try:
                return await self._reserve(tenant_id, upload, sha256)
            except Conflict:
                if time.monotonic() > deadline:
                    raise
            self._wake()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _reserve(self, tenant_id: str, upload: Upload, sha256: str) -> str:
        """The document that this content will be of: the one at its address, or a new one that waits for it."""
        url, host, domain = document_address(upload.url or "")
        key = natural_key(upload.collection_id, url)
        async with self._database.writing() as connection:
            documents = Documents(connection)
            known = (await documents.by_keys(tenant_id, [key])).get(key)
            if known is not None:
                if known.is_purging:
                    raise Conflict("The document at this address is being removed; try again in a moment.")
                return known.id
            document = Document(
                tenant_id=tenant_id,
                natural_key=key,
                url=url,
                url_hash=hash_url(url),
                host=host,
                domain=domain,
                source=upload.source,
                collection_id=upload.collection_id,
                rule_id=upload.rule_id,
                title=upload.title,
                filename=upload.filename,
                content_type=upload.content_type,
                original_sha256=sha256,
                size_bytes=len(upload.data),
            )
            await documents.add(document)
            line = DocumentLogLine(
                tenant_id=tenant_id, document_id=document.id, level="INFO", message="Uploaded; waits to be read."
            )
            await DocumentLogs(connection).add(line)
        return document.id

    async def _wait(self, principal: Principal, job: Job, ids: Sequence[str], seconds: float) -> None:
        """Until the job has finished and the index has caught up, or the time is over."""
        deadline, pause = time.monotonic() + seconds, _LOOK_SECONDS
        while time.monotonic() < deadline:
            if not job.is_finished:
                job = await self._jobs.get(principal, job.id)
            if job.state in FINISHED_STATES:
                async with self._database.reading() as connection:
                    found = await Documents(connection).by_ids(ids)
                if all(document.index_due_at is None for document in found.values()):
                    return
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_LOOK_SECONDS)  # many may be waiting

    async def page(self, principal: Principal, query: DocumentQuery) -> Page[Document]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            if query.collection_id is not None:
                await Collections(connection).get(principal.tenant_id, query.collection_id)
            if query.tag_id is not None:
                await Tags(connection).get(principal.tenant_id, query.tag_id)
            documents = Documents(connection)
            return await documents.page(
                *_conditions(principal.tenant_id, query),
                limit=query.limit,
                offset=query.offset,
                order=documents.by_age(newest_first=query.newest_first),
                count_up_to=query.count_up_to,
            )

    async def get(self, principal: Principal, document_id: str) -> Document:
        """The document, also a deleted one; not one that is being removed."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await _get(connection, principal.tenant_id, document_id)

    async def find_by_url(self, principal: Principal, url: str) -> Document | None:
        """The newest document at an address, in whichever collection."""
        found = await self.page(principal, DocumentQuery(url=url, limit=1))
        return found.items[0] if found.items else None

    async def tags_of(self, principal: Principal, document_ids: Sequence[str]) -> Mapping[str, Sequence[Tag]]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await Tags(connection).of_documents(document_ids) if document_ids else {}

    async def content(
        self, principal: Principal, document_id: str, *, version: int | None = None, as_of: datetime | None = None
    ) -> tuple[DocumentVersion, str]:
        """What a document says, or said in a version or at a moment."""
        require(principal, Scope.READ)
        found = await self._version(principal.tenant_id, document_id, version, as_of)
        return found, await self._texts.read(principal.tenant_id, found.content_sha256)

    async def _version(
        self, tenant_id: str, document_id: str, version: int | None, as_of: datetime | None
    ) -> DocumentVersion:
        async with self._database.reading() as connection:
            document = await _get(connection, tenant_id, document_id)
            versions = DocumentVersions(connection)
            if as_of is not None:
                found = (await versions.at(tenant_id, [document_id], as_of)).get(document_id)
            else:
                number = document.version if version is None else version
                every = await versions.of_document(document_id)
                found = next((each for each in every if each.version == number), None)
        if found is None:
            what = f"as of {as_of.isoformat()}" if as_of else f"version {version or document.version}"
            raise NotFound(f"Document '{document_id}' has no content {what}.")
        return found

    async def chunks(self, principal: Principal, document_id: str, *, version: int | None = None) -> Sequence[Chunk]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            document = await _get(connection, principal.tenant_id, document_id)
            return await Chunks(connection).of_document(document_id, version=version or document.version)

    async def versions(self, principal: Principal, document_id: str) -> Sequence[DocumentVersion]:
        """All versions, newest first."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            await _get(connection, principal.tenant_id, document_id)
            return list(reversed(await DocumentVersions(connection).of_document(document_id)))

    async def diff(
        self, principal: Principal, document_id: str, *, from_version: int | None = None, to_version: int | None = None
    ) -> DocumentDiff:
        """What changed between two versions; by default between the last two."""
        document = await self.get(principal, document_id)
        newer = document.version if to_version is None else to_version
        older = max(1, newer - 1) if from_version is None else from_version
        _, old = await self.content(principal, document_id, version=older)
        _, new = await self.content(principal, document_id, version=newer)
        return await asyncio.to_thread(_diff, older, newer, old, new)

    async def log(self, principal: Principal, document_id: str) -> Sequence[DocumentLogLine]:
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            await _get(connection, principal.tenant_id, document_id)
            return await DocumentLogs(connection).of_document(document_id)

    async def original(self, document: Document) -> AsyncIterator[bytes]:
        """The bytes as they came."""
        if document.original_sha256 is None or not await self._blobs.exists(document.original_sha256):
            raise NotFound(f"The original of document '{document.id}' was not kept.")
        return self._blobs.stream(document.original_sha256)

    async def delete(self, principal: Principal, document_id: str) -> None:
        """End a document; `restore` brings it back."""
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            document = await _get(connection, principal.tenant_id, document_id)
            if document.deleted_at is None:
                await retire(connection, [document])
        self._wake()

    async def restore(self, principal: Principal, document_id: str) -> Document:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            document = await _get(connection, principal.tenant_id, document_id)
            if document.deleted_at is None:
                raise Conflict(f"Document '{document_id}' is not deleted.")
            await restore(connection, document)
            restored = await _get(connection, principal.tenant_id, document_id)
        self._wake()
        return restored

    async def purge(self, principal: Principal, document_ids: Sequence[str]) -> None:
        """Remove documents for good: vectors, texts, originals, log and record. If one is not there, none of them."""
        require(principal, Scope.ADMIN)
        wanted = list(dict.fromkeys(document_ids))
        parts = [wanted[start : start + REMOVED_AT_ONCE] for start in range(0, len(wanted), REMOVED_AT_ONCE)]
        async with self._database.reading() as connection:
            for part in parts:
                known = await Documents(connection).by_ids(part)
                for each in part:
                    _require_shown(known.get(each), principal.tenant_id, each)
        for part in parts:  # others get their turn to write in between
            async with self._database.writing() as connection:
                known = await Documents(connection).by_ids(part)
                await mark_for_removal(connection, [each for each in known.values() if not each.is_purging])
                await note_act(connection, principal, "documents.purged", part[0], document_ids=part)
            self._wake()

    async def tag(self, principal: Principal, document_id: str, names: Sequence[str]) -> Sequence[Tag]:
        require(principal, Scope.WRITE)
        wanted = [clean_tag(name) for name in names]
        async with self._database.writing() as connection:
            await _get(connection, principal.tenant_id, document_id)
            tags = Tags(connection)
            made = await tags.by_names(principal.tenant_id, wanted)
            if await tags.attach(document_id, [tag.id for tag in made]):
                await Documents(connection).change(document_id, index_due_at=utc_now())
            found = await tags.of_documents([document_id])
        self._wake()
        return found.get(document_id, ())

    async def untag(self, principal: Principal, document_id: str, tag_id: str) -> None:
        require(principal, Scope.WRITE)
        async with self._database.writing() as connection:
            await _get(connection, principal.tenant_id, document_id)
            if not await Tags(connection).detach(document_id, tag_id):
                raise NotFound(f"Document '{document_id}' does not have the tag '{tag_id}'.")
            await Documents(connection).change(document_id, index_due_at=utc_now())
        self._wake()

    async def move(self, principal: Principal, document_id: str, collection_id: str | None) -> Document:
        """Put a document into another collection, or into none."""
        require(principal, Scope.WRITE)
        await self._check_collections(principal.tenant_id, {collection_id})
        async with self._database.writing() as connection:
            document = await _get(connection, principal.tenant_id, document_id)
            key = natural_key(collection_id, document.url)
            await Documents(connection).update(
                principal.tenant_id, document_id, natural_key=key, collection_id=collection_id
            )
            await Documents(connection).change(document_id, index_due_at=utc_now())
            moved = await _get(connection, principal.tenant_id, document_id)
        self._wake()
        return moved

    async def reindex(self, principal: Principal, document_ids: Sequence[str]) -> Job:
        """Have documents cut and embedded anew."""
        require(principal, Scope.WRITE)
        async with self._database.reading() as connection:
            for each in document_ids:
                await _get(connection, principal.tenant_id, each)
        return await self._jobs.submit(principal, REINDEX_KIND, {"document_ids": list(document_ids)})

    async def rebuild(self, principal: Principal) -> Job:
        """Have the whole index built anew, for all tenants; the old one serves until the new one is complete."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may build the index anew.")
        async with self._database.writing() as connection:
            await note_act(connection, principal, "index.rebuilt")
        return await self._jobs.submit(principal, REINDEX_KIND, {})

    async def _check_collections(self, tenant_id: str, collection_ids: set[str | None]) -> None:
        async with self._database.reading() as connection:
            for each in collection_ids:
                if each is not None:
                    await Collections(connection).get(tenant_id, each)


async def _get(connection: AsyncConnection, tenant_id: str, document_id: str) -> Document:
    known = await Documents(connection).by_ids([document_id])
    return _require_shown(known.get(document_id), tenant_id, document_id)


def _require_shown(document: Document | None, tenant_id: str, document_id: str) -> Document:
    if document is None or document.tenant_id != tenant_id or document.is_purging:
        raise NotFound(f"Document '{document_id}' not found.")
    return document


def _conditions(tenant_id: str, query: DocumentQuery) -> list[ColumnElement[bool]]:
    row = DocumentRow
    found: list[ColumnElement[bool]] = [row.tenant_id == tenant_id, row.is_purging.is_(False)]
    found.append(row.deleted_at.is_not(None) if query.deleted else row.deleted_at.is_(None))
    for column, value in (
        (row.collection_id, query.collection_id), (row.source, query.source), (row.status, query.status),
        (row.plan_id, query.plan_id), (row.operation_id, query.operation_id),
    ):  # fmt: skip
        if value is not None:
            found.append(column == value)
    if query.host is not None:
        # A registrable domain stands for all its hosts; one column, so that an index has them in order.
        host = query.host.lower()
        found.append(row.domain == host if registrable_domain(host) == host else row.host == host)
    if query.url is not None:
        found.append(row.url_hash == hash_url(document_address(query.url)[0]))
    if query.tag_id is not None:
        found.append(row.id.in_(select(DocumentTagRow.document_id).where(DocumentTagRow.tag_id == query.tag_id)))
    return found


def _check_upload(upload: Upload) -> Upload:
    if not upload.data:
        raise InvalidRequest("content is empty.", field="content")
    if len(upload.data) > MAX_UPLOAD_BYTES:
        raise InvalidRequest(f"content is larger than {MAX_UPLOAD_BYTES // 1024**2} MB.", field="content")
    if len(upload.tags) > MAX_TAGS:
        raise InvalidRequest(f"tags: at most {MAX_TAGS}.", field="tags")
    if upload.chunking is not None and upload.chunking.pattern is not None:
        compile_pattern(upload.chunking.pattern)
    url = upload.url
    if url is None:
        name = upload.filename or hashlib.sha256(upload.data).hexdigest()[:32]
        url = f"{upload.source}://{storable_text(name)}"
    else:
        url = _check_address(url)
    return replace(upload, url=url, tags=tuple(dict.fromkeys(clean_tag(tag) for tag in upload.tags)))


def _check_address(url: str) -> str:
    """An address that a document can have: of a page, or of what is no page but can be shown as a link all the same."""
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in OTHER_SCHEMES:
        return normalize_url(url)
    if len(url) > MAX_URL_LENGTH or not url.isprintable():
        raise InvalidRequest(f"url must have at most {MAX_URL_LENGTH} printable characters.", field="url")
    return url


def _item(upload: Upload, document_id: str, sha256: str) -> dict[str, Any]:
    return {
        "document_id": document_id,
        "original_sha256": sha256,
        "url": upload.url,
        "source": str(upload.source),
        "filename": upload.filename,
        "content_type": upload.content_type,
        "title": upload.title,
        "language": upload.language,
        "collection_id": upload.collection_id,
        "rule_id": upload.rule_id,
        "tags": list(upload.tags),
        "details": dict(upload.details),
        "chunking": upload.chunking.model_dump(mode="json", exclude_defaults=True) if upload.chunking else None,
    }


def _diff(older: int, newer: int, old: str, new: str) -> DocumentDiff:
    before, after = old.splitlines()[:MAX_DIFF_LINES], new.splitlines()[:MAX_DIFF_LINES]
    lines = list(difflib.unified_diff(before, after, f"version {older}", f"version {newer}", lineterm=""))
    hunks: list[dict[str, Any]] = []
    for line in lines[2:]:
        if line.startswith("@@"):
            hunks.append({"header": line, "lines": []})
        elif hunks:
            kind = {"+": "added", "-": "removed"}.get(line[:1], "same")
            hunks[-1]["lines"].append({"kind": kind, "text": line[1:]})
    shown = [line for hunk in hunks for line in hunk["lines"]]
    return DocumentDiff(
        from_version=older,
        to_version=newer,
        added_lines=sum(line["kind"] == "added" for line in shown),
        removed_lines=sum(line["kind"] == "removed" for line in shown),
        unified="\n".join(lines),
        hunks=tuple(hunks),
    )
