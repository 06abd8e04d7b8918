"""What every index engine must do: embedded, PostgreSQL, Qdrant."""

import asyncio
import random
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests import indexes

from scrubjay.errors import InvalidRequest, Unavailable
from scrubjay.index.analysis import document_terms, inverse_frequency
from scrubjay.index.index import Index
from scrubjay.index.payload import words_of
from scrubjay.model.content import ChunkContentType, DocumentSource
from scrubjay.model.ids import new_id
from scrubjay.model.search import Hit, IndexPoint, KeywordQuery, SearchFilter

DIMENSIONS = 4
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TENANT = new_id("ten")
EVERYTHING = SearchFilter(tenant_id=TENANT)

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
ENGINES = ["edge", pytest.param("postgres", marks=pytest.mark.postgres), "qdrant"]


@pytest.fixture(params=ENGINES)
async def place(request: pytest.FixtureRequest) -> AsyncIterator[indexes.Place]:
    async with indexes.place(request.param) as place:
        yield place


@pytest.fixture
async def index(place: indexes.Place) -> AsyncIterator[Index]:
    index = await place.open(DIMENSIONS)
    yield index
    await index.close()


def make_point(text: str = "a text", **changes: Any) -> IndexPoint:
    facts: dict[str, Any] = {
        "id": new_id("chnk"),
        "tenant_id": TENANT,
        "document_id": new_id("adoc"),
        "chunk_index": 0,
        "url": "https://docs.example.com/a",
        "host": "docs.example.com",
        "domain": "example.com",
        "source": DocumentSource.CRAWL,
        "content_type": ChunkContentType.PROSE,
        "crawled_at": NOON,
        "since": NOON,
        "text": text,
        "vector": [1.0, 0.0, 0.0, 0.0],
        "stamp": secrets.token_hex(8),
    }
    return IndexPoint(**(facts | changes))


async def find_words(index: Index, text: str, where: SearchFilter = EVERYTHING, **more: Any) -> list[str]:
    hits = await index.search_keywords(KeywordQuery(text=text, **more), where, 100)
    return [hit.chunk_id for hit in hits]


async def found_by_all(index: Index, where: SearchFilter) -> set[str]:
    """What a filter lets through, which both searches and the count must agree on."""
    vector = {hit.chunk_id for hit in await index.search_vector([1.0, 0.0, 0.0, 0.0], where, 100)}
    words = set(await find_words(index, "text", where))
    assert vector == words
    assert await index.count(where) == len(words)
    return words


async def test_a_new_index_is_empty(index: Index) -> None:
    assert index.dimensions == DIMENSIONS
    assert await index.search_vector([1.0, 0.0, 0.0, 0.0], EVERYTHING, 10) == []
    assert await find_words(index, "anything") == []
    assert await index.count(EVERYTHING) == 0
    assert [each async for each in index.scan()] == []
    assert await index.stamps(TENANT, new_id("adoc")) == {}
    await index.check()
    await index.optimize()


async def test_the_nearest_come_first_with_their_cosine(index: Index) -> None:
    near = make_point(vector=[1.0, 0.0, 0.0, 0.0])
    between = make_point(vector=[0.6, 0.8, 0.0, 0.0])
    far = make_point(vector=[-1.0, 0.0, 0.0, 0.0])
    await index.upsert([far, near, between])

    hits = await index.search_vector([1.0, 0.0, 0.0, 0.0], EVERYTHING, 10)

    assert [hit.chunk_id for hit in hits] == [near.id, between.id, far.id]
    assert [hit.document_id for hit in hits] == [near.document_id, between.document_id, far.document_id]
    assert [hit.score for hit in hits] == pytest.approx([1.0, 0.6, -1.0], abs=1e-3)
    assert [hit.chunk_id for hit in await index.search_vector([1.0, 0.0, 0.0, 0.0], EVERYTHING, 1)] == [near.id]


