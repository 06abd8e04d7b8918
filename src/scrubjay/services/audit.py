"""The audit log as doors see it: an admin reads what was done in the own tenant."""

from sqlalchemy import ColumnElement

from scrubjay.errors import InvalidRequest
from scrubjay.model.audit import ACTIONS, AuditEntry
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.storage.audit_log import AuditEntryRow, AuditLog
from scrubjay.storage.database import Database

COUNTED = 10_000


class AuditService:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        principal: Principal,
        *,
        action: str | None = None,
        key_id: str | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> Page[AuditEntry]:
        """Acts, the newest first; of one action or one key, if asked."""
        require(principal, Scope.ADMIN)
        row = AuditEntryRow
        conditions: list[ColumnElement[bool]] = [row.tenant_id == principal.tenant_id]
        if action is not None:
            if action not in ACTIONS:
                raise InvalidRequest(f"action must be one of: {', '.join(ACTIONS)}.", field="action")
            conditions.append(row.action == action)
        if key_id is not None:
            conditions.append(row.key_id == key_id)
        async with self._database.reading() as connection:
            return await AuditLog(connection).page(
                *conditions, limit=limit, offset=offset, order=[row.at.desc(), row.id.desc()], count_up_to=COUNTED
            )
