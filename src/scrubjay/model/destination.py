"""Where the pages of a crawl go when they become documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scrubjay.model.chunking import read_chunking


@dataclass(frozen=True, slots=True)
class Destination:
    """Where the pages of a crawl go."""

    collection_id: str | None = None
    tags: tuple[str, ...] = ()
    chunking: Mapping[str, Any] | None = None

    @classmethod
    def to(
        cls, collection_id: str | None = None, tags: Sequence[str] = (), chunking: Mapping[str, Any] | None = None
    ) -> "Destination":
        return cls(collection_id, tuple(tags), dict(chunking) if chunking else None)

    def dump(self) -> dict[str, Any]:
        return {"collection_id": self.collection_id, "tags": list(self.tags), "chunking": self.chunking}

    @classmethod
    def read(cls, payload: Mapping[str, Any]) -> "Destination | None":
        """What a job's payload says; nothing means that its pages stay pages."""
        values = payload.get("ingest")
        if values is None:
            return None
        read_chunking(values.get("chunking"))
        return cls(values.get("collection_id"), tuple(values.get("tags") or ()), values.get("chunking"))
