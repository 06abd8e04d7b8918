"""Another key for everything that is sealed: each secret is opened with the key that sealed it and sealed anew.

A sealed text does not open at another place than its own, so every place where one can be is named here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.crawler.web_crawler import AUTH_CONTEXT, HEADER_CONTEXT
from scrubjay.errors import Forbidden, SecretUnreadable
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.sources.protocol import secret_context
from scrubjay.sources.web_config import HEADER_CONTEXT as CONFIG_HEADER
from scrubjay.storage.database import Database
from scrubjay.storage.secrets import SecretBox, sealed_with
from scrubjay.storage.tables import metadata
from scrubjay.storage.types import is_json
from scrubjay.telemetry import get_logger

log = get_logger(__name__)

_BATCH = 200


@dataclass
class Resealed:
    """How many secrets have the newest key now, and where some are that no key opens."""

    secrets: int = 0
    unreadable: int = 0


class Resealing:
    def __init__(self, database: Database, secrets: SecretBox) -> None:
        self._database = database
        self._secrets = secrets

    async def reseal(self, principal: Principal) -> Resealed:
        """Give every secret of every tenant the newest key. Safe to repeat, also after a crash."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may seal secrets anew.")
        async with self._database.writing() as connection:
            await note_act(connection, principal, "secrets.resealed", self._secrets.key_id)
        done = Resealed()
        for table in metadata.sorted_tables:
            if _sealing_columns(table):
                await self._reseal_table(table, done)
        log.info("secrets sealed anew", secrets=done.secrets, unreadable=done.unreadable, key_id=self._secrets.key_id)
        return done

    async def _reseal_table(self, table: Table, done: Resealed) -> None:
        keys, columns = list(table.primary_key.columns), _sealing_columns(table)
        query = select(*keys, *columns).order_by(*keys).limit(_BATCH)
        last: Sequence[Any] | None = None
        while True:
            async with self._database.writing() as connection:
                after = query if last is None else query.where(_after(keys, last))
                rows = (await connection.execute(after)).all()
                for row in rows:
                    await self._reseal_row(connection, table, row._asdict(), done)
            if len(rows) < _BATCH:
                return
            last = rows[-1][: len(keys)]

    async def _reseal_row(
        self, connection: AsyncConnection, table: Table, row: Mapping[str, Any], done: Resealed
    ) -> None:
        changes = {}
        for column in _sealing_columns(table):
            before = row[column.name]
            after = self._reseal_value(before, str(row.get("id", "")), column.name, done)
            if after != before:
                changes[column.name] = after
        if changes:
            same = and_(*(column == row[column.name] for column in table.primary_key.columns))
            await connection.execute(update(table).where(same).values(**changes))

    def _reseal_value(self, value: Any, row_id: str, name: str, done: Resealed) -> Any:
        if isinstance(value, str):
            key_id = sealed_with(value)
            return value if key_id in (None, self._secrets.key_id) else self._reseal_text(value, row_id, name, done)
        if isinstance(value, Mapping):
            # A job's own webhook, which waits in its payload and in the outbox, is sealed for its own id.
            own_id = value.get("id")
            row_id = own_id if isinstance(own_id, str) else row_id
            return {key: self._reseal_value(inner, row_id, str(key), done) for key, inner in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._reseal_value(inner, row_id, name, done) for inner in value)
        return value

    def _reseal_text(self, sealed: str, row_id: str, name: str, done: Resealed) -> str:
        for context in _contexts(row_id, name):
            try:
                text = self._secrets.unseal(sealed, context=context)
            except SecretUnreadable:
                continue
            done.secrets += 1
            return self._secrets.seal(text, context=context)
        done.unreadable += 1
        return sealed


def _contexts(row_id: str, name: str) -> Iterator[str]:
    yield from (CONFIG_HEADER, HEADER_CONTEXT, AUTH_CONTEXT)
    yield f"proxy:{row_id}:password"
    yield f"webhook:{row_id}:secret"
    yield f"webhook:{row_id}:header"
    yield secret_context(row_id, name)


def _sealing_columns(table: Table) -> list[Any]:
    """Columns of JSON, and those that are named for it."""
    return [column for column in table.columns if is_json(column.type) or column.name.startswith("sealed_")]


def _after(keys: Sequence[Any], last: Sequence[Any]) -> Any:
    """Rows behind one, in the order of the key."""
    return or_(
        *(
            and_(*(keys[before] == last[before] for before in range(place)), keys[place] > last[place])
            for place in range(len(keys))
        )
    )
