"""The index in the deployment's own PostgreSQL: pgvector for vectors and for BM25 weights, a tsvector to narrow by.

Ranking an OR of many words by `ts_rank_cd` reads every chunk that has any of them. Here the rarest words choose the
candidates, and a product of sparse vectors scores them; wider words join only while they could change the answer.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.errors import ConfigurationError, Conflict, ScrubjayError, Unavailable
from scrubjay.index import postgres_schema as schema
from scrubjay.index.analysis import K1, inverse_frequency, query_terms
from scrubjay.index.payload import check_dimensions, chunk_id, chunk_uuids, clean, wanted_labels
from scrubjay.index.postgres_graphs import GRAPH_POINTS, Graphs
from scrubjay.model.search import Hit, IndexPoint, KeywordQuery, PointStamp, SearchFilter
from scrubjay.storage.database import Database
from scrubjay.telemetry import get_logger, redact

_LOCK = 0x5C12B1A7
_BATCH = 128
_SCAN_BATCH = 1_000
# Below this, looking at every vector is fast and exact.
_FEW_POINTS = 5_000
_GRAPH_CARE = 2  # candidates kept for every hit on a walk of the graph; with one, a fifteenth of the nearest is missed
_MOST = 0.5  # of all points: who has more of them is not looked for among them by an index
_FREQUENCY_CAP = 5_000
_REMEMBER_SECONDS = 60.0
_REMEMBERED_NUMBERS = 50_000
_ENOUGH_CANDIDATES = 2_000
# How many of the hits that are asked for must be expected of the rarest words: with fewer, others join them at once,
# since a look that does not find enough is a look too many.
_HOPE = 0.7
_OLDEST_PGVECTOR = (0, 8)
# In a query of its own, so that the text is read once and not once for every chunk that it is compared with.
_SCORE = "-(weights <#> (SELECT CAST(CAST(:query AS text) AS sparsevec)))"
# Filtered searches go on in the graph until they have found enough; roughly in order is cheaper, and rows are sorted
# afterwards. A plan that is made without knowing the filter takes it for a narrow one, and sorts everything that it
# lets through instead.
_GRAPH_SETTINGS = (
    "SELECT set_config('hnsw.ef_search', :width, true), set_config('hnsw.iterative_scan', 'relaxed_order', true),"
    " set_config('plan_cache_mode', 'force_custom_plan', true)"
)

log = get_logger(__name__)


class PostgresIndex:
    """One table is one generation."""

    def __init__(self, database: Database, table: str, dimensions: int) -> None:
        self.dimensions = dimensions
        self._database = database
        self._table = table
        self._name = schema.quote(table)
        self._graphs = Graphs(table, dimensions)
        self._remembered = _Numbers()
        self._unoptimized = 0
        self._background: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, database: Database, generation: str, dimensions: int) -> "PostgresIndex":
        self = cls(database, f"index_{generation}", dimensions)
        async with self._writing() as connection:
            await connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))
            await _ensure_extension(connection)
            for statement in schema.create_statements(self._table, dimensions):
                await connection.execute(text(statement))
            await self._check_dimensions(connection)
            if await self._typmod(connection, "terms") is None:
                await connection.execute(text(schema.add_terms_statement(self._table)))
        return self

    async def _check_dimensions(self, connection: AsyncConnection) -> None:
        found = await self._typmod(connection, "vector")
        if found != self.dimensions:
            raise Conflict(f"The table {self._table} holds vectors of {found} dimensions, not {self.dimensions}.")

    async def _typmod(self, connection: AsyncConnection, column: str) -> int | None:
        """What is said of a column's type beside its name (of a vector, its dimensions); none where there is none."""
        query = "SELECT atttypmod FROM pg_attribute WHERE attrelid = to_regclass(:name) AND attname = :column"
        found = await connection.execute(text(query), {"name": self._name, "column": column})
        number: int | None = found.scalar_one_or_none()
        return number

    async def upsert(self, points: Sequence[IndexPoint]) -> None:
        for point in points:
            check_dimensions(len(point.vector), self.dimensions)
        chunk_uuids(point.id for point in points)
        statement = text(schema.upsert_statement(self._table))
        for start in range(0, len(points), _BATCH):
            batch = {point.id: point for point in points[start : start + _BATCH]}
            # In one order, so that two who write the same points do not wait for each other.
            rows = await asyncio.to_thread(_describe, [batch[key] for key in sorted(batch)])
            async with self._writing() as connection:
                await connection.execute(statement, rows)
            self._note_writes(len(rows))

    async def delete(self, chunk_ids: Sequence[str]) -> None:
        identifiers = sorted(chunk_uuids(chunk_ids))
        if identifiers:
            async with self._writing() as connection:
                statement = f"DELETE FROM {self._name} WHERE id = ANY(:ids)"
                await connection.execute(text(statement), {"ids": identifiers})

    async def stamps(self, tenant_id: str, document_id: str) -> Mapping[str, str]:
        query = f"SELECT id, stamp FROM {self._name} WHERE document_id = :document AND tenant_id = :tenant"
        rows = await self._fetch(query, {"document": clean(document_id), "tenant": clean(tenant_id)})
        return {chunk_id(identifier): stamp for identifier, stamp in rows}

    async def scan(self) -> AsyncIterator[PointStamp]:
        columns = f"SELECT id, tenant_id, document_id, stamp FROM {self._name}"
        rows = await self._fetch(f"{columns} ORDER BY id LIMIT {_SCAN_BATCH}")
        while rows:
            for identifier, *facts in rows:
                yield PointStamp(chunk_id(identifier), *facts)
            query = f"{columns} WHERE id > :last ORDER BY id LIMIT {_SCAN_BATCH}"
            rows = await self._fetch(query, {"last": rows[-1][0]})

    async def search_vector(self, vector: Sequence[float], where: SearchFilter, limit: int) -> list[Hit]:
        check_dimensions(len(vector), self.dimensions)
        conditions, values = schema.describe_filter(where)
        values |= {"vector": schema.vector_text(vector), "limit": limit}
        number = await self._count_roughly(conditions, values)
        rows: Sequence[Any] = ()
        if number >= _FEW_POINTS:
            await self._note_filter(where)
            query = self._nearest(schema.graph_distance(self.dimensions), conditions)
            rows = await self._fetch(query, values, graph_width=_GRAPH_CARE * limit)
        if len(rows) < limit:
            # Without the graph, which would look at thousands of points that the filter drops.
            rows = await self._fetch(self._nearest("distance", conditions), values)
        rows = sorted(rows, key=lambda row: row[2])
        return [
            Hit(chunk_id(identifier), document, 1 - distance, terms) for identifier, document, distance, terms in rows
        ]

    async def _note_filter(self, where: SearchFilter) -> None:
        """Have a graph made of what searches are often limited to."""
        everything = await self._count_roughly("true", {})
        counted = {
            labels[0]: await self._count_roughly(schema.has_label("CAST(:label AS text[])"), {"label": labels})
            for labels in wanted_labels(where)
            if len(labels) == 1
        }
        narrow = {label: number for label, number in counted.items() if number <= _MOST * everything}
        label = min(narrow, key=lambda each: narrow[each], default=None)
        if label is not None and self._graphs.note_search(label):
            self._in_background(self._make_graph_for(label))

    def _nearest(self, order: str, conditions: str) -> str:
        columns = f"id, document_id, {schema.DISTANCE} AS distance, terms"
        return f"SELECT {columns} FROM {self._name} WHERE {conditions} ORDER BY {order} LIMIT :limit"

    async def _count_roughly(self, conditions: str, values: Mapping[str, Any]) -> int:
        """How many points a filter lets through: few are counted, of many the planner knows about how many they are.
        Remembered for a while."""
        needed = {name: value for name, value in values.items() if f":{name}" in conditions}
        key = f"{conditions} {needed}"
        number = self._remembered.get(key)
        if number is None:
            found = f"SELECT 1 FROM {self._name} WHERE {conditions}"
            few = f"SELECT count(*) FROM ({found} LIMIT {_FEW_POINTS}) AS few"
            async with self._reading() as connection:
                number = int((await connection.execute(text(few), needed)).scalar_one())
                if number == _FEW_POINTS:
                    explained = await connection.execute(text(f"EXPLAIN (FORMAT JSON) {found}"), needed)
                    number = max(number, _expected_rows(explained.scalar_one()))
            self._remembered.set(key, number)
        return number

    async def search_keywords(
        self, query: KeywordQuery, where: SearchFilter, limit: int, near: Sequence[float] | None = None
    ) -> list[Hit]:
        words = query_terms(query.text, query.languages)
        phrases = [word for phrase in query.phrases for word in query_terms(phrase, query.languages)]
        terms = list(dict.fromkeys(form for word in words or phrases for form in word.scoring))
        if not terms:
            return []
        narrowed = [schema.any_of(forms) for word in phrases for forms in word.parts]
        if not await self._has_most(where):
            narrowed.append(schema.whose(where))
        for word in (word for each in query.excluded for word in query_terms(each, query.languages)):
            narrowed.append("!(" + " & ".join(map(schema.any_of, word.exact)) + ")")
        frequencies = await self._find_frequencies(where.tenant_id, terms)
        total = frequencies[""]
        weights = {term: inverse_frequency(min(number, total), total) for term, number in frequencies.items() if term}
        return await self._rank(weights, frequencies, narrowed, where, limit, near)

    async def _has_most(self, where: SearchFilter) -> bool:
        """Whether most chunks are the tenant's and of the moment that is asked about: to look for the others' in an
        index takes longer than to drop them where they are found."""
        conditions, values = schema.describe_filter(SearchFilter(tenant_id=where.tenant_id, as_of=where.as_of))
        return await self._count_roughly(conditions, values) > _MOST * await self._count_roughly("true", {})

    async def _find_wide(self, where: SearchFilter) -> set[int]:
        """The places of those lists of wanted labels of which most chunks have one."""
        everything = await self._count_roughly("true", {})
        condition = "labels && CAST(:labels AS text[])"
        counted = [await self._count_roughly(condition, {"labels": labels}) for labels in wanted_labels(where)]
        return {place for place, number in enumerate(counted) if number > _MOST * everything}

    async def _rank(
        self,
        weights: dict[str, float],
        frequencies: Mapping[str, int],
        narrowed: Sequence[str],
        where: SearchFilter,
        limit: int,
        near: Sequence[float] | None,
    ) -> list[Hit]:
        """Let the rarest words choose, and one more at a time while those that wait could lift another chunk in."""
        let_through = max(await self._count_roughly(*schema.describe_filter(where)), 1)
        enough = max(limit, _HOPE * limit * frequencies[""] / let_through)
        conditions, values = schema.describe_filter(where, await self._find_wide(where))
        query = (
            f"SELECT id, document_id, {_SCORE} AS score, terms, vector FROM {self._name}"
            f" WHERE words @@ CAST(CAST(:words AS text) AS tsquery) AND {conditions}"
            " ORDER BY score DESC, id LIMIT :limit"
        )
        cosine = "CAST(NULL AS float8)" if near is None else f"1 - ({schema.DISTANCE})"
        query = f"SELECT id, document_id, score, terms, {cosine} FROM ({query}) AS best ORDER BY score DESC, id"
        values |= {"query": schema.sparse_text(weights), "limit": limit}
        values |= {} if near is None else {"vector": schema.vector_text(near)}
        waiting = sorted(weights, key=lambda term: -frequencies[term])
        chosen: list[str] = []
        rows: Sequence[Any] = ()
        while waiting:
            candidates = 0
            # A word that most chunks have joins only when without it there are too few, or the answer could change.
            while waiting and (candidates < enough or candidates + frequencies[waiting[-1]] <= _ENOUGH_CANDIDATES):
                chosen.append(waiting.pop())
                candidates += frequencies[chosen[-1]]
            values["words"] = " & ".join([schema.any_of(chosen), *narrowed])
            rows = await self._fetch(query, values)
            best_without = sum(weights[term] for term in waiting) * (K1 + 1)
            if len(rows) == limit and rows[-1][2] >= best_without:
                break
        return [Hit(chunk_id(identifier), *told) for identifier, *told in rows]

    async def _find_frequencies(self, tenant_id: str, terms: Sequence[str]) -> dict[str, int]:
        """How many of the tenant's chunks have each term, and under no name how many there are.

        Remembered for a while: ranks change slowly, and a term that nobody had is looked for all the same.
        """
        keys = {term: schema.both(schema.tenant_lexeme(tenant_id), term) for term in ["", *terms]}
        unknown = [key for key in keys.values() if self._remembered.get(key) is None]
        if unknown:
            async with self._reading() as connection:
                for key, number in zip(unknown, await self._count_chunks(connection, unknown), strict=True):
                    self._remembered.set(key, number)
        return {term: self._remembered.get(key) or 0 for term, key in keys.items()}

    async def _count_chunks(self, connection: AsyncConnection, queries: Sequence[str]) -> list[int]:
        """Counted up to a cap, from where on the planner's statistics are good enough."""
        found = [f"SELECT 1 FROM {self._name} WHERE words @@ {schema.literal(query)}::tsquery" for query in queries]
        counts = [f"(SELECT count(*) FROM ({each} LIMIT {_FREQUENCY_CAP}) AS few)" for each in found]
        (row,) = (await connection.exec_driver_sql(f"SELECT {', '.join(counts)}")).all()
        numbers = [int(number) for number in row]
        for place, number in enumerate(numbers):
            if number == _FREQUENCY_CAP:
                explained = (await connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {found[place]}")).scalar_one()
                numbers[place] = max(_expected_rows(explained), _FREQUENCY_CAP)
        return numbers

    async def count(self, where: SearchFilter) -> int:
        conditions, values = schema.describe_filter(where)
        ((number,),) = await self._fetch(f"SELECT count(*) FROM {self._name} WHERE {conditions}", values)
        return int(number)

    async def optimize(self) -> None:
        """Bring statistics up to date, and make the vectors' graph once there are enough of them."""
        self._unoptimized = 0
        async with self._alone() as connection:
            if connection is not None:
                await connection.execute(text(f"VACUUM (ANALYZE) {self._name}"))
                ((number,),) = (await connection.execute(text(f"SELECT count(*) FROM {self._name}"))).all()
                await self._graphs.make(connection, number)
                await self._graphs.drop_unused(connection)

    async def _make_graph_for(self, label: str) -> None:
        async with self._alone() as connection:
            if connection is not None:
                await self._graphs.make_for(connection, label)

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[AsyncConnection | None]:
        """A connection in autocommit for who looks after the table; none while another process does."""
        with _told_as_unavailable():
            async with self._database.engine.connect() as plain:
                connection = await plain.execution_options(isolation_level="AUTOCOMMIT")
                ((alone,),) = (await connection.execute(text(f"SELECT pg_try_advisory_lock({_LOCK + 1})"))).all()
                try:
                    yield connection if alone else None
                finally:
                    if alone:
                        await connection.execute(text(f"SELECT pg_advisory_unlock({_LOCK + 1})"))

    def _note_writes(self, number: int) -> None:
        self._unoptimized += number
        if self._unoptimized >= GRAPH_POINTS:
            self._in_background(self.optimize())

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """One thing at a time; what comes meanwhile will be asked for again."""
        if self._background is None or self._background.done():
            self._background = asyncio.create_task(self._do_unasked(work))
        else:
            work.close()

    async def _do_unasked(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except ScrubjayError as error:
            log.warning("the index could not be optimized; searches may be slow", reason=str(error))

    async def check(self) -> None:
        await self._fetch(f"SELECT 1 FROM {self._name} LIMIT 1")

    async def drop(self) -> None:
        await self._stop_background()
        async with self._writing() as connection:
            await connection.execute(text(f"DROP TABLE IF EXISTS {self._name}"))
        self._closed = True

    async def close(self) -> None:
        """The database is not ours to close."""
        self._closed = True
        await self._stop_background()

    async def _stop_background(self) -> None:
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)

    async def _fetch(
        self, query: str, values: Mapping[str, Any] | None = None, graph_width: int | None = None
    ) -> Sequence[Any]:
        async with self._reading() as connection:
            if graph_width is not None:
                width = min(max(graph_width, 40), 1_000)
                await connection.execute(text(_GRAPH_SETTINGS), {"width": str(width)})
            return (await connection.execute(text(query), values or {})).all()

    @asynccontextmanager
    async def _reading(self) -> AsyncIterator[AsyncConnection]:
        self._refuse_when_closed()
        with _told_as_unavailable():
            async with self._database.reading() as connection:
                yield connection

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        self._refuse_when_closed()
        with _told_as_unavailable():
            async with self._database.writing() as connection:
                yield connection

    def _refuse_when_closed(self) -> None:
        if self._closed:
            raise Unavailable("The search index is closed.")


class _Numbers:
    """Numbers that may be a minute old."""

    def __init__(self) -> None:
        self._numbers: dict[str, tuple[float, int]] = {}

    def get(self, key: str) -> int | None:
        until, number = self._numbers.get(key, (0.0, 0))
        return number if until > time.monotonic() else None

    def set(self, key: str, number: int) -> None:
        if len(self._numbers) >= _REMEMBERED_NUMBERS:
            self._numbers.clear()
        self._numbers[key] = (time.monotonic() + _REMEMBER_SECONDS, number)


def _expected_rows(explained: Any) -> int:
    """What the planner expects, from what EXPLAIN (FORMAT JSON) gives."""
    (facts,) = json.loads(explained) if isinstance(explained, str) else explained
    return int(facts["Plan"]["Plan Rows"])


def _describe(points: Sequence[IndexPoint]) -> list[dict[str, Any]]:
    return [schema.describe_point(point) for point in points]


async def _ensure_extension(connection: AsyncConnection) -> None:
    found = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
    version = (await connection.execute(text(found))).scalar()
    if version is None:
        try:
            async with connection.begin_nested():
                await connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))
        except DBAPIError as error:
            raise ConfigurationError(
                "The index needs pgvector in PostgreSQL, and this server has none that this user may add "
                f"({_reason(error)}); install pgvector and run CREATE EXTENSION vector, or use another index."
            ) from error
        version = (await connection.execute(text(found))).scalar_one()
    if tuple(int(part) for part in version.split(".")[:2]) < _OLDEST_PGVECTOR:
        raise ConfigurationError(f"The index needs pgvector 0.8 or newer, and this server has {version}.")


@contextmanager
def _told_as_unavailable() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, OSError) as error:
        raise Unavailable(f"The search index in PostgreSQL failed: {_reason(error)}.") from error


def _reason(error: Exception) -> str:
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return redact(lines[0].rpartition(">: ")[2]) if lines else type(error).__name__