async def test_rare_words_and_titles_count_more(index: Index) -> None:
    common = [make_point(f"the server answered request {number}") for number in range(20)]
    rare = make_point("the server met a quokka")
    titled = make_point("the server met nobody", title="Quokka")
    await index.upsert([*common, rare, titled])

    hits = await index.search_keywords(KeywordQuery(text="server quokka"), EVERYTHING, 10)

    assert [hit.chunk_id for hit in hits[:2]] == [titled.id, rare.id]
    assert all(isinstance(hit, Hit) and hit.score > 0 for hit in hits)
    assert sorted((hit.score for hit in hits), reverse=True) == [hit.score for hit in hits]
    assert hits[1].score > hits[2].score * 2
    assert hits[0].document_id == titled.document_id


async def test_scores_are_bm25_among_the_tenants_own_chunks(index: Index) -> None:
    chance = random.Random(5)
    words = ["owl", "heron", "falcon", "kite", "swift", "wren", "the"]
    texts = [" ".join(chance.choices(words[: 2 + number % 6], k=3 + number)) for number in range(25)]
    points = [make_point(text, title="Wren" if number % 9 == 0 else None) for number, text in enumerate(texts)]
    await index.upsert([*points, *(make_point("owl owl wren", tenant_id=new_id("ten")) for _ in range(40))])
    weights = {point.id: document_terms(point.text, point.title, None, None) for point in points}

    def expected(chunk_id: str) -> float:
        score = 0.0
        for term in ("falcon", "wren", "owl"):
            holders = sum(term in terms for terms in weights.values())
            score += weights[chunk_id].get(term, 0.0) * inverse_frequency(holders, len(points))
        return score

    hits = await index.search_keywords(KeywordQuery(text="falcons owl wrens"), EVERYTHING, 100)

    assert len(hits) == sum(expected(point.id) > 0 for point in points)
    assert [hit.score for hit in hits] == pytest.approx([expected(hit.chunk_id) for hit in hits], rel=1e-3)


@pytest.mark.parametrize("limit", [20, 100])
async def test_a_word_that_nearly_all_have_counts_for_as_little_as_it_should(index: Index, limit: int) -> None:
    texts = ["common"] * 2_100 + ["rare"] * 30 + ["rare common"] * 30
    await index.upsert([make_point(text) for text in texts])
    frequencies = {"rare": 60, "common": 2_130}

    def expected(text: str) -> float:
        terms = document_terms(text, None, None, None)
        return sum(terms.get(term, 0.0) * inverse_frequency(number, 2_160) for term, number in frequencies.items())

    hits = await index.search_keywords(KeywordQuery(text="common rare"), EVERYTHING, limit)

    assert [hit.score for hit in hits] == pytest.approx(sorted(map(expected, texts), reverse=True)[:limit], rel=1e-3)


async def test_section_headers_are_found(index: Index) -> None:
    point = make_point("Nothing to see here.", section_header="Installation > Windows")
    await index.upsert([point])

    assert await find_words(index, "installing on windows") == [point.id]


async def test_writing_twice_is_writing_once(index: Index) -> None:
    points = [make_point(f"text {number}") for number in range(5)]
    await index.upsert(points)
    await index.upsert(points)

    assert await found_by_all(index, EVERYTHING) == {point.id for point in points}
    assert sorted([each.id async for each in index.scan()]) == sorted(point.id for point in points)


async def test_a_point_replaces_the_one_with_its_id(index: Index) -> None:
    first = make_point("text about falcons", collection_id=new_id("coll"))
    second = make_point("text about herons", id=first.id, document_id=first.document_id, vector=[0.0, 1.0, 0.0, 0.0])
    await index.upsert([first])
    await index.upsert([second])

    assert await find_words(index, "falcons") == []
    assert await find_words(index, "herons") == [first.id]
    (found,) = await index.search_vector([0.0, 1.0, 0.0, 0.0], EVERYTHING, 5)
    assert found[:3] == (first.id, first.document_id, pytest.approx(1.0, abs=1e-3))
    assert await index.count(SearchFilter(tenant_id=TENANT, collection_ids=(first.collection_id or "",))) == 0
    assert await index.stamps(TENANT, first.document_id) == {first.id: second.stamp}


