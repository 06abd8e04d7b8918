"""Processes on other databases than PostgreSQL do not import what only its job queue needs."""

import subprocess
import sys

PROGRAM = """
import asyncio, sys, tempfile
from pathlib import Path
from scrubjay.queue.engine import JobEngine
from scrubjay.queue.kinds import JobKinds
from scrubjay.queue.opening import open_engine
from scrubjay.queue.signals import JobSignals
from scrubjay.settings import Settings
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import open_database

settings = Settings(home=Path(tempfile.mkdtemp()))
engine = open_engine(settings, open_database(settings), JobSignals(MemoryCache()), JobKinds())
print(type(engine).__name__, sorted({"procrastinate", "psycopg", "psycopg_pool"} & set(sys.modules)))
"""


def test_the_embedded_engine_imports_neither_procrastinate_nor_psycopg() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "EmbeddedEngine []\n"
