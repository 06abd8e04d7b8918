"""`/v2/inventory`: files, vector stores, assistants and responses of the backend, as OpenAI's objects."""

from typing import Any

from scrubjay.api.actions.declaration import DRY_RUN, Action, Button, Call, Param, Resource, Type
from scrubjay.api.actions.verbs import by_verb
from scrubjay.model.tenant import Scope
from scrubjay.openai.protocol import Listed, Window

FILE_ID = Param(name="file_id", about="The file.", required=True)
STORE_ID = Param(name="vector_store_id", about="The vector store.", required=True)
_STORE_FIELDS = (
    Param(name="name", about="A name for people.", max_length=256, in_body=True),
    Param(name="metadata", about="Up to 16 texts by name.", type=Type.JSON, in_body=True),
    Param(
        name="expires_after",
        about='When it expires: {"anchor": "last_active_at", "days": 7}.',
        type=Type.JSON,
        in_body=True,
    ),
)
_ASSISTANT_FIELDS = (
    Param(name="name", about="A name for people.", max_length=256, in_body=True),
    Param(name="description", about="What it is for.", max_length=512, in_body=True),
    Param(name="model", about="The language model that it uses.", max_length=256, in_body=True),
    Param(name="instructions", about="What it is told first.", max_length=256_000, in_body=True),
    Param(name="tools", about='Its tools: [{"type": "file_search"}].', type=Type.JSON, in_body=True),
    Param(
        name="tool_resources",
        about='What its tools use: {"file_search": {"vector_store_ids": [...]}}.',
        type=Type.JSON,
        in_body=True,
    ),
    Param(name="metadata", about="Up to 16 texts by name.", type=Type.JSON, in_body=True),
)


def _mode(**choices: str) -> Param:
    return Param(name="mode", about="What goes with it.", type=Type.CHOICE, choices=choices)


async def _browse_store_files(call: Call, window: Window) -> Listed:
    """Domains note in the attributes what a file is called and where it is from."""
    found = await call.jay.inventory.list_store_files(
        call.who, call.values["vector_store_id"], window, status=_status(call)
    )
    items = [{**item, "filename": (item.get("attributes") or {}).get("filename", "")} for item in found.items]
    return Listed(items, found.has_more)


def _status(call: Call) -> Any:
    status = call.values.get("status")
    return None if status == "all" else status


async def _create_response(call: Call) -> Any:
    values = {name: value for name, value in call.values.items() if name != "dry_run" and value != ""}
    return values if call.dry_run else await call.jay.inventory.create_response(call.who, values)


async def _delete_response(call: Call) -> Any:
    response_id = call.values["response_id"]
    item = await call.jay.inventory.get_response(call.who, response_id)
    outcome = await call.jay.inventory.delete_response(
        call.who, response_id, with_conversation=call.values["mode"] == "with_conversation", dry_run=call.dry_run
    )
    return {**item, "deleted_ids": outcome.deleted}


async def _kinds(_: Call) -> Any:
    """What there is; how many of each is not counted, because an account may have very many."""
    return [
        {"resource": resource.label, "about": resource.about, "address": f"{resource.title}?format=ui"}
        for resource in INVENTORY
        if resource.path != "inventory" and resource.is_listed
    ]


