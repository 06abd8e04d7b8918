"""What turns texts into vectors, as a protocol. It stands alone because numbers take a moment to import, and a crawl
that indexes nothing has no use for them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from scrubjay.model.search import VectorTrust

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Vectors: TypeAlias = "NDArray[np.float32]"


class Embedder(Protocol):
    """Also the tokenizer that chunks are measured by."""

    name: str  # as the setting names it
    model: str  # what vectors are kept under: another model never finds them
    dimensions: int
    max_tokens: int

    def token_starts(self, texts: Sequence[str]) -> list[list[int]]:
        """Where each token of each text begins, in characters."""

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """One row of unit length for each text; a text without anything known in it is a row of zeros."""

    async def embed_query(self, text: str) -> Vectors:
        """One vector for what somebody looks for."""

    def trust(self, query: str) -> VectorTrust:
        """How much the vector of this query says beside its words."""

    async def close(self) -> None: ...
