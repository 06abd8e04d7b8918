"""The OpenAI-shaped inventory: files, their place in vector stores, assistants, responses."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.knowledge import Assistant, InventoryFile, Response, VectorStoreFile
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Hash, Id, Json, LongText, Name, Number, UtcDateTime


class InventoryFileRow(Base):
    __tablename__ = "inventory_files"
    __table_args__ = table_options(
        Index("ix_inventory_files_tenant", "tenant_id", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    filename: Mapped[LongText]
    purpose: Mapped[str] = mapped_column(String(64))
    size_bytes: Mapped[Number]
    blob_sha256: Mapped[Hash]
    status: Mapped[str] = mapped_column(String(32))
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class InventoryFiles(Repository[InventoryFile]):
    row = InventoryFileRow
    model = InventoryFile
    noun = "file"


class VectorStoreFileRow(Base):
    __tablename__ = "vector_store_files"
    __table_args__ = table_options(
        Index("ix_vector_store_files_file", "file_id"),
        Index("ix_vector_store_files_batch", "batch_id"),
    )

    collection_id: Mapped[Id] = mapped_column(ForeignKey("collections.id", ondelete="CASCADE"), primary_key=True)
    file_id: Mapped[Id] = mapped_column(ForeignKey("inventory_files.id", ondelete="CASCADE"), primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    document_id: Mapped[Id | None]
    batch_id: Mapped[Id | None]
    status: Mapped[str] = mapped_column(String(32))
    last_error: Mapped[Json | None]
    attributes: Mapped[Json]
    chunking: Mapped[Json]
    usage_bytes: Mapped[Number]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class VectorStoreFiles(Repository[VectorStoreFile]):
    row = VectorStoreFileRow
    model = VectorStoreFile
    noun = "vector store file"
    key = ("collection_id", "file_id")


class AssistantRow(Base):
    __tablename__ = "assistants"
    __table_args__ = table_options(
        Index("ix_assistants_tenant", "tenant_id", "created_at"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[LongText | None]
    description: Mapped[LongText | None]
    model: Mapped[Name]
    instructions: Mapped[LongText | None]
    details: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Assistants(Repository[Assistant]):
    row = AssistantRow
    model = Assistant
    noun = "assistant"


class ResponseRow(Base):
    __tablename__ = "responses"
    __table_args__ = table_options(
        Index("ix_responses_conversation", "tenant_id", "conversation_id"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    model: Mapped[Name]
    status: Mapped[str] = mapped_column(String(32))
    previous_response_id: Mapped[Id | None]
    conversation_id: Mapped[Id | None]
    body: Mapped[Json]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Responses(Repository[Response]):
    row = ResponseRow
    model = Response
    noun = "response"
