"""Plans: what to crawl, when, what to keep and where to put it."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.plan import (
    FilterSettings,
    IngestionSettings,
    Plan,
    PlanState,
    RepositoryType,
    ScheduleSettings,
)
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import EnumText, Id, Json, JsonModel, Name, UtcDateTime, partial_index


class PlanRow(Base):
    __tablename__ = "crawl_plans"
    __table_args__ = table_options(
        Index("ix_crawl_plans_tenant_id", "tenant_id"),
        Index("ix_crawl_plans_state", "state"),
        partial_index("ix_crawl_plans_due", "next_crawl_at", where="is_active = true"),
    )

    id: Mapped[Id] = mapped_column(primary_key=True)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[Name]
    repository_type: Mapped[RepositoryType] = mapped_column(EnumText(RepositoryType))
    repository_settings: Mapped[Json]
    ingestion_settings: Mapped[IngestionSettings] = mapped_column(JsonModel(IngestionSettings))
    schedule: Mapped[ScheduleSettings] = mapped_column(JsonModel(ScheduleSettings))
    filter: Mapped[FilterSettings] = mapped_column(JsonModel(FilterSettings))
    process_additions: Mapped[bool]
    process_updates: Mapped[bool]
    process_deletions: Mapped[bool]
    max_drain_tasks: Mapped[int]
    retention_days: Mapped[int]
    state: Mapped[PlanState] = mapped_column(EnumText(PlanState))
    is_active: Mapped[bool]
    last_crawl_start_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_crawl_finish_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_crawl_success: Mapped[bool | None]
    next_crawl_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)
    updated_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Plans(Repository[Plan]):
    row = PlanRow
    model = Plan
    noun = "plan"
