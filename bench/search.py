"""How fast each index engine takes and finds chunks, beside the bare engine in the same run.

Chunks are words drawn from topics over a Zipf vocabulary. A document has several, topics lie near each other in fields,
and vectors lie around all of these, so that words and vectors both mean something, and the next best of what a filter
leaves is not far. Ours and the bare engine answer the same queries in turn, so that a noisy machine is
equally unfair to both: read the ratios.
"""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from scrubjay.index import edge
from scrubjay.index.index import Index
from scrubjay.index.opening import open_index
from scrubjay.model.content import ChunkContentType, DocumentSource
from scrubjay.model.ids import new_id
from scrubjay.model.search import IndexPoint, KeywordQuery, SearchFilter

DIMENSIONS = 256
VOCABULARY = 50_000
FIELDS = 40
TOPICS = 1_000
CHUNKS_PER_DOCUMENT = 8
APART = 0.7  # how far topics lie around their field, documents around their topic, and chunks around their document
BATCH = 256
WARM_UP = 20
NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SYLLABLES = [first + second for first in "bdfgklmnprst" for second in "aeiou"]

Ask = Callable[["Question"], Awaitable[Any]]


@dataclass(frozen=True)
class Question:
    words: str
    vector: list[float]


@dataclass
class World:
    """A corpus that is the same in every run."""

    chunks: int
    limit: int
    tenant: str = field(default_factory=lambda: new_id("ten"))
    collections: list[str] = field(default_factory=lambda: [new_id("coll") for _ in range(10)])

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(7)
        self._words = _make_words(VOCABULARY)
        common = 1 / np.arange(3, VOCABULARY + 3)
        self._common = np.cumsum(common / common.sum())
        self._topics = self._random.integers(200, VOCABULARY, size=(TOPICS, 300))
        fields = self._random.normal(size=(FIELDS, DIMENSIONS))
        self._centres = fields[self._random.integers(FIELDS, size=TOPICS)] + self._drift(TOPICS)

    def points(self, start: int, number: int) -> list[IndexPoint]:
        return [self._point(at) for at in range(start, start + number)]

    def _point(self, at: int) -> IndexPoint:
        page, place = divmod(at, CHUNKS_PER_DOCUMENT)
        if place == 0:
            self._topic = int(self._random.integers(TOPICS))
            self._document = new_id("adoc")
            self._centre = self._centres[self._topic] + self._drift(1)[0]
        length = int(self._random.integers(80, 280))
        drawn = np.searchsorted(self._common, self._random.random(length))
        of_topic = self._random.random(length) < 0.35
        drawn[of_topic] = self._topics[self._topic][(self._random.random(int(of_topic.sum())) ** 2 * 300).astype(int)]
        return IndexPoint(
            id=new_id("chnk"),
            tenant_id=self.tenant,
            document_id=self._document,
            chunk_index=place,
            url=f"https://site{page % 50}.example.com/{page}",
            host=f"site{page % 50}.example.com",
            domain="example.com",
            source=DocumentSource.CRAWL,
            content_type=ChunkContentType.PROSE,
            crawled_at=NOON,
            since=NOON,
            collection_id=self.collections[page % len(self.collections)],
            language="en",
            title=" ".join(self._words[word] for word in self._topics[self._topic][:3]),
            text=" ".join(self._words[word] for word in drawn),
            vector=_unit(self._centre + self._drift(1)[0]),
            stamp=str(at),
        )

    def questions(self, number: int) -> list[Question]:
        chance = random.Random(11)
        made = []
        for _ in range(number):
            topic = chance.randrange(TOPICS)
            words = [self._words[self._topics[topic][int(chance.random() ** 2 * 300)]] for _ in range(3)]
            words.append(self._words[chance.randrange(100)])
            made.append(Question(" ".join(words), _unit(self._centres[topic] + self._drift(1)[0])))
        return made

    def _drift(self, number: int) -> Any:
        return self._random.normal(size=(number, DIMENSIONS)) * APART

    @property
    def everything(self) -> SearchFilter:
        return SearchFilter(tenant_id=self.tenant)

    @property
    def one_tenth(self) -> SearchFilter:
        return SearchFilter(tenant_id=self.tenant, collection_ids=(self.collections[0],), languages=("en", "de"))


def _unit(vector: Any) -> list[float]:
    found: list[float] = (vector / np.linalg.norm(vector)).tolist()
    return found


def _make_words(number: int) -> list[str]:
    chance = random.Random(3)
    words: dict[str, None] = {}
    while len(words) < number:
        words["".join(chance.choice(SYLLABLES) for _ in range(chance.randint(2, 5)))] = None
    return list(words)


@dataclass
class Bare:
    """The same engine on the same data, asked without us."""

    vector: Ask
    keywords: Ask
    memory_mb: float = 0.0
    disk_mb: float = 0.0


