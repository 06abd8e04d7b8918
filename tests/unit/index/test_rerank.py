"""What a reranker answers, read with care."""

import math
from typing import Any

import pytest

from scrubjay.errors import Unavailable
from scrubjay.index.rerank import MAX_PASSAGE_CHARACTERS, Reranker


class Endpoint:
    """A server that answers one thing, and remembers what it was asked."""

    url = "http://reranker.example"

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[tuple[str, Any]] = []

    async def post(self, path: str, body: Any) -> Any:
        self.asked.append((path, body))
        return self.answer


def scored(*scores: Any, name: str = "score") -> list[dict[str, Any]]:
    return [{"index": index, name: score} for index, score in enumerate(scores)]


async def rerank(answer: Any, *texts: str, kind: str = "tei") -> list[float]:
    return await Reranker(kind, Endpoint(answer), "model").rerank("jay", texts)  # type: ignore[arg-type]


async def test_scores_stand_in_the_order_of_the_texts() -> None:
    assert await rerank([{"index": 1, "score": 0.9}, {"index": 0, "score": 0.2}], "a", "b") == [0.2, 0.9]
    answer = {"results": scored(0.4, 0.6, name="relevance_score")}
    assert await rerank(answer, "a", "b", kind="cohere") == [0.4, 0.6]


async def test_logits_become_scores_from_0_to_1_in_the_same_order() -> None:
    scores = await rerank(scored(0.9, 1.5, -8.0, 900.0), "a", "b", "c", "d")
    assert sorted(range(4), key=scores.__getitem__) == [2, 0, 1, 3]
    assert all(0 <= score <= 1 for score in scores)


async def test_nothing_to_rank_is_not_asked() -> None:
    endpoint = Endpoint(None)
    assert await Reranker("tei", endpoint).rerank("jay", []) == []  # type: ignore[arg-type]
    assert endpoint.asked == []


async def test_endless_passages_are_cut() -> None:
    endpoint = Endpoint(scored(0.5))
    await Reranker("tei", endpoint).rerank("jay", ["a" * 100_000])  # type: ignore[arg-type]
    [(path, body)] = endpoint.asked
    assert path == "/rerank"
    assert [len(text) for text in body["texts"]] == [MAX_PASSAGE_CHARACTERS]


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        [],
        "text",
        [1, 2],
        scored(0.5),  # one is missing
        scored(0.5, 0.5, 0.5),  # one too many
        scored(0.5, None),
        scored(0.5, "much"),
        scored(0.5, math.nan),
        scored(0.5, math.inf),
        [{"index": 0, "score": 0.5}, {"index": -1, "score": 0.5}],
        [{"index": 0, "score": 0.5}, {"index": 0, "score": 0.6}],
        [{"index": math.inf, "score": 0.5}, {"index": 0, "score": 0.6}],
    ],
)
async def test_an_answer_without_a_score_for_every_passage_is_no_answer(answer: Any) -> None:
    with pytest.raises(Unavailable, match="score for every passage"):
        await rerank(answer, "a", "b")
