"""What every backend can do. Objects are OpenAI's, as they go over the wire, so that both doors show the same thing.

`local.py` answers from our own collections, documents and index; `remote.py` asks OpenAI or Azure. Every call takes
the tenant; an id that is not this tenant's is NotFound. Ids are OpenAI's (`ids.py`).
"""

from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from scrubjay.openai.relay import ForwardedRequest, Relayed

Item = dict[str, Any]  # an OpenAI object
Attributes = Mapping[str, str | float | bool]
FileStatus = Literal["in_progress", "completed", "failed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Which part of a list: `after` and `before` are ids of items at its edges."""

    limit: int = 20
    newest_first: bool = True
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Listed:
    """One window of a list, and whether there is more behind it."""

    items: Sequence[Item]
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """Bytes that somebody uploads, and what they are called."""

    filename: str
    content: AsyncIterable[bytes]
    purpose: str = "assistants"
    content_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileBody:
    """A file's bytes, piece by piece."""

    filename: str
    content_type: str
    chunks: AsyncIterator[bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A file that is added to a vector store. `chunking_strategy` is OpenAI's; None means automatic.

    The last three are for files that Scrubjay itself fetched; a remote backend ignores them.
    """

    file_id: str
    attributes: Attributes = field(default_factory=dict)
    chunking_strategy: Mapping[str, Any] | None = None
    url: str | None = None  # where the content was fetched: the URL of its document
    replaces: str | None = None  # the file in this store that has the older content of the same URL
    is_extracted: bool = False  # the content is Markdown that our own extraction wrote; it is not extracted again


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSearch:
    """What to look for in a vector store. `filters` are OpenAI's, on attributes (`filters.py`)."""

    queries: tuple[str, ...]
    filters: Mapping[str, Any] | None = None
    limit: int = 10
    score_threshold: float = 0.0


class Backend(Protocol):
    name: str  # local or remote

    async def create_file(self, tenant_id: str, new: NewFile) -> Item:
        """Keep the bytes; the file is not in any vector store yet."""

    async def files(self, tenant_id: str, window: Window, *, purpose: str | None = None) -> Listed: ...

    async def file(self, tenant_id: str, file_id: str) -> Item: ...

    async def file_body(self, tenant_id: str, file_id: str) -> FileBody: ...

    async def delete_file(self, tenant_id: str, file_id: str) -> Item:
        """Remove a file everywhere: from every vector store, with its vectors, and its bytes."""

    async def create_vector_store(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        """`values` are name, description, metadata, expires_after, file_ids and chunking_strategy, all optional."""

    async def vector_stores(self, tenant_id: str, window: Window) -> Listed: ...

    async def vector_store(self, tenant_id: str, store_id: str) -> Item: ...

    async def update_vector_store(self, tenant_id: str, store_id: str, changes: Mapping[str, Any]) -> Item:
        """`changes` are some of name, metadata and expires_after."""

    async def delete_vector_store(self, tenant_id: str, store_id: str) -> Item:
        """The store and its vectors; files stay, and so do crawled documents."""

    async def add_to_store(self, tenant_id: str, store_id: str, new: StoreFile) -> Item:
        """Have a file searched in a store. Adding one that is there already changes its attributes at most."""

    async def store_files(
        self, tenant_id: str, store_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed: ...

    async def store_file(self, tenant_id: str, store_id: str, file_id: str) -> Item: ...

    async def store_file_text(self, tenant_id: str, store_id: str, file_id: str) -> Sequence[str]:
        """What a file says, as it was read."""

    async def update_store_file(self, tenant_id: str, store_id: str, file_id: str, attributes: Attributes) -> Item: ...

    async def remove_from_store(self, tenant_id: str, store_id: str, file_id: str) -> Item:
        """The file's vectors in this store go; the file stays."""

    async def create_batch(self, tenant_id: str, store_id: str, files: Sequence[StoreFile]) -> Item: ...

    async def batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item: ...

    async def cancel_batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item:
        """What is not read yet is not read any more."""

    async def batch_files(
        self, tenant_id: str, store_id: str, batch_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed: ...

    async def search(self, tenant_id: str, store_id: str, wanted: StoreSearch) -> Sequence[Item]: ...

    async def create_assistant(self, tenant_id: str, values: Mapping[str, Any]) -> Item: ...

    async def assistants(self, tenant_id: str, window: Window) -> Listed: ...

    async def assistant(self, tenant_id: str, assistant_id: str) -> Item: ...

    async def update_assistant(self, tenant_id: str, assistant_id: str, changes: Mapping[str, Any]) -> Item: ...

    async def delete_assistant(self, tenant_id: str, assistant_id: str) -> Item: ...

    async def create_response(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        """Have a language model answer; Unavailable where none is configured."""

    async def response(self, tenant_id: str, response_id: str) -> Item: ...

    async def delete_response(self, tenant_id: str, response_id: str) -> Item: ...

    async def delete_conversation(self, tenant_id: str, conversation_id: str) -> Item: ...

    async def models(self, tenant_id: str) -> Sequence[Item]: ...

    async def embed(self, tenant_id: str, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> Item:
        """OpenAI's list of embeddings, with vectors of floats."""

    async def pass_on(self, tenant_id: str, passage: ForwardedRequest) -> Relayed:
        """A request as a client sent it, to OpenAI or to the language model there is; the answer as it comes."""

    async def close(self) -> None: ...
