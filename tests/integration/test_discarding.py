"""Bodies are shared and never lost: by tenants, and by who stores one in the moment in which another lets go of it."""

import random
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.library import Library, open_library

from scrubjay.documents.discarding import destroy_discarded
from scrubjay.documents.texts import INLINE_BYTES
from scrubjay.errors import BlobMissing
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings

AT_ONCE = timedelta(seconds=-1)


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings) as opened:
        yield opened


async def purge(library: Library, who: Principal, document_id: str) -> None:
    await library.settle()
    await library.documents.purge(who, [document_id])
    await library.settle()


def long_text() -> str:
    """Too long for the database, even packed."""
    chance = random.Random(1)
    return "# Jay\n\n" + " ".join(f"{chance.getrandbits(64):x}" for _ in range(INLINE_BYTES // 6))


async def test_a_text_of_two_tenants_stays_when_one_of_them_purges_it(library: Library) -> None:
    one, other = await library.tenant("one"), await library.tenant("other")
    text = long_text()
    first = await library.add(one, "https://example.org/a", text)
    second = await library.add(other, "https://example.org/a", text)
    await purge(library, one, first.document_id)
    await destroy_discarded(library.database, library.blobs, AT_ONCE)
    document = await library.documents.get(other, second.document_id)
    assert await library.texts.read(other.tenant_id, document.content_sha256 or "") == text


async def test_a_body_stored_while_its_last_holder_goes_is_not_lost(library: Library) -> None:
    who = await library.tenant("tenant")
    kept = await library.blobs.put(b"the original")
    made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn.", original_sha256=kept.sha256)
    await library.settle()
    await library.blobs.put(b"the original")  # somebody stores the same, and has not named it yet
    await purge(library, who, made.document_id)
    assert await library.blobs.get(kept.sha256) == b"the original"
    await library.add(who, "https://example.org/b", "# Jay\n\nOne more.", original_sha256=kept.sha256)
    assert await destroy_discarded(library.database, library.blobs, AT_ONCE) == 0
    assert await library.blobs.exists(kept.sha256)


async def test_what_nobody_names_is_destroyed_only_after_a_while(library: Library) -> None:
    who = await library.tenant("tenant")
    kept = await library.blobs.put(b"the original")
    made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn.", original_sha256=kept.sha256)
    await purge(library, who, made.document_id)
    assert await destroy_discarded(library.database, library.blobs) == 0
    assert await library.blobs.get(kept.sha256) == b"the original"
    assert await destroy_discarded(library.database, library.blobs, AT_ONCE) == 1
    with pytest.raises(BlobMissing):
        await library.blobs.get(kept.sha256)
    assert await destroy_discarded(library.database, library.blobs, AT_ONCE) == 0


async def test_a_body_that_a_dead_process_did_not_put_aside_goes_too(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await library.tenant("tenant")
    kept = await library.blobs.put(b"the original")
    made = await library.add(who, "https://example.org/a", "# Jay\n\nAn acorn.", original_sha256=kept.sha256)
    await library.settle()

    async def die(blobs: object, digests: object) -> None:
        raise ConnectionError("gone")

    with monkeypatch.context() as patch:
        patch.setattr("scrubjay.documents.cleanup.put_aside", die)
        await library.documents.purge(who, [made.document_id])
        with pytest.raises(ConnectionError):
            await library.indexer.drain()
    assert await library.blobs.exists(kept.sha256)
    assert await destroy_discarded(library.database, library.blobs, AT_ONCE) == 0
    assert not await library.blobs.exists(kept.sha256)
    assert await destroy_discarded(library.database, library.blobs, AT_ONCE) == 1
