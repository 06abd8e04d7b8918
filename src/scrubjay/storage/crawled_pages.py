"""Crawled pages: per scope, what its last crawl knows of every address, with the text itself."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime

from sqlalchemy import ForeignKey, Index, and_, bindparam, delete, or_, select, update
from sqlalchemy.orm import Mapped, aliased, mapped_column

from scrubjay.model.crawling import CrawledPage, KnownPage, PageListing, PageSeen
from scrubjay.storage.repository import Base, Repository, batches, table_options
from scrubjay.storage.types import BYTES, Hash, Id, LongText, Name, Number, UtcDateTime

PAGE = 200


class CrawledPageRow(Base):
    __tablename__ = "crawled_pages"
    __table_args__ = table_options(
        Index("ix_crawled_pages_job", "job_id", "url_hash"),
        Index("ix_crawled_pages_content", "scope_id", "content_sha256"),
        Index("ix_crawled_pages_url", "url_hash"),
    )

    scope_id: Mapped[Id] = mapped_column(primary_key=True)
    url_hash: Mapped[Hash] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    job_id: Mapped[Id]
    url: Mapped[LongText]
    depth: Mapped[int]
    parent_url: Mapped[LongText | None]
    status: Mapped[int | None]
    error_type: Mapped[Name | None]
    error: Mapped[LongText | None]
    content_type: Mapped[LongText | None]
    etag: Mapped[LongText | None]
    last_modified: Mapped[LongText | None]
    size_bytes: Mapped[Number]
    body_sha256: Mapped[Hash | None]
    content_sha256: Mapped[Hash | None]
    duplicate_of: Mapped[Hash | None]
    title: Mapped[LongText | None]
    method: Mapped[Name | None]
    content: Mapped[bytes | None] = mapped_column(BYTES)
    details: Mapped[bytes | None] = mapped_column(BYTES)
    duration_ms: Mapped[int]
    attempts: Mapped[int] = mapped_column(server_default="1")
    fetched_at: Mapped[datetime] = mapped_column(UtcDateTime)
    changed_at: Mapped[datetime] = mapped_column(UtcDateTime)


class CrawledPages(Repository[CrawledPage]):
    row = CrawledPageRow
    model = CrawledPage
    noun = "crawled page"
    key = ("scope_id", "url_hash")

    async def put(self, pages: Sequence[CrawledPage]) -> None:
        """Store pages in place of what was known of them."""
        # In one order: two crawls that store the same pages would otherwise wait for each other in a circle.
        pages = sorted(pages, key=lambda page: (page.scope_id, page.url_hash))
        for batch in batches(pages):
            by_key = {(page.scope_id, page.url_hash): page for page in batch}
            for scope_id in {scope for scope, _ in by_key}:
                hashes = [url_hash for scope, url_hash in by_key if scope == scope_id]
                await self.connection.execute(
                    delete(CrawledPageRow).where(
                        CrawledPageRow.scope_id == scope_id, CrawledPageRow.url_hash.in_(hashes)
                    )
                )
            await self.add_many(list(by_key.values()))

    async def confirm(self, scope_id: str, job_id: str, seen: Sequence[PageSeen]) -> None:
        """Note that pages were seen again, and still have their content.

        What is written takes as much room as what was there, so that SQLite need not write the texts again.
        """
        if seen:
            values = [
                {
                    "in_scope": scope_id,
                    "of_url": page.url_hash,
                    "now_job": job_id,
                    "now_depth": page.depth,
                    "now_error_type": page.error_type,
                    "now_error": page.error,
                    "now_status": page.status,
                    "now_attempts": page.attempts,
                    "seen_at": page.seen_at,
                }
                for page in sorted(seen, key=lambda page: page.url_hash)
            ]
            await self.connection.execute(_CONFIRM, values)

    async def known(self, scope_id: str, hashes: Collection[str]) -> Mapping[str, KnownPage]:
        """What earlier crawls kept of these addresses, by hash; the text itself is not read."""
        if not hashes:
            return {}
        rows = await self.connection.execute(_KNOWN_OF_URLS, {"in_scope": scope_id, "of_urls": list(hashes)})
        pages = [KnownPage(**dict(zip(_KNOWN_NAMES, row, strict=True))) for row in rows]
        return {page.url_hash: page for page in pages}

    async def known_elsewhere(
        self, tenant_id: str, scope_id: str, hashes: Collection[str]
    ) -> Mapping[str, Sequence[KnownPage]]:
        """What other scopes of the tenant know of these addresses and have the text of, by hash."""
        found: dict[str, list[KnownPage]] = {}
        if hashes:
            values = {"of_tenant": tenant_id, "not_scope": scope_id, "of_urls": list(hashes)}
            for row in await self.connection.execute(_KNOWN_ELSEWHERE, values):
                page = KnownPage(**dict(zip(_KNOWN_NAMES, row, strict=True)))
                found.setdefault(page.url_hash, []).append(page)
        return found

    async def by_hashes(self, scope_id: str, hashes: Collection[str]) -> Sequence[CrawledPage]:
        return await self.every(CrawledPageRow.scope_id == scope_id, CrawledPageRow.url_hash.in_(list(hashes)))

    async def first_with_content(self, scope_id: str, job_id: str, contents: Collection[str]) -> Mapping[str, str]:
        """Content hash → the address hash under which this crawl has it already."""
        if not contents:
            return {}
        rows = await self.connection.execute(
            select(CrawledPageRow.content_sha256, CrawledPageRow.url_hash).where(
                CrawledPageRow.scope_id == scope_id,
                CrawledPageRow.content_sha256.in_(list(contents)),
                CrawledPageRow.job_id == job_id,
                CrawledPageRow.duplicate_of.is_(None),
            )
        )
        return {content: url_hash for content, url_hash in rows if content is not None}

    async def doubtful_duplicates(self, job_id: str, *, after: str = "") -> Sequence[CrawledPage]:
        """The next pages of a job, by hash, that are called duplicates of what the job did not find, or not with
        this content."""
        first = aliased(CrawledPageRow)
        same = and_(
            first.scope_id == CrawledPageRow.scope_id,
            first.url_hash == CrawledPageRow.duplicate_of,
            first.job_id == job_id,
            first.duplicate_of.is_(None),
        )
        return await self._items(
            select(*self._columns)
            .outerjoin_from(CrawledPageRow, first, same)
            .where(CrawledPageRow.job_id == job_id, CrawledPageRow.url_hash > after)
            .where(CrawledPageRow.duplicate_of.is_not(None))
            .where(or_(first.content_sha256.is_(None), first.content_sha256 != CrawledPageRow.content_sha256))
            .order_by(CrawledPageRow.url_hash)
            .limit(PAGE)
        )

    async def with_content(self, scope_id: str, job_id: str, hashes: Collection[str]) -> Collection[str]:
        """Which of these addresses a job found with content of their own."""
        rows = await self.connection.execute(
            select(CrawledPageRow.url_hash).where(
                CrawledPageRow.scope_id == scope_id,
                CrawledPageRow.url_hash.in_(list(hashes)),
                CrawledPageRow.job_id == job_id,
                CrawledPageRow.content_sha256.is_not(None),
                CrawledPageRow.duplicate_of.is_(None),
            )
        )
        return set(rows.scalars())

    async def acquit(self, scope_id: str, hashes: Collection[str]) -> None:
        """These pages are no duplicates after all."""
        await self.connection.execute(
            update(CrawledPageRow)
            .where(CrawledPageRow.scope_id == scope_id, CrawledPageRow.url_hash.in_(list(hashes)))
            .values(duplicate_of=None)
        )

    async def of_job(self, job_id: str, *, after: str = "", limit: int = PAGE) -> Sequence[CrawledPage]:
        """The next pages, by hash, that a job fetched or confirmed."""
        return await self.every(
            CrawledPageRow.job_id == job_id,
            CrawledPageRow.url_hash > after,
            order=[CrawledPageRow.url_hash],
            limit=limit,
        )

    async def of_scope(self, scope_id: str, *, after: str = "") -> Sequence[CrawledPage]:
        """Everything that is known of a scope, by hash, some at a time."""
        return await self.every(
            CrawledPageRow.scope_id == scope_id,
            CrawledPageRow.url_hash > after,
            order=[CrawledPageRow.url_hash],
            limit=PAGE,
        )

    async def listing(
        self, scope_id: str, job_id: str, *, after: str = "", limit: int = 1000, only_problems: bool = False
    ) -> Sequence[PageListing]:
        """What a job found, without the texts, by hash."""
        row = CrawledPageRow
        statement = select(*_LISTING).where(row.job_id == job_id, row.scope_id == scope_id, row.url_hash > after)
        if only_problems:
            statement = statement.where(row.error_type.is_not(None))
        rows = await self.connection.execute(statement.order_by(row.url_hash).limit(limit))
        return [PageListing._make(row) for row in rows]

    async def move_scope(self, scope_id: str, new_scope_id: str) -> None:
        """Give the pages of one scope to another one, which has none yet."""
        await self.connection.execute(
            update(CrawledPageRow).where(CrawledPageRow.scope_id == scope_id).values(scope_id=new_scope_id)
        )

    async def depths(self, scope_id: str, hashes: Collection[str]) -> Mapping[str, int]:
        """How many links from the start these pages were, by hash."""
        rows = await self.connection.execute(
            select(CrawledPageRow.url_hash, CrawledPageRow.depth).where(
                CrawledPageRow.scope_id == scope_id, CrawledPageRow.url_hash.in_(list(hashes))
            )
        )
        return {url_hash: int(depth) for url_hash, depth in rows}

    async def remove(self, scope_id: str, hashes: Collection[str]) -> None:
        await self.connection.execute(
            delete(CrawledPageRow).where(CrawledPageRow.scope_id == scope_id, CrawledPageRow.url_hash.in_(list(hashes)))
        )

    async def remove_scope(self, scope_id: str) -> None:
        await self.connection.execute(delete(CrawledPageRow).where(CrawledPageRow.scope_id == scope_id))

    async def sweep(self, scope_id: str, job_id: str) -> None:
        """Forget addresses without content that a complete crawl did not come across any more."""
        await self.connection.execute(
            delete(CrawledPageRow).where(
                CrawledPageRow.scope_id == scope_id, CrawledPageRow.job_id != job_id, CrawledPageRow.content.is_(None)
            )
        )


_KNOWN_NAMES = [field.name for field in fields(KnownPage)]
_KNOWN = [CrawledPageRow.__table__.c[name] for name in _KNOWN_NAMES]
_KNOWN_OF_URLS = select(*_KNOWN).where(
    CrawledPageRow.scope_id == bindparam("in_scope"),
    CrawledPageRow.url_hash.in_(bindparam("of_urls", expanding=True)),
)
_KNOWN_ELSEWHERE = (
    select(*_KNOWN)
    .where(
        CrawledPageRow.tenant_id == bindparam("of_tenant"),
        CrawledPageRow.url_hash.in_(bindparam("of_urls", expanding=True)),
        CrawledPageRow.scope_id != bindparam("not_scope"),
        CrawledPageRow.content_sha256.is_not(None),
    )
    .order_by(CrawledPageRow.fetched_at.desc())
)
_LISTING = [CrawledPageRow.__table__.c[name] for name in PageListing._fields]
_CONFIRM = (
    update(CrawledPageRow)
    .where(
        CrawledPageRow.scope_id == bindparam("in_scope"),
        CrawledPageRow.url_hash == bindparam("of_url"),
    )
    .values(
        job_id=bindparam("now_job"),
        depth=bindparam("now_depth"),
        error_type=bindparam("now_error_type"),
        error=bindparam("now_error"),
        status=bindparam("now_status"),
        attempts=bindparam("now_attempts"),
        fetched_at=bindparam("seen_at"),
    )
    .execution_options(synchronize_session=False)
)
