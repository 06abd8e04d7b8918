"""Documents and index stay one: through any order of changes, and however often the indexer dies."""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.library import Library, open_library

from scrubjay.errors import Conflict, NotFound
from scrubjay.index import fusion
from scrubjay.index.fusion import FusionOptions
from scrubjay.model.content import DocumentStatus, IngestOutcome
from scrubjay.model.search import SearchFilter, SearchMode, SearchRequest
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings
from scrubjay.storage.chunks import Chunks
from scrubjay.storage.documents import DocumentRow, Documents

# The client's own imitation of a Qdrant says so about every payload index.
pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect in the local Qdrant")
ENGINES = ["edge", "qdrant", pytest.param("postgres", marks=pytest.mark.postgres)]
STEPS = 24
WORDS = ["acorn", "jay", "oak", "cache", "winter", "memory", "feather", "branch", "seed", "forest", "hide", "seek"]


@pytest.fixture(params=ENGINES)
async def library(request: pytest.FixtureRequest, settings: Settings, backend: str) -> AsyncIterator[Library]:
    """Each engine beside the database that it is used with; the index in PostgreSQL beside both."""
    if backend == "postgres" and request.param != "postgres":
        pytest.skip("this engine is tried beside SQLite")
    async with open_library(settings, request.param) as library:
        yield library


@pytest.fixture
async def edge(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings) as library:
        yield library


@dataclass
class Expected:
    """What a tenant should have, by address: the text, and whether it is deleted."""

    texts: dict[str, str] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)


class Mischief:
    """Does one thing after the other to a tenant's documents, and keeps account of what should be."""

    def __init__(self, library: Library, who: Principal, chance: random.Random) -> None:
        self.library = library
        self.who = who
        self.chance = chance
        self.expected = Expected()
        self.done: list[str] = []

    def text(self) -> str:
        words = [self.chance.choice(WORDS) for _ in range(self.chance.randrange(5, 60))]
        return f"# {words[0]}\n\n{' '.join(words)}. Number {self.chance.randrange(10**6)}."

    async def step(self) -> None:
        verbs: list[Callable[[], Any]] = [self.put, self.put, self.delete, self.restore, self.tag, self.purge]
        verbs += [self.index, self.crash, self.crash]
        verb = self.chance.choice(verbs)
        self.done.append(verb.__name__)
        await verb()

    def some_url(self) -> str | None:
        return self.chance.choice(sorted(self.expected.texts)) if self.expected.texts else None

    async def put(self) -> None:
        url = f"https://example.org/{self.chance.randrange(6)}"
        text = self.chance.choice([self.text(), *self.expected.texts.values()])
        with suppress(Conflict):  # it is being removed, and comes back later
            ingested = await self.library.add(self.who, url, text)
            self.expected.texts[url], self.expected.ids[url] = text, ingested.document_id
            self.expected.deleted.discard(url)

    async def delete(self) -> None:
        if url := self.some_url():
            await self.library.documents.delete(self.who, self.expected.ids[url])
            self.expected.deleted.add(url)

    async def restore(self) -> None:
        if self.expected.deleted:
            url = self.chance.choice(sorted(self.expected.deleted))
            await self.library.documents.restore(self.who, self.expected.ids[url])
            self.expected.deleted.discard(url)

    async def tag(self) -> None:
        if url := self.some_url():
            await self.library.documents.tag(self.who, self.expected.ids[url], [self.chance.choice(WORDS)])

    async def purge(self) -> None:
        if (url := self.some_url()) and self.chance.random() < 0.3:
            await self.library.documents.purge(self.who, [self.expected.ids.pop(url)])
            del self.expected.texts[url]
            self.expected.deleted.discard(url)

    async def index(self) -> None:
        await self.library.indexer.step()

    async def crash(self) -> None:
        await self.library.die_while_indexing(self.chance.randrange(8), after=self.chance.random() < 0.5)


async def check(library: Library, mischief: Mischief) -> None:
    story = ", ".join(mischief.done)
    expected, tenant_id = mischief.expected, mischief.who.tenant_id
    differences = await library.settle()
    assert differences.none, f"{differences.describe()} after {story}"
    async with library.database.reading() as connection:
        found = await Documents(connection).page(DocumentRow.tenant_id == tenant_id)
        chunks = [
            chunk
            for document in found.items
            if document.deleted_at is None
            for chunk in await Chunks(connection).of_document(document.id, version=document.version)
        ]
    assert {document.url: document.deleted_at is not None for document in found.items} == {
        url: url in expected.deleted for url in expected.texts
    }, story
    for document in found.items:
        assert document.status is DocumentStatus.COMPLETED
        _, content = await library.documents.content(mischief.who, document.id)
        assert content == expected.texts[document.url], story
        for chunk in await library.documents.chunks(mischief.who, document.id):
            assert content[chunk.start_char : chunk.end_char] == chunk.content
    assert await library.index.count(SearchFilter(tenant_id=tenant_id)) == len(chunks), story


