"""The job queue connects to the same database as everything else, in the words of libpq."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from scrubjay.queue.connector import connection_info
from scrubjay.storage.database import parse_database_url

OURS = {"options": "-c search_path=procrastinate", "application_name": "scrubjay"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://db/scrubjay", {"host": "db", "dbname": "scrubjay"}),
        (
            "postgres://jay:p%40ss%2Fword@db:6432/scrubjay",
            {"host": "db", "port": "6432", "user": "jay", "password": "p@ss/word", "dbname": "scrubjay"},
        ),
        (
            "postgresql://db/scrubjay?sslmode=require",
            {"host": "db", "dbname": "scrubjay", "sslmode": "require"},
        ),
        (
            "postgresql+asyncpg://db/scrubjay?ssl=verify-full&prepared_statement_cache_size=0",
            {"host": "db", "dbname": "scrubjay", "sslmode": "verify-full"},
        ),
        (
            "postgresql://jay@/scrubjay?host=/var/run/postgresql",
            {"host": "/var/run/postgresql", "user": "jay", "dbname": "scrubjay"},
        ),
    ],
)
def test_a_database_url_is_translated_for_libpq(url: str, expected: dict[str, str]) -> None:
    assert conninfo_to_dict(connection_info(parse_database_url(url))) == expected | OURS
