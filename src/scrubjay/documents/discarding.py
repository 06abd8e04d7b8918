"""Bodies that nobody has any more, destroyed so that nobody ever loses one.

Bodies are shared: whoever stores one that is there already writes nothing, and names it in a row a moment later. In
that moment its last holder may go. So a body is first only put out of the way, where readers still find it, and
destroyed an hour later if no row names it then; else it is brought back.
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.documents.holding import is_held
from scrubjay.model.clock import utc_now
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.database import Database
from scrubjay.storage.discarded_bodies import DiscardedBodies

KEPT_FOR = timedelta(hours=1)  # longer than anybody takes from storing a body to naming it
_BATCH = 200


async def note_discarded(connection: AsyncConnection, digests: Collection[str]) -> list[str]:
    """Of these bodies, those that nobody else has; in the transaction that lets go of them."""
    free = [digest for digest in sorted(set(digests)) if not await is_held(connection, digest)]
    await DiscardedBodies(connection).note(free, utc_now())
    return free


async def put_aside(blobs: BlobStore, digests: Collection[str]) -> None:
    """After the commit: a body too many is waste, one too few would be a loss."""
    for digest in digests:
        await blobs.discard(digest)


async def destroy_discarded(database: Database, blobs: BlobStore, kept_for: timedelta = KEPT_FOR) -> int:
    """Destroy what has been out of the way long enough; returns how many bodies that was."""
    before = utc_now() - kept_for
    async with database.reading() as connection:
        due = await DiscardedBodies(connection).due(before, _BATCH)
        held = {digest for digest in due if await is_held(connection, digest)}
    destroyed = 0
    for digest in due:
        if digest in held:
            await blobs.bring_back(digest)
        elif await blobs.exists(digest):
            # Whoever let go of it died before it was put aside: its time begins now.
            async with database.writing() as connection:
                await note_discarded(connection, [digest])
            await blobs.discard(digest)
            continue
        else:
            destroyed += await blobs.destroy(digest)
        async with database.writing() as connection:
            await DiscardedBodies(connection).forget(digest, before)
    return destroyed
