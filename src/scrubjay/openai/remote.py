"""The inventory of an OpenAI or Azure account, through the official SDK. The account is the default tenant's."""

import tempfile
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx2
import openai
from openai import AsyncAzureOpenAI, AsyncOpenAI, omit

from scrubjay.crawler.relay import Relay
from scrubjay.errors import Conflict, FetchFailed, Forbidden, InvalidRequest, NotFound, ScrubjayError, Unavailable
from scrubjay.model.tenant import DEFAULT_TENANT_ID
from scrubjay.openai.protocol import (
    Attributes,
    FileBody,
    FileStatus,
    Item,
    Listed,
    NewFile,
    StoreFile,
    StoreSearch,
    Window,
)
from scrubjay.openai.relay import Address, ForwardedRequest, Relayed, Upstream
from scrubjay.openai.sdk_transport import RelayTransport
from scrubjay.openai.values import (
    AssistantChanges,
    AssistantValues,
    Values,
    VectorStoreChanges,
    VectorStoreValues,
    read_values,
)

SPOOL_BYTES = 1024 * 1024
MAX_LISTED = 100  # that OpenAI gives at once, of most things
TIMEOUT_SECONDS = 600.0

T = TypeVar("T")


def open_client(relay: Relay, address: Address, api_key: str) -> AsyncOpenAI:
    """The SDK's client on our transport."""
    http = httpx2.AsyncClient(transport=RelayTransport(relay), timeout=TIMEOUT_SECONDS)
    if address.api_version is not None:
        return AsyncAzureOpenAI(
            api_key=api_key, base_url=address.base_url, api_version=address.api_version, http_client=http
        )
    return AsyncOpenAI(api_key=api_key, base_url=address.base_url, default_headers=address.headers, http_client=http)


