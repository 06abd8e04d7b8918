"""The tables of the index in PostgreSQL, and points and filters in its words.

The tables are derived and can be built again, so the engine makes them itself and no migration knows them.
"""

from collections.abc import Container, Sequence
from typing import Any

from scrubjay.index.analysis import document_terms, term_id
from scrubjay.index.payload import clean, labels_of, unwanted_labels, wanted_labels
from scrubjay.model.ids import uuid_from_id
from scrubjay.model.search import IndexPoint, SearchFilter

# pgvector's limits: of a graph over `halfvec`, of a sparse vector's length and of what it holds.
MAX_GRAPH_DIMENSIONS = 4_000
_SPARSE_DIMENSIONS = 1_000_000_000
_MAX_TERMS = 16_000
# Lexemes that say whose a chunk is and that it still is the content: no term has a space in it.
_CURRENT = " current"
# The graph has numbers of half the size, which find the same in half the memory; distances are told by whole ones.
GRAPH, FORMER_GRAPH = "_near", "_graph"
_GIVEN = "(SELECT CAST(CAST(:vector AS text) AS {kind}))"  # a query of its own, so that the text is read once
DISTANCE = f"vector <=> {_GIVEN.format(kind='vector')}"


def quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def create_statements(table: str, dimensions: int) -> list[str]:
    """Words and weights stay in the row, where scoring finds them; the lexemes are needed by their index alone."""
    name = quote(table)
    return [
        f"""
        CREATE TABLE IF NOT EXISTS {name} (
            id uuid PRIMARY KEY,
            tenant_id text NOT NULL,
            document_id text NOT NULL,
            labels text[] NOT NULL,
            crawled_at timestamptz NOT NULL,
            since timestamptz NOT NULL,
            until timestamptz,
            stamp text NOT NULL,
            terms integer,
            vector vector({dimensions}) STORAGE MAIN NOT NULL,
            weights sparsevec STORAGE MAIN NOT NULL,
            words tsvector STORAGE EXTERNAL NOT NULL
        ) WITH (toast_tuple_target = 4096)
        """,
        f"CREATE INDEX IF NOT EXISTS {quote(table + '_labels')} ON {name} USING gin (labels)",
        f"CREATE INDEX IF NOT EXISTS {quote(table + '_words')} ON {name} USING gin (words)",
        f"CREATE INDEX IF NOT EXISTS {quote(table + '_document')} ON {name} (document_id)",
        f"CREATE INDEX IF NOT EXISTS {quote(table + '_tenant')} ON {name} (tenant_id) WHERE until IS NULL",
    ]


def add_terms_statement(table: str) -> str:
    """For tables of former releases."""
    return f"ALTER TABLE {quote(table)} ADD COLUMN IF NOT EXISTS terms integer"


def graph_column(dimensions: int) -> str:
    return f"(vector::halfvec({dimensions})) halfvec_cosine_ops"


def graph_distance(dimensions: int) -> str:
    kind = f"halfvec({dimensions})"
    return f"(vector::{kind}) <=> {_GIVEN.format(kind=kind)}"


def upsert_statement(table: str) -> str:
    columns = ["tenant_id", "document_id", "labels", "crawled_at", "since", "until", "stamp", "terms"]
    typed = {"vector": "vector", "weights": "sparsevec", "words": "tsvector"}
    values = [f":{name}" for name in columns]
    values += [f"CAST(CAST(:{name} AS text) AS {kind})" for name, kind in typed.items()]
    names = [*columns, *typed]
    changes = ", ".join(f"{name} = excluded.{name}" for name in names)
    return (
        f"INSERT INTO {quote(table)} (id, {', '.join(names)}) VALUES (:id, {', '.join(values)})"
        f" ON CONFLICT (id) DO UPDATE SET {changes}"
    )


