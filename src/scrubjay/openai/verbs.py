"""What takes several calls of a backend: waiting, whole lists, deletions that take files along, and replication.

They are safe to repeat: each step leaves less to do, and a run that was cut off is finished by the next one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from scrubjay.errors import NotFound, Unavailable
from scrubjay.openai.protocol import Backend, FileStatus, Item, Listed, StoreFile, Window

WHOLE_LIST = 100
POLL_SECONDS = 0.25
WAIT_SECONDS = 600.0

Tell = Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class InventoryOutcome:
    """What a verb did, or would do."""

    deleted: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


async def silently(_: str) -> None:
    """Nobody wants to know."""


async def _every(fetch: Callable[[Window], Awaitable[Listed]]) -> list[Item]:
    """All items of a list, newest first."""
    window, found = Window(limit=WHOLE_LIST), list[Item]()
    while True:
        listed = await fetch(window)
        found += listed.items
        if not listed.has_more or not listed.items:
            return found
        window = replace(window, after=str(listed.items[-1]["id"]))


async def all_files(backend: Backend, tenant_id: str, *, purpose: str | None = None) -> list[Item]:
    return await _every(lambda window: backend.files(tenant_id, window, purpose=purpose))


async def all_vector_stores(backend: Backend, tenant_id: str) -> list[Item]:
    return await _every(lambda window: backend.vector_stores(tenant_id, window))


async def all_assistants(backend: Backend, tenant_id: str) -> list[Item]:
    return await _every(lambda window: backend.assistants(tenant_id, window))


async def all_store_files(
    backend: Backend, tenant_id: str, store_id: str, *, status: FileStatus | None = None
) -> list[Item]:
    return await _every(lambda window: backend.store_files(tenant_id, store_id, window, status=status))


async def wait_for_store_file(
    backend: Backend, tenant_id: str, store_id: str, file_id: str, *, seconds: float = WAIT_SECONDS
) -> Item:
    """The file as soon as it is completed, failed or cancelled; Unavailable when that takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        item = await backend.store_file(tenant_id, store_id, file_id)
        if item["status"] != "in_progress":
            return item
        if time.monotonic() > deadline:
            raise Unavailable(f"File '{file_id}' is still being read after {seconds:.0f} seconds.")
        await asyncio.sleep(POLL_SECONDS)


async def delete_store(
    backend: Backend, tenant_id: str, store_id: str, *, with_files: bool, dry_run: bool = False, tell: Tell = silently
) -> InventoryOutcome:
    """Delete a vector store; with its files, these go first, everywhere."""
    await backend.vector_store(tenant_id, store_id)
    outcome = InventoryOutcome()
    files = await all_store_files(backend, tenant_id, store_id) if with_files else []
    for number, item in enumerate(files, 1):
        file_id = str(item["id"])
        await tell(f"[ {number} / {len(files)} ] Deleting file '{file_id}'...")
        if not dry_run:
            await _delete_if_there(backend.delete_file(tenant_id, file_id))
        outcome.deleted.append(file_id)
    await tell(f"Deleting vector store '{store_id}'...")
    if not dry_run:
        await backend.delete_vector_store(tenant_id, store_id)
    outcome.deleted.append(store_id)
    return outcome


async def delete_assistant(
    backend: Backend,
    tenant_id: str,
    assistant_id: str,
    *,
    with_files: bool,
    dry_run: bool = False,
    tell: Tell = silently,
) -> InventoryOutcome:
    """Delete an assistant; with files, first the files of its vector stores everywhere, then the stores."""
    assistant = await backend.assistant(tenant_id, assistant_id)
    outcome = InventoryOutcome()
    for store_id in _stores_of(assistant) if with_files else ():
        try:
            part = await delete_store(backend, tenant_id, store_id, with_files=True, dry_run=dry_run, tell=tell)
        except NotFound:
            await tell(f"Vector store '{store_id}' is not there any more.")
            continue
        outcome.deleted += part.deleted
    await tell(f"Deleting assistant '{assistant_id}'...")
    if not dry_run:
        await backend.delete_assistant(tenant_id, assistant_id)
    outcome.deleted.append(assistant_id)
    return outcome


