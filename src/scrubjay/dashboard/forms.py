"""Forms: the inputs of a settings model, what somebody filled in, and what is wrong with each field, in words."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from scrubjay.dashboard.session import Order
from scrubjay.dashboard.words import plain
from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.model.field_kinds import field_kind

MAX_TEXT = 2048
_MESSAGES = {
    "int_parsing": "This must be a whole number.",
    "int_from_float": "This must be a whole number.",
    "float_parsing": "This must be a number.",
    "missing": "This is needed.",
    "string_too_short": "This is needed.",
    "string_too_long": "At most {max_length} characters.",
    "too_long": "At most {max_length} entries.",
    "greater_than_equal": "At least {ge}.",
    "less_than_equal": "At most {le}.",
    "enum": "Choose one of {expected}.",
    "literal_error": "Choose one of {expected}.",
    "string_pattern_mismatch": "This has characters that do not belong here.",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One input: `kind` is check, number, choice, lines, secret or text."""

    name: str
    label: str
    kind: str
    value: Any = None
    options: tuple[tuple[str, str], ...] = ()  # what is sent, and what is read
    required: bool = False
    least: float | None = None
    most: float | None = None
    whole: bool = True
    longest: int = MAX_TEXT
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How the fields of a model are shown, where their names and types do not say it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    hints: Mapping[str, str] = field(default_factory=dict)
    secrets: frozenset[str] = frozenset()
    required: Sequence[str] = ()
    choices: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    lines: Sequence[str] = ()


PLAIN = Look()


def fields_of(model: type[BaseModel], values: Mapping[str, Any], prefix: str = "", look: Look = PLAIN) -> list[Field]:
    """An input for each setting of a model."""
    return [_field(prefix, name, info, values.get(name), look) for name, info in model.model_fields.items()]


def _field(prefix: str, name: str, info: FieldInfo, value: Any, look: Look) -> Field:
    kind = field_kind(info)
    first = kind.type
    facts: dict[str, Any] = {
        "name": prefix + name,
        "label": look.labels.get(name) or name.replace("_", " ").capitalize(),
        "hint": look.hints.get(name, ""),
        "required": name in look.required,
    }
    if name in look.secrets:
        return Field(**facts, kind="secret", value=bool(value))  # only whether there is one
    if name in look.choices:
        return Field(**facts, kind="choice", value=str(value or ""), options=(("", "None"), *look.choices[name]))
    if first is bool:
        return Field(**facts, kind="check", value=bool(value))
    if first in (int, float):
        return Field(**facts, kind="number", value=value, whole=first is int, least=kind.least, most=kind.most)
    options = _options(first)
    if options:
        shown = tuple((each, each.replace("_", " ")) for each in options)
        return Field(**facts, kind="choice", value=str(value or ""), options=shown)
    if get_origin(first) in (tuple, list):
        facts["hint"] = facts["hint"] or "One a line"
        return Field(**facts, kind="lines", value="\n".join(str(each) for each in value or ()))
    if name in look.lines:
        return Field(**facts, kind="lines", value=value or "")
    return Field(**facts, kind="text", value=value, longest=kind.longest or MAX_TEXT)


def _options(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return tuple(str(each) for each in kind)
    return tuple(str(each) for each in get_args(kind)) if get_origin(kind) is Literal else ()


def read_fields(
    order: Order, model: type[BaseModel], prefix: str = "", look: Look = PLAIN
) -> Iterator[tuple[str, Any]]:
    """Each setting that was given; what was left empty keeps its default."""
    for each in fields_of(model, {}, prefix, look):
        name = each.name.removeprefix(prefix)
        text = order.text(each.name)
        is_list = each.kind == "lines" and name not in look.lines
        if each.kind == "check":
            yield name, order.checked(each.name)
        elif is_list and text:
            yield name, tuple(line.strip() for line in text.splitlines() if line.strip())
        elif text and not is_list:
            yield name, text


class Problems:
    """What is wrong with a form, by the field; the first of one field counts."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def add(self, name: str, message: str) -> None:
        self._found.setdefault(name, message)

    def add_all(self, prefix: str, error: ValidationError) -> None:
        for each in error.errors():
            where = str(each["loc"][0]) if each["loc"] else ""
            self.add(prefix + where, in_words(each))

    def raise_any(self) -> None:
        """InvalidRequest that names every field, if there is anything wrong."""
        if self._found:
            name, message = next(iter(self._found.items()))
            raise InvalidRequest(message, field=name, problems=self._found)


def in_words(error: Any) -> str:
    """One error of pydantic as a person would say it."""
    words = _MESSAGES.get(error["type"])
    if words is None:
        return str(error["msg"]).removeprefix("Value error, ").rstrip(".") + "."
    facts = error.get("ctx") or {}
    return words.format_map({name: plain(fact) if isinstance(fact, float) else fact for name, fact in facts.items()})


def problems_of(error: ScrubjayError | None, names: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Which fields an error is about, and what is wrong with each. `names` are those that services use for fields."""
    if error is None:
        return {}
    found: Mapping[str, str] | None = error.details.get("problems")
    if found is not None:
        return found
    named = str(error.details.get("field") or "")
    return {(names or {}).get(named, named): error.message}