def describe_point(point: IndexPoint) -> dict[str, Any]:
    terms = document_terms(point.text, point.title, point.section_header, point.language)
    titled = document_terms("", point.title, None, point.language) if point.title else {}
    return {
        "id": uuid_from_id(point.id),
        "tenant_id": clean(point.tenant_id),
        "document_id": clean(point.document_id),
        "labels": labels_of(point),
        "crawled_at": point.crawled_at,
        "since": point.since,
        "until": point.until,
        "stamp": clean(point.stamp),
        "terms": len(terms),
        "vector": vector_text(point.vector),
        "weights": sparse_text(dict(sorted(terms.items(), key=lambda each: -each[1])[:_MAX_TERMS])),
        "words": _lexemes(point, terms, titled),
    }


def _lexemes(point: IndexPoint, terms: Any, titled: Any) -> str:
    """The terms with the weights of spec 001: A for those of the title, B for the others."""
    flags = [tenant_lexeme(point.tenant_id), *([_CURRENT] if point.until is None else [])]
    found = [f"{_lexeme(term)}:{'1A' if term in titled else '2B'}" for term in terms]
    return " ".join([*map(_lexeme, flags), *found])


def tenant_lexeme(tenant_id: str) -> str:
    return f" {clean(tenant_id)}"


def any_of(terms: Any) -> str:
    return "(" + " | ".join(map(_lexeme, terms)) + ")"


def both(lexeme: str, other: str) -> str:
    return " & ".join(_lexeme(each) for each in (lexeme, other) if each)


def literal(value: str) -> str:
    """A text within a statement, for what the planner must see to know how much there is of it."""
    return "'" + value.replace("'", "''") + "'"


def whose(where: SearchFilter) -> str:
    """The part of a text query that looks only among the tenant's chunks."""
    flags = [tenant_lexeme(where.tenant_id), *([_CURRENT] if where.as_of is None else [])]
    return " & ".join(map(_lexeme, flags))


def _lexeme(term: str) -> str:
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def vector_text(vector: Any) -> str:
    return "[" + ",".join(format(each, ".7g") for each in vector) + "]"


def sparse_text(weights: dict[str, float]) -> str:
    places: dict[int, float] = {}
    for term, weight in weights.items():
        place = term_id(term) % _SPARSE_DIMENSIONS + 1
        places[place] = max(weight, places.get(place, 0.0))
    return "{" + ",".join(f"{place}:{weight:.5g}" for place, weight in places.items()) + f"}}/{_SPARSE_DIMENSIONS}"


def has_label(label: str) -> str:
    return f"labels @> {label}"


def literal_list(labels: Sequence[str]) -> str:
    return f"ARRAY[{', '.join(map(literal, labels))}]::text[]"


def describe_filter(where: SearchFilter, unsought: Container[int] = ()) -> tuple[str, dict[str, Any]]:
    """The conditions of a WHERE clause, and their values. The lists of labels that are not to be looked for by their
    index, by their place, are asked for in a way that it has no part in."""
    conditions = ["tenant_id = :tenant_id"]
    values: dict[str, Any] = {"tenant_id": clean(where.tenant_id)}
    for number, labels in enumerate(wanted_labels(where)):
        given = f"CAST(:labels_{number} AS text[])"
        # To the letter as the condition of a graph that has just these points.
        has_one = has_label(given) if len(labels) == 1 else f"labels && {given}"
        conditions.append(f"({has_one}) IS TRUE" if number in unsought else has_one)
        values[f"labels_{number}"] = labels
    if where.excluded_hosts:
        conditions.append("NOT labels && CAST(:unwanted AS text[])")
        values["unwanted"] = unwanted_labels(where)
    if where.crawled_from:
        conditions.append("crawled_at >= :crawled_from")
        values["crawled_from"] = where.crawled_from
    if where.crawled_to:
        conditions.append("crawled_at <= :crawled_to")
        values["crawled_to"] = where.crawled_to
    if where.as_of is None:
        conditions.append("until IS NULL")
    else:
        conditions.append("since <= :as_of AND (until IS NULL OR until > :as_of)")
        values["as_of"] = where.as_of
    return " AND ".join(conditions), values
