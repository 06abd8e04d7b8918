"""Where the pages of a crawl go when they become documents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


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
