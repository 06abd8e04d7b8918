"""The kinds of sources that this installation knows: our own and others', all by entry points."""

from functools import lru_cache
from importlib.metadata import entry_points

from scrubjay.errors import InvalidRequest
from scrubjay.sources.protocol import ConnectorType
from scrubjay.telemetry import get_logger

GROUP = "scrubjay.connectors"

log = get_logger(__name__)


@lru_cache(maxsize=1)
def connector_types() -> dict[str, ConnectorType]:
    found: dict[str, ConnectorType] = {}
    for point in entry_points(group=GROUP):
        try:
            kind = point.load()
        except Exception:  # somebody else's package must not keep ours from starting
            log.exception("a connector cannot be loaded", entry_point=point.value)
            continue
        if isinstance(kind, ConnectorType):
            found[kind.name] = kind
        else:
            log.error("this is not a connector", entry_point=point.value)
    return found


def connector_type(name: str) -> ConnectorType:
    """The kind of source of this name, whatever its case."""
    kinds = connector_types()
    known = kinds.get(name) or next((kind for key, kind in kinds.items() if key.lower() == name.lower()), None)
    if known is None:
        names = ", ".join(sorted(kinds))
        raise InvalidRequest(f"'{name[:40]}' is not a repository type; known are {names}.", field="RepositoryType")
    return known
