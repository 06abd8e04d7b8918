"""The OpenAI-shaped inventory as doors see it: files, vector stores, assistants, responses, models, embeddings.

Objects are OpenAI's, as dictionaries. Reading needs read, creating and changing write, deleting a vector store admin.
The operator chooses the backend (`is_remote`); operations made of several backend calls are in `openai/verbs.py`.
"""

from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from scrubjay.errors import InvalidRequest
from scrubjay.model.tenant import Principal, Scope
from scrubjay.openai import verbs
from scrubjay.openai.protocol import Backend, Window
from scrubjay.openai.relay import ForwardedRequest, Relayed
from scrubjay.openai.verbs import InventoryOutcome, Tell, silently
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.storage.database import Database

__all__ = ["InventoryOutcome", "InventoryService", "Tell", "Window"]

P = ParamSpec("P")
T = TypeVar("T")
Call = Callable[Concatenate[Any, str, P], Awaitable[T]]  # takes the backend and the tenant's id first
Method = Callable[Concatenate["InventoryService", Principal, P], Coroutine[Any, Any, T]]


def _calls(scope: Scope, call: Call[P, T]) -> Method[P, T]:
    """A method that requires `scope` and then makes this call: one of the backend's, or a function of `verbs`."""
    is_of_backend = getattr(Backend, call.__name__, None) is call

    async def method(self: "InventoryService", principal: Principal, /, *args: P.args, **kwargs: P.kwargs) -> T:
        require(principal, scope)
        made = getattr(self._backend, call.__name__) if is_of_backend else partial(call, self._backend)
        return await made(principal.tenant_id, *args, **kwargs)

    return method


class InventoryService:
    def __init__(self, database: Database, backend: Backend) -> None:
        self._database = database
        self._backend = backend

    upload_file = _calls(Scope.WRITE, Backend.create_file)
    list_files = _calls(Scope.READ, Backend.files)
    all_files = _calls(Scope.READ, verbs.all_files)
    get_file = _calls(Scope.READ, Backend.file)
    file_body = _calls(Scope.READ, Backend.file_body)
    delete_file = _calls(Scope.WRITE, Backend.delete_file)

    create_vector_store = _calls(Scope.WRITE, Backend.create_vector_store)
    list_vector_stores = _calls(Scope.READ, Backend.vector_stores)
    all_vector_stores = _calls(Scope.READ, verbs.all_vector_stores)
    get_vector_store = _calls(Scope.READ, Backend.vector_store)
    update_vector_store = _calls(Scope.WRITE, Backend.update_vector_store)
    search = _calls(Scope.READ, Backend.search)

    add_to_store = _calls(Scope.WRITE, Backend.add_to_store)
    list_store_files = _calls(Scope.READ, Backend.store_files)
    all_store_files = _calls(Scope.READ, verbs.all_store_files)
    get_store_file = _calls(Scope.READ, Backend.store_file)
    wait_for_store_file = _calls(Scope.READ, verbs.wait_for_store_file)
    store_file_text = _calls(Scope.READ, Backend.store_file_text)
    update_store_file = _calls(Scope.WRITE, Backend.update_store_file)
    remove_from_store = _calls(Scope.WRITE, verbs.remove_file)
    create_batch = _calls(Scope.WRITE, Backend.create_batch)
    get_batch = _calls(Scope.READ, Backend.batch)
    cancel_batch = _calls(Scope.WRITE, Backend.cancel_batch)
    list_batch_files = _calls(Scope.READ, Backend.batch_files)

    create_assistant = _calls(Scope.WRITE, Backend.create_assistant)
    list_assistants = _calls(Scope.READ, Backend.assistants)
    all_assistants = _calls(Scope.READ, verbs.all_assistants)
    get_assistant = _calls(Scope.READ, Backend.assistant)
    update_assistant = _calls(Scope.WRITE, Backend.update_assistant)

    create_response = _calls(Scope.WRITE, Backend.create_response)
    get_response = _calls(Scope.READ, Backend.response)
    delete_response = _calls(Scope.WRITE, verbs.delete_response)

    list_models = _calls(Scope.READ, Backend.models)
    embed = _calls(Scope.READ, Backend.embed)

    @property
    def is_remote(self) -> bool:
        """Whether objects are those of an OpenAI account, not our own."""
        return self._backend.name == "remote"

    async def pass_on(self, principal: Principal, passage: ForwardedRequest, scope: Scope) -> Relayed:
        """Forward a client's request unchanged to the backend; it requires `scope`."""
        require(principal, scope)
        if scope is Scope.ADMIN:
            await self._note(principal, "relay.sent", f"{passage.method} {passage.path}")
        return await self._backend.pass_on(principal.tenant_id, passage)

    async def _note(self, principal: Principal, action: str, target_id: str, **details: Any) -> None:
        """Called before the act: the backend commits in transactions of its own, or is remote."""
        async with self._database.writing() as connection:
            await note_act(connection, principal, action, target_id, **details)

    async def delete_vector_store(
        self,
        principal: Principal,
        store_id: str,
        *,
        with_files: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> InventoryOutcome:
        """Delete a vector store; `with_files`: delete its files everywhere first. `tell` is called for each step."""
        require(principal, Scope.ADMIN)
        if not dry_run:
            await self._backend.vector_store(principal.tenant_id, store_id)
            await self._note(principal, "vector_store.deleted", store_id, with_files=with_files)
        return await verbs.delete_store(
            self._backend, principal.tenant_id, store_id, with_files=with_files, dry_run=dry_run, tell=tell
        )

    async def delete_assistant(
        self,
        principal: Principal,
        assistant_id: str,
        *,
        with_files: bool = False,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> InventoryOutcome:
        """Delete an assistant; `with_files`: the files of its vector stores everywhere and the stores first."""
        require(principal, Scope.ADMIN if with_files else Scope.WRITE)
        if with_files and not dry_run:
            await self._backend.assistant(principal.tenant_id, assistant_id)
            await self._note(principal, "assistant.deleted", assistant_id, with_files=True)
        return await verbs.delete_assistant(
            self._backend, principal.tenant_id, assistant_id, with_files=with_files, dry_run=dry_run, tell=tell
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
    ) -> Mapping[str, InventoryOutcome]:
        """Add all files of all sources to every target; returns target id → what changed in it.

        `remove_others` removes from the targets what none of the sources has; the file itself stays.
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
