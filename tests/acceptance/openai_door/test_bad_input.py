"""Wrong types, unknown words, too much of everything: 400 with the field's name, or 404, and never a 5xx."""

import asyncio
import base64
import json
import struct
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from tests.acceptance.house import Key
from tests.acceptance.openai_door.conftest import Served

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORE = "/vector_stores/{store}"
LONG = "x" * 100_000
KEYS = {f"key{number}": "v" for number in range(17)}
STATIC: Any = {"type": "static", "static": {"max_chunk_size_tokens": 100, "chunk_overlap_tokens": 51}}
BAD_BODIES: list[tuple[str, Any, str]] = [
    ("/vector_stores", {"name": 5}, "name"),
    ("/vector_stores", {"name": "x" * 257}, "name"),
    ("/vector_stores", {"name": "a\x00b"}, "name"),
    ("/vector_stores", {"name": "\ud800"}, "name"),
    ("/vector_stores", {"metadata": KEYS}, "metadata"),
    ("/vector_stores", {"metadata": {"a": 5}}, "metadata.a"),
    ("/vector_stores", {"metadata": {"x" * 65: "v"}}, "metadata"),
    ("/vector_stores", {"metadata": {"a": "x" * 513}}, "metadata.a"),
    ("/vector_stores", {"expires_after": {"anchor": "created_at", "days": 1}}, "expires_after.anchor"),
    ("/vector_stores", {"expires_after": {"anchor": "last_active_at", "days": 0}}, "expires_after.days"),
    ("/vector_stores", {"file_ids": "file-1"}, "file_ids"),
    ("/vector_stores", {"file_ids": ["file-1"] * 501}, "file_ids"),
    ("/vector_stores", {"unknown": 1}, "unknown"),
    ("/vector_stores", {"chunking_strategy": {"type": "magic"}}, "chunking_strategy"),
    ("/vector_stores", [1], "body"),
    (STORE, {"name": ["x"]}, "name"),
    (STORE, {"file_ids": []}, "file_ids"),
    (f"{STORE}/files", {}, "file_id"),
    (f"{STORE}/files", {"file_id": 5}, "file_id"),
    (f"{STORE}/files", {"file_id": LONG}, "file_id"),
    (f"{STORE}/files", {"file_id": "{file}", "attributes": KEYS}, "attributes"),
    (f"{STORE}/files", {"file_id": "{file}", "attributes": {"a": [1]}}, "attributes.a"),
    (f"{STORE}/files", {"file_id": "{file}", "attributes": {"a": None}}, "attributes.a"),
    (f"{STORE}/files", {"file_id": "{file}", "attributes": {"": "v"}}, "attributes"),
    (f"{STORE}/files", {"file_id": "{file}", "attributes": {"a": 10**400}}, "attributes.a"),
    (f"{STORE}/files", {"file_id": "{file}", "chunking_strategy": STATIC}, "chunking_strategy.static"),
    (f"{STORE}/files", {"file_id": "{file}", "chunking_strategy": {"type": "static"}}, "chunking_strategy.static"),
    (f"{STORE}/files", {"file_id": "{batch_file}"}, "file_id"),
    (f"{STORE}/files/{{file}}", {"attributes": {"a": {"b": 1}}}, "attributes.a"),
    (f"{STORE}/files/{{file}}", {}, "attributes"),
    (f"{STORE}/file_batches", {}, ""),
    (f"{STORE}/file_batches", {"file_ids": []}, "file_ids"),
    (f"{STORE}/file_batches", {"file_ids": ["{file}"], "files": [{"file_id": "{file}"}]}, ""),
    (f"{STORE}/file_batches", {"file_ids": ["file-1"] * 2001}, "file_ids"),
    (f"{STORE}/file_batches", {"files": [{"file": "x"}]}, "files.0.file_id"),
    (f"{STORE}/search", {}, "query"),
    (f"{STORE}/search", {"query": ""}, "query"),
    (f"{STORE}/search", {"query": "?!"}, "query"),
    (f"{STORE}/search", {"query": "x" * 4097}, "query"),
    (f"{STORE}/search", {"query": []}, "query"),
    (f"{STORE}/search", {"query": "a", "max_num_results": 0}, "max_num_results"),
    (f"{STORE}/search", {"query": "a", "max_num_results": 51}, "max_num_results"),
    (f"{STORE}/search", {"query": "a", "ranking_options": {"score_threshold": 2}}, "ranking_options.score_threshold"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "like"}}, "filters.type"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "eq", "value": 1}}, "filters.key"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "gt", "key": "a", "value": True}}, "filters.value"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "in", "key": "a", "value": "b"}}, "filters.value"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "and", "filters": []}}, "filters.filters"),
    (f"{STORE}/search", {"query": "a", "filters": {"type": "or", "filters": [5]}}, "filters.filters.0"),
    ("/assistants", {}, "model"),
    ("/assistants", {"model": 5}, "model"),
    ("/assistants", {"model": "m", "name": "x" * 257}, "name"),
    ("/assistants", {"model": "m", "temperature": 3}, "temperature"),
    ("/assistants", {"model": "m", "tools": [{"type": "hammer"}]}, "tools.0.type"),
    ("/assistants", {"model": "m", "tools": [{"type": "file_search"}] * 129}, "tools"),
    ("/assistants", {"model": "m", "tool_resources": {"file_search": {"vector_store_ids": "vs"}}}, ""),
    ("/embeddings", {"model": "wordllama"}, "input"),
    ("/embeddings", {"model": "wordllama", "input": ""}, "input"),
    ("/embeddings", {"model": "wordllama", "input": []}, "input"),
    ("/embeddings", {"model": "wordllama", "input": ["a", ""]}, "input"),
    ("/embeddings", {"model": "wordllama", "input": ["a"] * 2049}, "input"),
    ("/embeddings", {"model": "wordllama", "input": [1, 2]}, ""),
    ("/embeddings", {"model": "wordllama", "input": "a", "dimensions": 3}, "dimensions"),
    ("/embeddings", {"model": "wordllama", "input": "a", "encoding_format": "gif"}, "encoding_format"),
    ("/chat/completions", {"model": "m"}, "messages"),
    ("/chat/completions", {"model": "m", "messages": "Hello"}, "messages"),
    ("/chat/completions", {"model": 5, "messages": [{}]}, "model"),
    ("/responses", {"model": "m"}, "input"),
    ("/responses", {"model": "m", "input": 5}, "input"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(local: Served) -> Key:
    return await local.house.key(tenant="sloppy")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ids(local: Served, tenant: Key) -> dict[str, str]:
    async with local.client(tenant) as client:
        store = await client.vector_stores.create(name="store")
        file = await client.files.create(file=("a.txt", b"Jays hide acorns."), purpose="assistants")
        batch = await client.files.create(file=("b.jsonl", b"{}"), purpose="batch")
        await client.vector_stores.files.create_and_poll(file.id, vector_store_id=store.id, poll_interval_ms=20)
        return {"store": store.id, "file": file.id, "batch_file": batch.id}


def filled(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, str):
        return ids.get(value.strip("{}"), value) if value.startswith("{") else value
    if isinstance(value, dict):
        return {name: filled(each, ids) for name, each in value.items()}
    return [filled(each, ids) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("path", "body", "field"), BAD_BODIES, ids=range(len(BAD_BODIES)))
async def test_a_bad_body_is_400_and_names_the_field(
    local: Served, tenant: Key, ids: dict[str, str], path: str, body: Any, field: str
) -> None:
    content = json.dumps(filled(body, ids)).encode()  # in ASCII: it has what UTF-8 cannot say
    headers = {"Content-Type": "application/json"}
    path = f"/openai/v1{path.format_map(ids)}"
    answer = await local.house.ask("POST", path, tenant, content=content, headers=headers)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert field in error["message"]
    assert LONG not in answer.text


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/files", {"limit": "0"}), ("/files", {"limit": "10001"}), ("/files", {"order": "up"}),
        ("/files", {"after": "file-nobody"}), ("/files", {"after": "\x00"}), ("/files", {"purpose": "x" * 65}),
        ("/vector_stores", {"limit": "101"}), ("/vector_stores", {"limit": "many"}),
        ("/vector_stores", {"after": "vs_nobody"}), ("/vector_stores", {"before": "🦜"}),
        (f"{STORE}/files", {"filter": "lost"}), (f"{STORE}/files", {"after": "file-nobody"}),
        ("/assistants", {"after": "asst_nobody"}), ("/assistants", {"after": "a\x00b"}),
        ("/assistants", {"limit": "-1"}),
    ],
)  # fmt: skip
async def test_a_bad_query_is_400(
    local: Served, tenant: Key, ids: dict[str, str], path: str, params: dict[str, str]
) -> None:
    answer = await local.house.ask("GET", f"/openai/v1{path.format_map(ids)}", tenant, params=params)
    assert answer.status_code == 400, answer.text
    assert next(iter(params)) in answer.json()["error"]["message"]


