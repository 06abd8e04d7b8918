"""Where the texts of documents are: in the database, next to what refers to them, or in the blob store when long."""

import hashlib
import re
from collections.abc import Collection, Mapping

import zstandard
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.model.content import Content
from scrubjay.storage.blobs import BlobStore
from scrubjay.storage.contents import Contents
from scrubjay.storage.database import Database
from scrubjay.storage.versions import DocumentVersions

INLINE_BYTES = 256 * 1024  # compressed; what is longer travels badly through some databases
MAX_TEXT_BYTES = 256 * 1024 * 1024

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_compressor = zstandard.ZstdCompressor(level=3)
_decompressor = zstandard.ZstdDecompressor()


def storable_text(text: str) -> str:
    """The text as every database can keep it; its length stays, so that offsets do."""
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


class TextStore:
    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    async def prepare(self, tenant_id: str, text: str) -> Content:
        """A text ready to be written in a transaction; a long one is in the blob store when this returns."""
        data = text.encode()
        digest = hashlib.sha256(data).hexdigest()
        packed = _compressor.compress(data)
        if len(packed) > INLINE_BYTES:
            await self._blobs.put(data)
            return Content(tenant_id=tenant_id, content_sha256=digest, body=None)
        return Content(tenant_id=tenant_id, content_sha256=digest, body=packed)

    async def read(self, tenant_id: str, content_sha256: str) -> str:
        return (await self.read_many(tenant_id, [content_sha256])).get(content_sha256, "")

    async def read_many(self, tenant_id: str, hashes: Collection[str]) -> Mapping[str, str]:
        async with self._database.reading() as connection:
            bodies = await Contents(connection).bodies(tenant_id, set(hashes))
        texts = {}
        for digest, body in bodies.items():
            if body is None:
                texts[digest] = (await self._blobs.get(digest, max_bytes=MAX_TEXT_BYTES)).decode()
            else:
                texts[digest] = _decompressor.decompress(body, max_output_size=MAX_TEXT_BYTES).decode()
        return texts

    async def forget(self, connection: AsyncConnection, tenant_id: str, hashes: Collection[str]) -> list[str]:
        """Remove texts that no version has any more; returns those whose bodies are in the blob store."""
        in_blobs = []
        for digest in sorted(set(hashes)):
            if await DocumentVersions(connection).holders(tenant_id, digest):
                continue
            bodies = await Contents(connection).bodies(tenant_id, [digest])
            await Contents(connection).remove(tenant_id, digest)
            if digest in bodies and bodies[digest] is None:
                in_blobs.append(digest)
        return in_blobs
