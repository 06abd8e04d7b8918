"""Two rankings become one."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.index.fusion import Fused, FusionOptions, drop_noise, fuse, keyword_score, vector_score
from scrubjay.model.search import FusionKind, Hit, VectorTrust

NAMES = [f"chunk-{number}" for number in range(12)]
KINDS = st.sampled_from(FusionKind)
WEIGHTS = st.none() | st.floats(0, 10)
TRUST = st.builds(VectorTrust, st.floats(0, 1), st.floats(0, 1), st.booleans())
OPTIONS = st.builds(FusionOptions, KINDS, WEIGHTS, WEIGHTS, st.integers(10, 200), TRUST)


def rankings(scores: st.SearchStrategy[float]) -> st.SearchStrategy[list[Hit]]:
    """What an engine answers: every chunk at most once, best first, with what else it may tell."""
    told = st.tuples(scores, st.none() | st.integers(0, 500), st.none() | st.floats(-1, 1))
    found = st.dictionaries(st.sampled_from(NAMES), told)
    return found.map(lambda each: sorted((hit(name, *item) for name, item in each.items()), key=lambda one: -one.score))


VECTOR = rankings(st.floats(-1, 1))
KEYWORD = rankings(st.floats(0.001, 500))


def hit(chunk_id: str, score: float, terms: int | None = None, cosine: float | None = None) -> Hit:
    return Hit(chunk_id, f"document of {chunk_id}", score, terms, cosine)


def hits(**scores: float) -> list[Hit]:
    return [hit(name, score) for name, score in scores.items()]


def order(fused: list[Fused]) -> list[str]:
    return [each.chunk_id for each in fused]


@given(VECTOR, KEYWORD, OPTIONS)
def test_scores_are_0_to_1_and_fall_with_the_rank(
    vector: list[Hit], keyword: list[Hit], options: FusionOptions
) -> None:
    fused = fuse(vector, keyword, options)
    assert all(0 <= each.score <= 1 for each in fused)
    assert all(before.score >= after.score for before, after in pairwise(fused))


@given(VECTOR, KEYWORD, OPTIONS)
def test_whatever_either_found_is_there_once_with_its_ranks(
    vector: list[Hit], keyword: list[Hit], options: FusionOptions
) -> None:
    fused = fuse(vector, keyword, options)
    assert sorted(order(fused)) == sorted({each.chunk_id for each in (*vector, *keyword)})
    by_vector = {each.chunk_id: each.vector_rank for each in fused if each.vector_rank is not None}
    by_keyword = {each.chunk_id: each.keyword_rank for each in fused if each.keyword_rank is not None}
    assert by_vector == {each.chunk_id: rank for rank, each in enumerate(vector, 1)}
    assert by_keyword == {each.chunk_id: rank for rank, each in enumerate(keyword, 1)}


@given(VECTOR, KEYWORD, OPTIONS)
def test_the_order_is_that_of_the_parts(vector: list[Hit], keyword: list[Hit], options: FusionOptions) -> None:
    parts = [each.vector_part + each.keyword_part for each in fuse(vector, keyword, options)]
    assert parts == sorted(parts, reverse=True)


@given(KEYWORD, TRUST)
def test_one_ranking_alone_keeps_its_order_and_its_scores(keyword: list[Hit], trust: VectorTrust) -> None:
    fused = fuse([], keyword, FusionOptions(trust=trust))
    assert [each.score for each in fused] == [keyword_score(each.score) for each in keyword]
    fused = fuse(hits(a=0.9, b=0.2), [], FusionOptions(trust=trust))
    assert [(each.chunk_id, each.score) for each in fused] == [("a", 0.9), ("b", 0.2)]


@pytest.mark.parametrize("kind", FusionKind)
def test_nothing_found_is_nothing(kind: FusionKind) -> None:
    assert fuse([], [], FusionOptions(kind)) == []


@pytest.mark.parametrize("kind", FusionKind)
def test_equals_stand_in_the_order_of_their_ids_however_they_came(kind: FusionKind) -> None:
    one, other = (
        fuse(hits(b=0.5), hits(a=7.0), FusionOptions(kind)),
        fuse(hits(a=0.5), hits(b=7.0), FusionOptions(kind)),
    )
    if kind is FusionKind.RRF:
        assert order(one) == order(other) == ["a", "b"]
    same = hits(c=0.5, a=0.5, b=0.5)
    linear = FusionOptions(FusionKind.LINEAR)
    assert order(fuse(same, [], linear)) == order(fuse(same[::-1], [], linear)) == ["a", "b", "c"]


def test_reciprocal_ranks_begin_at_1() -> None:
    options = FusionOptions(FusionKind.RRF, rrf_k=60)
    first, second, third = fuse(hits(a=0.9, b=0.8), hits(a=9.0, c=1.0), options)
    assert (first.chunk_id, first.score) == ("a", 1.0)
    assert second.score == third.score == pytest.approx(0.5 * 61 / 62)


def test_reciprocal_ranks_do_not_look_at_scores() -> None:
    options = FusionOptions(FusionKind.RRF)
    near, far = hits(a=0.9, b=0.89, c=0.88), hits(a=0.9, b=0.1, c=0.01)
    words = hits(c=3.0, b=2.0)
    assert order(fuse(near, words, options)) == order(fuse(far, words, options))


@pytest.mark.parametrize("kind", FusionKind)
@pytest.mark.parametrize(
    ("vector", "keyword", "first"), [(1.0, 0.0, "v"), (0.0, 1.0, "k"), (None, 0.0, "v"), (0, None, "k")]
)
def test_weights_decide(kind: FusionKind, vector: float | None, keyword: float | None, first: str) -> None:
    fused = fuse(hits(v=0.9, k=0.1), hits(k=30.0, v=1.0), FusionOptions(kind, vector, keyword))
    assert order(fused)[0] == first


def test_only_the_ratio_of_weights_counts() -> None:
    vector, keyword = hits(a=0.9, b=0.4, c=0.3), hits(c=9.0, b=8.0)
    small, large = (
        FusionOptions(vector_weight=0.1, keyword_weight=0.3),
        FusionOptions(vector_weight=2, keyword_weight=6),
    )
    assert [(each.chunk_id, pytest.approx(each.score)) for each in fuse(vector, keyword, small)] == [
        (each.chunk_id, each.score) for each in fuse(vector, keyword, large)
    ]


def test_a_trusted_embedder_moves_more() -> None:
    vector, keyword = hits(v=0.8, k=0.3), hits(k=20.0, v=5.0)
    assert order(fuse(vector, keyword, FusionOptions(trust=VectorTrust(weight=0.2))))[0] == "k"
    assert order(fuse(vector, keyword, FusionOptions(trust=VectorTrust(weight=0.9))))[0] == "v"


def test_vectors_that_lie_close_together_say_less_than_words() -> None:
    crowded = hits(v=0.82, k=0.80)
    assert order(fuse(crowded, hits(k=20.0, v=12.0), FusionOptions(trust=VectorTrust(weight=2 / 3))))[0] == "k"


def test_scaled_cosines_speak_up_however_close_they_lie() -> None:
    crowded = hits(v=0.82, k=0.80)
    trust = VectorTrust(weight=2 / 3, is_scaled=True)
    assert order(fuse(crowded, hits(k=20.0, v=12.0), FusionOptions(trust=trust)))[0] == "v"


def test_what_is_not_among_the_nearest_counts_as_the_last_of_them() -> None:
    fused = {each.chunk_id: each for each in fuse(hits(a=0.6, b=0.5), hits(c=9.0), FusionOptions())}
    assert fused["c"].vector_score is None
    assert fused["c"].vector_part == fused["b"].vector_part > 0


def test_what_words_found_counts_as_near_as_it_is() -> None:
    vector = hits(a=0.6, b=0.5)
    fused = {each.chunk_id: each for each in fuse(vector, [hit("c", 9.0, cosine=0.1)], FusionOptions())}
    assert fused["c"].vector_rank is None
    assert fused["c"].vector_part == pytest.approx(fused["b"].vector_part / 5)


def test_the_nearest_know_their_own_cosines_best() -> None:
    told, untold = [hit("a", 9.0, cosine=0.1)], [hit("a", 9.0)]
    assert fuse(hits(a=0.6, b=0.5), told, FusionOptions()) == fuse(hits(a=0.6, b=0.5), untold, FusionOptions())


def test_scaled_what_is_farther_than_the_last_of_the_nearest_counts_as_that() -> None:
    options = FusionOptions(trust=VectorTrust(is_scaled=True))
    fused = fuse(hits(a=0.6, b=0.5), [hit("c", 9.0, cosine=0.1), hit("d", 8.0)], options)
    assert {each.chunk_id: each.vector_part for each in fused} == {"a": 0.5, "b": 0, "c": 0, "d": 0}


def test_words_that_a_line_lacks_say_less_than_words_that_a_page_lacks() -> None:
    def first(terms: int | None) -> str:
        vector = [hit("v", 0.7, terms), hit("k", 0.3, terms)]
        return order(fuse(vector, hits(k=20.0), FusionOptions()))[0]

    assert (first(None), first(150), first(6)) == ("k", "k", "v")


def test_one_line_among_pages_does_not_make_them_lines() -> None:
    pages = [hit(f"page-{number}", 0.5, 150) for number in range(9)]
    keyword = hits(k=20.0)
    short, long = (fuse([hit("v", 0.6, terms), *pages], keyword, FusionOptions()) for terms in (3, 150))
    assert [each.keyword_part for each in short] == [each.keyword_part for each in long]


def test_the_first_of_both_has_the_better_of_its_two_scores() -> None:
    weak = fuse(hits(a=0.3), hits(a=2.0), FusionOptions())
    strong = fuse(hits(a=0.3), hits(a=40.0), FusionOptions())
    assert weak[0].score == pytest.approx(0.3)
    assert strong[0].score == pytest.approx(keyword_score(40.0))


def test_noise_is_what_has_no_word_and_only_a_chance_likeness() -> None:
    vector = hits(near=0.6, worded=0.05, far=0.1)
    assert [each.chunk_id for each in drop_noise(vector, hits(worded=4.0), 0.2)] == ["near", "worded"]


@pytest.mark.parametrize(("cosine", "score"), [(-0.4, 0.0), (0.25, 0.25), (1.0000001, 1.0)])
def test_a_vector_score_is_a_cosine_from_0_to_1(cosine: float, score: float) -> None:
    assert vector_score(cosine) == score


@given(st.floats(0, 1e9), st.floats(0, 1e9))
def test_a_keyword_score_grows_with_bm25_and_stays_below_1(one: float, other: float) -> None:
    less, more = sorted((one, other))
    assert 0 <= keyword_score(less) <= keyword_score(more) <= 1
    assert keyword_score(8.0) == 0.5


def test_words_that_a_crowd_has_say_less_than_words_that_one_has() -> None:
    vector = hits(v=0.7, k=0.3)
    rare = [hit("k", 20.0), *(hit(f"other-{number}", 2.0) for number in range(10))]
    common = [hit("k", 20.0), *(hit(f"other-{number}", 19.0) for number in range(10))]
    assert order(fuse(vector, rare, FusionOptions()))[0] == "k"
    assert order(fuse(vector, common, FusionOptions()))[0] == "v"


def test_half_of_the_best_by_words_is_much_less_than_half_as_apt() -> None:
    parts = {each.chunk_id: each.keyword_part for each in fuse([], hits(a=20.0, b=10.0), FusionOptions())}
    assert parts["b"] == pytest.approx(parts["a"] / 4)
