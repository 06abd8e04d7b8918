"""Who has a body."""

from typing import Any

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.storage.contents import ContentRow
from scrubjay.storage.crawled_pages import CrawledPageRow
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.inventory import InventoryFileRow
from scrubjay.storage.versions import DocumentVersionRow


async def is_held(connection: AsyncConnection, sha256: str) -> bool:
    """Whether anything else has this body; bodies are shared, also between tenants."""
    holders: tuple[Any, ...] = (
        select(DocumentRow.id).where(or_(DocumentRow.original_sha256 == sha256, DocumentRow.content_sha256 == sha256)),
        select(DocumentVersionRow.id).where(
            or_(DocumentVersionRow.original_sha256 == sha256, DocumentVersionRow.content_sha256 == sha256)
        ),
        select(ContentRow.content_sha256).where(ContentRow.content_sha256 == sha256, ContentRow.body.is_(None)),
        select(InventoryFileRow.id).where(InventoryFileRow.blob_sha256 == sha256),
        select(CrawledPageRow.url_hash).where(CrawledPageRow.body_sha256 == sha256),
    )
    for holder in holders:
        if (await connection.execute(holder.limit(1))).first() is not None:
            return True
    return False
