"""A plan's `RepositorySettings`: members in PascalCase here, the settings of its connector inside."""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, get_args

from pydantic import ValidationError
from pydantic.alias_generators import to_pascal
from pydantic.fields import FieldInfo

from scrubjay.api.crawlplans.schemas import Range, fold_case
from scrubjay.errors import InvalidRequest
from scrubjay.model.plan import Plan, RepositoryType
from scrubjay.sources.protocol import ConnectorType
from scrubjay.sources.registry import connector_type

MAX_TEXT = 8192
_PART = "RepositorySettings"
_TYPE = "repositorytype"
_BOUNDS = frozenset({"greater_than_equal", "less_than_equal", "greater_than", "less_than"})


def read_repository(named: str | None, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The type of repository and its settings; InvalidRequest that names the member for what is wrong with them."""
    folded = {str(name).lower(): value for name, value in given.items()}
    kind = _read_type(named, folded.get(_TYPE))
    values: dict[str, Any] = {}
    for name, field in kind.settings.model_fields.items():
        value = folded.get(to_pascal(name).lower())
        if value is None or (value == "" and name not in kind.secrets):
            continue  # empty text says nothing; for a secret it says that there is none any more
        values[name] = _read_value(name, field, value)
    try:
        # As JSON and strictly: `"yes"` is no boolean and `"5"` no number, but a list may become a tuple.
        settings = kind.settings.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise _refusal(kind, error) from error
    return kind.name, settings.model_dump(mode="json", exclude_unset=True)


def _read_type(named: str | None, inside: Any) -> ConnectorType:
    if inside is not None and not isinstance(inside, str):
        raise InvalidRequest(f"{_PART}.RepositoryType must be text.", field=f"{_PART}.RepositoryType")
    kind = connector_type(named or inside or RepositoryType.WEB)
    if inside and connector_type(inside) is not kind:
        raise InvalidRequest(
            f"{_PART}.RepositoryType must be the plan's RepositoryType, {kind.name}.", field=f"{_PART}.RepositoryType"
        )
    return kind


def _read_value(name: str, field: FieldInfo, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if len(value) > MAX_TEXT:
        raise _refuse(name, f"must have at most {MAX_TEXT} characters")
    if any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise _refuse(name, "must not contain control characters")
    kinds = [each for each in (field.annotation, *get_args(field.annotation)) if isinstance(each, type)]
    for kind in kinds:
        if issubclass(kind, StrEnum):
            return fold_case(kind, value)
    return value


def _refusal(kind: ConnectorType, error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else ""
    if first["type"] in _BOUNDS and name in kind.settings.model_fields:
        return _refuse(name, f"must be {Range.of(kind.settings, name)}")
    reason = str(first["msg"]).removeprefix("Value error, ").removeprefix(f"{name} ").removeprefix(f"{name}: ")
    return _refuse(name, reason[:1].lower() + reason[1:].removesuffix("."))


def _refuse(name: str, reason: str) -> InvalidRequest:
    member = f"{_PART}.{to_pascal(name)}" if name else _PART
    return InvalidRequest(f"{member}: {reason}.", field=member)


def show_repository(plan: Plan) -> dict[str, Any]:
    """A plan's settings as everybody may see them: with the defaults, without secrets."""
    shown: dict[str, Any] = {"RepositoryType": plan.repository_type}
    try:
        kind = connector_type(plan.repository_type)
    except InvalidRequest:
        return shown  # its connector is not installed any more, and nobody else knows what is secret
    open_values = {name: value for name, value in plan.repository_settings.items() if name not in kind.secrets}
    try:
        values = kind.read_settings(open_values).model_dump(mode="json")
    except ValidationError:
        values = open_values
    return shown | {to_pascal(name): value for name, value in values.items() if value is not None}
