"""One document per tenant, collection and canonical URL: recomputes URLs and keys, and merges duplicates.

Also drops the table of job schedules, which nothing ever wrote to. Rows are read in batches, by their keys.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any
from uuid import UUID

from alembic import op
from sqlalchemy import (
    Boolean,
    Connection,
    Integer,
    RowMapping,
    String,
    TableClause,
    and_,
    bindparam,
    case,
    column,
    delete,
    insert,
    inspect,
    or_,
    select,
    table,
    update,
)

from scrubjay.model.ids import id_from_uuid
from scrubjay.model.urls import canonical_form, hash_url, normal_form
from scrubjay.storage.types import JSON_VALUE, UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

BATCH = 500
ALSO_FROM = "also_from"  # in a document's details: where the documents came from that were merged into it

# Content of a document: taken from whichever of the merged ones has the newest text.
CONTENT = (
    "status", "title", "filename", "content_type", "language", "details", "size_bytes", "content_sha256",
    "original_sha256", "chunk_count", "error", "chunking", "crawled_at", "parent_url", "rule_id",
)  # fmt: skip
_TIMES = ("created_at", "crawled_at", "updated_at", "deleted_at", "index_due_at", "ended_at")
_NUMBERS = ("version", "chunk_index", "chunk_count", "size_bytes", "indexed_version", "index_revision")
_TYPES: Mapping[str, Any] = {
    **dict.fromkeys(_TIMES, UtcDateTime()),
    **dict.fromkeys(_NUMBERS, Integer()),
    **dict.fromkeys(("details", "chunking"), JSON_VALUE),
    "is_purging": Boolean(),
}

TEMPORARY_INDEXES = {
    "ix_merge_items": ("operation_items", "document_id"),
    "ix_merge_duplicates": ("documents", "duplicate_of"),
}


def _table(name: str, columns: str) -> TableClause:
    return table(name, *(column(each, _TYPES.get(each, String())) for each in columns.split()))


DOCUMENTS = _table(
    "documents",
    "id tenant_id natural_key url url_hash source collection_id plan_id operation_id version duplicate_of created_at "
    "updated_at deleted_at is_purging index_due_at index_revision index_lease " + " ".join(CONTENT),
)
VERSIONS = _table("document_versions", "id document_id version created_at ended_at")
CHUNKS = _table("chunks", "id document_id version chunk_index")
TAGS = _table("document_tags", "document_id tag_id")
FILES = _table("vector_store_files", "document_id")
LOGS = _table("document_logs", "document_id")
LEDGER = _table("ledger", "plan_id key_hash key document_id")
OPERATION_ITEMS = _table("operation_items", "operation_id key_hash key document_id")
QUEUE = _table("ingest_queue", "scope_id url_hash")
FRONTIER = _table("frontier", "job_id url_hash url")
PAGES = _table("crawled_pages", "scope_id url_hash url")


def upgrade() -> None:
    connection = op.get_bind()
    for addresses, scope, key, url in (
        (FRONTIER, "job_id", "url_hash", "url"),
        (PAGES, "scope_id", "url_hash", "url"),
        (LEDGER, "plan_id", "key_hash", "key"),
        (OPERATION_ITEMS, "operation_id", "key_hash", "key"),
    ):
        _rehash_addresses(connection, addresses, scope, key, url)
    _create_indexes(connection)
    _rekey_documents(connection)
    _merge_aliases(connection)
    _drop_indexes()
    _drop_schedules()


def _create_indexes(connection: Connection) -> None:
    """Find references to a merged document quickly. They may be left from an attempt that failed on MariaDB/MySQL."""
    for name, (where, by) in TEMPORARY_INDEXES.items():
        if name not in {each["name"] for each in inspect(connection).get_indexes(where)}:
            op.create_index(name, where, [by])


def _drop_indexes() -> None:
    for name, (where, _) in TEMPORARY_INDEXES.items():
        op.drop_index(name, where)


def _drop_schedules() -> None:
    op.drop_table("schedules", if_exists=True)


def _rehash_addresses(connection: Connection, addresses: TableClause, scope: str, key: str, url: str) -> None:
    """Crawls know pages by the hash of their URL's normal form, which has no tracking parameters any more."""
    columns = addresses.c
    here = and_(columns[scope] == bindparam("old_scope"), columns[key] == bindparam("old_key"))
    for rows in _pages(connection, addresses, (scope, key), columns[url].like("%?%")):
        changes = []
        for row in rows:
            new = hash_url(normal_form(row[url]))
            if row[key] != new and row[key] == hash_url(_form_before(row[url])):
                changes.append({"old_scope": row[scope], "old_key": row[key], "new_key": new})
        if not changes:
            continue
        wanted = {change["new_key"] for change in changes}
        held = connection.execute(select(columns[scope], columns[key]).where(columns[key].in_(wanted)))
        taken = {tuple(row) for row in held}
        kept: list[dict[str, str]] = []
        dropped: list[dict[str, str]] = []
        for change in changes:
            target = change["old_scope"], change["new_key"]
            (dropped if target in taken else kept).append(change)
            taken.add(target)
        if kept:
            connection.execute(update(addresses).where(here).values({key: bindparam("new_key")}), kept)
        if dropped:
            gone = [{name: change[name] for name in ("old_scope", "old_key")} for change in dropped]
            connection.execute(delete(addresses).where(here), gone)
        if addresses is PAGES:
            waiting = and_(QUEUE.c.scope_id == bindparam("old_scope"), QUEUE.c.url_hash == bindparam("old_key"))
            connection.execute(update(QUEUE).where(waiting).values(url_hash=bindparam("new_key")), changes)


