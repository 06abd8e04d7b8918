"""Ingestion rules: how documents are chunked, embedded and stored."""

from datetime import datetime

from sqlalchemy import ForeignKey, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.content import IngestionRule
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Id, Json, JsonTuple, LongText, Name, UtcDateTime


class IngestionRuleRow(TenantOwned, Base):
    __tablename__ = "ingestion_rules"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_ingestion_rules_name"),
    )

    name: Mapped[Name]
    description: Mapped[LongText | None]
    bucket: Mapped[Name | None]
    collection_id: Mapped[Id | None] = mapped_column(ForeignKey("collections.id", ondelete="SET NULL"))
    labels: Mapped[tuple[str, ...]] = mapped_column(JsonTuple)
    tags: Mapped[Json]
    summarization: Mapped[Json]
    chunking: Mapped[Json]
    embedding: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class IngestionRules(Repository[IngestionRule]):
    row = IngestionRuleRow
    model = IngestionRule
    noun = "ingestion rule"
