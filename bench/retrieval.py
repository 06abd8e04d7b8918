"""How well search finds what people judged relevant: nDCG@10 and recall@20 of words, vectors and both.

Every set is a folder with `corpus.jsonl`, `queries.jsonl` and `qrels.tsv`. Its documents go through ingestion into the
embedded index, and its queries through the search service with default settings. A document's best chunk counts.
"""

import argparse
import asyncio
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scrubjay.documents.cleanup import Cleanup
from scrubjay.documents.ingester import Ingester
from scrubjay.documents.texts import TextStore
from scrubjay.errors import ConfigurationError
from scrubjay.index.catalog import IndexCatalog
from scrubjay.index.embedder import Embedder
from scrubjay.index.embedding import WordLlama
from scrubjay.index.indexing import Indexer
from scrubjay.index.opening import open_index
from scrubjay.index.query import MAX_QUERY_CHARACTERS
from scrubjay.model.content import DocumentSource, IncomingDocument
from scrubjay.model.search import FusionKind, SearchMode, SearchRequest
from scrubjay.model.tenant import Principal, Scope, Tenant
from scrubjay.services.search import SearchService
from scrubjay.services.search_cache import SearchCache
from scrubjay.settings import Settings
from scrubjay.storage.blobs import open_blob_store
from scrubjay.storage.cache_memory import MemoryCache
from scrubjay.storage.database import open_database
from scrubjay.storage.schema import require_current
from scrubjay.storage.tenants import Tenants

SETS = Path(__file__).parents[2] / "shared" / "data" / "ir"
BATCH = 64
CHUNKS = 60  # asked for, so that 20 documents are among them
MODES: Mapping[str, Mapping[str, Any]] = {
    "keyword": {"mode": SearchMode.KEYWORD},
    "vector": {"mode": SearchMode.VECTOR},
    "hybrid": {"mode": SearchMode.HYBRID},
    "rrf": {"mode": SearchMode.HYBRID, "fusion": FusionKind.RRF},
}


@dataclass(frozen=True)
class Judged:
    """A set of documents, queries, and grades of what should be found: query → document → grade."""

    name: str
    documents: Sequence[Mapping[str, Any]]
    queries: Mapping[str, str]
    grades: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Quality:
    set: str
    embedder: str
    mode: str
    ndcg_10: float
    recall_20: float
    queries: int
    milliseconds: float  # median of a query


def read_set(folder: Path) -> Judged:
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    lines = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / "qrels.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            grades.setdefault(query, {})[document] = int(grade)
    queries = {each["_id"]: each["text"] for each in lines if each["_id"] in grades}
    return Judged(folder.name, documents, queries, grades)


def ndcg(ranking: Sequence[str], grades: Mapping[str, int], depth: int = 10) -> float:
    best = sorted(grades.values(), reverse=True)[:depth]
    found = [grades.get(document, 0) for document in ranking[:depth]]
    return _gain(found) / _gain(best)


def recall(ranking: Sequence[str], grades: Mapping[str, int], depth: int = 20) -> float:
    return len(set(ranking[:depth]) & grades.keys()) / len(grades)


def _gain(grades: Sequence[int]) -> float:
    return sum((2**grade - 1) / math.log2(place + 1) for place, grade in enumerate(grades, 1))


class Library:
    """Documents and their index, without the rest of Scrubjay."""

    def __init__(self, principal: Principal, ingester: Ingester, indexer: Indexer, search: SearchService) -> None:
        self._principal = principal
        self._ingester = ingester
        self._indexer = indexer
        self._search = search
        self._names: dict[str, str] = {}

    async def add(self, documents: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(documents), BATCH):
            batch = documents[start : start + BATCH]
            done = await self._ingester.ingest_many([self._incoming(each) for each in batch])
            for each, ingested in zip(batch, done, strict=True):
                self._names[ingested.document_id] = each["_id"]
        await self._indexer.drain()

    def _incoming(self, document: Mapping[str, Any]) -> IncomingDocument:
        title = document.get("title") or None
        return IncomingDocument(
            tenant_id=self._principal.tenant_id,
            url=f"https://library.example/{document['_id']}",
            source=DocumentSource.API,
            markdown=document["text"] or title or "",
            title=title,
            language=document.get("language"),
        )

    async def find(self, query: str, values: Mapping[str, Any]) -> list[str]:
        """The documents whose chunks are found, best first."""
        request = SearchRequest(query=query[:MAX_QUERY_CHARACTERS], limit=CHUNKS, **values)
        answer = await self._search.search(self._principal, request)
        return list(dict.fromkeys(self._names[result.document_id] for result in answer.results))


