"""Agents of the bus: programs elsewhere that tool calls are passed on to."""

from datetime import datetime

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import Mapped, mapped_column

from scrubjay.model.agent import Agent
from scrubjay.storage.repository import Base, Repository, table_options
from scrubjay.storage.types import Id, LongText, UtcDateTime


class AgentRow(Base):
    __tablename__ = "agents"
    __table_args__ = table_options()

    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    name: Mapped[str] = mapped_column(String(64), primary_key=True)
    address: Mapped[LongText]
    created_at: Mapped[datetime] = mapped_column(UtcDateTime)


class Agents(Repository[Agent]):
    row = AgentRow
    model = Agent
    noun = "agent"
    key = ("name",)
