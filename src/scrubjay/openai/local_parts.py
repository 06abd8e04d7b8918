"""What the parts of the local backend share: the rooms below, and lists by cursor."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, and_, or_

from scrubjay.documents.texts import TextStore
from scrubjay.errors import InvalidRequest
from scrubjay.index.catalog import IndexCatalog
from scrubjay.model.search import SearchAnswer, SearchRequest
from scrubjay.openai.protocol import Window
from scrubjay.openai.relay import Upstream
from scrubjay.queue.signals import JobSignals
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.repository import Repository

T = TypeVar("T")
Search = Callable[[str, SearchRequest], Awaitable[SearchAnswer]]  # of a tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendDependencies:
    database: Database
    blobs: BlobStore
    texts: TextStore
    catalog: IndexCatalog
    signals: JobSignals
    wake: Callable[[], None]  # the indexer
    search: Search
    model: Upstream | None = None  # a language model, where one is configured
    model_name: str | None = None


class LocalPart:
    """A part of the backend; `local.py` puts them together."""

    def __init__(self, parts: BackendDependencies) -> None:
        self.parts = parts


async def list_window(
    repository: Repository[Any], tenant_id: str, window: Window, *conditions: ColumnElement[bool]
) -> tuple[Sequence[Any], bool]:
    """A window of what a tenant has, by the time it was made; the cursors are ids of ours."""
    columns = (repository.table.c.created_at, repository.table.c.id)

    async def place(identifier: str) -> tuple[datetime, str] | None:
        found = await repository.find(repository.of_tenant(tenant_id), columns[1] == identifier)
        return None if found is None else (found.created_at, found.id)

    async def fetch(
        edges: Sequence[ColumnElement[bool]], order: Sequence[ColumnElement[Any]], limit: int
    ) -> Sequence[Any]:
        page = await repository.page(
            repository.of_tenant(tenant_id), *conditions, *edges, limit=limit, order=list(order)
        )
        return page.items

    return await cut_window(window, columns, place, fetch)


async def cut_window(
    window: Window,
    columns: tuple[ColumnElement[Any], ColumnElement[Any]],
    place: Callable[[str], Awaitable[tuple[datetime, str] | None]],
    fetch: Callable[[Sequence[ColumnElement[bool]], Sequence[ColumnElement[Any]], int], Awaitable[Sequence[T]]],
) -> tuple[Sequence[T], bool]:
    """The items between the cursors, and whether there are more beyond the window's end."""
    edges = []
    for name, identifier, descending in (
        ("after", window.after, window.newest_first),
        ("before", window.before, not window.newest_first),
    ):
        if identifier is not None:
            at = await place(identifier)
            if at is None:
                raise InvalidRequest(f"{name}: there is no '{identifier[:64]}' in this list.", field=name)
            edges.append(beyond(columns, at, descending=descending))
    # Before an item means the nearest ones before it: read backwards, and then turned round.
    backwards = window.before is not None and window.after is None
    descending = window.newest_first is not backwards
    order = [column.desc() if descending else column.asc() for column in columns]
    items = list(await fetch(edges, order, window.limit + 1))
    has_more = len(items) > window.limit
    items = items[: window.limit]
    return (items[::-1] if backwards else items), has_more


def beyond(
    columns: tuple[ColumnElement[Any], ColumnElement[Any]], at: tuple[datetime, str], *, descending: bool
) -> ColumnElement[bool]:
    made, identifier = columns
    if descending:
        return or_(made < at[0], and_(made == at[0], identifier < at[1]))
    return or_(made > at[0], and_(made == at[0], identifier > at[1]))
