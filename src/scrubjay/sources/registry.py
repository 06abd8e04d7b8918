"""Source types by name, loaded from entry points: built-in connectors and those of other packages."""

from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points

from scrubjay.errors import InvalidRequest
from scrubjay.sources.protocol import ConnectorType
from scrubjay.telemetry import get_logger

GROUP = "scrubjay.connectors"

log = get_logger(__name__)


@cache
def connector_types() -> dict[str, ConnectorType]:
    loaded = [_load(point) for point in entry_points(group=GROUP)]
    return {kind.name: kind for kind in loaded if kind is not None}


@lru_cache(maxsize=64)  # the name is user input
def connector_type(name: str) -> ConnectorType:
    """The source type of this name, ignoring case. Imports only that connector's module where possible."""
    for point in entry_points(group=GROUP):
        if point.name.lower() == name.lower():
            kind = _load(point)
            if kind is not None and kind.name.lower() == name.lower():
                return kind
    kinds = connector_types()
    known = next((kind for key, kind in kinds.items() if key.lower() == name.lower()), None)
    if known is None:
        names = ", ".join(sorted(kinds))
        raise InvalidRequest(f"'{name[:40]}' is not a repository type; known are {names}.", field="RepositoryType")
    return known


@cache
def _load(point: EntryPoint) -> ConnectorType | None:
    try:
        kind = point.load()
    except Exception:  # a broken third-party package must not prevent the start
        log.exception("a connector cannot be loaded", entry_point=point.value)
        return None
    if isinstance(kind, ConnectorType):
        return kind
    log.error("this is not a connector", entry_point=point.value)
    return None
