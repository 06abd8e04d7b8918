"""Reads that services share: one item of a tenant, or a page of its items."""

from typing import Any, TypeVar

from sqlalchemy import ColumnElement

from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.storage.database import Database
from scrubjay.storage.repository import Repository

M = TypeVar("M")


async def read_item(database: Database, principal: Principal, kind: type[Repository[M]], identifier: str) -> M:
    """An item of the principal's tenant, or NotFound."""
    require(principal, Scope.READ)
    async with database.reading() as connection:
        return await kind(connection).get(principal.tenant_id, identifier)


async def read_page(
    database: Database,
    principal: Principal,
    kind: type[Repository[M]],
    *conditions: ColumnElement[bool],
    newest_first: bool | None = None,
    **options: Any,
) -> Page[M]:
    """Items of the principal's tenant that meet the conditions, by age or as `options` say."""
    require(principal, Scope.READ)
    async with database.reading() as connection:
        items = kind(connection)
        if newest_first is not None:
            options["order"] = items.by_age(newest_first=newest_first)
        return await items.page(items.of_tenant(principal.tenant_id), *conditions, **options)


def matching(*filters: tuple[Any, Any]) -> list[ColumnElement[bool]]:
    """Conditions for pairs of column and wanted value; a filter without a value is left out."""
    return [column == value for column, value in filters if value is not None]
