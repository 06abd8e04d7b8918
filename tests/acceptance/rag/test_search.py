"""`/api/v1/search`: by meaning, by words and by both; filters, phrases, pages, highlights, caches."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, finished, found, search, until
from tests.model_server import ModelServer
from tests.site import Site

from scrubjay.model.clock import utc_now

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXTS = {
    "https://birds.example/jays": "# Jays\n\nScrub jays hide acorns and remember thousands of hiding places.",
    "https://birds.example/owls": "# Owls\n\nOwls hunt mice at night with silent wings.",
    "https://cars.example/engines": "# Engines\n\nA diesel engine burns fuel without spark plugs.",
    "https://cars.example/brakes": "# Brakes\n\nBrakes turn motion into heat; worn brake pads squeal.",
    "https://food.example/bread": "# Bread\n\nSourdough bread rises with wild yeast. Bake it until the crust sings.",
    "https://essen.example/brot": "# Brot\n\nDas Brot wird mit Sauerteig gebacken und braucht Zeit.",
}


@dataclass(frozen=True)
class Corpus:
    key: Key
    ids: dict[str, str]
    collection: str
    tag: str

    def names(self, answer: dict[str, Any]) -> list[str]:
        """Which of the texts were found, by the last part of their address."""
        by_id = {identifier: url.rsplit("/", 1)[-1] for url, identifier in self.ids.items()}
        return [by_id[result["document_id"]] for result in answer["results"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def corpus(library: House) -> Corpus:
    key = await library.key(tenant="a corpus")
    collection = await library.api("POST", "/collections", key, status=201, json={"name": "cars"})
    ids, tag = {}, ""
    for url, text in TEXTS.items():
        values: dict[str, Any] = {"url": url, "language": "de" if "essen" in url else "en"}
        if "cars" in url:
            values["collection_id"] = collection["id"]
        if "birds" in url:
            values["tags"] = ["birds"]
        made = await add(library, key, text, **values)
        ids[url] = made["id"]
        tag = made["tags"][0]["id"] if made["tags"] else tag
    return Corpus(key, ids, collection["id"], tag)


@pytest.mark.parametrize("mode", ["", "vector", "keyword"])
async def test_the_document_about_it_comes_first_with_scores_from_0_to_1(
    library: House, corpus: Corpus, mode: str
) -> None:
    answer = await search(library, corpus.key, "silent owls at night", mode)
    assert corpus.names(answer)[0] == "owls"
    scores = [result["score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    first = answer["results"][0]
    assert first["source"] == (mode or "fused")
    assert (first["vector_score"] is None, first["keyword_score"] is None) == (mode == "keyword", mode == "vector")
    assert (first["url"], first["title"]) == ("https://birds.example/owls", "Owls")
    assert answer["latency_ms"] > 0
    assert (answer["corrected_query"], answer["notes"]) == (None, [])


async def test_a_result_says_where_in_its_document_it_stands(library: House, corpus: Corpus) -> None:
    result = (await search(library, corpus.key, "sourdough bread"))["results"][0]
    document = await library.api("GET", f"/documents/{result['document_id']}", corpus.key)
    assert document["content"][result["start_char"] : result["end_char"]] == result["content"]
    chunks = await library.api("GET", f"/documents/{result['document_id']}/chunks", corpus.key)
    assert chunks[result["chunk_index"]]["id"] == result["chunk_id"]
    assert (result["section_header"], result["language"], result["content_type"]) == ("Bread", "en", "prose")
    assert result["crawled_at"] == document["crawled_at"]


async def test_highlights_are_ranges_of_the_words_that_were_asked_for(library: House, corpus: Corpus) -> None:
    result = (await search(library, corpus.key, "baking wild breads"))["results"][0]
    words = [result["content"][start:end] for start, end in result["highlights"]]
    assert set(words) >= {"bread", "wild", "Bake"}, words
    assert [start for start, _ in result["highlights"]] == sorted(start for start, _ in result["highlights"])


async def test_both_fusions_and_their_weights_are_obeyed(library: House, corpus: Corpus) -> None:
    for fusion in ("rrf", "linear"):
        only_words = await search(
            library, corpus.key, "brake pads", fusion=fusion, vector_weight=0, keyword_weight=1, explain=True
        )
        assert corpus.names(only_words)[0] == "brakes"
        ranks = [each["explanation"]["keyword_rank"] for each in only_words["results"] if each["score"] > 0]
        assert ranks[0] == 1
    one = await search(library, corpus.key, "brake pads", fusion="rrf", rrf_k=10)
    other = await search(library, corpus.key, "brake pads", fusion="rrf", rrf_k=200)
    assert corpus.names(one)[0] == corpus.names(other)[0] == "brakes"
    for body in ({"rrf_k": 9}, {"rrf_k": 201}, {"vector_weight": 11}, {"keyword_weight": -1}, {"fusion": "magic"}):
        await library.api("POST", "/search", corpus.key, status=400, json={"query": "x", **body})


async def test_explain_shows_ranks_and_scores_and_nothing_is_explained_unasked(library: House, corpus: Corpus) -> None:
    answer = await search(library, corpus.key, "diesel engine", explain=True)
    explanation = answer["results"][0]["explanation"]
    assert (explanation["keyword_rank"], explanation["vector_rank"]) == (1, 1)
    assert explanation["fused_score"] == pytest.approx(answer["results"][0]["score"], abs=1e-5)
    plain = await search(library, corpus.key, "diesel engine")
    assert all(result["explanation"] is None for result in plain["results"])


# --- Filters


async def test_every_filter_restricts_every_mode(library: House, corpus: Corpus) -> None:
    everything = set(TEXTS)
    cars = {url for url in everything if "cars" in url}
    birds = {url for url in everything if "birds" in url}
    hour = timedelta(hours=1)
    query = "bread brot owls jays engine brakes"
    for mode in ("", "vector", "keyword"):

        async def urls(mode: str = mode, **values: Any) -> set[str]:
            return {each["url"] for each in (await search(library, corpus.key, query, mode, **values))["results"]}

        assert await urls() == everything
        assert await urls(collection_ids=[corpus.collection]) == cars
        assert await urls(tag_ids=[corpus.tag]) == birds
        assert await urls(domains=["birds.example"]) == birds
        assert await urls(domains=["Birds.Example", "cars.example"]) == birds | cars
        assert await urls(languages=["de"]) == {"https://essen.example/brot"}
        assert await urls(source_types=["api"]) == everything
        assert await urls(source_types=["crawl", "upload"]) == set()
        assert await urls(content_types=["prose"]) == everything
        assert await urls(content_types=["table"]) == set()
        assert await urls(date_from=(utc_now() - hour).isoformat(), date_to=utc_now().isoformat()) == everything
        assert await urls(date_from=(utc_now() + hour).isoformat()) == set()
        assert await urls(date_to=(utc_now() - hour).isoformat()) == set()
        assert await urls(tag_ids=[corpus.tag], collection_ids=[corpus.collection]) == set()


async def test_min_score_leaves_out_what_scores_less(library: House, corpus: Corpus) -> None:
    everything = (await search(library, corpus.key, "jays hide acorns from owls"))["results"]
    threshold = everything[0]["score"] - 0.001
    kept = (await search(library, corpus.key, "jays hide acorns from owls", min_score=threshold))["results"]
    assert 1 <= len(kept) < len(everything)
    assert all(result["score"] >= threshold for result in kept)


async def test_a_phrase_must_occur_as_it_is(library: House, corpus: Corpus) -> None:
    assert corpus.names(await search(library, corpus.key, '"wild yeast"')) == ["bread"]
    assert corpus.names(await search(library, corpus.key, '"yeast wild"')) == []


@pytest.mark.parametrize("mode", ["", "vector", "keyword"])
async def test_what_has_an_excluded_word_is_left_out(library: House, corpus: Corpus, mode: str) -> None:
    names = corpus.names(await search(library, corpus.key, "owls and jays hunt hide -acorns", mode))
    assert "owls" in names
    assert "jays" not in names


@pytest.mark.parametrize("mode", ["", "vector", "keyword"])
async def test_site_restricts_to_a_host_and_minus_site_keeps_it_out(library: House, corpus: Corpus, mode: str) -> None:
    query = "bread brot owls jays engine brakes"
    only = corpus.names(await search(library, corpus.key, f"{query} site:cars.example", mode))
    assert set(only) == {"engines", "brakes"}
    others = corpus.names(await search(library, corpus.key, f"{query} -site:cars.example", mode))
    assert set(others) == {"jays", "owls", "bread", "brot"}


async def test_site_and_domains_together_must_both_hold(library: House, corpus: Corpus) -> None:
    answer = await search(library, corpus.key, "engine site:cars.example", domains=["birds.example"])
    assert answer["results"] == []


async def test_words_are_stemmed_in_the_language_of_the_documents(library: House, corpus: Corpus) -> None:
    assert corpus.names(await search(library, corpus.key, "hiding", "keyword"))[0] == "jays"
    assert corpus.names(await search(library, corpus.key, "gebackenes Brote", "keyword")) == ["brot"]


async def test_a_typing_error_is_corrected_when_nothing_matches(library: House, corpus: Corpus) -> None:
    for mode in ("", "keyword"):
        answer = await search(library, corpus.key, "sourdoguh", mode)
        assert answer["corrected_query"] == "sourdough"
        assert corpus.names(answer)[0] == "bread"
    assert (await search(library, corpus.key, "sourdough"))["corrected_query"] is None


async def test_neighbours_come_along_when_asked_for(library: House, owner: Key) -> None:
    parts = "\n\n".join(f"Part {n} tells of the {word}." for n, word in enumerate(["heron", "stork", "crane"]))
    await add(library, owner, parts, chunking={"strategy": "sentence", "chunk_size": 16, "overlap": 0, "min_size": 1})
    result = (await search(library, owner, "stork", "keyword", expand_chunks=True))["results"][0]
    assert "stork" in result["content"]
    assert ["heron" in result["expanded_chunks"][0], "crane" in result["expanded_chunks"][1]] == [True, True]
    assert (await search(library, owner, "stork", "keyword"))["results"][0]["expanded_chunks"] is None


# --- Pages


async def pages(library: House, key: Key, query: str, limit: int, mode: str = "", **values: Any) -> list[list[str]]:
    walked, cursor = [], None
    while True:
        more = {"cursor": cursor} if cursor else {}
        answer = await search(library, key, query, mode, limit=limit, **more, **values)
        walked.append([result["chunk_id"] for result in answer["results"]])
        cursor = answer["next_cursor"]
        if cursor is None or len(walked) > 100:
            return walked


@pytest.mark.parametrize("mode", ["", "vector", "keyword"])
async def test_pages_hold_everything_once_in_the_order_of_the_whole(library: House, owner: Key, mode: str) -> None:
    body = {
        "documents": [{"content": f"Heron number {n} stands in the water{' and waits' * (n % 7)}."} for n in range(23)]
    }
    await library.api("POST", "/documents/batch", owner, json=body)
    whole = await search(library, owner, "heron in the water", mode, limit=100)
    assert (len(whole["results"]), whole["next_cursor"], whole["total_count"]) == (23, None, 23)
    walked = await pages(library, owner, "heron in the water", 5, mode)
    assert [len(page) for page in walked] == [5, 5, 5, 5, 3]
    assert [chunk for page in walked for chunk in page] == [each["chunk_id"] for each in whole["results"]]


async def test_what_comes_in_between_two_pages_does_not_move_them(library: House, owner: Key) -> None:
    body = {"documents": [{"content": f"Stork number {n} stands on the roof."} for n in range(8)]}
    await library.api("POST", "/documents/batch", owner, json=body)
    first = await search(library, owner, "stork", "keyword", limit=4)
    await add(library, owner, "stork stork stork stork")
    second = await search(library, owner, "stork", "keyword", limit=4, cursor=first["next_cursor"])
    ids = [each["chunk_id"] for answer in (first, second) for each in answer["results"]]
    assert len(set(ids)) == 8
    assert not any("stork stork" in each["content"] for each in second["results"])


async def test_a_cursor_is_of_no_use_to_another_query_or_when_it_is_none(library: House, corpus: Corpus) -> None:
    cursor = (await search(library, corpus.key, "bread brakes owls", limit=1))["next_cursor"]
    assert cursor
    for body in (
        {"query": "engines", "limit": 1, "cursor": cursor},
        {"query": "bread brakes owls", "limit": 1, "min_score": 0.5, "cursor": cursor},
        {"query": "bread brakes owls", "limit": 1, "cursor": cursor[:-4]},
        {"query": "bread brakes owls", "limit": 1, "cursor": "bm90aGluZw"},
        {"query": "bread brakes owls", "limit": 1, "cursor": "🐦"},
        {"query": "bread brakes owls", "limit": 1, "cursor": "\u0000"},
    ):
        answer = await library.ask("POST", "/api/v1/search", corpus.key, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), body
        assert "cursor" in answer.json()["error"]


# --- Caches


async def test_answers_and_vectors_are_cached_until_something_changes(library: House, owner: Key) -> None:
    await add(library, owner, "Kingfishers dive for fish in the brook.")
    first = await search(library, owner, "kingfishers dive")
    assert (first["result_cached"], first["query_embedding_cached"]) == (False, False)
    second = await search(library, owner, "kingfishers dive")
    assert second["result_cached"] is True
    assert second["results"] == first["results"]
    other = await search(library, owner, "kingfishers dive", limit=3)
    assert (other["result_cached"], other["query_embedding_cached"]) == (False, True)
    await add(library, owner, "Kingfishers dive again, elsewhere.")
    third = await search(library, owner, "kingfishers dive")
    assert (third["result_cached"], len(third["results"])) == (False, 2)


async def test_the_cache_is_shown_and_cleared_by_admins(library: House, owner: Key) -> None:
    await add(library, owner, "Cormorants dry their wings.")
    await search(library, owner, "cormorants")
    await search(library, owner, "cormorants")
    stats = await library.api("GET", "/cache", owner)
    assert set(stats) == {"entries", "hits", "misses", "backend"}
    assert stats["entries"] > 0
    assert stats["hits"] > 0
    cleared = await library.api("DELETE", "/cache", owner)
    assert cleared["cleared"] > 0
    assert (await search(library, owner, "cormorants"))["result_cached"] is False


# --- Rerankers


async def test_a_reranker_orders_the_first_ones_and_says_its_scores(
    library: House, corpus: Corpus, model_server: ModelServer
) -> None:
    answer = await search(library, corpus.key, "mice at night", use_reranker=True, rerank_top_n=3)
    assert corpus.names(answer)[0] == "owls"
    scores = [result["rerank_score"] for result in answer["results"][:3]]
    assert scores == sorted(scores, reverse=True)
    assert answer["results"][0]["score"] == answer["results"][0]["rerank_score"]
    model_server.failures = 50
    try:
        answer = await search(library, corpus.key, "mice in the night", use_reranker=True)
    finally:
        model_server.failures = 0
    assert corpus.names(answer)[0] == "owls"
    assert "Not reranked" in answer["notes"][0]


# --- Crawled pages


async def test_what_a_crawl_brings_is_found_by_its_source_type(library: House, owner: Key, site: Site) -> None:
    site.add(
        "/hoopoe",
        "<html><body><article><h1>Hoopoe</h1><p>The hoopoe wears a crown of feathers.</p></article></body></html>",
    )
    started = await library.api("POST", "/crawl", owner, json={"url": site.url + "/hoopoe"})
    job = await finished(library, owner, started["jobs"][0]["job_id"])
    assert job["status"] == "completed", job
    await until(lambda: found(library, owner, "hoopoe", source_types=["upload"]), [])
    deadline = asyncio.get_running_loop().time() + 10
    while not (ids := await found(library, owner, "hoopoe", source_types=["crawl"])):
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)
    assert len(ids) == 1


# --- Bad input


@pytest.mark.parametrize(
    "query",
    ["-", "--", '"', '""', "-word", '-"a phrase"', "site:a.example", "-site:a.example", "*", "()", "🐦", "…", "   ", "",
     "x" * 501,      "\u0000", "\\", " -x site:y ***"],
)  # fmt: skip
async def test_a_query_without_words_is_400_and_says_so(library: House, corpus: Corpus, query: str) -> None:
    for mode in ("", "/vector", "/keyword"):
        answer = await library.ask("POST", f"/api/v1/search{mode}", corpus.key, json={"query": query})
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (mode, answer.text)
        assert "query" in answer.json()["error"]


@pytest.mark.parametrize(
    "query",
    ["مرحبا بالعالم", "日本語 検索", "a" * 500, "OR AND NOT NEAR", "a:b:c", "x \\", "'; DROP TABLE documents; --",
     "%_%", "a\tb\nc",
     "{}[]^~*?: x", "NULL", "\u202eabc", "é́" * 50, "x AND (y OR", '"unclosed phrase', "-a -b c", "ﬁ ﬂ Ⅷ"],
)  # fmt: skip
async def test_an_odd_query_is_only_words(library: House, corpus: Corpus, query: str) -> None:
    for mode in ("", "vector", "keyword"):
        answer = await search(library, corpus.key, query, mode)
        assert all(0 <= result["score"] <= 1 for result in answer["results"])


async def test_what_a_search_may_not_say_is_400_and_names_the_field(library: House, corpus: Corpus) -> None:
    wrong: dict[str, Any] = {
        "limit": 0, "min_score": 1.1, "rerank_top_n": 51, "date_from": "yesterday", "source_types": ["mail"],
        "collection_ids": ["x"], "tag_ids": [7], "domains": [""], "surprise": 1, "content_types": ["poem"],
        "as_of": "2020-01-01T00:00:00",
    }  # fmt: skip
    for field, value in wrong.items():
        answer = await library.ask("POST", "/api/v1/search", corpus.key, json={"query": "x", field: value})
        assert answer.status_code == 400, (field, answer.text)
        assert answer.json()["details"]["fields"][0]["field"].partition(".")[0] == field
    dates = {"date_from": "2026-02-01T00:00:00Z", "date_to": "2026-01-01T00:00:00Z"}
    answer = await library.ask("POST", "/api/v1/search", corpus.key, json={"query": "x", **dates})
    assert (answer.status_code, "date_to" in answer.json()["error"]) == (400, True)


async def test_times_at_the_end_of_the_calendar_are_no_trouble(library: House, corpus: Corpus) -> None:
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"):
        for field in ("date_from", "date_to", "as_of"):
            answer = await library.ask("POST", "/api/v1/search", corpus.key, json={"query": "owls", field: moment})
            assert answer.status_code in (200, 400), (moment, field, answer.text)
        path = f"/api/v1/documents/{next(iter(corpus.ids.values()))}"
        answer = await library.ask("GET", path, corpus.key, params={"as_of": moment})
        assert answer.status_code in (200, 400, 404), (moment, answer.text)
