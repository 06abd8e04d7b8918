"""Domains: named knowledge domains, mirrored from their `domain.json`."""

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.knowledge import Domain
from scrubjay.storage.repository import Base, Repository
from scrubjay.storage.types import Id, Json, LongText, Name, UtcDateTime


class DomainRow(Base):
    __tablename__ = "domains"

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    domain_id: Mapped[Name] = mapped_column(primary_key=True)
    name: Mapped[Name]
    description: Mapped[LongText]
    collection_id: Mapped[Id | None] = mapped_column(ForeignKey("collections.id", ondelete="SET NULL"))
    vector_store_name: Mapped[Name]
    sources: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Domains(Repository[Domain]):
    row = DomainRow
    model = Domain
    noun = "domain"
    key = ("domain_id",)
