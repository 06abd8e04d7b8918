"""What needs a model: embeddings by our own embedder, answers by the language model that the settings name."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scrubjay.errors import FetchFailed, InvalidRequest, NotFound, Unavailable
from scrubjay.openai.ids import require_foreign_id
from scrubjay.openai.local_parts import LocalPart
from scrubjay.openai.protocol import Item
from scrubjay.openai.recording import keep_response, recorded
from scrubjay.openai.relay import ForwardedRequest, Relayed
from scrubjay.openai.shapes import deleted
from scrubjay.storage.inventory import Responses

MAX_TEXTS = 2048
MAX_TOKENS = 300_000
MAX_ANSWER_BYTES = 32 * 1024 * 1024
NO_MODEL = (
    "This needs a language model, and none is configured: set SCRUBJAY_LLM_URL (and SCRUBJAY_LLM_MODEL) to one that "
    "speaks OpenAI's API, or SCRUBJAY_OPENAI_API_KEY to use OpenAI itself."
)


class LocalModels(LocalPart):
    async def models(self, tenant_id: str) -> Sequence[Item]:
        embedder = await self.parts.catalog.wanted_embedder()
        names = [embedder.model, *([self.parts.model_name] if self.parts.model_name and self.parts.model else [])]
        return [{"id": name, "object": "model", "created": 0, "owned_by": "scrubjay"} for name in names]

    async def embed(self, tenant_id: str, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> Item:
        embedder = await self.parts.catalog.wanted_embedder()
        if model not in (embedder.model, embedder.name):
            raise NotFound(f"The model '{model[:64]}' does not exist here; '{embedder.model}' does.")
        if dimensions is not None and dimensions != embedder.dimensions:
            raise InvalidRequest(
                f"dimensions: the vectors of '{embedder.model}' have {embedder.dimensions}.", field="dimensions"
            )
        if not 1 <= len(texts) <= MAX_TEXTS or not all(texts):
            raise InvalidRequest(f"input: 1 to {MAX_TEXTS} texts, none of them empty.", field="input")
        tokens = sum(len(starts) for starts in embedder.token_starts(texts))
        if tokens > MAX_TOKENS:
            raise InvalidRequest(f"input: more than {MAX_TOKENS:,} tokens.", field="input")
        vectors = await embedder.embed(texts)
        return {
            "object": "list",
            "data": [
                {"object": "embedding", "index": number, "embedding": vector.tolist()}
                for number, vector in enumerate(vectors)
            ],
            "model": embedder.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }

    async def pass_on(self, tenant_id: str, passage: ForwardedRequest) -> Relayed:
        """To the language model; its responses are kept on their way back, for which they must not be compressed."""
        if self.parts.model is None:
            raise Unavailable(NO_MODEL)
        headers = [each for each in passage.headers if each[0].lower() != "accept-encoding"]
        answer = await self.parts.model.send(replace(passage, headers=[*headers, ("Accept-Encoding", "identity")]))
        if passage.path == "responses" and answer.status == 200:
            return recorded(answer, partial(keep_response, self.parts.database, tenant_id))
        return answer

    async def create_response(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        asked = {"model": self.parts.model_name, **values, "stream": False}
        body = json.dumps(asked).encode()
        headers = (("Content-Type", "application/json"), ("Accept", "application/json"))
        answer = await self.pass_on(
            tenant_id, ForwardedRequest(method="POST", path="responses", headers=headers, body=body)
        )
        try:
            said = json.loads(await answer.read(MAX_ANSWER_BYTES))
        except (ValueError, RecursionError) as error:
            raise FetchFailed("The language model did not answer with JSON.", error_type="protocol") from error
        if answer.status != 200 or not isinstance(said, dict):
            problem = said.get("error") if isinstance(said, dict) else None
            words = problem.get("message") if isinstance(problem, dict) else None
            raise FetchFailed(
                f"The language model answered with HTTP status {answer.status}: {str(words or 'no reason given')[:300]}"
            )
        return said

    async def response(self, tenant_id: str, response_id: str) -> Item:
        async with self.parts.database.reading() as connection:
            return dict((await Responses(connection).get(tenant_id, _checked(response_id))).body)

    async def delete_response(self, tenant_id: str, response_id: str) -> Item:
        async with self.parts.database.writing() as connection:
            await Responses(connection).get(tenant_id, _checked(response_id))
            await Responses(connection).delete(tenant_id, response_id)
        return deleted(response_id, "response")

    async def delete_conversation(self, tenant_id: str, conversation_id: str) -> Item:
        """A conversation is all responses that name it."""
        require_foreign_id(conversation_id, "Conversation")
        async with self.parts.database.writing() as connection:
            if not await Responses(connection).forget_conversation(tenant_id, conversation_id):
                raise NotFound(f"Conversation '{conversation_id[:64]}' not found.")
        return deleted(conversation_id, "conversation.deleted")


def _checked(response_id: str) -> str:
    return require_foreign_id(response_id, "Response")