def _form_before(url: str) -> str:
    """The normal form as it was before this migration, of a URL that was parsed once."""
    start, _, query = url.partition("?")
    if start.endswith("/") and start.count("/") > 3:
        start = start.rstrip("/")
        if start.count("/") < 3:
            start += "/"
    if "&" in query:
        query = "&".join(sorted(part for part in query.split("&") if part))
    return f"{start}?{query}" if query else start


def _rekey_documents(connection: Connection) -> None:
    for rows in _pages(connection, DOCUMENTS, ("id",), DOCUMENTS.c.is_purging.is_(False)):
        wanted = [(row["tenant_id"], _key(row["collection_id"], _url(row["url"])), row) for row in rows]
        ours, targets = {row["id"] for row in rows}, {(tenant, key) for tenant, key, _ in wanted}
        holders = _holders(connection, {key for _, key in targets})
        wanted += [(*target, row) for target, row in holders.items() if target in targets and row["id"] not in ours]
        wanted.sort(key=lambda each: (each[0], each[1], each[2]["id"]))
        for (_, key), group in groupby(wanted, key=itemgetter(0, 1)):
            members = [row for _, _, row in group]
            if any(row["is_purging"] for row in members):
                _free_keys(connection, [row for row in members if row["is_purging"]])
                members = [row for row in members if not row["is_purging"]]
            survivor = min(members, key=_rank)
            _merge(connection, survivor, [row for row in members if row is not survivor])
            _move(connection, survivor, key, _url(survivor["url"]))


def _merge_aliases(connection: Connection) -> None:
    """A page that declares another page of the same text as its canonical one shares that page's document."""
    alive = and_(DOCUMENTS.c.is_purging.is_(False), DOCUMENTS.c.deleted_at.is_(None), DOCUMENTS.c.source == "crawl")
    for rows in _pages(connection, DOCUMENTS, ("id",), alive):
        aliases = {}
        for row in rows:
            canonical = (row["details"] or {}).get("canonical_url")
            if isinstance(canonical, str) and row["url"].startswith("http"):
                url = canonical_form(row["url"], canonical)
                if url != row["url"]:
                    aliases[row["id"]] = _key(row["collection_id"], url)
        for document_id, key in aliases.items():
            found = {row["id"]: row for row in _read(connection, [document_id])}
            row = found[document_id]
            target = _holders(connection, {key}).get((row["tenant_id"], key))
            if target is None or row["is_purging"] or target["is_purging"] or target["deleted_at"] is not None:
                continue
            if target["id"] != row["id"] and target["content_sha256"] == row["content_sha256"] is not None:
                _merge(connection, target, [row])


def _rank(row: RowMapping) -> tuple[bool, bool, datetime, str]:
    """Which of the documents at one URL stays: one that is alive, a plan's, the oldest."""
    return row["deleted_at"] is not None, row["plan_id"] is None, row["created_at"], row["id"]


