"""Agents: programs elsewhere that take tool calls over the bus."""

from dataclasses import dataclass, field
from datetime import datetime

from scrubjay.model.clock import utc_now


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    tenant_id: str
    name: str
    address: str  # tool calls go to this address, each with the tool's name behind a slash
    created_at: datetime = field(default_factory=utc_now)
