"""The graphs of the vectors in PostgreSQL: one of all points, and one each for what searches are often limited to.

A walk of the graph of all points meets ten for each that a filter of a tenth lets through, and reads the row of each.
A graph of just the points with a label has none of the others in it: there, a search with a filter takes as long as
one without. Such a graph costs room, and time whenever a point comes into it, so it is made when searches ask for it.
"""

import hashlib
from collections import Counter

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from scrubjay.index import postgres_schema as schema

GRAPH_POINTS = 10_000  # fewer are compared one by one
_OFTEN = 20  # searches that were limited to a label
_MOST_GRAPHS = 16
_MOST_COUNTED = 10_000
_UNUSED_DAYS = 30
_BUILD_MEMORY = "512MB"


class Graphs:
    """Makes and drops the graphs of one table. The connections are in autocommit, and alone with the table's graphs."""

    def __init__(self, table: str, dimensions: int) -> None:
        self._table = table
        self._dimensions = dimensions
        self._asked: Counter[str] = Counter()

    @property
    def are_possible(self) -> bool:
        return self._dimensions <= schema.MAX_GRAPH_DIMENSIONS

    def note_search(self, label: str) -> bool:
        """A search was limited to a label; whether it is time to make a graph of what has it."""
        if len(self._asked) >= _MOST_COUNTED:
            self._asked.clear()
        self._asked[label] += 1
        return self.are_possible and self._asked[label] % _OFTEN == 0

    async def make(self, connection: AsyncConnection, points: int) -> None:
        """The graph of everything, once there are enough points; one of a former release goes when it is there."""
        graph, former = self._table + schema.GRAPH, self._table + schema.FORMER_GRAPH
        valid = (await self._find(connection)).get(graph)
        if valid or points < GRAPH_POINTS or not self.are_possible:
            return
        await self._create(connection, graph, is_broken=valid is False)
        await connection.execute(text(f"DROP INDEX IF EXISTS {schema.quote(former)}"))

    async def make_for(self, connection: AsyncConnection, label: str) -> None:
        """A graph of the points with a label, unless there are too many graphs already."""
        name, known = self._name_for(label), await self._find(connection)
        others = [each for each in known if each != self._table + schema.GRAPH and each != name]
        if known.get(name) or len(others) >= _MOST_GRAPHS:
            return
        condition = schema.has_label(schema.literal_list([label]))
        await self._create(connection, name, condition, is_broken=name in known)

    async def drop_unused(self, connection: AsyncConnection) -> None:
        """Graphs of labels that nobody asked for in a long time, and those whose making was cut off."""
        known = await self._find(connection)
        # From PostgreSQL 16 on it is known when an index was used; before, they stay.
        query = text(
            "SELECT indexrelname FROM pg_stat_user_indexes AS used WHERE relid = to_regclass(:table)"
            f" AND CAST(to_jsonb(used) ->> 'last_idx_scan' AS timestamptz) < now() - interval '{_UNUSED_DAYS} days'"
        )
        found = await connection.execute(query, {"table": schema.quote(self._table)})
        unused = set(found.scalars())
        for name, valid in known.items():
            if name != self._table + schema.GRAPH and (name in unused or not valid):
                await connection.execute(text(f"DROP INDEX IF EXISTS {schema.quote(name)}"))

    def _name_for(self, label: str) -> str:
        return f"{self._table}{schema.GRAPH}_{hashlib.sha256(label.encode()).hexdigest()[:12]}"

    async def _find(self, connection: AsyncConnection) -> dict[str, bool]:
        """The graphs that there are, by name, and whether each is whole."""
        query = text(
            "SELECT relname, indisvalid FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid"
            " WHERE indrelid = to_regclass(:table) AND starts_with(relname, :graph)"
        )
        values = {"table": schema.quote(self._table), "graph": self._table + schema.GRAPH}
        return {name: bool(valid) for name, valid in await connection.execute(query, values)}

    async def _create(
        self, connection: AsyncConnection, name: str, condition: str | None = None, *, is_broken: bool
    ) -> None:
        if is_broken:  # whoever made it was stopped
            await connection.execute(text(f"DROP INDEX {schema.quote(name)}"))
        making = (
            f"CREATE INDEX CONCURRENTLY {schema.quote(name)} ON {schema.quote(self._table)}"
            f" USING hnsw ({schema.graph_column(self._dimensions)})"
        )
        await connection.execute(text(f"SET maintenance_work_mem = '{_BUILD_MEMORY}'"))
        try:
            await connection.exec_driver_sql(making if condition is None else f"{making} WHERE {condition}")
        finally:
            await connection.execute(text("RESET maintenance_work_mem"))