def _searches(index: Index, where: SearchFilter, limit: int) -> dict[str, Ask]:
    async def vector(question: Question) -> Any:
        return await index.search_vector(question.vector, where, limit)

    async def keywords(question: Question) -> Any:
        return await index.search_keywords(KeywordQuery(text=question.words), where, limit)

    async def both(question: Question) -> Any:
        words = KeywordQuery(text=question.words)
        return await asyncio.gather(vector(question), index.search_keywords(words, where, limit, question.vector))

    return {"vector": vector, "keyword": keywords, "hybrid": both}


async def _time(asks: dict[str, Ask], questions: Sequence[Question]) -> dict[str, list[float]]:
    """Milliseconds of each question, all ways in turn; the first ones warm up and are not counted.

    The order changes with every question, since whoever asks the same last finds everything in the processor's cache.
    """
    taken: dict[str, list[float]] = {name: [] for name in asks}
    chance = random.Random(13)
    for number, question in enumerate([*questions[:WARM_UP], *questions]):
        for name, ask in chance.sample(sorted(asks.items()), len(asks)):
            started = time.perf_counter()
            await ask(question)
            if number >= WARM_UP:
                taken[name].append((time.perf_counter() - started) * 1000)
    return taken


def _percentiles(values: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(values)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.95)]


def _report(taken: dict[str, list[float]]) -> None:
    for name, values in taken.items():
        print(f"  {name:22} p50 {_percentiles(values)[0]:8.2f} ms   p95 {_percentiles(values)[1]:8.2f} ms")
    medians = {name: _percentiles(values)[0] for name, values in taken.items()}
    bare = medians["bare vector"] + medians["bare keyword"]
    print(f"  hybrid / bare vector + keyword: {medians['hybrid'] / bare:.2f}")
    for name in ("vector", "keyword", "hybrid"):
        print(f"  filtered / unfiltered {name}: {medians[f'{name}, filtered'] / medians[name]:.2f}")


async def _fill(index: Index, world: World) -> None:
    writing = 0.0
    for start in range(0, world.chunks, BATCH):
        points = world.points(start, min(BATCH, world.chunks - start))
        started = time.perf_counter()
        await index.upsert(points)
        writing += time.perf_counter() - started
    print(f"  indexing {world.chunks / writing:.0f} chunks/s")
    started = time.perf_counter()
    await index.optimize()
    print(f"  optimize {time.perf_counter() - started:.1f} s")


async def _measure(index: Index, bare: Bare, world: World, queries: int) -> None:
    asks = dict(_searches(index, world.everything, world.limit))
    asks |= {f"{name}, filtered": ask for name, ask in _searches(index, world.one_tenth, world.limit).items()}
    asks |= {"bare vector": bare.vector, "bare keyword": bare.keywords}
    _report(await _time(asks, world.questions(queries)))
    print(f"  memory {bare.memory_mb:.0f} MB   disk {bare.disk_mb:.0f} MB", flush=True)


async def bench_edge(world: World, queries: int) -> None:
    edge._UNOPTIMIZED_POINTS = 10**9  # one optimization at the end, so that it can be timed by itself
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name:
        folder = Path(name)
        index = await edge.EdgeIndex.open(folder / "ours", DIMENSIONS)
        await _fill(index, world)
        await index.close()
        shard = next((folder / "ours").glob("shard-*"))
        shutil.copytree(shard, folder / "bare")
        index = await edge.EdgeIndex.open(folder / "ours", DIMENSIONS)
        bare = _bare_edge(folder / "bare", world)
        bare.disk_mb = _disk_mb(folder / "ours")
        # What is mapped comes into memory.
        await _time(_searches(index, world.everything, world.limit), world.questions(50))
        bare.memory_mb = _resident_mb(index._process._process.pid)
        await _measure(index, bare, world, queries)
        await index.close()


def _bare_edge(path: Path, world: World) -> Bare:
    from qdrant_edge import EdgeShard, Query, QueryRequest, SparseVector

    from scrubjay.index.edge_schema import tenant_only
    from scrubjay.index.keywords import plan_keywords

    shard = EdgeShard.load(str(path))
    tenant = tenant_only(world.tenant)

    async def ask(query: Query) -> Any:
        request = QueryRequest(limit=world.limit, query=query, filter=tenant, with_payload=["document_id"])
        return shard.query(request)

    async def vector(question: Question) -> Any:
        return await ask(Query.Nearest(question.vector, using="dense"))

    async def keywords(question: Question) -> Any:
        indices, values = plan_keywords(KeywordQuery(text=question.words)).sparse
        return await ask(Query.Nearest(SparseVector(indices=indices, values=values), using="words"))

    return Bare(vector, keywords)


