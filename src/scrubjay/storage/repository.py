"""What every repository can do. One file per noun adds the statements that only that noun needs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    FromClause,
    Insert,
    MetaData,
    Row,
    Select,
    UpdateBase,
    and_,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.schema import SchemaItem

from scrubjay.errors import Conflict, NotFound
from scrubjay.model.page import Page
from scrubjay.storage.types import Id

M = TypeVar("M")
T = TypeVar("T")
BATCH = 500


# Names and keys are compared byte by byte on MariaDB/MySQL too, but for spaces at their end, which do not count there.
MYSQL_OPTIONS = {"mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
# Every constraint has a name that a later migration can rely on.
CONSTRAINT_NAMES = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The parent of all tables."""

    metadata = MetaData(naming_convention=CONSTRAINT_NAMES)
    __table_args__: Any = MYSQL_OPTIONS


class TenantOwned:
    """The columns that tables of tenants' things begin with."""

    id: Mapped[Id] = mapped_column(primary_key=True, sort_order=-2)
    tenant_id: Mapped[Id] = mapped_column(ForeignKey("tenants.id"), sort_order=-1)


def table_options(*items: SchemaItem, **options: Any) -> tuple[Any, ...]:
    """Indexes and constraints of a table, with what MariaDB/MySQL must be told."""
    return (*items, {**MYSQL_OPTIONS, **options})


def batches(items: Collection[T]) -> Iterator[list[T]]:
    """The items in parts that fit into one statement."""
    ordered = list(items)
    return (ordered[start : start + BATCH] for start in range(0, len(ordered), BATCH))


class Repository(Generic[M]):
    """Reads and writes one noun over a connection that a service opened. It never commits."""

    row: ClassVar[type[Base]]
    model: ClassVar[type[Any]]
    noun: ClassVar[str]
    key: ClassVar[tuple[str, ...]] = ("id",)  # with the tenant, this names one item
    table: ClassVar[FromClause]
    _columns: ClassVar[Sequence[ColumnElement[Any]]]
    _names: ClassVar[Sequence[str]]
    _insert: ClassVar[Insert]

    def __init_subclass__(cls) -> None:
        """Build what every statement shares once: SQLAlchemy spends more on building than SQLite on running."""
        if not hasattr(cls, "row"):
            return  # a base class of repositories
        cls.table = cls.row.__table__
        cls._names = [field.name for field in fields(cls.model)]
        cls._columns = [cls.table.c[name] for name in cls._names]
        cls._insert = insert(cls.row.__table__)  # type: ignore[arg-type]

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection

    async def add(self, item: M) -> M:
        with self._conflicts():
            await self.connection.execute(self._insert, self._values(item))
        return item

    async def add_many(self, items: Sequence[M]) -> None:
        with self._conflicts():
            for batch in batches(items):
                await self.connection.execute(self._insert, [self._values(item) for item in batch])

    async def get(self, tenant_id: str, *identifier: str | int) -> M:
        """The item, or NotFound; another tenant's item is not found either."""
        item = await self.find(self._is(tenant_id, identifier))
        if item is None:
            raise NotFound(f"{self.noun.capitalize()} '{'/'.join(map(str, identifier))}' not found.")
        return item

    async def find(self, *conditions: ColumnElement[bool]) -> M | None:
        row = (await self.connection.execute(select(*self._columns).where(*conditions).limit(1))).first()
        return None if row is None else self._item(row)

    async def every(
        self, *conditions: ColumnElement[bool], order: Sequence[Any] = (), limit: int | None = None
    ) -> list[M]:
        """All items that meet the conditions, up to `limit`."""
        return await self._items(select(*self._columns).where(*conditions).order_by(*order).limit(limit))

    async def page(
        self,
        *conditions: ColumnElement[bool],
        limit: int = 100,
        offset: int = 0,
        order: Sequence[ColumnElement[Any]] = (),
        count_up_to: int | None = None,
    ) -> Page[M]:
        total = await self.count(*conditions, up_to=count_up_to)
        is_counted = count_up_to is None or total <= count_up_to
        statement = select(*self._columns).where(*conditions).order_by(*(order or self._key()))
        items = await self._items(statement.limit(limit).offset(offset))
        if not is_counted:
            shown = offset + len(items)
            total = max(count_up_to or 0, shown)
            is_counted = 0 < len(items) < limit  # the end of the list tells how long it is
        return Page(items=items, total=total, limit=limit, offset=offset, is_counted=is_counted)

    async def count(self, *conditions: ColumnElement[bool], up_to: int | None = None) -> int:
        """How many there are; with `up_to`, whatever is more counts as one more."""
        statement = select(func.count()).select_from(self.table).where(*conditions)
        if up_to is not None:
            some = select(self._key()[0]).where(*conditions).limit(up_to + 1).subquery()
            statement = select(func.count()).select_from(some)
        return int((await self.connection.execute(statement)).scalar_one())

    async def update(self, tenant_id: str, *identifier: str | int, **changes: Any) -> M:
        with self._conflicts():
            await self.connection.execute(update(self.row).where(self._is(tenant_id, identifier)).values(**changes))
        return await self.get(tenant_id, *identifier)

    async def delete(self, tenant_id: str, *identifier: str | int) -> bool:
        return await self.changed(delete(self.row).where(self._is(tenant_id, identifier)))

    async def write(self, statement: UpdateBase) -> int:
        """Execute a statement; returns the number of rows that it changed."""
        return int((await self.connection.execute(statement)).rowcount)

    async def changed(self, statement: UpdateBase) -> bool:
        """Execute a statement; returns whether it changed any row."""
        return bool(await self.write(statement))

    async def column(self, statement: Select[Any]) -> list[Any]:
        """The values of the first column."""
        return list((await self.connection.execute(statement)).scalars())

    @contextmanager
    def _conflicts(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError as error:
            raise Conflict(f"A {self.noun} with this name or key already exists.") from error

    def of_tenant(self, tenant_id: str) -> ColumnElement[bool]:
        return self._column("tenant_id") == tenant_id

    def by_age(self, *, newest_first: bool = True) -> list[ColumnElement[Any]]:
        """The order of items by when they were made."""
        columns = (self._column("created_at"), *self._key())
        return [column.desc() if newest_first else column.asc() for column in columns]

    def _is(self, tenant_id: str, identifier: tuple[str | int, ...]) -> ColumnElement[bool]:
        parts = zip(self._key(), identifier, strict=True)
        return and_(self.of_tenant(tenant_id), *(column == part for column, part in parts))

    def _key(self) -> Sequence[ColumnElement[Any]]:
        return [self._column(name) for name in self.key]

    def _column(self, name: str) -> ColumnElement[Any]:
        return self.table.c[name]

    async def _items(self, statement: Select[Any], values: Mapping[str, Any] | None = None) -> list[M]:
        return [self._item(row) for row in await self.connection.execute(statement, values)]

    def _item(self, row: Row[Any]) -> M:
        item: M = self.model(**dict(zip(self._names, row, strict=True)))
        return item

    def _values(self, item: Any) -> dict[str, Any]:
        return {name: getattr(item, name) for name in self._names}
