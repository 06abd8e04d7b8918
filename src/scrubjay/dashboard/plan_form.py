"""The form of a crawler: which fields it has, made from the settings' own models, and what somebody filled in."""

import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from scrubjay.connectors.registry import connector_type
from scrubjay.connectors.source import ConnectorType
from scrubjay.dashboard.session import Order
from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.model.plan import DeletionSettings, FilterSettings, IngestionSettings, Plan, ScheduleSettings
from scrubjay.services.plans import PlanValues

SECTIONS: Mapping[str, type[BaseModel]] = {
    "schedule": ScheduleSettings,
    "filter": FilterSettings,
    "deletion": DeletionSettings,
}
TITLES = {"schedule": "Schedule", "filter": "Filter", "deletion": "Deletions"}
SWITCHES = {
    "process_additions": "Take in what is new",
    "process_updates": "Take in what changed",
    "process_deletions": "Remove what is gone",
    "is_active": "Runs by its schedule",
}
NUMBERS = {"max_drain_tasks": "Documents at a time (1–64)", "retention_days": "Keep runs for days (0–14)"}
# Where the name of a setting is not how a person would call it.
LABELS = {
    "start_url": "Start URL",
    "url": "URL",
    "site_url": "Site URL",
    "ignore_robots_txt": "Ignore robots.txt",
    "crawl_delay_ms": "Crawl delay (ms)",
    "cron": "Cron expression (instead of the interval)",
    "minimum_size": "Minimum size (bytes)",
    "maximum_size": "Maximum size (bytes)",
    "max_missing_share": "Withhold deletions above this share",
    "min_missing_items": "…but only if more items than this are missing",
    "grace_runs": "Runs that an item may be missing",
    "api_key_header": "API key header",
    "api_key_value": "API key value",
}


@dataclass(frozen=True, slots=True)
class Field:
    """One input: `kind` is check, number, choice, lines, secret or text."""

    name: str
    label: str
    kind: str
    value: Any
    options: tuple[str, ...] = ()
    required: bool = False


def _label(name: str) -> str:
    return LABELS.get(name) or name.replace("_", " ").capitalize()


def _kinds(annotation: Any) -> list[Any]:
    """What a value may be, without the nothing that stands for a default."""
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) for each in _kinds(part)]
    if get_origin(annotation) is not None and hasattr(annotation, "__metadata__"):
        return _kinds(get_args(annotation)[0])
    return [] if annotation is type(None) else [annotation]


def _field(prefix: str, name: str, info: FieldInfo, value: Any, kind: ConnectorType | None) -> Field:
    full, label = f"{prefix}.{name}", _label(name)
    required = kind is not None and name in kind.required
    if kind is not None and name in kind.secrets:
        return Field(full, label, "secret", bool(value))  # only whether there is one
    first = (_kinds(info.annotation) or [str])[0]
    if first is bool:
        return Field(full, label, "check", bool(value))
    if first in (int, float):
        return Field(full, label, "number", value)
    if isinstance(first, type) and issubclass(first, StrEnum):
        return Field(full, label, "choice", str(value or ""), tuple(str(each) for each in first))
    if get_origin(first) is Literal:
        return Field(full, label, "choice", str(value or ""), tuple(str(each) for each in get_args(first)))
    if get_origin(first) in (tuple, list):
        return Field(full, label, "lines", "\n".join(str(each) for each in value or ()))
    return Field(full, label, "text", value, required=required)


def source_fields(kind: ConnectorType, settings: Mapping[str, Any]) -> list[Field]:
    """The settings of the source itself, the ones that are needed first."""
    values = kind.settings.model_construct().model_dump() | dict(settings)
    found = [_field("source", name, info, values.get(name), kind) for name, info in kind.settings.model_fields.items()]
    return sorted(found, key=lambda field: not field.required)


def section_fields(plan: Plan) -> Iterator[tuple[str, list[Field]]]:
    for section, model in SECTIONS.items():
        values = getattr(plan, section).model_dump()
        yield (
            TITLES[section],
            [_field(section, name, info, values[name], None) for name, info in model.model_fields.items()],
        )


def read_form(order: Order, type_name: str, known: Plan | None = None) -> PlanValues:
    """What somebody filled in; InvalidRequest that names the field for what cannot be read."""
    kind = connector_type(type_name)
    before = known.ingestion_settings if known is not None else IngestionSettings()
    plain: dict[str, Any] = {name: order.checked(name) for name in SWITCHES}
    plain |= {name: _whole(order, name) for name in NUMBERS}
    return PlanValues(
        name=order.text("name"),
        repository_type=kind.name,
        repository_settings=_read_source(order, kind),
        ingestion_settings=before.model_copy(
            update={
                "ingestion_rule_id": order.text("ingestion_rule_id") or None,
                "collection_id": order.text("collection_id") or None,
                "store_original": order.checked("store_original"),
            }
        ),
        schedule=_read_section(order, "schedule", ScheduleSettings),
        filter=_read_section(order, "filter", FilterSettings),
        deletion=_read_section(order, "deletion", DeletionSettings),
        **plain,
    )


def _read_source(order: Order, kind: ConnectorType) -> dict[str, Any]:
    values = dict(_read_fields(order, "source", kind.settings, kind))
    try:
        return kind.settings.model_validate(values).model_dump(mode="json", exclude_unset=True)
    except ValidationError as error:
        raise _refusal("source", error) from error


def _read_section(order: Order, section: str, model: Any) -> Any:
    try:
        return model.model_validate(dict(_read_fields(order, section, model, None)))
    except ValidationError as error:
        raise _refusal(section, error) from error


def _read_fields(
    order: Order, prefix: str, model: type[BaseModel], kind: ConnectorType | None
) -> Iterator[tuple[str, Any]]:
    """Each setting that was given; what was left empty keeps its default."""
    for name, info in model.model_fields.items():
        field = _field(prefix, name, info, None, kind)
        text = order.text(field.name)
        if field.kind == "check":
            yield name, order.checked(field.name)
        elif field.kind == "lines" and text:
            yield name, tuple(line.strip() for line in text.splitlines() if line.strip())
        elif text and field.kind != "lines":
            yield name, text


def _whole(order: Order, name: str) -> int:
    try:
        return int(order.text(name))
    except ValueError:
        raise InvalidRequest("must be a whole number.", field=name) from None


def _refusal(section: str, error: ValidationError) -> InvalidRequest:
    first = error.errors()[0]
    where = ".".join([section, *(str(part) for part in first["loc"][:1])])
    return InvalidRequest(first["msg"].removeprefix("Value error, "), field=where)


def form_field(error: ScrubjayError) -> str:
    """Which input an error is about: services name settings as they call them."""
    named = str(error.details.get("field") or "")
    for section, prefix in (("repository_settings.", "source."), ("schedule.", "schedule."), ("filter.", "filter.")):
        if named.startswith(section):
            return prefix + named.removeprefix(section).split(".")[0]
    return named
