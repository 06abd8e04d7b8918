"""Is everything there and does it agree: liveness, readiness, and `scrubjay doctor`."""

import asyncio
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import ScrubjayError
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.cache import Cache
from scrubjay.storage.database import Database
from scrubjay.storage.home import ADMIN_KEY_FILE
from scrubjay.storage.schema import current_revision, known_revisions
from scrubjay.storage.workers import Workers

CHECK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, in words; `advice` says what to do when it is not well."""

    name: str
    is_well: bool
    detail: str
    advice: str = ""


class Health:
    def __init__(self, settings: Settings, database: Database, blobs: BlobStore, cache: Cache) -> None:
        self._settings = settings
        self._database = database
        self._blobs = blobs
        self._cache = cache

    async def ready(self) -> Mapping[str, bool]:
        """Whether each part that requests need answers now."""
        checks: Mapping[str, Callable[[], Awaitable[None]]] = {
            "database": self._database.check,
            "blobs": self._blobs.check,
            "cache": self._cache.check,
        }
        results = await asyncio.gather(*(_answers(check) for check in checks.values()))
        return dict(zip(checks, (problem is None for problem in results), strict=True))

    async def examine(self) -> list[Finding]:
        """Everything `scrubjay doctor` looks at."""
        return [
            self._examine_home(),
            await self._examine_part("database", self._database.check, self._database.engine.url.render_as_string()),
            await self._examine_schema(),
            await self._examine_part("blobs", self._blobs.check, self._settings.resolved_blob_url),
            await self._examine_part("cache", self._cache.check, "redis" if self._settings.cache_url else "in process"),
            await self._examine_workers(),
        ]

    def _examine_home(self) -> Finding:
        exposed = [
            path.name
            for path in (self._settings.home / ADMIN_KEY_FILE, self._settings.home / "secret.key")
            if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
        ]
        if exposed:
            return Finding("home", False, f"others can read {', '.join(exposed)}", "chmod 600 these files")
        return Finding("home", True, str(self._settings.home))

    async def _examine_part(self, name: str, check: Callable[[], Awaitable[None]], detail: str) -> Finding:
        problem = await _answers(check)
        if problem is None:
            return Finding(name, True, detail)
        return Finding(name, False, problem, f"check the settings of the {name} and that its server is running")

    async def _examine_schema(self) -> Finding:
        try:
            current, newest = await current_revision(self._database), known_revisions()[-1]
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            return Finding("schema", False, str(error), "make the database reachable first")
        if current == newest:
            return Finding("schema", True, f"revision {current}")
        return Finding("schema", False, f"revision {current}, this version needs {newest}", "run: scrubjay migrate")

    async def _examine_workers(self) -> Finding:
        try:
            async with self._database.reading() as connection:
                workers = await Workers(connection).all()
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            return Finding("workers", False, str(error), "make the database reachable first")
        described = ", ".join(f"{worker.host} pid {worker.pid}" for worker in workers) or "none running"
        return Finding("workers", True, described)


async def _answers(check: Callable[[], Awaitable[None]]) -> str | None:
    """What is wrong, or None."""
    try:
        async with asyncio.timeout(CHECK_SECONDS):
            await check()
    except TimeoutError:
        return f"no answer within {CHECK_SECONDS:.0f} seconds"
    except (ScrubjayError, SQLAlchemyError, OSError) as error:
        return str(error)
    return None