NOBODY = ["nobody", "file-", "file-0" + "w" * 26, "vs_" + "0" * 29, "%00", "%F0%9F%A6%9C", "x" * 3000, "a%20b", "%27--"]


@pytest.mark.parametrize("identifier", NOBODY)
async def test_what_cannot_be_an_id_is_404(local: Served, tenant: Key, ids: dict[str, str], identifier: str) -> None:
    store = f"/vector_stores/{ids['store']}"
    for method, path in (
        ("GET", f"/files/{identifier}"), ("DELETE", f"/files/{identifier}"), ("GET", f"/files/{identifier}/content"),
        ("GET", f"/vector_stores/{identifier}"), ("DELETE", f"/vector_stores/{identifier}"),
        ("GET", f"/vector_stores/{identifier}/files"), ("GET", f"{store}/files/{identifier}"),
        ("DELETE", f"{store}/files/{identifier}"), ("GET", f"{store}/files/{identifier}/content"),
        ("GET", f"{store}/file_batches/{identifier}"), ("POST", f"{store}/file_batches/{identifier}/cancel"),
        ("GET", f"{store}/file_batches/{identifier}/files"), ("GET", f"/assistants/{identifier}"),
        ("DELETE", f"/assistants/{identifier}"), ("GET", f"/responses/{identifier}"),
        ("DELETE", f"/responses/{identifier}"), ("GET", f"/models/{identifier}"),
    ):  # fmt: skip
        answer = await local.house.ask(method, f"/openai/v1{path}", tenant)
        assert answer.status_code == 404, (path, answer.text)
        assert answer.json()["error"]["type"] == "not_found_error"


