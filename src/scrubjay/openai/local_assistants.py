"""Assistants, as descriptions that are kept: nothing here runs them."""

from collections.abc import Mapping
from typing import Any

from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.knowledge import Assistant
from scrubjay.openai.ids import require_id
from scrubjay.openai.local_parts import LocalPart, list_window
from scrubjay.openai.protocol import Item, Listed, Window
from scrubjay.openai.shapes import assistant_object, deleted
from scrubjay.openai.values import AssistantChanges, AssistantValues, read_values
from scrubjay.storage.inventory import Assistants

_COLUMNS = ("name", "description", "model", "instructions")


class LocalAssistants(LocalPart):
    async def create_assistant(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        given = read_values(AssistantValues, values).model_dump(mode="json", exclude_unset=True)
        own = {name: given.pop(name) for name in _COLUMNS if name in given}
        assistant = Assistant(tenant_id=tenant_id, details=_without_nothing(given), **own)
        async with self.parts.database.writing() as connection:
            await Assistants(connection).add(assistant)
        return assistant_object(assistant)

    async def assistants(self, tenant_id: str, window: Window) -> Listed:
        for name, cursor in (("after", window.after), ("before", window.before)):
            if cursor is not None:
                _check_cursor(cursor, name)
        async with self.parts.database.reading() as connection:
            items, has_more = await list_window(Assistants(connection), tenant_id, window)
        return Listed([assistant_object(each) for each in items], has_more)

    async def assistant(self, tenant_id: str, assistant_id: str) -> Item:
        async with self.parts.database.reading() as connection:
            return assistant_object(await Assistants(connection).get(tenant_id, _checked(assistant_id)))

    async def update_assistant(self, tenant_id: str, assistant_id: str, changes: Mapping[str, Any]) -> Item:
        given = read_values(AssistantChanges, changes).model_dump(mode="json", exclude_unset=True)
        own = {name: given.pop(name) for name in _COLUMNS if name in given}
        async with self.parts.database.writing() as connection:
            known = await Assistants(connection).get(tenant_id, _checked(assistant_id))
            details = _without_nothing({**known.details, **given})
            changed = await Assistants(connection).update(tenant_id, assistant_id, details=details, **own)
        return assistant_object(changed)

    async def delete_assistant(self, tenant_id: str, assistant_id: str) -> Item:
        async with self.parts.database.writing() as connection:
            await Assistants(connection).get(tenant_id, _checked(assistant_id))
            await Assistants(connection).delete(tenant_id, assistant_id)
        return deleted(assistant_id, "assistant.deleted")


def _checked(assistant_id: str) -> str:
    return require_id(assistant_id, "asst", "Assistant")


def _check_cursor(cursor: str, field: str) -> None:
    try:
        _checked(cursor)
    except NotFound as error:
        raise InvalidRequest(f"{field}: there is no '{cursor[:64]}' in this list.", field=field) from error


def _without_nothing(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
