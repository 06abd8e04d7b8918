"""What the engines share: labels to filter by, numbers for times, ids as UUIDs, and a chunk's words as a vector."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from uuid import UUID

from scrubjay.errors import InvalidRequest
from scrubjay.index.analysis import document_terms, sparse_vector
from scrubjay.model.ids import id_from_uuid, uuid_from_id
from scrubjay.model.search import IndexPoint, SearchFilter

DENSE = "dense"
WORDS = "words"
TERMS = "terms"  # how many different ones; points of former releases do not tell
# The end of what still is the content: a number that an index can look up, and the largest that a float holds exactly.
FOREVER = 2**53


def microseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000)


def labels_of(point: IndexPoint) -> list[str]:
    """Everything that filters ask for by name, in one list: one index of all costs less than one index each."""
    labels = [("document", point.document_id), ("source", point.source), ("type", point.content_type)]
    labels += [("host", name) for name in sorted({point.host, point.domain})]
    labels += [("tag", tag) for tag in point.tags]
    labels += [("collection", point.collection_id)] if point.collection_id else []
    labels += [("language", point.language)] if point.language else []
    return [_label(kind, value) for kind, value in labels]


def wanted_labels(where: SearchFilter) -> list[list[str]]:
    """A hit has a label of each list."""
    lists: dict[str, Sequence[str]] = {
        "collection": where.collection_ids,
        "document": where.document_ids,
        "tag": where.tag_ids,
        "host": where.hosts,
        "source": where.sources,
        "language": where.languages,
        "type": where.content_types,
    }
    return [[_label(kind, value) for value in values] for kind, values in lists.items() if values]


def unwanted_labels(where: SearchFilter) -> list[str]:
    return [_label("host", host) for host in where.excluded_hosts]


def _label(kind: str, value: str) -> str:
    return f"{kind}:{clean(value)}"


def words_of(point: IndexPoint) -> tuple[list[int], list[float]]:
    return sparse_vector(document_terms(point.text, point.title, point.section_header, point.language))


def clean(text: str) -> str:
    """Without lone surrogates and NULs, which no engine can store."""
    return text.encode(errors="replace").decode().replace("\0", "")


def chunk_id(identifier: object) -> str:
    return id_from_uuid("chnk", identifier if isinstance(identifier, UUID) else UUID(str(identifier)))


def chunk_uuids(chunk_ids: Iterable[str]) -> list[UUID]:
    return [uuid_from_id(each) for each in chunk_ids]


def check_dimensions(length: int, dimensions: int) -> None:
    if length != dimensions:
        raise InvalidRequest(f"The vector has {length} dimensions, and this index holds vectors of {dimensions}.")
