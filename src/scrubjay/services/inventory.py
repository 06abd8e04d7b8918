"""The OpenAI-shaped inventory as doors see it: files, vector stores, assistants, responses, models, embeddings.

Objects are OpenAI's, as dictionaries. Reading needs read, making and changing write, deleting a vector store admin.
Which backend answers is the operator's choice (`is_remote`); what several calls of it make up is `backend/verbs.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from scrubjay.backend import verbs
from scrubjay.backend.protocol import (
    Attributes,
    Backend,
    FileBody,
    FileStatus,
    Item,
    Listed,
    NewFile,
    StoreFile,
    StoreSearch,
    Window,
)
from scrubjay.backend.relay import Passage, Relayed
from scrubjay.backend.verbs import Outcome, Tell, silently
from scrubjay.errors import InvalidRequest
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.storage.database import Database

__all__ = ["InventoryService", "Outcome", "Tell", "Window"]


class InventoryService:
    def __init__(self, database: Database, backend: Backend) -> None:
        self._database = database
        self._backend = backend

    @property
    def is_remote(self) -> bool:
        """Whether objects are those of an OpenAI account, and not our own."""
        return self._backend.name == "remote"

    async def pass_on(self, principal: Principal, passage: Passage, scope: Scope) -> Relayed:
        """A request as its client sent it, to whoever is behind the backend; `scope` is what it takes."""
        require(principal, scope)
        if scope is Scope.ADMIN:
            await self._note(principal, "relay.sent", f"{passage.method} {passage.path}")
        return await self._backend.pass_on(principal.tenant_id, passage)

    async def _note(self, principal: Principal, action: str, target_id: str, **details: Any) -> None:
        """Before the act: the backend has transactions of its own, or is somebody else's."""
        async with self._database.writing() as connection:
            await note_act(connection, principal, action, target_id, **details)

    # Files

    async def upload_file(self, principal: Principal, new: NewFile) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.create_file(principal.tenant_id, new)

    async def list_files(self, principal: Principal, window: Window, *, purpose: str | None = None) -> Listed:
        require(principal, Scope.READ)
        return await self._backend.files(principal.tenant_id, window, purpose=purpose)

    async def all_files(self, principal: Principal, *, purpose: str | None = None) -> list[Item]:
        """Every file, newest first."""
        require(principal, Scope.READ)

        async def fetch(window: Window) -> Listed:
            return await self._backend.files(principal.tenant_id, window, purpose=purpose)

        return [item async for item in verbs.every(fetch)]

    async def get_file(self, principal: Principal, file_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.file(principal.tenant_id, file_id)

    async def file_body(self, principal: Principal, file_id: str) -> FileBody:
        require(principal, Scope.READ)
        return await self._backend.file_body(principal.tenant_id, file_id)

    async def delete_file(self, principal: Principal, file_id: str) -> Item:
        """Everywhere: from every vector store, with its vectors and its bytes."""
        require(principal, Scope.WRITE)
        return await self._backend.delete_file(principal.tenant_id, file_id)

    # Vector stores

    async def create_vector_store(self, principal: Principal, values: Mapping[str, Any]) -> Item:
        """`values`: name, description, metadata, expires_after, file_ids, chunking_strategy, all optional."""
        require(principal, Scope.WRITE)
        return await self._backend.create_vector_store(principal.tenant_id, values)

    async def list_vector_stores(self, principal: Principal, window: Window) -> Listed:
        require(principal, Scope.READ)
        return await self._backend.vector_stores(principal.tenant_id, window)

    async def all_vector_stores(self, principal: Principal) -> list[Item]:
        """Every vector store, newest first."""
        require(principal, Scope.READ)

        async def fetch(window: Window) -> Listed:
            return await self._backend.vector_stores(principal.tenant_id, window)

        return [item async for item in verbs.every(fetch)]

    async def get_vector_store(self, principal: Principal, store_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.vector_store(principal.tenant_id, store_id)

    async def update_vector_store(self, principal: Principal, store_id: str, changes: Mapping[str, Any]) -> Item:
        """`changes`: some of name, metadata and expires_after."""
        require(principal, Scope.WRITE)
        return await self._backend.update_vector_store(principal.tenant_id, store_id, changes)

    async def delete_vector_store(
        self,
        principal: Principal,
        store_id: str,
        *,
        with_files: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> Outcome:
        """Delete a vector store; `with_files`: all its files everywhere first. `tell` hears each step."""
        require(principal, Scope.ADMIN)
        if not dry_run:
            await self._backend.vector_store(principal.tenant_id, store_id)
            await self._note(principal, "vector_store.deleted", store_id, with_files=with_files)
        return await verbs.delete_store(
            self._backend, principal.tenant_id, store_id, with_files=with_files, dry_run=dry_run, tell=tell
        )

    async def replicate(
        self,
        principal: Principal,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        remove_others: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> Mapping[str, Outcome]:
        """Every target gets all files of all sources, each once; returns target id → what changed in it.

        `remove_others` takes out of the targets what none of the sources has (it stays a file).
        """
        require(principal, Scope.WRITE)
        if not sources or not targets:
            name = "targets" if sources else "sources"
            raise InvalidRequest(f"{name}: name at least one vector store.", field=name)
        if both := sorted(set(sources) & set(targets)):
            raise InvalidRequest(f"'{both[0]}' is a source and a target.", field="targets")
        return await verbs.replicate(
            self._backend,
            principal.tenant_id,
            sources,
            targets,
            remove_others=remove_others,
            dry_run=dry_run,
            tell=tell,
        )

    async def search(self, principal: Principal, store_id: str, wanted: StoreSearch) -> Sequence[Item]:
        """Passages, best first: file_id, filename, score, attributes and content of each."""
        require(principal, Scope.READ)
        return await self._backend.search(principal.tenant_id, store_id, wanted)

    # Files in vector stores

    async def add_to_store(self, principal: Principal, store_id: str, new: StoreFile) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.add_to_store(principal.tenant_id, store_id, new)

    async def list_store_files(
        self, principal: Principal, store_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        require(principal, Scope.READ)
        return await self._backend.store_files(principal.tenant_id, store_id, window, status=status)

    async def all_store_files(
        self, principal: Principal, store_id: str, *, status: FileStatus | None = None
    ) -> list[Item]:
        """Every file of a vector store, newest first; of one status only, if asked (`failed`, …)."""
        require(principal, Scope.READ)
        return await verbs.every_store_file(self._backend, principal.tenant_id, store_id, status=status)

    async def get_store_file(self, principal: Principal, store_id: str, file_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.store_file(principal.tenant_id, store_id, file_id)

    async def wait_for_store_file(
        self, principal: Principal, store_id: str, file_id: str, *, seconds: float = verbs.WAIT_SECONDS
    ) -> Item:
        """The file when it is completed, failed or cancelled."""
        require(principal, Scope.READ)
        return await verbs.wait_for_store_file(self._backend, principal.tenant_id, store_id, file_id, seconds=seconds)

    async def store_file_text(self, principal: Principal, store_id: str, file_id: str) -> Sequence[str]:
        require(principal, Scope.READ)
        return await self._backend.store_file_text(principal.tenant_id, store_id, file_id)

    async def update_store_file(
        self, principal: Principal, store_id: str, file_id: str, attributes: Attributes
    ) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.update_store_file(principal.tenant_id, store_id, file_id, attributes)

    async def remove_from_store(
        self, principal: Principal, store_id: str, file_id: str, *, globally: bool = False, dry_run: bool = False
    ) -> Outcome:
        """Take a file out of a vector store; `globally` (mode delete_globally): then delete it everywhere."""
        require(principal, Scope.WRITE)
        return await verbs.remove_file(
            self._backend, principal.tenant_id, store_id, file_id, globally=globally, dry_run=dry_run
        )

    async def create_batch(self, principal: Principal, store_id: str, files: Sequence[StoreFile]) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.create_batch(principal.tenant_id, store_id, files)

    async def get_batch(self, principal: Principal, store_id: str, batch_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.batch(principal.tenant_id, store_id, batch_id)

    async def cancel_batch(self, principal: Principal, store_id: str, batch_id: str) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.cancel_batch(principal.tenant_id, store_id, batch_id)

    async def list_batch_files(
        self, principal: Principal, store_id: str, batch_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        require(principal, Scope.READ)
        return await self._backend.batch_files(principal.tenant_id, store_id, batch_id, window, status=status)

    # Assistants and responses

    async def create_assistant(self, principal: Principal, values: Mapping[str, Any]) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.create_assistant(principal.tenant_id, values)

    async def list_assistants(self, principal: Principal, window: Window) -> Listed:
        require(principal, Scope.READ)
        return await self._backend.assistants(principal.tenant_id, window)

    async def all_assistants(self, principal: Principal) -> list[Item]:
        """Every assistant, newest first."""
        require(principal, Scope.READ)

        async def fetch(window: Window) -> Listed:
            return await self._backend.assistants(principal.tenant_id, window)

        return [item async for item in verbs.every(fetch)]

    async def get_assistant(self, principal: Principal, assistant_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.assistant(principal.tenant_id, assistant_id)

    async def update_assistant(self, principal: Principal, assistant_id: str, changes: Mapping[str, Any]) -> Item:
        require(principal, Scope.WRITE)
        return await self._backend.update_assistant(principal.tenant_id, assistant_id, changes)

    async def delete_assistant(
        self,
        principal: Principal,
        assistant_id: str,
        *,
        with_files: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> Outcome:
        """Delete an assistant; `with_files`: the files of its vector stores everywhere and the stores first."""
        require(principal, Scope.ADMIN if with_files else Scope.WRITE)
        if with_files and not dry_run:
            await self._backend.assistant(principal.tenant_id, assistant_id)
            await self._note(principal, "assistant.deleted", assistant_id, with_files=True)
        return await verbs.delete_assistant(
            self._backend, principal.tenant_id, assistant_id, with_files=with_files, dry_run=dry_run, tell=tell
        )

    async def create_response(self, principal: Principal, values: Mapping[str, Any]) -> Item:
        """A language model's answer, whole; doors that stream use `pass_on`."""
        require(principal, Scope.WRITE)
        return await self._backend.create_response(principal.tenant_id, values)

    async def get_response(self, principal: Principal, response_id: str) -> Item:
        require(principal, Scope.READ)
        return await self._backend.response(principal.tenant_id, response_id)

    async def delete_response(
        self,
        principal: Principal,
        response_id: str,
        *,
        with_conversation: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> Outcome:
        """Delete a stored response; `with_conversation`: its stored conversation first."""
        require(principal, Scope.WRITE)
        return await verbs.delete_response(
            self._backend,
            principal.tenant_id,
            response_id,
            with_conversation=with_conversation,
            dry_run=dry_run,
            tell=tell,
        )

    # Models

    async def list_models(self, principal: Principal) -> Sequence[Item]:
        require(principal, Scope.READ)
        return await self._backend.models(principal.tenant_id)

    async def embed(
        self, principal: Principal, texts: Sequence[str], *, model: str, dimensions: int | None = None
    ) -> Item:
        require(principal, Scope.READ)
        return await self._backend.embed(principal.tenant_id, texts, model=model, dimensions=dimensions)