async def test_hits_tell_how_many_words_they_have(index: Index) -> None:
    short, long = make_point("falcons falcons dive"), make_point("falcons and herons and owls and wrens meet")
    await index.upsert([short, long])

    told = {hit.chunk_id: hit.terms for hit in await index.search_vector([1.0, 0.0, 0.0, 0.0], EVERYTHING, 5)}

    assert told == {short.id: len(words_of(short)[0]), long.id: len(words_of(long)[0])}


async def test_what_words_find_tells_how_near_it_is(index: Index) -> None:
    points = [make_point("falcons", vector=vector) for vector in ([1.0, 0.0, 0.0, 0.0], [0.6, 0.8, 0.0, 0.0])]
    await index.upsert([*points, make_point("herons")])
    query = KeywordQuery(text="falcons")

    hits = await index.search_keywords(query, EVERYTHING, 5, [0.0, 2.0, 0.0, 0.0])
    untold = await index.search_keywords(query, EVERYTHING, 5)

    assert {hit.chunk_id: hit.cosine for hit in hits} == {
        points[0].id: pytest.approx(0.0, abs=1e-3),
        points[1].id: pytest.approx(0.8, abs=1e-3),
    }
    assert [hit[:3] for hit in untold] == [hit[:3] for hit in hits]
    assert {hit.cosine for hit in untold} == {None}


async def test_the_last_of_two_points_with_one_id_wins(index: Index) -> None:
    first = make_point("text about falcons")
    second = make_point("text about herons", id=first.id, document_id=first.document_id)
    await index.upsert([first, second])

    assert await find_words(index, "falcons") == []
    assert await index.stamps(TENANT, first.document_id) == {first.id: second.stamp}


async def test_deleting_twice_is_deleting_once(index: Index) -> None:
    kept, gone = make_point(), make_point()
    await index.upsert([kept, gone])
    await index.delete([gone.id, new_id("chnk")])
    await index.delete([gone.id])
    await index.delete([])

    assert await found_by_all(index, EVERYTHING) == {kept.id}
    assert await index.stamps(TENANT, gone.document_id) == {}


async def test_stamps_and_scan_tell_every_point(index: Index) -> None:
    document = new_id("adoc")
    points = [make_point(document_id=document, chunk_index=number) for number in range(3)]
    other = make_point()
    await index.upsert([*points, other])

    assert await index.stamps(TENANT, document) == {point.id: point.stamp for point in points}
    assert await index.stamps(new_id("ten"), document) == {}
    assert {each async for each in index.scan()} == {
        (point.id, TENANT, point.document_id, point.stamp) for point in [*points, other]
    }


async def test_scan_goes_through_more_than_one_page(index: Index) -> None:
    points = [make_point() for _ in range(1_200)]
    await index.upsert(points)

    found = [each.id async for each in index.scan()]

    assert len(found) == 1_200
    assert set(found) == {point.id for point in points}
    assert await index.count(EVERYTHING) == 1_200


async def test_tenants_do_not_see_each_other(index: Index) -> None:
    ours = make_point()
    theirs = make_point(tenant_id=new_id("ten"), document_id=ours.document_id)
    await index.upsert([ours, theirs])

    assert await found_by_all(index, EVERYTHING) == {ours.id}
    assert await found_by_all(index, SearchFilter(tenant_id=theirs.tenant_id)) == {theirs.id}
    assert await found_by_all(index, SearchFilter(tenant_id=new_id("ten"))) == set()
    assert await index.stamps(TENANT, ours.document_id) == {ours.id: ours.stamp}


COLLECTION, TAG, DOCUMENT = new_id("coll"), new_id("tag"), new_id("adoc")