@asynccontextmanager
async def open_library(embedder: Embedder) -> AsyncIterator[Library]:
    with tempfile.TemporaryDirectory(prefix="sj-bench-") as name:
        settings = Settings(home=Path(name))
        database = open_database(settings)
        await require_current(database, auto_migrate=True)
        index = await open_index(
            url=None, folder=settings.home / "index", generation="bench", dimensions=embedder.dimensions
        )

        async def opened_index(generation: str, dimensions: int) -> Any:
            return index

        async def opened_embedder(spec: Mapping[str, Any]) -> Embedder:
            return embedder

        blobs = open_blob_store(settings)
        texts = TextStore(database, blobs)
        catalog = IndexCatalog(database, {"kind": embedder.name}, opened_index, opened_embedder)
        await catalog.start()
        tenant = Tenant(name="bench")
        async with database.writing() as connection:
            await Tenants(connection).add(tenant)
        try:
            yield Library(
                Principal(tenant_id=tenant.id, key_id="", scopes=frozenset({Scope.ADMIN})),
                Ingester(database, texts, catalog),
                Indexer(database, catalog, Cleanup(database, texts, blobs)),
                SearchService(database, catalog, SearchCache(MemoryCache())),
            )
        finally:
            await index.close()
            await database.close()


async def measure(judged: Judged, embedder: Embedder, modes: Sequence[str]) -> AsyncIterator[Quality]:
    async with open_library(embedder) as library:
        await library.add(judged.documents)
        for mode in modes:
            gains, recalls, times = [], [], []
            for query_id, query in judged.queries.items():
                started = time.perf_counter()
                ranking = await library.find(query, MODES[mode])
                times.append((time.perf_counter() - started) * 1000)
                gains.append(ndcg(ranking, judged.grades[query_id]))
                recalls.append(recall(ranking, judged.grades[query_id]))
            yield Quality(
                judged.name,
                embedder.name,
                mode,
                round(statistics.mean(gains), 4),
                round(statistics.mean(recalls), 4),
                len(gains),
                round(statistics.median(times), 1),
            )


def open_embedder(name: str) -> Embedder | None:
    """The embedder, or nothing where its packages are not installed."""
    if name == "wordllama":
        return WordLlama()
    try:
        from scrubjay.index.minilm import MiniLm

        return MiniLm()
    except ConfigurationError as error:
        print(f"{name} is left out: {error.message}", file=sys.stderr)
        return None


def print_table(found: Sequence[Quality], modes: Sequence[str]) -> None:
    """One line for a set and embedder; `gain` is hybrid's nDCG over the better of words and vectors."""
    print(f"{'set':14} {'embedder':10} {'queries':>7}  " + "  ".join(f"{mode:>15}" for mode in modes) + "    gain")
    for name, embedder in dict.fromkeys((each.set, each.embedder) for each in found):
        by_mode = {each.mode: each for each in found if (each.set, each.embedder) == (name, embedder)}
        cells = "  ".join(f"{by_mode[mode].ndcg_10:7.3f} {by_mode[mode].recall_20:7.3f}" for mode in modes)
        halves = [by_mode[mode].ndcg_10 for mode in ("keyword", "vector") if mode in by_mode]
        gain = f"{by_mode['hybrid'].ndcg_10 - max(halves):+.3f}" if halves and "hybrid" in by_mode else ""
        print(f"{name:14} {embedder:10} {by_mode[modes[0]].queries:7}  {cells}  {gain:>6}")
    print("Under each way: nDCG@10 and recall@20.")


async def run(folders: Sequence[Path], embedders: Sequence[str], modes: Sequence[str]) -> list[Quality]:
    found = []
    for name in embedders:
        embedder = open_embedder(name)
        if embedder is None:
            continue
        for folder in folders:
            async for quality in measure(read_set(folder), embedder, modes):
                print(f"  {quality.set} {quality.embedder} {quality.mode}: {quality.ndcg_10:.4f}", file=sys.stderr)
                found.append(quality)
        await embedder.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", type=Path, nargs="?", default=SETS, help="a folder of sets, or one set")
    parser.add_argument("--embedder", action="append", choices=["wordllama", "minilm"], help="both unless told")
    parser.add_argument("--rrf", action="store_true", help="measure equal reciprocal ranks, too")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folders = sorted(path.parent for path in [*options.sets.glob("corpus.jsonl"), *options.sets.glob("*/corpus.jsonl")])
    if not folders:
        parser.error(f"{options.sets} has no set (a folder with corpus.jsonl, queries.jsonl and qrels.tsv).")
    modes = [mode for mode in MODES if mode != "rrf" or options.rrf]
    found = asyncio.run(run(folders, options.embedder or ["wordllama", "minilm"], modes))
    if options.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print_table(found, modes)


if __name__ == "__main__":
    main()
