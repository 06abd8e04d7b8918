"""Procrastinate's connection to the database: it waits for a database that is away, where the library gives up.

A Procrastinate worker ends when one of its statements fails, and goes on without heartbeats when its heartbeat does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, LiteralString, TypeVar

import psycopg
from procrastinate import PsycopgConnector
from procrastinate.connector import Notify
from procrastinate.exceptions import ConnectorException
from psycopg.conninfo import make_conninfo
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import URL

from scrubjay.errors import Unavailable
from scrubjay.storage.deferral import QUEUE_SCHEMA
from scrubjay.telemetry import get_logger

RETRY_SECONDS = 1.0
POOL_TIMEOUT_SECONDS = 5.0
MOST_CONNECTIONS = 4

T = TypeVar("T")
log = get_logger(__name__)


class SteadyConnector(PsycopgConnector):
    def __init__(self, url: URL) -> None:
        super().__init__(
            pool_factory=_open_pool,
            conninfo=connection_info(url),
            min_size=1,
            max_size=MOST_CONNECTIONS,
            timeout=POOL_TIMEOUT_SECONDS,
        )
        self._is_giving_up = False

    async def open_async(self, pool: AsyncConnectionPool | None = None) -> None:
        try:
            await super().open_async(pool)
        except psycopg.OperationalError as error:
            raise Unavailable(f"The job queue does not reach the database: {_reason(error)}.") from error

    def give_up(self) -> None:
        """From now on, let statements fail that cannot be executed."""
        self._is_giving_up = True

    async def execute_query_async(self, query: LiteralString, **arguments: Any) -> None:
        await self._retry(lambda: super(SteadyConnector, self).execute_query_async(query, **arguments))

    async def execute_query_one_async(self, query: LiteralString, **arguments: Any) -> dict[str, Any]:
        return await self._retry(lambda: super(SteadyConnector, self).execute_query_one_async(query, **arguments))

    async def execute_query_all_async(self, query: LiteralString, **arguments: Any) -> list[dict[str, Any]]:
        return await self._retry(lambda: super(SteadyConnector, self).execute_query_all_async(query, **arguments))

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        names = list(channels)
        await self._retry(lambda: super(SteadyConnector, self).listen_notify(on_notification, names))

    async def _retry(self, execute: Callable[[], Awaitable[T]]) -> T:
        """A statement may be executed twice: nothing depends on how often a deferral is fetched or deleted.

        The first retry is immediate: a pooled connection that the server has closed is found out by using it.
        """
        pause = 0.0
        while True:
            try:
                return await execute()
            except ConnectorException as error:
                if self._is_giving_up or not isinstance(error.__cause__, psycopg.OperationalError):
                    raise
                log.warning("the job queue does not answer; trying again", reason=_reason(error.__cause__))
            await asyncio.sleep(pause)
            pause = RETRY_SECONDS


def connection_info(url: URL) -> str:
    """The same database, as libpq wants to be told; our driver's other options mean nothing to it."""
    ssl, host = (value if isinstance(value := url.query.get(name), str) else None for name in ("ssl", "host"))
    return make_conninfo(
        host=url.host or host,
        port=url.port,
        user=url.username,
        password=url.password,
        dbname=url.database,
        sslmode=ssl,
        options=f"-c search_path={QUEUE_SCHEMA}",
        application_name="scrubjay",
    )


def _reason(error: BaseException) -> str:
    return str(error).partition("\n")[0].rstrip(".")


def _open_pool(**options: Any) -> AsyncConnectionPool:
    """Without Procrastinate's question before every statement whether the connection still lives: retries do that."""
    return AsyncConnectionPool(**{**options, "check": None})