@pytest.mark.parametrize(
    ("facts", "conditions"),
    [
        ({"collection_id": COLLECTION}, {"collection_ids": (COLLECTION,)}),
        ({"collection_id": COLLECTION}, {"collection_ids": (new_id("coll"), COLLECTION)}),
        ({"document_id": DOCUMENT}, {"document_ids": (DOCUMENT,)}),
        ({"tags": (new_id("tag"), TAG)}, {"tag_ids": (TAG, new_id("tag"))}),
        ({"host": "wiki.other.org", "domain": "other.org"}, {"hosts": ("wiki.other.org",)}),
        ({"host": "wiki.other.org", "domain": "other.org"}, {"hosts": ("other.org", "third.org")}),
        ({"host": "wiki.other.org", "domain": "other.org"}, {"excluded_hosts": ("docs.example.com",)}),
        ({"host": "wiki.other.org", "domain": "other.org"}, {"excluded_hosts": ("example.com", "third.org")}),
        ({"source": DocumentSource.UPLOAD}, {"sources": (DocumentSource.UPLOAD, DocumentSource.API)}),
        ({"language": "de"}, {"languages": ("de", "fr")}),
        ({"content_type": ChunkContentType.TABLE}, {"content_types": (ChunkContentType.TABLE,)}),
        ({"crawled_at": NOON + timedelta(days=1)}, {"crawled_from": NOON + timedelta(days=1)}),
        ({"crawled_at": NOON - timedelta(days=1)}, {"crawled_to": NOON - timedelta(days=1)}),
        (
            {"crawled_at": NOON + timedelta(microseconds=1)},
            {"crawled_from": NOON + timedelta(microseconds=1), "crawled_to": NOON + timedelta(microseconds=1)},
        ),
    ],
)
async def test_a_filter_lets_only_its_own_through(index: Index, facts: Any, conditions: Any) -> None:
    wanted = make_point(**facts)
    await index.upsert([wanted, make_point(), make_point()])

    assert await found_by_all(index, SearchFilter(tenant_id=TENANT, **conditions)) == {wanted.id}


async def test_filters_are_joined_by_and(index: Index) -> None:
    both = make_point(collection_id=COLLECTION, tags=(TAG,))
    await index.upsert([both, make_point(collection_id=COLLECTION), make_point(tags=(TAG,))])
    where = SearchFilter(tenant_id=TENANT, collection_ids=(COLLECTION,), tag_ids=(TAG,))

    assert await found_by_all(index, where) == {both.id}


async def test_a_date_asks_for_what_was_the_content_then(index: Index) -> None:
    hour = timedelta(hours=1)
    old = make_point(since=NOON, until=NOON + hour)
    new = make_point(since=NOON + hour)
    await index.upsert([old, new])

    async def at(moment: datetime) -> set[str]:
        return await found_by_all(index, SearchFilter(tenant_id=TENANT, as_of=moment))

    assert await found_by_all(index, EVERYTHING) == {new.id}
    assert await at(NOON - hour) == set()
    assert await at(NOON) == {old.id}
    assert await at(NOON + hour - timedelta(microseconds=1)) == {old.id}
    assert await at(NOON + hour) == {new.id}
    assert await at(NOON + 1000 * hour) == {new.id}


async def test_a_narrow_filter_finds_what_is_far_from_the_query(index: Index) -> None:
    crowd = [make_point(vector=[1.0, 0.0, 0.0, 0.0]) for _ in range(600)]
    alone = make_point(collection_id=COLLECTION, vector=[0.0, 0.0, 0.0, 1.0])
    await index.upsert([*crowd, alone])
    where = SearchFilter(tenant_id=TENANT, collection_ids=(COLLECTION,))

    hits = await index.search_vector([1.0, 0.0, 0.0, 0.0], where, 10)

    assert [hit.chunk_id for hit in hits] == [alone.id]


async def test_a_phrase_needs_all_its_words(index: Index) -> None:
    both = make_point("the red kite flies over the valley")
    one = make_point("a red valley")
    await index.upsert([both, one, make_point("nothing of that")])

    assert await find_words(index, "valley", phrases=("red kite",)) == [both.id]
    assert await find_words(index, "", phrases=("red kites",)) == [both.id]
    assert await find_words(index, "valley", phrases=("red kite", "blue heron")) == []
    assert await find_words(index, "mountain", phrases=("red kite",)) == []
    assert set(await find_words(index, "kite valley", phrases=("red",))) == {both.id, one.id}


