"""A database without room says so, and goes on when there is some."""

from pathlib import Path

import pytest
from sqlalchemy import text

from scrubjay.errors import Unavailable
from scrubjay.settings import Settings
from scrubjay.storage.database import Database, open_database


async def fill(database: Database) -> None:
    async with database.writing() as connection:
        await connection.execute(text("PRAGMA max_page_count = 20"))
        for _ in range(50):
            await connection.execute(text("INSERT INTO things VALUES (:body)"), {"body": "x" * 4000})


async def test_a_database_that_may_not_grow_is_unavailable_until_it_may(tmp_path: Path) -> None:
    database = open_database(Settings(home=tmp_path))
    try:
        async with database.writing() as connection:
            await connection.execute(text("CREATE TABLE things (body TEXT)"))
        with pytest.raises(Unavailable, match="The database has no room left: database or disk is full"):
            await fill(database)
        async with database.writing() as connection:
            await connection.execute(text("INSERT INTO things VALUES (:body)"), {"body": "x" * 4000})
        async with database.reading() as connection:
            assert await connection.scalar(text("SELECT count(*) FROM things")) == 1
    finally:
        await database.close()
