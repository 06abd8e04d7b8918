"""Rows of any table as lines of JSON and back: the same lines whichever database they come from or go to."""

import base64
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Table, func, insert, select, text
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.types import LargeBinary, TypeEngine

from scrubjay.storage.database import Database
from scrubjay.storage.tables import metadata
from scrubjay.storage.types import JsonModel, UtcDateTime

# Who works and who is signed in is not content, and is over when a backup is restored.
PASSING = frozenset({"workers", "sign_ins"})
BATCH = 500
# Columns that name a body in the blob store.
BODY_COLUMNS = frozenset({"original_sha256", "blob_sha256", "body_sha256"})

Row = Mapping[str, Any]


def kept_tables() -> list[Table]:
    """Those that a backup has, each after the ones that it refers to."""
    return [table for table in metadata.sorted_tables if table.name not in PASSING]


async def read_snapshot(connection: AsyncConnection) -> None:
    """Let everything that this transaction reads be of one moment. SQLite's and InnoDB's do so by themselves."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
        await allow_idling(connection)


async def allow_idling(connection: AsyncConnection) -> None:
    """Lift PostgreSQL's idle timeout for a transaction that waits for a slow disk between its statements."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))


async def read_lines(connection: AsyncConnection, table: Table) -> AsyncIterator[tuple[bytes, Row]]:
    """Every row, as a line and as what it says."""
    writers = [(column.name, _writer(column.type)) for column in table.columns]
    async with connection.stream(select(*table.columns)) as result:
        async for row in result:
            values = {name: write(value) for (name, write), value in zip(writers, row, strict=True)}
            yield json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n", values


def named_bodies(table: Table, row: Row) -> list[str]:
    """The bodies in the blob store that a row cannot do without."""
    found = [row[name] for name in BODY_COLUMNS.intersection(row) if row[name]]
    if table.name == "contents" and row["body"] is None:
        found.append(row["content_sha256"])
    return found


class RowWriter:
    """Writes a table's lines into a database, some at a time."""

    def __init__(self, connection: AsyncConnection, table: Table) -> None:
        self.count = 0
        self._connection = connection
        self._table = table
        self._readers = {column.name: _reader(column.type) for column in table.columns}
        self._waiting: list[dict[str, Any]] = []

    async def add(self, line: bytes) -> None:
        values = json.loads(line)
        self._waiting.append({name: read(values.get(name)) for name, read in self._readers.items()})
        if len(self._waiting) >= BATCH:
            await self.flush()

    async def flush(self) -> None:
        if self._waiting:
            await self._connection.execute(insert(self._table), _absent_last(self._table, self._waiting))
        self.count += len(self._waiting)
        self._waiting = []


async def go_on_counting(connection: AsyncConnection, tables: Sequence[Table]) -> None:
    """Let PostgreSQL number new rows after those that were written with their numbers."""
    if connection.dialect.name != "postgresql":
        return
    for table in tables:
        column = table.autoincrement_column
        if column is None:
            continue
        name = {"table": table.name, "column": column.name}
        sequence = await connection.scalar(text("SELECT pg_get_serial_sequence(:table, :column)"), name)
        highest = await connection.scalar(select(func.max(column)))
        if sequence is not None and highest is not None:
            await connection.execute(
                text("SELECT setval(:sequence, :highest)"), {"sequence": sequence, "highest": highest}
            )


async def find_rows(database: Database) -> str | None:
    """The name of a table that has rows already."""
    async with database.reading() as connection:
        for table in kept_tables():
            if (await connection.execute(select(*table.primary_key.columns).limit(1))).first() is not None:
                return table.name
    return None


def _absent_last(table: Table, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without columns that no row says anything about, so that their defaults hold."""
    said = {name for row in rows for name, value in row.items() if value is not None}
    kept = said | {column.name for column in table.columns if column.nullable}
    return [{name: row[name] for name in row if name in kept} for row in rows]


def _writer(kind: TypeEngine[Any]) -> Callable[[Any], Any]:
    if isinstance(kind, LargeBinary):
        return lambda value: None if value is None else base64.b64encode(value).decode()
    return _plain


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _reader(kind: TypeEngine[Any]) -> Callable[[Any], Any]:
    if isinstance(kind, LargeBinary):
        return lambda value: None if value is None else base64.b64decode(value)
    if isinstance(kind, UtcDateTime):
        return lambda value: None if value is None else datetime.fromisoformat(value)
    if isinstance(kind, JsonModel):
        return lambda value: None if value is None else kind.model.model_validate(value)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
