"""Backups, for who may have everything: an admin of the default tenant."""

from pathlib import Path

from scrubjay.errors import Forbidden
from scrubjay.model.tenant import DEFAULT_TENANT_ID, Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.storage.backups.take import BackupTaker, Taken, Tell
from scrubjay.storage.database import Database
from scrubjay.telemetry import get_logger

log = get_logger(__name__)


class BackupService:
    def __init__(self, database: Database, taker: BackupTaker) -> None:
        self._database = database
        self._taker = taker

    async def take(self, principal: Principal, path: Path, *, with_keys: bool, tell: Tell) -> Taken:
        """Write a backup of every tenant's content to a new file."""
        require(principal, Scope.ADMIN)
        if principal.tenant_id != DEFAULT_TENANT_ID:
            raise Forbidden("Only an admin of the default tenant may take a backup.")
        async with self._database.writing() as connection:  # before: no backup is taken that is not in the log
            await note_act(connection, principal, "backup.started", file=path.name, with_keys=with_keys)
        taken = await self._taker.take(path, with_keys=with_keys, tell=tell)
        log.info("backup taken", rows=taken.rows, bodies=taken.bodies, files=taken.files, keys=taken.has_keys)
        return taken
