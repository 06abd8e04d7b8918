"""What an action endpoint is, as data. One `Resource` per line of the specification's shorthand; the rest follows.

`L(jhu)C(j)G(jh)U(j)D(jh): /v2/icecreams` says which actions there are and in which formats each answers. `routing.py`
makes routes of it, `documentation.py` its texts, `values.py` reads its parameters, `pages.py` draws it.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from scrubjay.app import Scrubjay
from scrubjay.model.tenant import Principal, Scope
from scrubjay.openai.protocol import Listed, Window
from scrubjay.services.action_jobs import JobTail

PREFIX = "/v2"
_SHORTHAND = re.compile(r"(?:[LCGUD]\([jhusz]*\))+")
_PART = re.compile(r"([LCGUD])\(([jhusz]*)\)")


class Format(StrEnum):
    JSON = "json"
    HTML = "html"
    UI = "ui"
    STREAM = "stream"
    ZIP = "zip"


_FORMATS = {"j": Format.JSON, "h": Format.HTML, "u": Format.UI, "s": Format.STREAM, "z": Format.ZIP}


class Kind(StrEnum):
    """The five common actions: the letter, how the address ends, and by which methods it is asked for."""

    LIST = "L"
    CREATE = "C"
    GET = "G"
    UPDATE = "U"
    DELETE = "D"

    @property
    def suffix(self) -> str:
        return _SUFFIXES[self]

    @property
    def methods(self) -> tuple[str, ...]:
        return _METHODS[self]


_SUFFIXES = {Kind.LIST: "", Kind.CREATE: "create", Kind.GET: "get", Kind.UPDATE: "update", Kind.DELETE: "delete"}
_METHODS = {
    Kind.LIST: ("GET",),
    Kind.CREATE: ("POST",),
    Kind.GET: ("GET",),
    Kind.UPDATE: ("PUT",),
    Kind.DELETE: ("DELETE", "GET"),
}


class Type(StrEnum):
    """How the text of a parameter is read."""

    TEXT = "text"
    NUMBER = "number"
    TRUTH = "truth"  # true or false
    CHOICE = "choice"
    LIST = "list"  # of texts, with commas between them
    JSON = "json"  # an object or array, or text that is one


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    name: str
    about: str
    type: Type = Type.TEXT
    required: bool = False
    default: Any = None
    choices: Mapping[str, str] = field(default_factory=dict)  # value → what it means; the first is the default
    least: int = 0
    most: int = 1_000_000
    max_length: int = 500
    in_body: bool = False  # of a body rather than of the address; both are taken
    # How forms show it: its name in words, and for a list of objects, the inputs of each of them.
    label: str = ""
    columns: "tuple[Param, ...]" = ()
    in_form: bool = True

    @property
    def title(self) -> str:
        return self.label or in_words(self.name)


def in_words(name: str) -> str:
    """`vector_store_id` → `Vector store id`; a last word that only says how a moment is written is left out."""
    words = name.removesuffix("_utc").removesuffix("_at").replace("_", " ")
    return f"{words[:1].upper()}{words[1:]}".replace(" url", " URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request for an action, checked: what its `run` gets."""

    jay: Scrubjay
    who: Principal
    values: Mapping[str, Any]
    endpoint: str  # the address as it was asked, for the job that it may start
    target_id: str = ""  # of an update: which one, as the address says

    @property
    def dry_run(self) -> bool:
        return bool(self.values.get("dry_run", False))