async def test_bad_uploads_are_refused(local: Served, tenant: Key) -> None:
    file = {"file": ("a.txt", b"text")}
    for files, data, field in (
        (file, {}, "purpose"),
        (file, {"purpose": "gossip"}, "purpose"),
        (file, {"purpose": "x" * 65}, "purpose"),
        (file, {"purpose": "assistants", "expires_after[anchor]": "created_at"}, "expires_after"),
        ({"file": ("a.txt", b"")}, {"purpose": "assistants"}, "file"),
        ({"file": ("x" * 513, b"text")}, {"purpose": "assistants"}, "file"),
        (None, {"purpose": "assistants", "file": "not a file"}, "file"),
        (None, {"purpose": "assistants"}, "file"),
    ):
        answer = await local.house.ask("POST", "/openai/v1/files", tenant, files=files, data=data)  # type: ignore[arg-type]
        assert answer.status_code == 400, answer.text
        assert field in answer.json()["error"]["message"]
    for content_type in ("multipart/form-data", "multipart/form-data; boundary=x", "application/json"):
        answer = await local.house.ask(
            "POST", "/openai/v1/files", tenant, content=b"--y\r\nnonsense", headers={"Content-Type": content_type}
        )
        assert answer.status_code == 400, answer.text


async def test_file_names_cannot_lead_anywhere(local: Served, tenant: Key) -> None:
    async with local.client(tenant) as client:
        for name, kept in (
            ("../../etc/passwd", "passwd"), ("C:\\CON\\a.txt", "a.txt"), ("é 🦜.txt", "é 🦜.txt"), ("..", ".."),
        ):  # fmt: skip
            made = await client.files.create(file=(name, b"text"), purpose="assistants")
            assert made.filename == kept
            answer = await client.files.content(made.id)
            assert answer.content == b"text"
            assert "\n" not in answer.response.headers["content-disposition"]


@pytest.mark.parametrize("claimed", [513 * 1024**2, 10**18])
async def test_a_claim_of_too_much_is_413_before_anything_is_sent(local: Served, tenant: Key, claimed: int) -> None:
    host, port = local.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = (
        f"POST /openai/v1/files HTTP/1.1\r\nHost: {local.address}\r\nAuthorization: Bearer {tenant.text}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {claimed}\r\n\r\n"
    )
    writer.write(head.encode())
    answer = await asyncio.wait_for(reader.read(65536), 10)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413"), answer
    assert b'"type":"invalid_request_error"' in answer


async def test_a_large_body_without_a_good_key_is_refused_unread(local: Served) -> None:
    reader_key = await local.house.key(tenant="nobody in particular")
    async with httpx.AsyncClient(base_url=f"http://{local.address}", trust_env=False) as client:
        for path in ("/openai/v1/files", "/openai/v1/chat/completions"):
            body = b"x" * 2 * 1024**2
            answer = await client.post(path, content=body, headers={"Authorization": "Bearer sj_nobody"})
            assert answer.status_code == 401
        answer = await client.post(
            "/openai/v1/vector_stores", content=body, headers={"Authorization": f"Bearer {reader_key.text}"}
        )
        assert answer.status_code == 413


async def test_embeddings_are_of_the_model_that_documents_are_indexed_with(client: AsyncOpenAI) -> None:
    floats = await client.embeddings.create(model="wordllama", input="a jay", encoding_format="float")
    assert len(floats.data[0].embedding) == 256
    assert floats.usage.prompt_tokens > 0
    with pytest.raises(openai.NotFoundError, match="wordllama-l2-supercat-256"):
        await client.embeddings.create(model="text-embedding-3-small", input="a jay")


async def test_vectors_in_base_64_are_little_endian_floats(local: Served, tenant: Key) -> None:
    asked = {"model": "wordllama", "input": ["a jay", "a whale"], "dimensions": 256}
    plain = (await local.house.ask("POST", "/openai/v1/embeddings", tenant, json=asked)).json()
    asked["encoding_format"] = "base64"
    coded = (await local.house.ask("POST", "/openai/v1/embeddings", tenant, json=asked)).json()
    for left, right in zip(plain["data"], coded["data"], strict=True):
        assert list(struct.unpack("<256f", base64.b64decode(right["embedding"]))) == pytest.approx(left["embedding"])
