"""Is everything there and does it agree: liveness, readiness, and `scrubjay doctor`."""

import asyncio
import stat
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from scrubjay.errors import IndexElsewhere, ScrubjayError, Unavailable
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.consistency import Consistency
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.settings import Settings
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.cache import Cache, CacheStats
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.collections import Collections
from scrubjay.storage.database import Database
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.home import ADMIN_KEY_FILE
from scrubjay.storage.schema import current_revision, known_revisions
from scrubjay.storage.tags import Tags
from scrubjay.storage.workers import Workers

CHECK_SECONDS = 5.0
CACHED_PREFIX = "cache:"


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found, in words; `advice` says what to do when it is not well."""

    name: str
    is_well: bool
    detail: str
    advice: str = ""


class Health:
    def __init__(
        self, settings: Settings, database: Database, blobs: BlobStore, cache: Cache, catalog: IndexCatalog
    ) -> None:
        self.is_stopping = False  # requests are answered to the end, but no more should be sent here
        self._catalog = catalog
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
            "index": self._check_index,
        }
        results = await asyncio.gather(*(_answers(check) for check in checks.values()))
        found = dict(zip(checks, (problem is None for problem in results), strict=True))
        return found | {"accepting": False} if self.is_stopping else found

    async def _check_index(self) -> None:
        try:
            served = await self._catalog.live()
        except IndexElsewhere:
            return  # it is another process's to check
        await served.index.check()

    async def cache_stats(self, principal: Principal) -> CacheStats:
        require(principal, Scope.READ)
        return await self._cache.stats()

    async def clear_cache(self, principal: Principal) -> int:
        """Forget cached answers, pages and vectors; counters and circuits stay."""
        require(principal, Scope.ADMIN)
        async with self._database.writing() as connection:
            await note_act(connection, principal, "cache.cleared")
        return await self._cache.clear(CACHED_PREFIX)

    async def stats(self, principal: Principal) -> dict[str, Any]:
        """What a tenant has, counted."""
        require(principal, Scope.READ)
        tenant_id = principal.tenant_id
        async with self._database.reading() as connection:
            documents, chunks = Documents(connection), Chunks(connection)
            living = (DocumentRow.tenant_id == tenant_id, DocumentRow.deleted_at.is_(None))
            counted = {
                "documents": await documents.count(*living),
                "deleted_documents": await documents.count(
                    DocumentRow.tenant_id == tenant_id,
                    DocumentRow.deleted_at.is_not(None),
                    DocumentRow.is_purging.is_(False),
                ),
                "chunks": await chunks.count(chunks.of_tenant(tenant_id)),
                "collections": await Collections(connection).count(Collections(connection).of_tenant(tenant_id)),
                "tags": await Tags(connection).count(Tags(connection).of_tenant(tenant_id)),
            }
            due = await documents.count(DocumentRow.tenant_id == tenant_id, DocumentRow.index_due_at.is_not(None))
        return {**counted, "index": {"waiting": due, **await self._describe_index()}}

    async def _describe_index(self) -> dict[str, Any]:
        try:
            served = await self._catalog.live()
        except Unavailable as error:
            return {"model": None, "note": error.message}
        return {"model": served.generation.model, "dimensions": served.generation.dimensions}

    async def examine(self, *, repair: bool = False) -> list[Finding]:
        """Everything `scrubjay doctor` looks at. With `repair`, what the index has wrong is put right."""
        return [
            self._examine_home(),
            await self._examine_part("database", self._database.check, self._database.engine.url.render_as_string()),
            await self._examine_schema(),
            await self._examine_part("blobs", self._blobs.check, self._settings.resolved_blob_url),
            await self._examine_part("cache", self._cache.check, "redis" if self._settings.cache_url else "in process"),
            await self._examine_workers(),
            await self._examine_index(repair=repair),
        ]

    async def _examine_index(self, *, repair: bool) -> Finding:
        consistency = Consistency(self._database, self._catalog)
        try:
            found = await (consistency.repair() if repair else consistency.compare())
        except IndexElsewhere as error:
            advice = "stop the server that has it, and run this again" if repair else ""
            return Finding("index", not repair, f"not compared: {error.message}", advice)
        except (ScrubjayError, SQLAlchemyError, OSError) as error:
            return Finding("index", False, str(error), "make it reachable, or build it anew: scrubjay reindex")
        if found.none:
            waiting = f"; {found.waiting:,} documents wait to be indexed" if found.waiting else ""
            return Finding("index", True, found.describe() + waiting)
        if repair:
            return Finding("index", True, f"{found.describe()}; repaired")
        return Finding("index", False, found.describe(), "run: scrubjay doctor --repair")

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
