"""What the inventory's actions do, as verbs: they can run as jobs, and simulate (`dry_run`)."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from scrubjay.model.tenant import Principal, Scope
from scrubjay.openai.values import AssistantValues, VectorStoreChanges, VectorStoreValues, read_values
from scrubjay.services.inventory import InventoryOutcome, InventoryService
from scrubjay.services.verbs import Tell, Verb

STORE_FIELDS = ("name", "description", "metadata", "expires_after", "file_ids", "chunking_strategy")
STORE_CHANGES = ("name", "metadata", "expires_after")
ASSISTANT_FIELDS = (
    "name", "description", "model", "instructions", "tools", "tool_resources", "metadata", "temperature", "top_p",
    "response_format",
)  # fmt: skip
Values = Mapping[str, Any]


def inventory_verbs(inventory: InventoryService) -> Mapping[str, Verb]:
    verbs = _Verbs(inventory)
    return {
        "files.delete": Verb(verbs.delete_file, repeatable=True),
        "vector_stores.create": Verb(verbs.create_store),
        "vector_stores.update": Verb(verbs.update_store, repeatable=True),
        "vector_stores.delete": Verb(verbs.delete_store, scope=Scope.ADMIN, repeatable=True),
        "vector_stores.replicate": Verb(verbs.replicate, repeatable=True),
        "vector_store_files.delete": Verb(verbs.remove_file, repeatable=True),
        "assistants.create": Verb(verbs.create_assistant),
        "assistants.update": Verb(verbs.update_assistant, repeatable=True),
        "assistants.delete": Verb(verbs.delete_assistant, repeatable=True),
    }


class _Verbs:
    def __init__(self, inventory: InventoryService) -> None:
        self._inventory = inventory

    async def delete_file(self, who: Principal, values: Values, tell: Tell) -> Any:
        item = await self._inventory.get_file(who, values["file_id"])
        await tell(f"Deleting file '{values['file_id']}'...")
        if not _simulated(values):
            await self._inventory.delete_file(who, values["file_id"])
        return {**item, "deleted_ids": [values["file_id"]]}

    async def create_store(self, who: Principal, values: Values, tell: Tell) -> Any:
        given = _chosen(values, STORE_FIELDS)
        checked = read_values(VectorStoreValues, given)
        await tell(f"Creating vector store '{checked.name or ''}'...")
        if _simulated(values):
            return given
        return await self._inventory.create_vector_store(who, given)

    async def update_store(self, who: Principal, values: Values, tell: Tell) -> Any:
        changes = _chosen(values, STORE_CHANGES)
        read_values(VectorStoreChanges, changes)
        known = await self._inventory.get_vector_store(who, values["target_id"])
        await tell(f"Updating vector store '{values['target_id']}'...")
        if _simulated(values):
            return {**known, **changes}
        return await self._inventory.update_vector_store(who, values["target_id"], changes)

    async def delete_store(self, who: Principal, values: Values, tell: Tell) -> Any:
        store_id = values["vector_store_id"]
        item = await self._inventory.get_vector_store(who, store_id)
        outcome = await self._inventory.delete_vector_store(
            who, store_id, with_files=values.get("mode") == "with_files", dry_run=_simulated(values), tell=tell
        )
        return {**item, "deleted_ids": outcome.deleted}

    async def replicate(self, who: Principal, values: Values, tell: Tell) -> Any:
        outcomes: Mapping[str, InventoryOutcome] = await self._inventory.replicate(
            who,
            values["source_vector_store_ids"],
            values["target_vector_store_ids"],
            remove_others=values.get("remove_target_files_not_in_sources", False),
            dry_run=_simulated(values),
            tell=tell,
        )
        return [{"vector_store_id": store_id, **asdict(outcome)} for store_id, outcome in outcomes.items()]

    async def remove_file(self, who: Principal, values: Values, tell: Tell) -> Any:
        store_id, file_id = values["vector_store_id"], values["file_id"]
        item = await self._inventory.get_store_file(who, store_id, file_id)
        await tell(f"Removing file '{file_id}' from vector store '{store_id}'...")
        globally = values.get("mode") == "delete_globally"
        outcome = await self._inventory.remove_from_store(
            who, store_id, file_id, globally=globally, dry_run=_simulated(values)
        )
        return {**item, "removed_ids": outcome.removed, "deleted_ids": outcome.deleted}

    async def create_assistant(self, who: Principal, values: Values, tell: Tell) -> Any:
        given = _chosen(values, ASSISTANT_FIELDS)
        read_values(AssistantValues, given)
        await tell(f"Creating assistant '{given.get('name', '')}'...")
        if _simulated(values):
            return given
        return await self._inventory.create_assistant(who, given)

    async def update_assistant(self, who: Principal, values: Values, tell: Tell) -> Any:
        changes = _chosen(values, ASSISTANT_FIELDS)
        known = await self._inventory.get_assistant(who, values["target_id"])
        await tell(f"Updating assistant '{values['target_id']}'...")
        if _simulated(values):
            return {**known, **changes}
        return await self._inventory.update_assistant(who, values["target_id"], changes)

    async def delete_assistant(self, who: Principal, values: Values, tell: Tell) -> Any:
        item = await self._inventory.get_assistant(who, values["assistant_id"])
        outcome = await self._inventory.delete_assistant(
            who,
            values["assistant_id"],
            with_files=values.get("mode") == "with_files",
            dry_run=_simulated(values),
            tell=tell,
        )
        return {**item, "deleted_ids": outcome.deleted}


def _simulated(values: Values) -> bool:
    return bool(values.get("dry_run", False))


def _chosen(values: Values, names: tuple[str, ...]) -> dict[str, Any]:
    """What was given; an empty field of a form says nothing."""
    return {name: values[name] for name in names if values.get(name) not in (None, "")}