@pytest.mark.parametrize("seed", range(4))
async def test_any_interleaving_of_changes_and_crashes_leaves_documents_and_index_equal(
    library: Library, seed: int
) -> None:
    chance = random.Random(seed)
    tenants = [Mischief(library, await library.tenant(name), chance) for name in ("one", "two")]
    for _ in range(STEPS):
        await chance.choice(tenants).step()
    for mischief in tenants:
        await check(library, mischief)


async def test_a_difference_made_by_hand_is_found_and_repaired(library: Library) -> None:
    who = await library.tenant("tenant")
    ids = [
        (await library.add(who, f"https://example.org/{n}", f"# {n}\n\nAn acorn of oak {n}.")).document_id
        for n in range(3)
    ]
    assert (await library.settle()).none
    chunks = [(await library.documents.chunks(who, each))[0] for each in ids]
    await library.index.delete([chunks[0].id])
    async with library.database.writing() as connection:  # a row that the index never heard of
        await Chunks(connection).update(who.tenant_id, chunks[1].id, section_header="changed by hand")
        await Chunks(connection).remove_version(ids[2], 1)
    found = await library.consistency.repair()
    assert (found.missing, found.different, found.extra) == (1, 1, [chunks[2].id])
    assert (await library.settle()).none


async def test_what_is_half_indexed_is_never_found(edge: Library) -> None:
    who = await edge.tenant("tenant")
    await edge.add(who, "https://example.org/a", "# Old\n\nAn acorn under the oak.")
    await edge.settle()
    await edge.add(who, "https://example.org/a", "# New\n\nA feather in winter.")
    for calls in range(4):
        died = await edge.die_while_indexing(calls, after=calls % 2 == 0)
        answer = await edge.search.search(who, SearchRequest(query="acorn feather", mode=SearchMode.KEYWORD))
        assert len({result.title for result in answer.results}) <= 1
        if not died:
            break
    await edge.settle()
    answer = await edge.search.search(who, SearchRequest(query="acorn feather", mode=SearchMode.KEYWORD))
    assert [result.content for result in answer.results] == ["# New\n\nA feather in winter."]


async def test_the_same_content_again_changes_nothing_but_the_tags(edge: Library) -> None:
    who = await edge.tenant("tenant")
    first = await edge.add(who, "https://example.org/a", "# Jay\n\nAn acorn.", tags=("one",))
    again = await edge.add(who, "https://Example.org:443/a#part", "# Jay\n\nAn acorn.", tags=("two",))
    assert (again.document_id, again.outcome, again.version) == (first.document_id, IngestOutcome.UNCHANGED, 1)
    tags = await edge.documents.tags_of(who, [first.document_id])
    assert [tag.name for tag in tags[first.document_id]] == ["one", "two"]


async def test_the_same_content_elsewhere_is_a_duplicate_and_found_once(edge: Library) -> None:
    who = await edge.tenant("tenant")
    first = await edge.add(who, "https://example.org/a", "# Jay\n\nAn acorn.")
    second = await edge.add(who, "https://example.org/b", "# Jay\n\nAn acorn.")
    await edge.settle()
    document = await edge.document(second.document_id)
    assert document is not None
    assert document.duplicate_of == first.document_id
    answer = await edge.search.search(who, SearchRequest(query="acorn"))
    assert [result.url for result in answer.results] == ["https://example.org/a"]
    await edge.documents.delete(who, first.document_id)
    await edge.settle()
    answer = await edge.search.search(who, SearchRequest(query="acorn"))
    assert [result.url for result in answer.results] == ["https://example.org/b"]