async def test_a_phrase_of_common_words_is_found_among_many(index: Index) -> None:
    crowd = [make_point("green house" if number % 2 else "green garden house") for number in range(2_400)]
    crowd += [make_point("green only") for _ in range(300)]
    await index.upsert(crowd)

    hits = await index.search_keywords(KeywordQuery(text="", phrases=("green house",)), EVERYTHING, 5_000)

    assert {hit.chunk_id for hit in hits} == {point.id for point in crowd[:2_400]}


async def test_excluded_words_are_not_in_any_hit(index: Index) -> None:
    plain = make_point("jaguar in the forest")
    car = make_point("jaguar cars, fast")
    tool = make_point("jaguar node.js package")
    await index.upsert([plain, car, tool])

    assert set(await find_words(index, "jaguar")) == {plain.id, car.id, tool.id}
    assert set(await find_words(index, "jaguar", excluded=("car",))) == {plain.id, tool.id}
    assert set(await find_words(index, "jaguar", excluded=("node.js", "cars"))) == {plain.id}
    assert set(await find_words(index, "jaguar forest", excluded=("node",))) == {plain.id, car.id}
    assert await find_words(index, "jaguar", excluded=("jaguar",)) == []


async def test_an_excluded_word_that_nearly_all_have_still_excludes(index: Index) -> None:
    common = [make_point("alpha beta gamma") for _ in range(50)]
    alone = make_point("alpha")
    await index.upsert([*common, alone])

    assert await find_words(index, "alpha", excluded=("gamma",)) == [alone.id]


async def test_words_are_stemmed_by_the_language_of_their_text(index: Index) -> None:
    english = make_point("Running servers are monitored", language="en")
    german = make_point("Die Häuser am Fluss", language="de")
    russian = make_point("Новые книги", language="ru")
    await index.upsert([english, german, russian])

    assert await find_words(index, "server monitoring") == [english.id]
    assert await find_words(index, "haus", languages=("de",)) == [german.id]
    assert await find_words(index, "hausern", languages=("en", "de")) == [german.id]
    assert await find_words(index, "книга", languages=("ru",)) == [russian.id]
    assert await find_words(index, "haus server", languages=("en", "de")) != []


async def test_every_script_can_be_searched(index: Index) -> None:
    texts = {
        "東京": "私は東京タワーに行きました",
        "猫": "黒猫がいる",
        "การค้นหา": "ระบบการค้นหาเอกสาร",
        "한국어": "한국어를 배웁니다",
        "שלום": "אמר שלום לכולם",
        "المكتبة": "ذهبت إلى المكتبة",
        "हिन्दी": "हिन्दी भाषा",
        "cafe": "Ein Café in Zürich",
        "nodejs": "Written for Node.js and CamelCaseNames",
        "camel": "The camelCase convention",
    }
    points = {query: make_point(text) for query, text in texts.items()}
    await index.upsert(list(points.values()))

    for query, point in points.items():
        assert point.id in await find_words(index, query), query
    assert await find_words(index, "京都") == []
    assert await find_words(index, "東京タワー", excluded=("東京タワー",)) == []
    assert await find_words(index, "猫 東京", excluded=("東京タワー",)) == [points["猫"].id]


@pytest.mark.parametrize("text", ["", "   ", "👍🏽🎉", "!!! ??? ---", "\x00\x00", "\ud800", "***"])
async def test_a_query_without_words_finds_nothing(index: Index, text: str) -> None:
    await index.upsert([make_point()])

    assert await find_words(index, text) == []
    assert await find_words(index, text, phrases=(text,), excluded=(text,)) == []


async def test_hostile_text_is_indexed_and_the_rest_of_it_found(index: Index) -> None:
    points = [
        make_point("needle \x00 \ud800 end", title="\x00\ud800", section_header="\ud83d", stamp="s\x00"),
        make_point("needle " + "x" * 200_000),
        make_point("needle " + "a.b-" * 20_000),
        make_point("👍" * 1_000 + " needle"),
        make_point("needle" + " عربي" * 100, language="xx-invalid\x00"),
    ]
    await index.upsert(points)

    assert set(await find_words(index, "needle")) == {point.id for point in points}
    assert await find_words(index, "'; DROP TABLE points; -- needle & | ! ( :* <->") != []


