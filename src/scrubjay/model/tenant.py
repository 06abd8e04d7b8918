"""Tenants, API keys and who is asking."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id

DEFAULT_TENANT_ID = "ten_0000000000000000000000000000"


class Scope(StrEnum):
    READ = "read"  # look at things
    WRITE = "write"  # make and change things, start and stop work
    ADMIN = "admin"  # delete plans, manage keys


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    id: str = field(default_factory=lambda: new_id("ten"))
    name: str
    created_at: datetime = field(default_factory=utc_now)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    id: str = field(default_factory=lambda: new_id("cred"))
    tenant_id: str
    name: str
    key_hash: str  # SHA-256 of the key; the key itself is shown once and never stored
    scopes: tuple[Scope, ...] = (Scope.READ,)
    rate_limit_rpm: int = 60
    created_at: datetime = field(default_factory=utc_now)
    expires_at: datetime | None = None
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SignIn:
    """A one-time link to the dashboard (`used_at` unset) or the browser session it became."""

    token_hash: str
    key_id: str
    kind: str  # "link" or "session"
    created_at: datetime = field(default_factory=utc_now)
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is asking: the tenant, the key and what it may do."""

    tenant_id: str
    key_id: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        """Admin may do everything; write includes read."""
        if Scope.ADMIN in self.scopes:
            return True
        return scope in self.scopes or (scope is Scope.READ and Scope.WRITE in self.scopes)
