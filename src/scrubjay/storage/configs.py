"""Crawl configs: named settings of crawls."""

from datetime import datetime

from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.crawling import CrawlConfig
from scrubjay.storage.repository import Base, Repository, TenantOwned, table_options
from scrubjay.storage.types import Json, Name, UtcDateTime


class CrawlConfigRow(TenantOwned, Base):
    __tablename__ = "crawl_configs"
    __table_args__ = table_options(
        UniqueConstraint("tenant_id", "name", name="uq_crawl_configs_name"),
    )

    name: Mapped[Name]
    max_depth: Mapped[int]
    rate_limit_rps: Mapped[float]
    respect_robots_txt: Mapped[bool]
    headers: Mapped[Json]
    extraction_strategy: Mapped[str] = mapped_column(String(32))
    chunking_strategy: Mapped[str] = mapped_column(String(32))
    chunk_size: Mapped[int]
    chunk_overlap: Mapped[int]
    min_chunk_size: Mapped[int]
    page_timeout_ms: Mapped[int]
    max_page_size_mb: Mapped[int]
    max_redirects: Mapped[int]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class CrawlConfigs(Repository[CrawlConfig]):
    row = CrawlConfigRow
    model = CrawlConfig
    noun = "crawl config"
