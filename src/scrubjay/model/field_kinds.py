"""What a pydantic field accepts: its type, range and length, for options and forms that are made from models."""

import types
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin

from pydantic.fields import FieldInfo

_LIMITS = ("ge", "le", "max_length")


@dataclass(frozen=True, slots=True)
class FieldKind:
    type: Any  # the first type of a union; None stands for a default and is left out
    least: float | None = None
    most: float | None = None
    longest: int | None = None


def field_kind(field: FieldInfo) -> FieldKind:
    found = _kinds(field.annotation) or [(str, [])]
    kind, metadata = found[0]
    limits: dict[str, Any] = {}
    for each in [*metadata, *field.metadata]:
        for part in each.metadata if isinstance(each, FieldInfo) else [each]:
            limits |= {name: getattr(part, name) for name in _LIMITS if getattr(part, name, None) is not None}
    return FieldKind(kind, *(limits.get(name) for name in _LIMITS))


def _kinds(annotation: Any) -> list[tuple[Any, list[Any]]]:
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in _kinds(part)]
    if hasattr(annotation, "__metadata__"):
        inner, *metadata = get_args(annotation)
        return [(kind, [*known, *metadata]) for kind, known in _kinds(inner)]
    return [] if annotation is type(None) else [(annotation, [])]