async def bench_postgres(world: World, queries: int) -> None:
    import asyncpg
    from tests import servers

    from scrubjay.settings import Settings
    from scrubjay.storage.database import open_database

    with servers.fresh_pgvector_database() as url:
        database = open_database(Settings(database_url=url))
        index = await open_index(
            url="postgresql", folder=Path(), generation="bench", dimensions=DIMENSIONS, database=database
        )
        await _fill(index, world)
        connection = await asyncpg.connect(url)
        await connection.execute(f"SET hnsw.ef_search = {world.limit}")  # with less it finds fewer than it is asked for
        bare = _bare_postgres(connection, world)
        bare.disk_mb = await connection.fetchval("SELECT pg_total_relation_size('index_bench')") / 1e6
        await _time(_searches(index, world.everything, world.limit), world.questions(50))
        await _let_learn(index, world)
        bare.memory_mb = _server_mb(await connection.fetchval("SELECT pg_backend_pid()"))
        await _measure(index, bare, world, queries)
        await connection.close()
        await index.close()
        await database.close()


async def _let_learn(index: Any, world: World) -> None:
    """Ask with a filter until there is a graph for it, as there is wherever people keep asking."""
    first = (await _time({"first": _searches(index, world.one_tenth, world.limit)["vector"]}, world.questions(15)))[
        "first"
    ]
    started = time.perf_counter()
    if index._background is not None:
        await index._background
    print(f"  filtered vector search before it has a graph: p50 {_percentiles(first)[0]:.2f} ms; ", end="")
    print(f"the graph is there after {time.perf_counter() - started:.1f} s")


def _bare_postgres(connection: Any, world: World) -> Bare:
    from scrubjay.index import postgres_schema
    from scrubjay.index.analysis import query_terms

    async def vector(question: Question) -> Any:
        query = f"""
            SELECT id, document_id, vector::halfvec({DIMENSIONS}) <=> $1::text::halfvec({DIMENSIONS}) AS distance
            FROM index_bench WHERE tenant_id = $2 ORDER BY distance LIMIT $3
        """
        return await connection.fetch(query, postgres_schema.vector_text(question.vector), world.tenant, world.limit)

    async def keywords(question: Question) -> Any:
        words = postgres_schema.any_of(form for word in query_terms(question.words) for form in word.scoring)
        query = """
            SELECT id, document_id, ts_rank_cd(words, q) AS score FROM index_bench, CAST($1::text AS tsquery) AS q
            WHERE words @@ q AND tenant_id = $2 ORDER BY score DESC LIMIT $3
        """
        return await connection.fetch(query, words, world.tenant, world.limit)

    return Bare(vector, keywords)


@asynccontextmanager
async def _qdrant_client() -> AsyncIterator[Any]:
    from qdrant_client import AsyncQdrantClient

    url = os.environ.get("SCRUBJAY_TEST_QDRANT_URL")
    client = AsyncQdrantClient(url=url) if url else AsyncQdrantClient(location=":memory:")
    print("  a server" if url else "  the client's imitation of a server: only the ratios say something")
    yield client
    await client.close()


async def bench_qdrant(world: World, queries: int) -> None:
    from scrubjay.index.qdrant import QdrantIndex

    async with _qdrant_client() as client:
        index = await QdrantIndex.open(client, "bench", DIMENSIONS)
        await _fill(index, world)
        await _measure(index, _bare_qdrant(client, world), world, queries)
        await index.drop()


def _bare_qdrant(client: Any, world: World) -> Bare:
    from qdrant_client import models

    from scrubjay.index.keywords import plan_keywords
    from scrubjay.index.qdrant_schema import tenant_only

    async def ask(query: Any, using: str) -> Any:
        tenant = tenant_only(world.tenant)
        return await client.query_points(
            "scrubjay_bench",
            query=query,
            using=using,
            query_filter=tenant,
            limit=world.limit,
            with_payload=["document_id"],
        )

    async def vector(question: Question) -> Any:
        return await ask(question.vector, "dense")

    async def keywords(question: Question) -> Any:
        indices, values = plan_keywords(KeywordQuery(text=question.words)).sparse
        return await ask(models.SparseVector(indices=indices, values=values), "words")

    return Bare(vector, keywords)


def _disk_mb(folder: Path) -> float:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file()) / 1e6


def _resident_mb(pid: int) -> float:
    return int((Path("/proc") / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _server_mb(backend: int) -> float:
    """The whole server's memory, what its processes share counted once; nothing where we may not look."""
    server = _parent(backend)
    family = {server, *(int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())}
    total = 0
    for pid in family:
        try:
            if pid == server or _parent(pid) == server:
                facts = (Path("/proc") / str(pid) / "smaps_rollup").read_text()
                total += next(int(line.split()[1]) for line in facts.splitlines() if line.startswith("Pss:"))
        except (OSError, StopIteration):
            continue
    return total / 1e3


def _parent(pid: int) -> int:
    return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--limit", type=int, default=50, help="hits of each half; the product asks for 100 or more")
    parser.add_argument("--engines", nargs="+", default=["edge", "postgres"], choices=["edge", "postgres", "qdrant"])
    options = parser.parse_args()
    benches = {"edge": bench_edge, "postgres": bench_postgres, "qdrant": bench_qdrant}
    for engine in options.engines:
        print(f"{engine}, {options.chunks} chunks, limit {options.limit}", flush=True)
        asyncio.run(benches[engine](World(options.chunks, options.limit), options.queries))


if __name__ == "__main__":
    main()
