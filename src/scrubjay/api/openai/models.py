"""`/assistants`, `/responses`, `/chat/completions`, `/embeddings` and `/models`."""

import json

from fastapi import Request, Response

from scrubjay.api.deps import Jay, Who
from scrubjay.api.openai.routing import door_router, passed_on, scope_of
from scrubjay.api.openai.schemas import (
    AnswerRequest,
    ChatRequest,
    Cut,
    EmbeddingRequest,
    ModelRequest,
    in_base64,
    list_object,
)
from scrubjay.errors import NotFound
from scrubjay.openai.protocol import Item
from scrubjay.openai.relay import ForwardedRequest
from scrubjay.openai.values import AssistantChanges, AssistantValues

router = door_router("models")


@router.post("/assistants")
async def create_assistant(jay: Jay, who: Who, body: AssistantValues) -> Item:
    """Keep an assistant's description; nothing here runs it."""
    return await jay.inventory.create_assistant(who, body.model_dump(mode="json", exclude_unset=True))


@router.get("/assistants")
async def list_assistants(jay: Jay, who: Who, cut: Cut) -> Item:
    return list_object(await jay.inventory.list_assistants(who, cut))


@router.get("/assistants/{assistant_id}")
async def get_assistant(jay: Jay, who: Who, assistant_id: str) -> Item:
    return await jay.inventory.get_assistant(who, assistant_id)


@router.post("/assistants/{assistant_id}")
async def update_assistant(jay: Jay, who: Who, assistant_id: str, body: AssistantChanges) -> Item:
    changes = body.model_dump(mode="json", exclude_unset=True)
    return await jay.inventory.update_assistant(who, assistant_id, changes)


@router.delete("/assistants/{assistant_id}")
async def delete_assistant(jay: Jay, who: Who, assistant_id: str) -> Item:
    await jay.inventory.delete_assistant(who, assistant_id)
    return {"id": assistant_id, "object": "assistant.deleted", "deleted": True}


@router.post("/responses", response_model=None)
async def create_response(jay: Jay, who: Who, request: Request, body: AnswerRequest) -> Response:
    """Have the language model that the settings name answer, word by word if asked; the response is kept."""
    return await _ask_model(jay, who, request, "responses", body)


@router.get("/responses/{response_id}")
async def get_response(jay: Jay, who: Who, response_id: str) -> Item:
    return await jay.inventory.get_response(who, response_id)


@router.delete("/responses/{response_id}")
async def delete_response(jay: Jay, who: Who, response_id: str) -> Item:
    await jay.inventory.delete_response(who, response_id)
    return {"id": response_id, "object": "response", "deleted": True}


@router.post("/chat/completions", response_model=None)
async def complete_chat(jay: Jay, who: Who, request: Request, body: ChatRequest) -> Response:
    """Have the language model that the settings name answer, word by word if asked."""
    return await _ask_model(jay, who, request, "chat/completions", body)


@router.post("/embeddings")
async def create_embeddings(jay: Jay, who: Who, body: EmbeddingRequest) -> Item:
    """Vectors by the embedder that documents are indexed with."""
    texts = [body.input] if isinstance(body.input, str) else body.input
    made = await jay.inventory.embed(who, texts, model=body.model, dimensions=body.dimensions)
    return in_base64(made) if body.encoding_format == "base64" else made


@router.get("/models")
async def list_models(jay: Jay, who: Who) -> Item:
    return {"object": "list", "data": list(await jay.inventory.list_models(who))}


@router.get("/models/{model}")
async def get_model(jay: Jay, who: Who, model: str) -> Item:
    for each in await jay.inventory.list_models(who):
        if each["id"] == model:
            return each
    raise NotFound(f"The model '{model[:64]}' does not exist here.")


async def _ask_model(jay: Jay, who: Who, request: Request, path: str, body: ModelRequest) -> Response:
    sent = await request.body()
    if body.model is None and jay.settings.llm_model is not None:
        sent = json.dumps({**json.loads(sent), "model": jay.settings.llm_model}).encode()
    headers = [(name, value) for name, value in request.headers.items() if name.lower() != "content-length"]
    passage = ForwardedRequest(method="POST", path=path, headers=headers, body=sent)
    return passed_on(await jay.inventory.pass_on(who, passage, scope_of("POST", path)))