Run = Callable[[Call], Awaitable[Any]]
Start = Callable[[Call], Awaitable[dict[str, Any]]]
Follow = Callable[[Call], Awaitable[Any]]
Browse = Callable[[Call, Window], Awaitable[Listed]]
Watch = Callable[[Call], Awaitable[JobTail]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What stands behind one letter. `run` answers at once; `start` starts a job and returns its metadata.

    An action with both starts the job for `format=stream` only; one with `start` alone always does, and the other
    formats answer with the job. `follow` gives the stream of something that is going on already. Pages use `browse`
    to list a part at a time, and `watch` to show a job while it goes on.
    """

    run: Run | None = None
    start: Start | None = None
    follow: Follow | None = None
    browse: Browse | None = None
    watch: Watch | None = None
    params: tuple[Param, ...] = ()
    about: str = ""
    scope: Scope = Scope.READ
    changes: bool = False  # it has effects: a browser's session must show that its own pages ask (`asking.py`)
    examples: tuple[str, ...] = ()  # queries that the documentation shows


@dataclass(frozen=True, slots=True, kw_only=True)
class Button:
    """Something else that the interactive page offers for each item."""

    label: str
    path: str  # of the endpoint, without the prefix
    query: Mapping[str, str] = field(default_factory=dict)  # {id} is the item's
    changes: bool = False
    scope: Scope = Scope.READ  # that it needs; who has less is not offered it
    states: tuple[str, ...] = ()  # of the item, in which the button makes sense; none means all


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    shorthand: str
    path: str  # without the prefix: `inventory/vector_stores`
    about: str
    id_param: str = ""
    list: Action = field(default_factory=Action)
    create: Action = field(default_factory=Action)
    get: Action = field(default_factory=Action)
    update: Action = field(default_factory=Action)
    delete: Action = field(default_factory=Action)
    columns: tuple[str, ...] = ()  # that the interactive page shows; nothing means all of the first item
    buttons: tuple[Button, ...] = ()
    home: str = ""  # of an item: a page of the dashboard that shows more than its fields; {id} is the item's

    @property
    def title(self) -> str:
        return f"{PREFIX}/{self.path}"

    @property
    def label(self) -> str:
        """What pages call it."""
        return in_words(self.path.rpartition("/")[2])

    @property
    def is_listed(self) -> bool:
        """Whether its interactive page can be opened without knowing anything."""
        listing = self.endpoint(Kind.LIST)
        return listing is not None and Format.UI in listing.formats and not any(p.required for p in listing.params)

    def endpoints(self) -> "tuple[Endpoint, ...]":
        return tuple(
            Endpoint(resource=self, kind=kind, formats=formats, action=self._action(kind))
            for kind, formats in parse_shorthand(self.shorthand).items()
        )

    def endpoint(self, kind: Kind) -> "Endpoint | None":
        return next((endpoint for endpoint in self.endpoints() if endpoint.kind is kind), None)

    def _action(self, kind: Kind) -> Action:
        return {
            Kind.LIST: self.list,
            Kind.CREATE: self.create,
            Kind.GET: self.get,
            Kind.UPDATE: self.update,
            Kind.DELETE: self.delete,
        }[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address: an action of a resource with its formats."""

    resource: Resource
    kind: Kind
    formats: tuple[Format, ...]
    action: Action

    @property
    def path(self) -> str:
        return "/".join(part for part in (PREFIX, self.resource.path, self.kind.suffix) if part)

    @property
    def changes(self) -> bool:
        return self.action.changes or self.kind in (Kind.CREATE, Kind.UPDATE, Kind.DELETE)

    @property
    def params(self) -> tuple[Param, ...]:
        """Those that were declared, between those that every such action has."""
        own = list(self.action.params)
        names = {param.name for param in own}
        if self.kind in (Kind.GET, Kind.UPDATE, Kind.DELETE) and self.resource.id_param not in names:
            about = f"Which of {self.resource.title}."
            own.insert(0, Param(name=self.resource.id_param, about=about, required=True))
        if self.formats:
            own.append(
                Param(name="format", about="The format of the answer.", type=Type.CHOICE, choices=self._choices())
            )
        if self.kind in (Kind.CREATE, Kind.UPDATE, Kind.DELETE) and "dry_run" not in names:
            own.append(DRY_RUN)
        return tuple(own)

    def _choices(self) -> Mapping[str, str]:
        return {str(each): _FORMAT_MEANINGS[each] for each in self.formats}


_FORMAT_MEANINGS = {
    Format.JSON: "JSON result {ok, error, data}",
    Format.HTML: "HTML view",
    Format.UI: "interactive page",
    Format.STREAM: "Server-Sent Events of a job: start_json, log, end_json",
    Format.ZIP: "ZIP archive",
}
DRY_RUN = Param(
    name="dry_run",
    about="Whether to only simulate the action.",
    type=Type.TRUTH,
    default=False,
    choices={"false": "perform the action as specified", "true": "simulate the action without changing anything"},
)


def parse_shorthand(text: str) -> dict[Kind, tuple[Format, ...]]:
    """`L(jhu)G(jh)` → which formats each action answers in."""
    if not _SHORTHAND.fullmatch(text):
        raise ValueError(f"'{text}' is not shorthand for actions; it looks like L(jhu)C(j)G(jh)U(j)D(jh)")
    parts = [(Kind(letter), tuple(_FORMATS[each] for each in formats)) for letter, formats in _PART.findall(text)]
    if len(dict(parts)) < len(parts):
        raise ValueError(f"'{text}' has an action twice")
    return dict(parts)