class RemoteBackend:
    name = "remote"

    def __init__(self, client: AsyncOpenAI, upstream: Upstream) -> None:
        self._client = client
        self._upstream = upstream

    async def pass_on(self, tenant_id: str, passage: ForwardedRequest) -> Relayed:
        _require_owner(tenant_id)
        return await self._upstream.send(passage)

    async def create_file(self, tenant_id: str, new: NewFile) -> Item:
        _require_owner(tenant_id)
        purpose: Any = new.purpose
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            async for chunk in new.content:
                spool.write(chunk)
            spool.seek(0)
            file = (new.filename, spool, new.content_type or "application/octet-stream")
            return await _item(self._client.files.create(file=file, purpose=purpose))

    async def files(self, tenant_id: str, window: Window, *, purpose: str | None = None) -> Listed:
        _require_owner(tenant_id)
        edges = _edges(window)
        edges.pop("before")
        return await _listed(self._client.files.list(**edges, purpose=_given(purpose)))

    async def file(self, tenant_id: str, file_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.files.retrieve(file_id))

    async def file_body(self, tenant_id: str, file_id: str) -> FileBody:
        described = await self.file(tenant_id, file_id)
        answer = await self.pass_on(tenant_id, ForwardedRequest(method="GET", path=f"files/{file_id}/content"))
        if answer.status != 200:
            await answer.read(SPOOL_BYTES)
            raise NotFound(f"The content of file '{file_id}' cannot be had (HTTP status {answer.status}).")
        kind = next((value for name, value in answer.headers if name.lower() == "content-type"), None)
        return FileBody(
            filename=str(described["filename"]),
            content_type=kind or "application/octet-stream",
            chunks=answer.chunks,
        )

    async def delete_file(self, tenant_id: str, file_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.files.delete(file_id))

    async def create_vector_store(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.create(**_checked(VectorStoreValues, values)))

    async def vector_stores(self, tenant_id: str, window: Window) -> Listed:
        _require_owner(tenant_id)
        return await _listed(self._client.vector_stores.list(**_edges(window)))

    async def vector_store(self, tenant_id: str, store_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.retrieve(store_id))

    async def update_vector_store(self, tenant_id: str, store_id: str, changes: Mapping[str, Any]) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.update(store_id, **_checked(VectorStoreChanges, changes)))

    async def delete_vector_store(self, tenant_id: str, store_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.delete(store_id))

    async def add_to_store(self, tenant_id: str, store_id: str, new: StoreFile) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.files.create(store_id, **_new_file(new)))

    async def store_files(
        self, tenant_id: str, store_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        _require_owner(tenant_id)
        return await _listed(self._client.vector_stores.files.list(store_id, **_edges(window), filter=_given(status)))

    async def store_file(self, tenant_id: str, store_id: str, file_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.files.retrieve(file_id, vector_store_id=store_id))

    async def store_file_text(self, tenant_id: str, store_id: str, file_id: str) -> Sequence[str]:
        _require_owner(tenant_id)
        page = await _told(self._client.vector_stores.files.content(file_id, vector_store_id=store_id))
        return [each.text or "" for each in page.data]

    async def update_store_file(self, tenant_id: str, store_id: str, file_id: str, attributes: Attributes) -> Item:
        _require_owner(tenant_id)
        given: Any = dict(attributes)
        return await _item(self._client.vector_stores.files.update(file_id, vector_store_id=store_id, attributes=given))

    async def remove_from_store(self, tenant_id: str, store_id: str, file_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.files.delete(file_id, vector_store_id=store_id))

    async def create_batch(self, tenant_id: str, store_id: str, files: Sequence[StoreFile]) -> Item:
        _require_owner(tenant_id)
        given: Any = [_new_file(each) for each in files]
        return await _item(self._client.vector_stores.file_batches.create(store_id, files=given))

    async def batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.file_batches.retrieve(batch_id, vector_store_id=store_id))

    async def cancel_batch(self, tenant_id: str, store_id: str, batch_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.vector_stores.file_batches.cancel(batch_id, vector_store_id=store_id))

    async def batch_files(
        self, tenant_id: str, store_id: str, batch_id: str, window: Window, *, status: FileStatus | None = None
    ) -> Listed:
        _require_owner(tenant_id)
        return await _listed(
            self._client.vector_stores.file_batches.list_files(
                batch_id, vector_store_id=store_id, **_edges(window), filter=_given(status)
            )
        )

    async def search(self, tenant_id: str, store_id: str, wanted: StoreSearch) -> Sequence[Item]:
        _require_owner(tenant_id)
        filters: Any = omit if wanted.filters is None else dict(wanted.filters)
        query: Any = wanted.queries[0] if len(wanted.queries) == 1 else list(wanted.queries)
        listed = await _listed(
            self._client.vector_stores.search(
                store_id,
                query=query,
                filters=filters,
                max_num_results=wanted.limit,
                ranking_options={"score_threshold": wanted.score_threshold} if wanted.score_threshold else omit,
            )
        )
        return listed.items

    async def create_assistant(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        _require_owner(tenant_id)
        return await _item(_quietly(self._client.beta.assistants.create, **_checked(AssistantValues, values)))

    async def assistants(self, tenant_id: str, window: Window) -> Listed:
        _require_owner(tenant_id)
        return await _listed(_quietly(self._client.beta.assistants.list, **_edges(window)))

    async def assistant(self, tenant_id: str, assistant_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(_quietly(self._client.beta.assistants.retrieve, assistant_id))

    async def update_assistant(self, tenant_id: str, assistant_id: str, changes: Mapping[str, Any]) -> Item:
        _require_owner(tenant_id)
        given = _checked(AssistantChanges, changes)
        return await _item(_quietly(self._client.beta.assistants.update, assistant_id, **given))

    async def delete_assistant(self, tenant_id: str, assistant_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(_quietly(self._client.beta.assistants.delete, assistant_id))

    async def create_response(self, tenant_id: str, values: Mapping[str, Any]) -> Item:
        _require_owner(tenant_id)
        # Not `responses.create`, which knows only the parameters of its own day.
        return await _item(
            self._client.post("/responses", body={**values, "stream": False}, cast_to=openai.types.responses.Response)
        )

    async def response(self, tenant_id: str, response_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.responses.retrieve(response_id))

    async def delete_response(self, tenant_id: str, response_id: str) -> Item:
        _require_owner(tenant_id)
        await _told(self._client.responses.delete(response_id))
        return {"id": response_id, "object": "response", "deleted": True}

    async def delete_conversation(self, tenant_id: str, conversation_id: str) -> Item:
        _require_owner(tenant_id)
        return await _item(self._client.conversations.delete(conversation_id))

    async def models(self, tenant_id: str) -> Sequence[Item]:
        _require_owner(tenant_id)
        return (await _listed(self._client.models.list())).items

    async def embed(self, tenant_id: str, texts: Sequence[str], *, model: str, dimensions: int | None = None) -> Item:
        _require_owner(tenant_id)
        return await _item(
            self._client.embeddings.create(
                input=list(texts), model=model, dimensions=_given(dimensions), encoding_format="float"
            )
        )

    async def close(self) -> None:
        await self._client.close()


def _require_owner(tenant_id: str) -> None:
    """There is one account: other tenants would see each other's files in it."""
    if tenant_id != DEFAULT_TENANT_ID:
        raise Forbidden("The OpenAI account of this deployment belongs to the default tenant.")


def _edges(window: Window) -> dict[str, Any]:
    return {
        "limit": min(window.limit, MAX_LISTED),
        "order": "desc" if window.newest_first else "asc",
        "after": _given(window.after),
        "before": _given(window.before),
    }


def _given(value: Any) -> Any:
    return omit if value is None else value


def _checked(kind: type[Values], values: Mapping[str, Any]) -> dict[str, Any]:
    """What is given, and known to the SDK; it would not say in words what is wrong with the rest."""
    return read_values(kind, values).model_dump(mode="json", exclude_unset=True)


def _new_file(new: StoreFile) -> dict[str, Any]:
    given: dict[str, Any] = {"file_id": new.file_id}
    if new.attributes:
        given["attributes"] = dict(new.attributes)
    if new.chunking_strategy is not None:
        given["chunking_strategy"] = dict(new.chunking_strategy)
    return given


def _quietly(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Begin a call that the SDK says is deprecated: assistants are, and an inventory shows what is there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return function(*arguments, **options)


async def _item(call: Awaitable[Any]) -> Item:
    found: Item = (await _told(call)).to_dict(mode="json")
    return found


async def _listed(call: Awaitable[Any]) -> Listed:
    page = await _told(call)
    return Listed([each.to_dict(mode="json") for each in page.data], bool(getattr(page, "has_more", False)))


async def _told(call: Awaitable[T]) -> T:
    """What OpenAI answers, with its errors as ours."""
    try:
        return await call
    except openai.APIStatusError as error:
        raise _problem(error) from error
    except openai.APIConnectionError as error:
        raise FetchFailed(f"The OpenAI API cannot be reached: {error.__cause__ or error}") from error
    except openai.APIError as error:
        raise FetchFailed(f"The OpenAI API did not answer as expected: {error.message[:300]}") from error


_KINDS: Mapping[int, type[ScrubjayError]] = {
    400: InvalidRequest, 404: NotFound, 409: Conflict, 413: InvalidRequest, 422: InvalidRequest, 429: Unavailable,
    503: Unavailable,
}  # fmt: skip


def _problem(error: openai.APIStatusError) -> ScrubjayError:
    if error.status_code in (401, 403):
        return FetchFailed("OpenAI refuses the key of this deployment; check SCRUBJAY_OPENAI_API_KEY.")
    body = error.body if isinstance(error.body, Mapping) else {}
    message = str(body.get("message") or error.message)[:500]
    kind = _KINDS.get(error.status_code)
    if kind is None:
        return FetchFailed(f"The OpenAI API answered with HTTP status {error.status_code}: {message}")
    param = body.get("param")
    return kind(message, **({"field": param} if isinstance(param, str) else {}))
