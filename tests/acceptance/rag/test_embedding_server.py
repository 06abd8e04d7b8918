"""`/api/v1` while the embedder is a server that dies half way, or answers what it should not."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.acceptance.house import House, open_house
from tests.acceptance.rag.asking import add, found, search, until
from tests.acceptance.rag.conftest import working_settings
from tests.model_server import ModelServer, running_model_server

from scrubjay.services.documents import Upload

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[House, ModelServer]]:
    """A house whose embedder was a server from the start."""
    async with running_model_server() as server:
        settings = working_settings(
            tmp_path_factory.mktemp("served") / "home", [], embedder="tei", embedding_url=server.url
        )
        async with open_house(settings, working=True) as house:
            yield house, server


@pytest.mark.slow
async def test_an_embedding_server_that_dies_loses_nothing_and_hides_nothing_for_ever(
    served: tuple[House, ModelServer],
) -> None:
    house, server = served
    key = await house.key(tenant="who waits")
    before = await add(house, key, "The lighthouse was built before the storm.")
    assert before["status"] == "Completed"
    server.failures = 10_000
    waiting = await house.jay.documents.add(
        (await house.jay.access.authenticate(key.text))[0],
        [upload("The lighthouse lost its lamp in the storm.")],
        wait_seconds=0.5,
    )
    # What was there is still found, by words; by meaning alone nothing can be.
    answer = await search(house, key, "lighthouse storm")
    assert [result["document_id"] for result in answer["results"]] == [before["id"]]
    assert "By keywords only" in answer["notes"][0]
    refused = await house.ask("POST", "/api/v1/search/vector", key, json={"query": "lighthouse storm"})
    assert (refused.status_code, refused.json()["code"]) == (503, "UNAVAILABLE")
    server.failures = 0
    house.jay.indexer.wake()

    async def count() -> int:
        return len(await found(house, key, "lighthouse"))

    await until(count, 2)
    status = (await house.api("GET", f"/documents/{waiting[0].id}", key))["status"]
    assert status == "Completed"


def upload(text: str) -> Upload:
    return Upload(data=text.encode(), content_type="text/plain")


async def test_an_embedding_server_of_the_wrong_size_is_never_believed(served: tuple[House, ModelServer]) -> None:
    house, server = served
    key = await house.key(tenant="who doubts")
    answer = await house.ask("POST", "/api/v1/search", key, json={"query": "ferry", "use_reranker": True})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "use_reranker"}), "there is none here"
    before = await add(house, key, "The ferry leaves at noon.")
    server.dimensions = 7
    try:
        await house.jay.documents.add(
            (await house.jay.access.authenticate(key.text))[0], [upload("The ferry sank.")], wait_seconds=0.5
        )
        answer = await search(house, key, "when does the ferry leave")
        assert [result["document_id"] for result in answer["results"]] == [before["id"]]
        refused = await house.ask("POST", "/api/v1/search/vector", key, json={"query": "ferry at noon"})
        assert refused.status_code == 503
    finally:
        server.dimensions = 32
    (other,) = [each for each in (await house.api("GET", "/documents", key))["items"] if each["id"] != before["id"]]
    log = await house.api("GET", f"/documents/{other['id']}/log", key)
    assert any("dimension" in line["message"] for line in log), log
