"""The only place where objects are built from settings. Doors get a finished `Scrubjay`.

`resources.py` opens databases, caches and the network, `container.py` has every service by name, `background.py`
starts the background tasks of a working process.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from scrubjay.app.background import start_indexing, start_working
from scrubjay.app.container import Scrubjay
from scrubjay.app.resources import open_ground, open_network
from scrubjay.settings import Settings
from scrubjay.storage.blobs import open_blob_store
from scrubjay.storage.database import connect_or_explain, open_database
from scrubjay.storage.home import own_home, prepare_home
from scrubjay.storage.schema import require_current

if TYPE_CHECKING:
    from scrubjay.storage.backups.restore import Inspected
    from scrubjay.storage.backups.take import Tell

__all__ = ["Scrubjay", "open_network", "open_scrubjay", "restore_backup"]


@asynccontextmanager
async def open_scrubjay(
    settings: Settings, *, working: bool = False, searching: bool = False, keeping_time: bool = True
) -> AsyncIterator[Scrubjay]:
    """Everything, ready to use. With `working`, this process also runs jobs until the context ends.

    It then begins plans that are due, unless it is not `keeping_time`: a command would end before they do.
    With `searching`, it runs none but has the index to itself, where only one process can have it.
    """
    prepare_home(settings.home)
    async with AsyncExitStack() as stack:
        ground = await open_ground(settings, stack, has_index=working or searching)
        # What is made later, while jobs run, is closed after they have ended all the same.
        jay = Scrubjay(ground, await stack.enter_async_context(AsyncExitStack()))
        if working or searching:
            await start_indexing(ground, stack)
        if working:
            await start_working(ground, jay, stack, keeping_time=keeping_time)
        yield jay


async def restore_backup(settings: Settings, path: Path, tell: "Tell") -> "Inspected":
    """Bring a backup into the empty place that the settings name. Its index is made anew by who opens it next."""
    from scrubjay.storage.backups.restore import BackupRestorer, inspect_backup, restore_keys

    prepare_home(settings.home)
    with ExitStack() as locks:
        if settings.is_embedded:
            locks.enter_context(own_home(settings.home))
        found = await asyncio.to_thread(inspect_backup, path, tell)
        database = open_database(settings)
        try:
            await connect_or_explain(database)
            await require_current(database, auto_migrate=True)
            restorer = BackupRestorer(settings, database, open_blob_store(settings))
            await restorer.require_empty()
            restore_keys(settings, found)
            await restorer.restore(path, found, tell)
        finally:
            await database.close()
    return found
