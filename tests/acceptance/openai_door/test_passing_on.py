"""What the door passes on: to an OpenAI account, to Azure, to a language model of one's own; as it comes, both ways."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from openai import AsyncOpenAI
from tests.acceptance.house import Key
from tests.acceptance.openai_door.conftest import Served, serve, working_settings
from tests.openai_server import KEY, ORGANIZATION, WORDS, OpenAiServer, running_openai_server
from tests.workshop import wait_until

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION: Any = [{"role": "user", "content": "What does it remember?"}]
ANSWER = "".join(WORDS)
NOWHERE = "http://127.0.0.1:1/v1"


@asynccontextmanager
async def house_with(folder: Path, databases: list[Path], **settings: Any) -> AsyncIterator[Served]:
    async with serve(working_settings(folder / "home", databases, **settings)) as served:
        yield served


@pytest_asyncio.fixture(loop_scope="module")
async def upstream(remote: Served) -> OpenAiServer:
    assert remote.upstream is not None
    remote.upstream.asked.clear()
    remote.upstream.failures, remote.upstream.word_seconds, remote.upstream.words_until_cut = 0, 0.0, None
    return remote.upstream


@pytest_asyncio.fixture(loop_scope="module")
async def key(remote: Served) -> Key:
    return await remote.house.key()


@pytest_asyncio.fixture(loop_scope="module")
async def account(remote: Served, key: Key, upstream: OpenAiServer) -> AsyncIterator[AsyncOpenAI]:
    async with remote.client(key) as client:
        yield client


async def test_the_clients_key_stays_here_and_the_operators_goes_on(
    remote: Served, key: Key, upstream: OpenAiServer
) -> None:
    async with httpx.AsyncClient(base_url=f"http://{remote.address}", trust_env=False) as client:
        answer = await client.get(
            "/openai/v1/models",
            params={"a": "b c"},
            headers={"X-Api-Key": key.text, "Cookie": "scrubjay_session=secret", "X-Forwarded-For": "10.0.0.1",
                     "OpenAI-Organization": "org-of-the-client", "OpenAI-Beta": "assistants=v2"},
        )  # fmt: skip
    assert answer.status_code == 200
    [(method, path, headers)] = upstream.asked
    assert (method, path) == ("GET", "/v1/models?a=b+c")
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["openai-beta"] == "assistants=v2"
    assert not {"x-api-key", "cookie", "x-forwarded-for", "openai-organization"} & set(headers)
    assert key.text not in json.dumps(headers)
    assert ORGANIZATION not in str(answer.headers)
    assert KEY not in str(answer.headers) + answer.text
    assert len(answer.headers.get_list("x-request-id")) == 1


async def test_both_prefixes_lead_to_the_same_place(remote: Served, key: Key, upstream: OpenAiServer) -> None:
    for prefix in ("/openai/v1", "/openai"):
        answer = await remote.house.ask("GET", f"{prefix}/files/file-nobody", key)
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == "No file found with id 'file-nobody'."
    assert [path for _, path, _ in upstream.asked] == ["/v1/files/file-nobody"] * 2


async def test_a_path_that_leads_elsewhere_is_not_passed_on(remote: Served, key: Key, upstream: OpenAiServer) -> None:
    for path in ("/openai/v1/files/%2e%2e", "/openai/v1/files/..%2f..%2fadmin", "/openai/v1/threads", "/openai/v1/fine_tuning/jobs"):  # noqa: E501 # fmt: skip
        answer = await remote.house.ask("GET", path, key)
        assert answer.status_code == 404, path
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert upstream.asked == []
    await remote.house.ask("GET", "/openai/v1/files/a%20b%3Fc%23d", key)
    assert upstream.asked[-1][1] == "/v1/files/a%20b%3Fc%23d"


async def test_nobody_without_the_scope_or_the_tenant_is_passed_on(remote: Served, upstream: OpenAiServer) -> None:
    reader = await remote.house.key(Scope.READ)
    stranger = await remote.house.key(tenant="stranger")
    for method, path, key, status in (
        ("POST", "/openai/v1/vector_stores", reader, 403),
        ("POST", "/openai/v1/chat/completions", reader, 403),
        ("DELETE", "/openai/v1/files/file-1", reader, 403),
        ("DELETE", "/openai/v1/vector_stores/vs_1", await remote.house.key(Scope.WRITE), 403),
        ("GET", "/openai/v1/files", stranger, 403),
        ("GET", "/openai/v1/files", None, 401),
    ):
        answer = await remote.house.ask(method, path, key, json={} if method == "POST" else None)
        assert answer.status_code == status, (method, path)
    assert upstream.asked == []
    assert (await remote.house.ask("GET", "/openai/v1/files", reader)).status_code == 200


async def test_words_arrive_as_they_are_said(account: AsyncOpenAI, upstream: OpenAiServer) -> None:
    upstream.word_seconds = 0.1
    started = time.monotonic()
    said, times = [], []
    async for chunk in await account.chat.completions.create(model="m", messages=QUESTION, stream=True):
        said.append(chunk.choices[0].delta.content)
        times.append(time.monotonic() - started)
    assert "".join(each or "" for each in said) == ANSWER
    assert times[0] < 0.35  # of the 0.7 that the whole takes
    assert times[-1] > 0.5
    gaps = [after - before for before, after in pairwise(times)]
    assert max(gaps) < 0.35


@pytest.mark.filterwarnings("ignore:unread_data:DeprecationWarning")  # of the server's own parser
async def test_an_upload_is_passed_on_while_it_comes(remote: Served, key: Key, upstream: OpenAiServer) -> None:
    boundary, pieces = "frontier", 20
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nassistants\r\n--{boundary}\r\n'
    head += 'Content-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n'
    finished = 0.0

    async def body() -> AsyncIterator[bytes]:
        nonlocal finished
        yield head.encode()
        for _ in range(pieces):
            yield b"x" * 256 * 1024
            await asyncio.sleep(0.02)
        finished = time.monotonic()
        yield f"\r\n--{boundary}--\r\n".encode()

    async with httpx.AsyncClient(base_url=f"http://{remote.address}", trust_env=False, timeout=30) as client:
        answer = await client.post(
            "/openai/v1/files",
            content=body(),
            headers={
                "Authorization": f"Bearer {key.text}",
                "Content-Type": f"multipart/form-data; boundary={boundary}",
            },
        )
    assert answer.status_code == 200
    assert answer.json()["bytes"] == upstream.received == pieces * 256 * 1024
    assert upstream.first_piece_at < finished - 0.2


async def test_a_stream_that_is_cut_upstream_is_cut_here_and_not_ended(
    account: AsyncOpenAI, upstream: OpenAiServer
) -> None:
    upstream.words_until_cut, upstream.word_seconds = 3, 0.02
    said: list[str] = []

    async def listen() -> None:
        async for chunk in await account.chat.completions.create(model="m", messages=QUESTION, stream=True):
            said.append(chunk.choices[0].delta.content or "")

    with pytest.raises(openai.APIConnectionError):
        await listen()
    assert said == list(WORDS[:3])


async def test_whoever_hangs_up_ends_the_request_upstream(remote: Served, key: Key, upstream: OpenAiServer) -> None:
    upstream.word_seconds = 0.1
    headers = {"Authorization": f"Bearer {key.text}"}
    body = {"model": "m", "messages": QUESTION, "stream": True}
    async with (
        httpx.AsyncClient(base_url=f"http://{remote.address}", trust_env=False) as client,
        client.stream("POST", "/openai/v1/chat/completions", json=body, headers=headers) as answer,
    ):
        await anext(answer.aiter_raw())
    await wait_until(lambda: asyncio.sleep(0, upstream.hung_up == 1), "the request upstream ended")


async def test_an_upstream_that_is_not_there_is_502(tmp_path: Path, migrated_databases: list[Path]) -> None:
    settings = {"openai_api_key": KEY, "openai_base_url": NOWHERE}
    async with house_with(tmp_path, migrated_databases, **settings) as served:
        key = await served.house.key()
        async with served.client(key) as client:
            for call in (
                client.models.list(),
                client.files.create(file=("a.txt", b"text"), purpose="assistants"),
                client.chat.completions.create(model="m", messages=QUESTION, stream=True),
            ):
                with pytest.raises(openai.InternalServerError) as refused:
                    await call
                assert refused.value.status_code == 502
                assert "cannot be reached" in refused.value.message
                assert KEY not in refused.value.message


async def test_an_upstream_in_a_private_network_must_be_allowed(tmp_path: Path, migrated_databases: list[Path]) -> None:
    async with running_openai_server() as upstream:
        settings = working_settings(
            tmp_path / "home", migrated_databases, openai_api_key=KEY, openai_base_url=f"{upstream.url}/v1"
        ).model_copy(update={"allowed_private_networks": ()})
        async with serve(settings) as served:
            key = await served.house.key()
            answer = await served.house.ask("GET", "/openai/v1/models", key)
            assert answer.status_code == 502
            assert "SCRUBJAY_ALLOWED_PRIVATE_NETWORKS" in answer.json()["error"]["message"]
            assert upstream.asked == []


@pytest.mark.parametrize("version", [None, "2024-10-21"])
async def test_azure_is_spoken_to_in_both_of_its_ways(
    tmp_path: Path, migrated_databases: list[Path], version: str | None
) -> None:
    async with running_openai_server() as upstream:
        settings = {
            "azure_openai_endpoint": upstream.url, "azure_openai_api_key": KEY, "azure_openai_api_version": version,
        }  # fmt: skip
        async with house_with(tmp_path, migrated_databases, **settings) as served:
            async with served.client(await served.house.key()) as client:
                said = await client.chat.completions.create(model="my-gpt", messages=QUESTION)
                assert said.choices[0].message.content == ANSWER
                assert [each.id async for each in client.models.list()] == ["gpt-upstream"]
            who = await served.house.jay.access.open_as_admin(served.house.jay.settings.home)
            assert (await served.house.jay.inventory.list_models(who))[0]["id"] == "gpt-upstream"
            await served.house.jay.inventory.embed(who, ["a"], model="my-embedder")
        paths = [path for _, path, _ in upstream.asked]
        assert all(headers["api-key"] == KEY for _, _, headers in upstream.asked)
    if version is None:
        assert paths == [f"/openai/v1/{each}" for each in ("chat/completions", "models", "models", "embeddings")]
    else:
        chat, *models, embeddings = paths
        assert chat == f"/openai/deployments/my-gpt/chat/completions?api-version={version}"
        assert models == [f"/openai/models?api-version={version}"] * 2
        assert embeddings == f"/openai/deployments/my-embedder/embeddings?api-version={version}"


async def test_without_a_language_model_answers_are_503_and_name_the_setting(client: AsyncOpenAI) -> None:
    for call in (
        client.chat.completions.create(model="m", messages=QUESTION),
        client.responses.create(model="m", input="Hello"),
    ):
        with pytest.raises(openai.InternalServerError) as refused:
            await call
        assert refused.value.status_code == 503
        assert "SCRUBJAY_LLM_URL" in refused.value.message


@pytest_asyncio.fixture(loop_scope="module")
async def with_model(tmp_path: Path, migrated_databases: list[Path]) -> AsyncIterator[tuple[Served, OpenAiServer]]:
    async with running_openai_server() as model:
        settings = {"llm_url": f"{model.url}/v1", "llm_api_key": KEY, "llm_model": "own-model"}
        async with house_with(tmp_path, migrated_databases, **settings) as served:
            yield served, model


async def test_a_language_model_of_ones_own_answers_word_by_word(with_model: tuple[Served, OpenAiServer]) -> None:
    served, model = with_model
    model.word_seconds = 0.1
    key = await served.house.key(tenant="talker")
    async with served.client(key) as client:
        assert "own-model" in [each.id async for each in client.models.list()]
        started, said, first = time.monotonic(), [], 0.0
        async for chunk in await client.chat.completions.create(model="own-model", messages=QUESTION, stream=True):
            first = first or time.monotonic() - started
            said.append(chunk.choices[0].delta.content or "")
    assert ("".join(said), first < 0.35) == (ANSWER, True)
    assert model.asked[-1][2]["authorization"] == f"Bearer {KEY}"
    answer = await served.house.ask("POST", "/openai/v1/chat/completions", key, json={"messages": QUESTION})
    assert answer.json()["model"] == "own-model"


async def test_responses_are_kept_for_their_tenant_and_deleted(with_model: tuple[Served, OpenAiServer]) -> None:
    served, _ = with_model
    key, other = await served.house.key(tenant="first"), await served.house.key(tenant="second")
    async with served.client(key) as client, served.client(other) as stranger:
        made = await client.responses.create(model="own-model", input="Hello", conversation="conv_7")
        streamed = ""
        async for event in await client.responses.create(
            model="own-model", input="Hello", conversation="conv_7", stream=True
        ):
            if event.type == "response.completed":
                streamed = event.response.id
        forgotten = await client.responses.create(model="own-model", input="Hello", store=False)
        assert made.output_text == ANSWER
        for each in (made.id, streamed):
            assert (await client.responses.retrieve(each)).output_text == ANSWER
            with pytest.raises(openai.NotFoundError):
                await stranger.responses.retrieve(each)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(forgotten.id)
        who = await served.house.jay.access.recognise(key.text)
        gone = await served.house.jay.inventory.delete_response(who, made.id, with_conversation=True)
        assert gone.deleted == ["conv_7", made.id]
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(streamed)
        last = await client.responses.create(model="own-model", input="Hello")
        await client.responses.delete(last.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(last.id)