async def test_a_text_is_embedded_once_across_versions_documents_and_tenants(
    edge: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = await edge.catalog.wanted_embedder()
    embedded: list[str] = []
    embed = embedder.embed

    async def counted(texts: list[str]) -> Any:
        embedded.extend(texts)
        return await embed(texts)

    monkeypatch.setattr(embedder, "embed", counted)
    long = "# Jay\n\n" + "\n\n".join(f"## Part {n}\n\n" + f"Acorn number {n} lies here. " * 30 for n in range(4))
    one, two = await edge.tenant("one"), await edge.tenant("two")
    await edge.add(one, "https://example.org/a", long)
    await edge.settle()
    before = len(embedded)
    assert before >= 4
    await edge.add(one, "https://example.org/a", long.replace("Acorn number 3", "Seed number 3"))
    await edge.add(one, "https://example.org/b", long)
    await edge.add(two, "https://example.org/a", long)
    await edge.settle()
    assert len(embedded) - before == 1
    assert len(set(embedded)) == len(embedded)


async def test_versions_can_be_read_compared_and_searched_as_of_a_moment(edge: Library) -> None:
    who = await edge.tenant("tenant")
    made = await edge.add(who, "https://example.org/a", "# Jay\n\nAn acorn.\n\nSame.")
    await edge.settle()
    [first] = await edge.documents.versions(who, made.document_id)
    await edge.add(who, "https://example.org/a", "# Jay\n\nA feather.\n\nSame.")
    await edge.settle()
    assert (await edge.documents.content(who, made.document_id, as_of=first.created_at))[1].count("acorn") == 1
    diff = await edge.documents.diff(who, made.document_id)
    assert (diff.from_version, diff.to_version, diff.added_lines, diff.removed_lines) == (1, 2, 1, 1)
    assert "-An acorn." in diff.unified
    then = SearchRequest(query="acorn", mode=SearchMode.KEYWORD, as_of=first.created_at)
    assert [result.content for result in (await edge.search.search(who, then)).results] == [
        "# Jay\n\nAn acorn.\n\nSame."
    ]
    now = SearchRequest(query="acorn", mode=SearchMode.KEYWORD)
    assert (await edge.search.search(who, now)).results == ()


async def test_purging_leaves_nothing_behind(edge: Library) -> None:
    who = await edge.tenant("tenant")
    stored = await edge.blobs.put(b"the original")
    made = await edge.add(
        who, "https://example.org/a", "# Jay\n\nAn acorn." + " Words." * 200_000, original_sha256=stored.sha256
    )
    await edge.settle()
    await edge.documents.purge(who, [made.document_id])
    with pytest.raises(NotFound):
        await edge.documents.get(who, made.document_id)
    await edge.settle()
    assert [blob async for blob in edge.blobs.list()] == []
    assert [point async for point in edge.index.scan()] == []
    assert await edge.document(made.document_id) is None


async def test_a_document_without_text_fails_and_says_why(edge: Library) -> None:
    who = await edge.tenant("tenant")
    ingested = await edge.add(who, "https://example.org/empty", " \n\t\n ")
    assert ingested.outcome is IngestOutcome.FAILED
    log = await edge.documents.log(who, ingested.document_id)
    assert [(line.level, line.message) for line in log] == [("ERROR", "There is no text in it.")]


async def test_reading_the_same_content_again_ends_as_completed(edge: Library) -> None:
    who = await edge.tenant("tenant")
    made = await edge.add(who, "https://example.org/a", "# Jay\n\nAn acorn.")
    await edge.settle()
    async with edge.database.writing() as connection:
        await Documents(connection).update(who.tenant_id, made.document_id, status=DocumentStatus.PROCESSING)
    await edge.add(who, "https://example.org/a", "# Jay\n\nAn acorn.")
    document = await edge.document(made.document_id)
    assert document is not None
    assert document.status is DocumentStatus.COMPLETED


@pytest.mark.parametrize("mode", SearchMode)
async def test_excluded_words_are_in_no_result_whichever_way_it_was_found(edge: Library, mode: SearchMode) -> None:
    who = await edge.tenant("tenant")
    await edge.add(who, "https://example.org/a", "# Jay\n\nThe jay hides an acorn under leaves.")
    await edge.add(who, "https://example.org/b", "# Crow\n\nThe crow hides a walnut under leaves.")
    await edge.settle()
    answer = await edge.search.search(who, SearchRequest(query="hides under leaves -walnuts", mode=mode))
    assert [result.title or result.url for result in answer.results] == ["https://example.org/a"]


async def test_both_halves_tell_what_their_fusion_weighs(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    who = await library.tenant("tenant")
    await library.add(who, "https://example.org/a", "# Jay\n\nThe jay hides an acorn under leaves.")
    await library.settle()
    fused: list[tuple[Any, Any]] = []

    def fuse(vector: Any, keyword: Any, options: FusionOptions) -> Any:
        fused.append((vector, keyword))
        return fusion.fuse(vector, keyword, options)

    monkeypatch.setattr("scrubjay.services.search.fuse", fuse)
    await library.search.search(who, SearchRequest(query="jay acorn"))
    await library.search.search(who, SearchRequest(query="jay acorn", mode=SearchMode.KEYWORD))

    ((near,), (worded,)), (none, (alone,)) = fused
    assert near.terms
    assert worded.cosine == pytest.approx(near.score, abs=1e-3)
    assert (list(none), alone.cosine) == ([], None)
