"""Column types that mean the same on SQLite, PostgreSQL, MariaDB/MySQL and SQL Server."""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any

from pydantic import BaseModel
from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    ColumnElement,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
    func,
    text,
)
from sqlalchemy.dialects import mssql, mysql, postgresql
from sqlalchemy.orm import mapped_column
from sqlalchemy.types import TypeEngine


class UtcDateTime(TypeDecorator[datetime]):
    """Aware datetimes in, aware UTC datetimes out; a naive one is a programming error."""

    impl = DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(postgresql.TIMESTAMP(timezone=True))
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        if dialect.name == "mssql":
            return dialect.type_descriptor(mssql.DATETIME2(6))  # type: ignore[no-untyped-call]
        return dialect.type_descriptor(DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a stored time must know its time zone")
        value = value.astimezone(UTC)
        return value if dialect.name == "postgresql" else value.replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class EnumText(TypeDecorator[Any]):
    """An enum stored as its value: text for a StrEnum, a number for an IntEnum."""

    impl = String
    cache_ok = True

    def __init__(self, enum: type[Enum]) -> None:
        super().__init__(24)
        self.enum = enum
        self.numeric = issubclass(enum, int)

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Integer() if self.numeric else String(24))

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.enum(value).value

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.enum(value)


class EnumTuple(TypeDecorator[Any]):
    """A tuple of text enum members, stored as a JSON list."""

    impl = JSON
    cache_ok = True

    def __init__(self, enum: type[Enum]) -> None:
        super().__init__()
        self.enum = enum

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else [self.enum(item).value for item in value]

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else tuple(self.enum(item) for item in value)


class JsonModel(TypeDecorator[Any]):
    """A nested settings object (a Pydantic model), stored as JSON without its defaults' noise."""

    impl = JSON
    cache_ok = True

    def __init__(self, model: type[BaseModel]) -> None:
        super().__init__()
        self.model = model

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else value.model_dump(mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else self.model.model_validate(value)


class JsonTuple(TypeDecorator[Any]):
    """A tuple of JSON values."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else list(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return None if value is None else tuple(value)


class MysqlBytes(mysql.LONGBLOB):
    """Bytes that travel as hexadecimal text: aiomysql 0.3 cannot send others with PyMySQL 1.2 (aiomysql#1080)."""

    def bind_expression(self, bindvalue: BindParameter[bytes]) -> ColumnElement[bytes]:
        return func.unhex(bindvalue, type_=self)

    def bind_processor(self, dialect: Dialect) -> Callable[[bytes | None], str | None]:
        return lambda value: None if value is None else value.hex()


def short_text(length: int) -> TypeEngine[str]:
    return String(length).with_variant(mssql.NVARCHAR(length), "mssql")


LONG_TEXT: TypeEngine[str] = Text().with_variant(mysql.LONGTEXT(), "mysql").with_variant(mssql.NVARCHAR(None), "mssql")
BYTES: TypeEngine[bytes] = LargeBinary().with_variant(MysqlBytes(), "mysql")
BIG: TypeEngine[int] = BigInteger().with_variant(Integer(), "sqlite")
# none_as_null: an absent value is SQL NULL, so that `IS NULL` means the same everywhere.
JSON_VALUE: TypeEngine[Any] = JSON(none_as_null=True).with_variant(postgresql.JSONB(none_as_null=True), "postgresql")

Id = Annotated[str, mapped_column(String(32))]
Hash = Annotated[str, mapped_column(String(64))]
Name = Annotated[str, mapped_column(short_text(255))]
LongText = Annotated[str, mapped_column(LONG_TEXT)]
Number = Annotated[int, mapped_column(BIG)]
Json = Annotated[Any, mapped_column(JSON_VALUE)]


def is_json(kind: TypeEngine[Any]) -> bool:
    """Whether a column holds plain JSON values, as nested as they like."""
    return isinstance(kind, JSON | JsonTuple)


def partial_index(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    """An index over the rows that matter, where the database has such indexes; a full one on MariaDB/MySQL."""
    return Index(
        name,
        *columns,
        unique=unique,
        sqlite_where=text(where),
        postgresql_where=text(where),
        mssql_where=text(where.replace("= true", "= 1")),
    )