def _merge(connection: Connection, survivor: RowMapping, losers: Sequence[RowMapping]) -> None:
    """Give one document the history, tags and references of the others, and leave those to the indexer to remove."""
    if not losers:
        return
    now = datetime.now(UTC)
    freshest = _merge_versions(connection, survivor, losers)
    _merge_references(connection, survivor["id"], [row["id"] for row in losers])
    changes = {name: freshest[name] for name in CONTENT}
    details = dict(freshest["details"] or {})
    known = [each for row in (survivor, *losers) for each in (row["details"] or {}).get(ALSO_FROM, ())]
    changes["details"] = {**details, ALSO_FROM: [*known, *map(_origin, losers)]}
    plans = [row["plan_id"] for row in (survivor, *losers) if row["deleted_at"] is None and row["plan_id"]]
    changes["plan_id"] = survivor["plan_id"] or next(iter(plans), None)
    changes["created_at"] = min(row["created_at"] for row in (survivor, *losers))
    others = {row["id"] for row in (survivor, *losers)}
    changes["duplicate_of"] = None if freshest["duplicate_of"] in others else freshest["duplicate_of"]
    _change(connection, survivor["id"], updated_at=now, index_due_at=now, **changes)
    _free_keys(connection, losers)
    for row in losers:
        ended = row["deleted_at"] or now
        _change(connection, row["id"], is_purging=True, deleted_at=ended, updated_at=now, index_due_at=now, version=0)


def _merge_versions(connection: Connection, survivor: RowMapping, losers: Sequence[RowMapping]) -> RowMapping:
    """Number the versions of all by the time they were made; returns the document that has the newest text.

    Its version comes last, because a document's current version is the one with the highest number.
    """
    documents = {row["id"]: row for row in (survivor, *losers)}
    found = connection.execute(select(VERSIONS).where(VERSIONS.c.document_id.in_(documents))).mappings()
    versions = sorted(found, key=lambda row: (row["created_at"], row["id"]))
    current = [row for row in versions if documents[row["document_id"]]["version"] == row["version"]]
    alive = [row for row in current if documents[row["document_id"]]["deleted_at"] is None]
    if not current:
        return survivor
    last = (alive or current)[-1]
    order = [*(row for row in versions if row is not last), last]
    numbers = {(row["document_id"], row["version"]): number for number, row in enumerate(order, 1)}
    # What was current in one of the documents was so until another one that lives got its next text.
    living = [row for row in order if documents[row["document_id"]]["deleted_at"] is None]
    ends = {row["id"]: row["ended_at"] or later["created_at"] for row, later in pairwise(living)}
    _renumber_versions(connection, survivor["id"], order, ends)
    _renumber_chunks(connection, survivor["id"], list(documents), numbers)
    _change(connection, survivor["id"], version=len(order))
    return documents[last["document_id"]]


def _renumber_versions(
    connection: Connection, survivor_id: str, order: Sequence[RowMapping], ends: Mapping[str, datetime]
) -> None:
    # By way of negative numbers: a document has every number once.
    connection.execute(
        update(VERSIONS)
        .where(VERSIONS.c.id == bindparam("version_id"))
        .values(document_id=survivor_id, version=bindparam("number"), ended_at=bindparam("end", type_=UtcDateTime())),
        [
            {"version_id": row["id"], "number": -number, "end": ends.get(row["id"], row["ended_at"])}
            for number, row in enumerate(order, 1)
        ],
    )
    connection.execute(
        update(VERSIONS)
        .where(VERSIONS.c.document_id == survivor_id, VERSIONS.c.version < 0)
        .values(version=-VERSIONS.c.version)
    )


def _renumber_chunks(
    connection: Connection, survivor_id: str, document_ids: Sequence[str], numbers: Mapping[tuple[str, int], int]
) -> None:
    """A chunk's id is made of its document, version and index; the index of searches follows by these ids."""
    rows = list(connection.execute(select(CHUNKS).where(CHUNKS.c.document_id.in_(document_ids))).mappings())
    kept = [row for row in rows if (row["document_id"], row["version"]) in numbers]
    lost = [{"chunk_id": row["id"]} for row in rows if (row["document_id"], row["version"]) not in numbers]
    if lost:
        connection.execute(delete(CHUNKS).where(CHUNKS.c.id == bindparam("chunk_id")), lost)
    if not kept:
        return
    first, second = [], []
    for row in kept:
        number, index = numbers[row["document_id"], row["version"]], row["chunk_index"]
        meanwhile = _chunk_id(f"{survivor_id}/merged", number, index)
        first.append({"old": row["id"], "new": meanwhile, "number": -number})
        second.append({"old": meanwhile, "new": _chunk_id(survivor_id, number, index), "number": number})
    move = (
        update(CHUNKS)
        .where(CHUNKS.c.id == bindparam("old"))
        .values(id=bindparam("new"), document_id=survivor_id, version=bindparam("number"))
    )
    connection.execute(move, first)
    connection.execute(move, second)


