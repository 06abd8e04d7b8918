"""The texts of document versions, each kept once per tenant under its hash."""

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import ForeignKey, delete, select
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import Content
from scrubjay.storage.repository import Base, Repository, batches, table_options
from scrubjay.storage.types import BYTES, Hash, Id, UtcDateTime


class ContentRow(Base):
    __tablename__ = "contents"
    __table_args__ = table_options()

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    content_sha256: Mapped[Hash] = mapped_column(primary_key=True)
    body: Mapped[bytes | None] = mapped_column(BYTES)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Contents(Repository[Content]):
    row = ContentRow
    model = Content
    noun = "content"
    key = ("content_sha256",)

    async def put(self, content: Content) -> None:
        """Keep a text; one that is there already stays."""
        if await self.find(self._is(content.tenant_id, (content.content_sha256,))) is None:
            await self.add(content)

    async def bodies(self, tenant_id: str, hashes: Collection[str]) -> Mapping[str, bytes | None]:
        """Hash → compressed text; nothing for one that is in the blob store."""
        found: dict[str, bytes | None] = {}
        for batch in batches(hashes):
            rows = await self.connection.execute(
                select(ContentRow.content_sha256, ContentRow.body).where(
                    ContentRow.tenant_id == tenant_id, ContentRow.content_sha256.in_(batch)
                )
            )
            found |= {text: None if body is None else bytes(body) for text, body in rows}
        return found

    async def remove(self, tenant_id: str, content_sha256: str) -> None:
        await self.connection.execute(
            delete(ContentRow).where(ContentRow.tenant_id == tenant_id, ContentRow.content_sha256 == content_sha256)
        )