async def delete_response(
    backend: Backend,
    tenant_id: str,
    response_id: str,
    *,
    with_conversation: bool = False,
    dry_run: bool = False,
    tell: Tell = silently,
) -> InventoryOutcome:
    """Delete a response; with its conversation, if it has a stored one, that goes first."""
    response = await backend.response(tenant_id, response_id)
    outcome = InventoryOutcome()
    conversation = (response.get("conversation") or {}).get("id") if with_conversation else None
    if conversation is not None:
        await tell(f"Deleting conversation '{conversation}'...")
        if not dry_run:
            await _delete_if_there(backend.delete_conversation(tenant_id, conversation))
        outcome.deleted.append(conversation)
    await tell(f"Deleting response '{response_id}'...")
    if not dry_run:
        await _delete_if_there(backend.delete_response(tenant_id, response_id))
    outcome.deleted.append(response_id)
    return outcome


async def remove_file(
    backend: Backend, tenant_id: str, store_id: str, file_id: str, *, globally: bool = False, dry_run: bool = False
) -> InventoryOutcome:
    """Take a file out of a vector store, and if asked, delete it everywhere."""
    await backend.store_file(tenant_id, store_id, file_id)
    if not dry_run:
        await backend.remove_from_store(tenant_id, store_id, file_id)
        if globally:
            await _delete_if_there(backend.delete_file(tenant_id, file_id))
    return InventoryOutcome(removed=[file_id], deleted=[file_id] if globally else [])


async def replicate(
    backend: Backend,
    tenant_id: str,
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    remove_others: bool = False,
    dry_run: bool = False,
    tell: Tell = silently,
) -> Mapping[str, InventoryOutcome]:
    """Have every target contain all files of all sources, each once; returns target → what changed."""
    wanted: dict[str, Item] = {}
    for store_id in dict.fromkeys(sources):
        for item in await all_store_files(backend, tenant_id, store_id):
            wanted.setdefault(str(item["id"]), item)
    await tell(f"{len(wanted)} files in {len(set(sources))} source vector stores.")
    outcomes: dict[str, InventoryOutcome] = {}
    present = {
        target: {str(item["id"]): item for item in await all_store_files(backend, tenant_id, target)}
        for target in dict.fromkeys(targets)
    }
    for target, there in present.items():
        outcome = outcomes[target] = InventoryOutcome()
        for file_id in [each for each in wanted if each not in there]:
            await tell(f"Adding file '{file_id}' to '{target}'...")
            if not dry_run:
                await backend.add_to_store(tenant_id, target, _copy_of(wanted[file_id]))
            outcome.added.append(file_id)
        for file_id in [each for each in there if each not in wanted] if remove_others else ():
            await tell(f"Removing file '{file_id}' from '{target}'...")
            if not dry_run:
                await _delete_if_there(backend.remove_from_store(tenant_id, target, file_id))
            outcome.removed.append(file_id)
    return outcomes


def _copy_of(item: Item) -> StoreFile:
    strategy: Any = item.get("chunking_strategy")
    if not isinstance(strategy, Mapping) or strategy.get("type") != "static":
        strategy = None
    return StoreFile(file_id=str(item["id"]), attributes=item.get("attributes") or {}, chunking_strategy=strategy)


def _stores_of(assistant: Item) -> Sequence[str]:
    search = ((assistant.get("tool_resources") or {}).get("file_search")) or {}
    return [str(each) for each in search.get("vector_store_ids") or ()]


async def _delete_if_there(deletion: Awaitable[Item]) -> None:
    try:
        await deletion
    except NotFound:
        return  # somebody else did it, or an earlier run