async def test_a_vector_of_other_dimensions_is_refused(index: Index) -> None:
    with pytest.raises(InvalidRequest, match=r"3 dimensions.* 4"):
        await index.upsert([make_point(), make_point(vector=[1.0, 0.0, 0.0])])
    with pytest.raises(InvalidRequest, match=r"5 dimensions.* 4"):
        await index.search_vector([1.0] * 5, EVERYTHING, 5)
    assert await index.count(EVERYTHING) == 0


async def test_an_id_that_is_not_one_is_refused(index: Index) -> None:
    with pytest.raises(InvalidRequest):
        await index.upsert([make_point(id="not-an-id")])
    with pytest.raises(InvalidRequest):
        await index.delete(["not-an-id"])


async def test_what_was_written_is_there_after_reopening(place: indexes.Place) -> None:
    point = make_point("persistent text")
    first = await place.open(DIMENSIONS)
    await first.upsert([point])
    await first.close()
    second = await place.open(DIMENSIONS)

    assert await find_words(second, "persistent") == [point.id]
    assert await found_by_all(second, EVERYTHING) == {point.id}
    assert await second.stamps(TENANT, point.document_id) == {point.id: point.stamp}
    await second.close()


async def test_a_dropped_generation_is_empty_when_made_again(place: indexes.Place) -> None:
    first = await place.open(DIMENSIONS)
    await first.upsert([make_point()])
    await first.drop()
    second = await place.open(DIMENSIONS + 1)

    assert await second.count(EVERYTHING) == 0
    await second.close()


async def test_generations_do_not_see_each_other(place: indexes.Place) -> None:
    one = await place.open(DIMENSIONS)
    other = await place.open(2, "other-generation")
    await one.upsert([make_point()])
    await other.upsert([make_point(vector=[0.0, 1.0])])
    await other.drop()

    assert await one.count(EVERYTHING) == 1
    await one.close()


async def test_a_closed_index_says_so(place: indexes.Place) -> None:
    index = await place.open(DIMENSIONS)
    await index.close()
    await index.close()

    with pytest.raises(Unavailable):
        await index.count(EVERYTHING)


async def test_writes_and_reads_at_the_same_time_see_whole_points(index: Index) -> None:
    points = [make_point(f"text number {number}") for number in range(120)]

    async def write(part: int) -> None:
        for start in range(part, len(points), 40):
            await index.upsert(points[start : start + 10])
        await index.delete([point.id for point in points[part : part + 10 : 2]])

    async def read() -> None:
        for _ in range(15):
            for hit in await index.search_keywords(KeywordQuery(text="number"), EVERYTHING, 200):
                assert hit.document_id.startswith("adoc_")
            await index.search_vector([1.0, 0.0, 0.0, 0.0], EVERYTHING, 50)

    tasks: list[Callable[[], Awaitable[None]]] = [*(lambda part=part: write(part) for part in (0, 10, 20, 30)), read]  # type: ignore[misc]
    await asyncio.gather(*(task() for task in tasks), index.optimize(), read())

    gone = {point.id for part in (0, 10, 20, 30) for point in points[part : part + 10 : 2]}
    assert await found_by_all(index, EVERYTHING) == {point.id for point in points} - gone


async def test_what_is_written_is_found_at_once_and_optimizing_changes_no_answer(index: Index) -> None:
    points = [make_point(f"text {number}", vector=[1.0, number / 50, 0.0, 0.0]) for number in range(50)]
    for point in points:
        await index.upsert([point])
        assert await index.count(SearchFilter(tenant_id=TENANT, document_ids=(point.document_id,))) == 1
    before = await found_by_all(index, EVERYTHING)
    await index.optimize()

    assert await found_by_all(index, EVERYTHING) == before
