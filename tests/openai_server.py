"""A small server that speaks the part of OpenAI's protocol that an inventory uses, keeps everything in memory, and can
misbehave. Azure's paths (`/openai/v1`, and the dated API with deployments) lead to the same objects."""

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

KEY = "sk-upstream-key"
ORGANIZATION = "org-of-the-operator"
WORDS = ("The", " jay", " remembers", " what", " it", " cached", ".")
Item = dict[str, Any]


def not_found(noun: str, identifier: str) -> web.Response:
    return problem(404, f"No {noun} found with id '{identifier}'.")


def problem(status: int, message: str, param: str | None = None, **headers: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": None}
    return web.json_response({"error": error}, status=status, headers=headers)


class OpenAiServer:
    """`failures` answers are 500 before it recovers; `word_seconds` pass between the words of a stream, which is cut
    after `words_until_cut`; files stay in progress for `reading_looks` looks at them."""

    def __init__(self) -> None:
        self.url = ""
        self.failures = 0
        self.word_seconds = 0.0
        self.words_until_cut: int | None = None
        self.reading_looks = 1
        self.hung_up = 0  # clients that left in the middle of a stream
        self.asked: list[tuple[str, str, dict[str, str]]] = []  # method, path with query, headers in lower case
        self.received = 0  # bytes of the last upload
        self.first_piece_at = 0.0  # when its first bytes came
        self.files: dict[str, Item] = {}
        self.bodies: dict[str, bytes] = {}
        self.stores: dict[str, Item] = {}
        self.store_files: dict[str, dict[str, Item]] = {}
        self.looks: dict[tuple[str, str], int] = {}
        self.batches: dict[str, tuple[Item, list[str]]] = {}
        self.assistants: dict[str, Item] = {}
        self.responses: dict[str, Item] = {}
        self.conversations: set[str] = set()
        self.runner: web.AppRunner | None = None
        self._numbers = itertools.count(1)

    async def start(self) -> None:
        app = web.Application(client_max_size=1024**3, middlewares=[self._guard])
        for prefix in ("/v1", "/openai/v1", "/openai"):
            self._add_routes(app.router, prefix)
        for path, handler in (("/chat/completions", self.chat), ("/embeddings", self.embed)):
            app.router.add_post("/openai/deployments/{deployment}" + path, handler)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self.runner.addresses[0][1]}"

    def _add_routes(self, router: web.UrlDispatcher, prefix: str) -> None:
        store, file = "/vector_stores/{store}", "/vector_stores/{store}/files/{file}"
        batch = store + "/file_batches/{batch}"
        for method, path, handler in (
            ("POST", "/files", self.upload), ("GET", "/files", self.list_files),
            ("GET", "/files/{file}", self.get_file),
            ("DELETE", "/files/{file}", self.delete_file), ("GET", "/files/{file}/content", self.file_content),
            ("POST", "/vector_stores", self.create_store), ("GET", "/vector_stores", self.list_stores),
            ("GET", store, self.get_store), ("POST", store, self.update_store), ("DELETE", store, self.delete_store),
            ("POST", store + "/search", self.search), ("POST", store + "/files", self.add_file),
            ("GET", store + "/files", self.list_store_files), ("GET", file, self.get_store_file),
            ("POST", file, self.update_store_file), ("DELETE", file, self.remove_file),
            ("GET", file + "/content", self.store_file_content),
            ("POST", store + "/file_batches", self.create_batch), ("GET", batch, self.get_batch),
            ("POST", batch + "/cancel", self.cancel_batch), ("GET", batch + "/files", self.list_batch_files),
            ("POST", "/assistants", self.create_assistant), ("GET", "/assistants", self.list_assistants),
            ("GET", "/assistants/{assistant}", self.get_assistant),
            ("POST", "/assistants/{assistant}", self.update_assistant),
            ("DELETE", "/assistants/{assistant}", self.delete_assistant),
            ("POST", "/responses", self.respond), ("GET", "/responses/{response}", self.get_response),
            ("DELETE", "/responses/{response}", self.delete_response),
            ("DELETE", "/conversations/{conversation}", self.delete_conversation),
            ("POST", "/chat/completions", self.chat), ("POST", "/embeddings", self.embed),
            ("GET", "/models", self.list_models), ("GET", "/models/{model}", self.get_model),
        ):  # fmt: skip
            router.add_route(method, prefix + path, handler)

    @web.middleware
    async def _guard(self, request: web.Request, handler: Any) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.method, request.raw_path, headers))
        if headers.get("authorization") != f"Bearer {KEY}" and headers.get("api-key") != KEY:
            return problem(401, "Incorrect API key provided.")
        if self.failures:
            self.failures -= 1
            return problem(500, "The server had an error.")
        answer: web.StreamResponse = await handler(request)
        if not answer.prepared:
            answer.headers["openai-organization"] = ORGANIZATION
            answer.headers["x-request-id"] = "req_upstream"
        return answer

    async def stop(self) -> None:
        if self.runner is not None:
            await self.runner.cleanup()

    def _id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers):024d}"

    # Files

    async def upload(self, request: web.Request) -> web.Response:
        self.received, self.first_piece_at = 0, 0.0
        values: dict[str, str] = {}
        body, name = bytearray(), ""
        async for part in await request.multipart():  # type: ignore[union-attr]
            if part.name == "file":  # type: ignore[union-attr]
                name = part.filename or ""  # type: ignore[union-attr]
                while piece := await part.read_chunk():  # type: ignore[union-attr]
                    self.first_piece_at = self.first_piece_at or time.monotonic()
                    self.received += len(piece)
                    if len(body) < 10 * 1024**2:
                        body += piece
            else:
                values[str(part.name)] = (await part.read()).decode()  # type: ignore[union-attr]
        if values.get("purpose") not in ("assistants", "batch", "fine-tune", "vision", "user_data", "evals"):
            return problem(400, "Invalid value for purpose.", "purpose")
        identifier = self._id("file-")
        self.bodies[identifier] = bytes(body)
        self.files[identifier] = {
            "id": identifier, "object": "file", "bytes": self.received, "created_at": int(time.time()),
            "filename": name, "purpose": values["purpose"], "status": "processed", "status_details": None,
            "expires_at": None,
        }  # fmt: skip
        return web.json_response(self.files[identifier])

    async def list_files(self, request: web.Request) -> web.Response:
        purpose = request.query.get("purpose")
        return listed(request, [each for each in self.files.values() if purpose in (None, each["purpose"])])

    async def get_file(self, request: web.Request) -> web.Response:
        return shown(self.files, "file", request.match_info["file"])

    async def delete_file(self, request: web.Request) -> web.Response:
        identifier = request.match_info["file"]
        if self.files.pop(identifier, None) is None:
            return not_found("file", identifier)
        for held in self.store_files.values():
            held.pop(identifier, None)
        return web.json_response({"id": identifier, "object": "file", "deleted": True})

    async def file_content(self, request: web.Request) -> web.Response:
        identifier = request.match_info["file"]
        if identifier not in self.bodies:
            return not_found("file", identifier)
        return web.Response(body=self.bodies[identifier], content_type="application/octet-stream")

    # Vector stores

    async def create_store(self, request: web.Request) -> web.Response:
        given = await read(request)
        identifier = self._id("vs_")
        self.stores[identifier] = {
            "id": identifier, "object": "vector_store", "created_at": int(time.time()), "name": given.get("name") or "",
            "description": given.get("description"), "usage_bytes": 0, "status": "completed",
            "expires_after": given.get("expires_after"), "expires_at": None, "last_active_at": int(time.time()),
            "metadata": given.get("metadata") or {},
        }  # fmt: skip
        self.store_files[identifier] = {}
        for file_id in given.get("file_ids") or ():
            self._add(identifier, {"file_id": file_id})
        return web.json_response(self._store(identifier))

    def _store(self, identifier: str) -> Item:
        return {**self.stores[identifier], "file_counts": counts(self.store_files[identifier].values())}

    async def list_stores(self, request: web.Request) -> web.Response:
        return listed(request, [self._store(each) for each in self.stores])

    async def get_store(self, request: web.Request) -> web.Response:
        identifier = request.match_info["store"]
        if identifier not in self.stores:
            return not_found("vector store", identifier)
        return web.json_response(self._store(identifier))

    async def update_store(self, request: web.Request) -> web.Response:
        identifier = request.match_info["store"]
        if identifier not in self.stores:
            return not_found("vector store", identifier)
        self.stores[identifier] |= await read(request)
        return web.json_response(self._store(identifier))

    async def delete_store(self, request: web.Request) -> web.Response:
        identifier = request.match_info["store"]
        if self.stores.pop(identifier, None) is None:
            return not_found("vector store", identifier)
        del self.store_files[identifier]
        return web.json_response({"id": identifier, "object": "vector_store.deleted", "deleted": True})

    def _add(self, store: str, given: Mapping[str, Any], batch: str | None = None) -> Item | None:
        file = self.files.get(str(given.get("file_id")))
        if file is None:
            return None
        self.looks[store, file["id"]] = 0
        self.store_files[store][file["id"]] = {
            "id": file["id"], "object": "vector_store.file", "usage_bytes": file["bytes"],
            "created_at": int(time.time()), "vector_store_id": store, "status": "in_progress", "last_error": None,
            "chunking_strategy": given.get("chunking_strategy")
            or {"type": "static", "static": {"max_chunk_size_tokens": 800, "chunk_overlap_tokens": 400}},
            "attributes": given.get("attributes") or {},
        }  # fmt: skip
        return self.store_files[store][file["id"]]

    async def add_file(self, request: web.Request) -> web.Response:
        store, given = request.match_info["store"], await read(request)
        if store not in self.stores:
            return not_found("vector store", store)
        added = self._add(store, given)
        return not_found("file", str(given.get("file_id"))) if added is None else web.json_response(added)

    async def list_store_files(self, request: web.Request) -> web.Response:
        store = request.match_info["store"]
        if store not in self.stores:
            return not_found("vector store", store)
        wanted = request.query.get("filter")
        for file in self.store_files[store]:
            self._look(store, file)
        return listed(request, [each for each in self.store_files[store].values() if wanted in (None, each["status"])])

    def _look(self, store: str, file: str) -> Item | None:
        found = self.store_files.get(store, {}).get(file)
        if found is not None and found["status"] == "in_progress":
            self.looks[store, file] += 1
            if self.looks[store, file] > self.reading_looks:
                unreadable = b"\x00" in self.bodies.get(file, b"")
                found["status"] = "failed" if unreadable else "completed"
                found["last_error"] = {"code": "unsupported_file", "message": "No text."} if unreadable else None
        return found

    async def get_store_file(self, request: web.Request) -> web.Response:
        found = self._look(request.match_info["store"], request.match_info["file"])
        return not_found("file", request.match_info["file"]) if found is None else web.json_response(found)

    async def update_store_file(self, request: web.Request) -> web.Response:
        found = self._look(request.match_info["store"], request.match_info["file"])
        if found is None:
            return not_found("file", request.match_info["file"])
        found["attributes"] = (await read(request)).get("attributes") or {}
        return web.json_response(found)

    async def remove_file(self, request: web.Request) -> web.Response:
        store, file = request.match_info["store"], request.match_info["file"]
        if self.store_files.get(store, {}).pop(file, None) is None:
            return not_found("file", file)
        return web.json_response({"id": file, "object": "vector_store.file.deleted", "deleted": True})

    async def store_file_content(self, request: web.Request) -> web.Response:
        text = self.bodies[request.match_info["file"]].decode(errors="replace")
        page = {"object": "vector_store.file_content.page", "data": [{"type": "text", "text": text}]}
        return web.json_response({**page, "has_more": False, "next_page": None})

    async def create_batch(self, request: web.Request) -> web.Response:
        store, given = request.match_info["store"], await read(request)
        files = given.get("files") or [{"file_id": each} for each in given.get("file_ids") or ()]
        shared = {} if given.get("files") else {name: given.get(name) for name in ("attributes", "chunking_strategy")}
        added = [self._add(store, {**shared, **each}) for each in files]
        identifier = self._id("vsfb_")
        batch = {"id": identifier, "object": "vector_store.file_batch", "created_at": int(time.time())}
        batch |= {"vector_store_id": store, "status": "in_progress"}
        self.batches[identifier] = (batch, [each["id"] for each in added if each is not None])
        return web.json_response(self._batch(identifier))

    def _batch(self, identifier: str) -> Item:
        batch, files = self.batches[identifier]
        held = [found for each in files if (found := self._look(batch["vector_store_id"], each)) is not None]
        if batch["status"] == "in_progress" and not any(each["status"] == "in_progress" for each in held):
            batch["status"] = "completed"
        return {**batch, "file_counts": counts(held)}

    async def get_batch(self, request: web.Request) -> web.Response:
        identifier = request.match_info["batch"]
        if identifier not in self.batches:
            return not_found("file batch", identifier)
        return web.json_response(self._batch(identifier))

    async def cancel_batch(self, request: web.Request) -> web.Response:
        batch, files = self.batches[request.match_info["batch"]]
        batch["status"] = "cancelled"
        for each in files:
            found = self.store_files[batch["vector_store_id"]].get(each)
            if found is not None and found["status"] == "in_progress":
                found["status"] = "cancelled"
        return web.json_response(self._batch(batch["id"]))

    async def list_batch_files(self, request: web.Request) -> web.Response:
        batch, files = self.batches[request.match_info["batch"]]
        held = self.store_files[batch["vector_store_id"]]
        return listed(request, [held[each] for each in files if each in held])

    async def search(self, request: web.Request) -> web.Response:
        store, given = request.match_info["store"], await read(request)
        if store not in self.stores:
            return not_found("vector store", store)
        asked = set(str(given["query"]).lower().split())
        results = []
        for identifier, file in self.store_files[store].items():
            text = self.bodies[identifier].decode(errors="replace")
            score = len(asked & set(text.lower().replace(".", "").split())) / len(asked)
            if score and suits(file["attributes"], given.get("filters")):
                content = [{"type": "text", "text": text}]
                results.append(
                    {"file_id": identifier, "filename": self.files[identifier]["filename"], "score": score,
                     "attributes": file["attributes"], "content": content}
                )  # fmt: skip
        results.sort(key=lambda each: -each["score"])
        page = {"object": "vector_store.search_results.page", "search_query": [given["query"]]}
        return web.json_response({**page, "data": results[: given.get("max_num_results", 10)], "has_more": False})

    # Assistants, responses and models

    async def create_assistant(self, request: web.Request) -> web.Response:
        given = await read(request)
        if not given.get("model"):
            return problem(400, "Missing required parameter: 'model'.", "model")
        identifier = self._id("asst_")
        made = {"id": identifier, "object": "assistant", "created_at": int(time.time()), "name": None, "tools": []}
        self.assistants[identifier] = {**made, "description": None, "instructions": None, "metadata": {}, **given}
        return web.json_response(self.assistants[identifier])

    async def list_assistants(self, request: web.Request) -> web.Response:
        return listed(request, list(self.assistants.values()))

    async def get_assistant(self, request: web.Request) -> web.Response:
        return shown(self.assistants, "assistant", request.match_info["assistant"])

    async def update_assistant(self, request: web.Request) -> web.Response:
        identifier = request.match_info["assistant"]
        if identifier in self.assistants:
            self.assistants[identifier] |= await read(request)
        return shown(self.assistants, "assistant", identifier)

    async def delete_assistant(self, request: web.Request) -> web.Response:
        identifier = request.match_info["assistant"]
        if self.assistants.pop(identifier, None) is None:
            return not_found("assistant", identifier)
        return web.json_response({"id": identifier, "object": "assistant.deleted", "deleted": True})

    async def respond(self, request: web.Request) -> web.StreamResponse:
        given = await read(request)
        identifier = self._id("resp_" + "a" * 40)
        message = {"type": "message", "id": self._id("msg_"), "role": "assistant", "status": "completed"}
        text = {"type": "output_text", "text": "".join(WORDS), "annotations": []}
        response = {
            "id": identifier, "object": "response", "created_at": time.time(), "status": "completed",
            "model": given["model"], "output": [{**message, "content": [text]}], "parallel_tool_calls": True,
            "tool_choice": "auto", "tools": [], "previous_response_id": given.get("previous_response_id"),
            "store": given.get("store", True),
        }  # fmt: skip
        if given.get("conversation"):
            named = given["conversation"]
            response["conversation"] = {"id": named if isinstance(named, str) else named["id"]}
            self.conversations.add(response["conversation"]["id"])
        self.responses[identifier] = response
        if not given.get("stream"):
            return web.json_response(response)
        events = [{"type": "response.created", "response": {**response, "status": "in_progress", "output": []}}]
        events += [{"type": "response.output_text.delta", "delta": word} for word in WORDS]
        events += [{"type": "response.completed", "response": response}]
        return await self._stream(request, [(each["type"], each) for each in events])

    async def get_response(self, request: web.Request) -> web.Response:
        return shown(self.responses, "response", request.match_info["response"])

    async def delete_response(self, request: web.Request) -> web.Response:
        identifier = request.match_info["response"]
        if self.responses.pop(identifier, None) is None:
            return not_found("response", identifier)
        return web.json_response({"id": identifier, "object": "response", "deleted": True})

    async def delete_conversation(self, request: web.Request) -> web.Response:
        identifier = request.match_info["conversation"]
        if identifier not in self.conversations:
            return not_found("conversation", identifier)
        self.conversations.remove(identifier)
        return web.json_response({"id": identifier, "object": "conversation.deleted", "deleted": True})

    async def chat(self, request: web.Request) -> web.StreamResponse:
        given = await read(request)
        base = {"id": self._id("chatcmpl-"), "created": int(time.time()), "model": given["model"]}
        if not given.get("stream"):
            choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "".join(WORDS)}}
            return web.json_response({**base, "object": "chat.completion", "choices": [choice]})
        chunks = [
            (None, {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": word}}]})
            for word in WORDS
        ]
        return await self._stream(request, chunks, last="[DONE]")

    async def _stream(
        self, request: web.Request, events: list[tuple[str | None, Item]], last: str | None = None
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        for number, (name, data) in enumerate(events):
            if number == self.words_until_cut and request.transport is not None:
                request.transport.abort()
                return answer
            line = f"event: {name}\n" if name else ""
            try:
                await answer.write(f"{line}data: {json.dumps(data)}\n\n".encode())
            except ConnectionResetError:
                self.hung_up += 1
                raise
            await asyncio.sleep(self.word_seconds)
        if last:
            await answer.write(f"data: {last}\n\n".encode())
        return answer

    async def embed(self, request: web.Request) -> web.Response:
        given = await read(request)
        texts = [given["input"]] if isinstance(given["input"], str) else given["input"]
        data = [{"object": "embedding", "index": i, "embedding": [0.5, len(text)]} for i, text in enumerate(texts)]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response({"object": "list", "data": data, "model": given["model"], "usage": usage})

    async def list_models(self, _: web.Request) -> web.Response:
        model = {"id": "gpt-upstream", "object": "model", "created": 1, "owned_by": "openai"}
        return web.json_response({"object": "list", "data": [model]})

    async def get_model(self, request: web.Request) -> web.Response:
        return shown(
            {"gpt-upstream": {"id": "gpt-upstream", "object": "model", "created": 1, "owned_by": "openai"}},
            "model",
            request.match_info["model"],
        )


async def read(request: web.Request) -> Item:
    given = await request.json() if request.can_read_body else {}
    return given if isinstance(given, dict) else {}


def shown(items: Mapping[str, Item], noun: str, identifier: str) -> web.Response:
    return web.json_response(items[identifier]) if identifier in items else not_found(noun, identifier)


def listed(request: web.Request, items: list[Item]) -> web.Response:
    ordered = items[::-1] if request.query.get("order", "desc") == "desc" else items
    ids = [each["id"] for each in ordered]
    start = ids.index(request.query["after"]) + 1 if "after" in request.query else 0
    end = ids.index(request.query["before"]) if "before" in request.query else len(ids)
    limit = int(request.query.get("limit", 20))
    page = ordered[start:end][:limit]
    return web.json_response(
        {
            "object": "list",
            "data": page,
            "has_more": len(ordered[start:end]) > limit,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
        }
    )


def counts(files: Any) -> Item:
    statuses = [each["status"] for each in files]
    names = ("in_progress", "completed", "failed", "cancelled")
    return {**{name: statuses.count(name) for name in names}, "total": len(statuses)}


def suits(attributes: Mapping[str, Any], filters: Any) -> bool:
    if not filters:
        return True
    if filters["type"] in ("and", "or"):
        return (all if filters["type"] == "and" else any)(suits(attributes, each) for each in filters["filters"])
    left, right = attributes.get(filters["key"]), filters["value"]
    if filters["type"] in ("ne", "nin") and left is None:
        return True
    if left is None:
        return False
    compare = {
        "eq": lambda: left == right, "ne": lambda: left != right, "gt": lambda: left > right,
        "gte": lambda: left >= right, "lt": lambda: left < right, "lte": lambda: left <= right,
        "in": lambda: left in right, "nin": lambda: left not in right,
    }  # fmt: skip
    return bool(compare[filters["type"]]())


@asynccontextmanager
async def running_openai_server() -> AsyncIterator[OpenAiServer]:
    server = OpenAiServer()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