def _merge_references(connection: Connection, survivor_id: str, loser_ids: Sequence[str]) -> None:
    for referring in (LEDGER, OPERATION_ITEMS, LOGS):
        there = referring.c.document_id.in_(loser_ids)
        connection.execute(update(referring).where(there).values(document_id=survivor_id))
    repeated = DOCUMENTS.c.duplicate_of.in_(loser_ids)
    other = case((DOCUMENTS.c.id == survivor_id, None), else_=survivor_id)
    connection.execute(update(DOCUMENTS).where(repeated).values(duplicate_of=other))
    ids = [survivor_id, *loser_ids]
    tags = list(connection.execute(select(TAGS).where(TAGS.c.document_id.in_(ids))).mappings())
    own = {row["tag_id"] for row in tags if row["document_id"] == survivor_id}
    more = sorted({row["tag_id"] for row in tags} - own)
    if more:
        connection.execute(insert(TAGS), [{"document_id": survivor_id, "tag_id": tag_id} for tag_id in more])
    connection.execute(delete(TAGS).where(TAGS.c.document_id.in_(loser_ids)))
    files = set(connection.execute(select(FILES.c.document_id).where(FILES.c.document_id.in_(ids))).scalars())
    if survivor_id not in files and files:
        only = FILES.c.document_id == min(files)
        connection.execute(update(FILES).where(only).values(document_id=survivor_id))
    connection.execute(delete(FILES).where(FILES.c.document_id.in_(loser_ids)))


def _origin(row: RowMapping) -> dict[str, Any]:
    facts = {name: row[name] for name in ("url", "source", "plan_id", "operation_id")}
    facts |= {"document_id": row["id"], "job_id": (row["details"] or {}).get("job_id")}
    return {name: value for name, value in facts.items() if value is not None}


def _move(connection: Connection, row: RowMapping, key: str, url: str) -> None:
    if row["url"] != url:
        now = datetime.now(UTC)
        _change(connection, row["id"], natural_key=key, url=url, url_hash=hash_url(url), index_due_at=now)
    elif row["natural_key"] != key:
        connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.id == row["id"]).values(natural_key=key))


def _change(connection: Connection, document_id: str, **changes: Any) -> None:
    """Change a document, and have the index follow it."""
    connection.execute(
        update(DOCUMENTS)
        .where(DOCUMENTS.c.id == document_id)
        .values(index_revision=DOCUMENTS.c.index_revision + 1, index_lease=None, **changes)
    )


def _free_keys(connection: Connection, rows: Sequence[RowMapping]) -> None:
    """Documents that are being removed must not stand where another one is to be."""
    for row in rows:
        key = hashlib.sha256(f"merged\n{row['id']}".encode()).hexdigest()
        connection.execute(update(DOCUMENTS).where(DOCUMENTS.c.id == row["id"]).values(natural_key=key))


def _holders(connection: Connection, keys: Iterable[str]) -> dict[tuple[str, str], RowMapping]:
    found = connection.execute(select(DOCUMENTS).where(DOCUMENTS.c.natural_key.in_(list(keys)))).mappings()
    return {(row["tenant_id"], row["natural_key"]): row for row in found}


def _read(connection: Connection, ids: Sequence[str]) -> Sequence[RowMapping]:
    return connection.execute(select(DOCUMENTS).where(DOCUMENTS.c.id.in_(ids))).mappings().all()


def _pages(
    connection: Connection, source: TableClause, key: tuple[str, ...], condition: Any
) -> Iterator[Sequence[RowMapping]]:
    """The rows of a table in the order of its key, a batch at a time."""
    columns = [source.c[name] for name in key]
    after: tuple[Any, ...] | None = None
    while True:
        query = select(source).where(condition).order_by(*columns).limit(BATCH)
        if after is not None:
            later = [
                and_(*(columns[i] == after[i] for i in range(place)), columns[place] > after[place])
                for place in range(len(columns))
            ]
            query = query.where(or_(*later))
        rows = connection.execute(query).mappings().all()
        if not rows:
            return
        yield rows
        after = tuple(rows[-1][name] for name in key)


def _url(url: str) -> str:
    return normal_form(url) if url.startswith(("http://", "https://")) else url


def _key(collection_id: str | None, url: str) -> str:
    return hashlib.sha256(f"{collection_id or ''}\n{url}".encode()).hexdigest()


def _chunk_id(document_id: str, version: int, index: int) -> str:
    digest = hashlib.sha256(f"{document_id}/{version}/{index}".encode()).digest()
    return id_from_uuid("chnk", UUID(bytes=digest[:16]))