INVENTORY = (
    Resource(
        shorthand="L(u)",
        path="inventory",
        about="UI for managing inventory",
        list=Action(run=_kinds),
    ),
    Resource(
        shorthand="L(jhu)G(jh)D(jhs)",
        path="inventory/files",
        about="Files in the connected Open AI backend",
        id_param="file_id",
        columns=("id", "filename", "bytes", "purpose", "status", "created_at"),
        list=Action(
            run=lambda call: call.jay.inventory.all_files(call.who, purpose=call.values.get("purpose")),
            browse=lambda call, window: call.jay.inventory.list_files(
                call.who, window, purpose=call.values.get("purpose")
            ),
            params=(Param(name="purpose", about="Only files of this purpose.", max_length=64),),
        ),
        get=Action(run=lambda call: call.jay.inventory.get_file(call.who, call.values["file_id"])),
        delete=by_verb("files.delete", object_param="file_id", about="Everywhere: also from every vector store."),
    ),
    Resource(
        shorthand="L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
        path="inventory/vector_stores",
        about="Vector stores in the connected Open AI backend",
        id_param="vector_store_id",
        columns=("id", "name", "file_counts", "status", "created_at"),
        list=Action(
            run=lambda call: call.jay.inventory.all_vector_stores(call.who),
            browse=lambda call, window: call.jay.inventory.list_vector_stores(call.who, window),
        ),
        create=by_verb(
            "vector_stores.create",
            object_param="name",
            params=(
                *_STORE_FIELDS,
                Param(name="description", about="What is in it.", max_length=512, in_body=True),
                Param(name="file_ids", about="Files to add at once.", type=Type.LIST, in_body=True),
                Param(name="chunking_strategy", about="How these files are cut.", type=Type.JSON, in_body=True),
            ),
        ),
        get=Action(run=lambda call: call.jay.inventory.get_vector_store(call.who, call.values["vector_store_id"])),
        update=by_verb(
            "vector_stores.update",
            object_param="vector_store_id",
            params=(STORE_ID, *_STORE_FIELDS),
        ),
        delete=by_verb(
            "vector_stores.delete",
            object_param="vector_store_id",
            scope=Scope.ADMIN,
            params=(
                STORE_ID,
                _mode(
                    default="deletes vector store",
                    with_files="removes all files referenced by the vector store globally, then deletes it",
                ),
            ),
        ),
        buttons=(
            Button(
                label="Files",
                path="inventory/vector_stores/files",
                query={"vector_store_id": "{id}", "format": "ui"},
            ),
        ),
    ),
    Resource(
        shorthand="L(jhs)",
        path="inventory/vector_stores/replicate",
        about="Collects all files in the source vector stores (each once) and ensures all targets contain them",
        list=by_verb(
            "vector_stores.replicate",
            object_param="",
            params=(
                Param(
                    name="source_vector_store_ids",
                    about="One or many source vector stores.",
                    type=Type.LIST,
                    required=True,
                ),
                Param(
                    name="target_vector_store_ids",
                    about="One or many target vector stores.",
                    type=Type.LIST,
                    required=True,
                ),
                Param(
                    name="remove_target_files_not_in_sources",
                    about="Whether to remove other files.",
                    type=Type.TRUTH,
                    default=False,
                    choices={
                        "false": "only adds missing files to the target vector stores",
                        "true": "after adding, removes all files in the targets that are not part of the sources",
                    },
                ),
                DRY_RUN,
            ),
        ),
    ),
    Resource(
        # The specification writes L(jh); people look at the files of a store as they do at all others.
        shorthand="L(jhu)G(jh)D(jhs)",
        path="inventory/vector_stores/files",
        about="Embedded files in vector stores in the connected Open AI backend",
        id_param="file_id",
        columns=("filename", "id", "status", "usage_bytes", "created_at", "last_error"),
        list=Action(
            run=lambda call: call.jay.inventory.all_store_files(
                call.who, call.values["vector_store_id"], status=_status(call)
            ),
            browse=_browse_store_files,
            params=(
                STORE_ID,
                Param(
                    name="status",
                    about="Only files in this state.",
                    type=Type.CHOICE,
                    choices={
                        "all": "every file",
                        "completed": "that can be found",
                        "in_progress": "that are being read",
                        "failed": "that could not be read",
                        "cancelled": "that were given up",
                    },
                ),
            ),
        ),
        get=Action(
            run=lambda call: call.jay.inventory.get_store_file(
                call.who, call.values["vector_store_id"], call.values["file_id"]
            ),
            params=(STORE_ID, FILE_ID),
        ),
        delete=by_verb(
            "vector_store_files.delete",
            object_param="file_id",
            params=(
                STORE_ID,
                FILE_ID,
                _mode(
                    default="removes file reference from vector store",
                    delete_globally="removes file reference from vector store and then deletes file globally",
                ),
            ),
        ),
    ),
    Resource(
        shorthand="L(jhu)C(jhs)G(jh)U(jhs)D(jhs)",
        path="inventory/assistants",
        about="Assistants in the connected Open AI backend",
        id_param="assistant_id",
        columns=("id", "name", "model", "created_at"),
        list=Action(
            run=lambda call: call.jay.inventory.all_assistants(call.who),
            browse=lambda call, window: call.jay.inventory.list_assistants(call.who, window),
        ),
        create=by_verb("assistants.create", object_param="name", params=_ASSISTANT_FIELDS),
        get=Action(run=lambda call: call.jay.inventory.get_assistant(call.who, call.values["assistant_id"])),
        update=by_verb(
            "assistants.update",
            object_param="assistant_id",
            params=(Param(name="assistant_id", about="The assistant.", required=True), *_ASSISTANT_FIELDS),
        ),
        delete=by_verb(
            "assistants.delete",
            object_param="assistant_id",
            params=(
                Param(name="assistant_id", about="The assistant.", required=True),
                _mode(
                    default="deletes assistant",
                    with_files="if vector store is attached: deletes its files globally, then it, then assistant",
                ),
            ),
        ),
    ),
    Resource(
        shorthand="L()C(jh)G(jh)D(jh)",
        path="inventory/responses",
        about="Model responses in the connected Open AI backend",
        id_param="response_id",
        create=Action(
            run=_create_response,
            scope=Scope.WRITE,
            params=(
                Param(name="input", about="What to answer.", required=True, max_length=200_000, in_body=True),
                Param(name="model", about="The language model.", max_length=256, in_body=True),
                Param(name="instructions", about="What it is told first.", max_length=200_000, in_body=True),
                Param(name="previous_response_id", about="The response that this goes on from.", in_body=True),
                Param(name="conversation", about="The conversation that it belongs to.", in_body=True),
                Param(name="metadata", about="Up to 16 texts by name.", type=Type.JSON, in_body=True),
            ),
        ),
        get=Action(run=lambda call: call.jay.inventory.get_response(call.who, call.values["response_id"])),
        delete=Action(
            run=_delete_response,
            scope=Scope.WRITE,
            params=(
                Param(name="response_id", about="The response.", required=True),
                _mode(
                    default="deletes model response",
                    with_conversation="if response has stored conversation: deletes it, then model response",
                ),
            ),
        ),
    ),
)
