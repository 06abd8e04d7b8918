"""Answers to queries by a language model, and what happens when it has none to give."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from tests.acceptance.actions.test_inventory import make_store, upload
from tests.acceptance.house import House, Key, open_house
from tests.acceptance.rag.conftest import working_settings

pytestmark = pytest.mark.asyncio(loop_scope="module")
FACT = "The scrub jay hides its acorns under the third oak."


class Model:
    """A server that speaks the part of OpenAI's API that is asked for."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.answer: Any = {}
        self.status = 200

    async def complete(self, request: web.Request) -> web.Response:
        self.asked.append(await request.json())
        self.keys.append(request.headers.get("Authorization"))
        return web.json_response(self.answer, status=self.status)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def talking(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]
) -> AsyncIterator[tuple[House, Model]]:
    model = Model()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", model.complete)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = working_settings(
        tmp_path_factory.mktemp("talking") / "home",
        migrated_databases,
        llm_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1",
        llm_model="parrot",
        llm_api_key="hunter2",
    )
    async with open_house(settings, working=True) as house:
        yield house, model
    await runner.cleanup()


async def query(house: House, key: Key, store_id: str) -> dict[str, Any]:
    body = {"data": {"query": "where are the acorns", "vsid": store_id, "results": 3}}
    answer = await house.ask("POST", "/query", key, json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["data"])


async def test_a_model_answers_from_numbered_passages(talking: tuple[House, Model]) -> None:
    house, model = talking
    key = await house.key(tenant="who asks a model")
    store_id = await make_store(house, key, "birds", await upload(house, key, "jay.txt", FACT))
    model.answer = {"choices": [{"message": {"role": "assistant", "content": " Under the third oak 【1】. "}}]}
    data = await query(house, key, store_id)
    assert data["answer"] == "Under the third oak 【1】."
    assert data["sources"][0]["data"] == FACT
    assert (model.asked[-1]["model"], model.keys[-1]) == ("parrot", "Bearer hunter2")
    assert f"[1] jay.txt\n{FACT}" in model.asked[-1]["messages"][-1]["content"]


@pytest.mark.parametrize(
    ("status", "answer"),
    [(400, {"error": "no"}), (200, {}), (200, {"choices": []}), (200, {"choices": [{"message": {"content": None}}]})],
)
async def test_a_model_that_does_not_answer_never_fails_a_query(
    talking: tuple[House, Model], status: int, answer: Any
) -> None:
    house, model = talking
    key = await house.key(tenant=f"who asks in vain {status} {answer}"[:90])
    store_id = await make_store(house, key, "birds", await upload(house, key, "jay.txt", FACT))
    model.status, model.answer = status, answer
    data = await query(house, key, store_id)
    assert data["answer"] == f"The language model did not answer; these are the best passages.\n\n{FACT} 【1】"
    model.status = 200


async def test_a_model_is_not_asked_when_nothing_was_found(talking: tuple[House, Model]) -> None:
    house, model = talking
    key = await house.key(tenant="who has nothing")
    before = len(model.asked)
    data = await query(house, key, await make_store(house, key, "empty"))
    assert (data["answer"], data["sources"], len(model.asked)) == ("Nothing was found.", [], before)
