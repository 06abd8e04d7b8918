"""The form of a crawler: which fields it has, made from the settings' own models, and what somebody filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from scrubjay.dashboard.forms import Field, Look, Problems, fields_of, problems_of, read_fields
from scrubjay.dashboard.session import Order
from scrubjay.errors import ScrubjayError
from scrubjay.model.plan import DeletionSettings, FilterSettings, IngestionSettings, Plan, PlanValues, ScheduleSettings
from scrubjay.sources.protocol import ConnectorType
from scrubjay.sources.registry import connector_type

SECTIONS: Mapping[str, type[BaseModel]] = {
    "schedule": ScheduleSettings,
    "filter": FilterSettings,
    "deletion": DeletionSettings,
}
SWITCHES = {
    "process_additions": "Take in what is new",
    "process_updates": "Take in what changed",
    "process_deletions": "Remove what is gone",
}
NUMBERS = {"max_drain_tasks": ("Documents at a time", 1, 64), "retention_days": ("Keep runs for days", 0, 14)}
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
    "proxy_id": "Proxy",
    "crawl_config_id": "Crawl config",
    "restrict_to_child_urls": "Restrict to child URLs",
    "requests_per_day": "Requests a day (adaptive, instead of the interval)",
}
HINTS = {
    "include_patterns": "Only addresses that match one of these, as in /docs/*",
    "exclude_patterns": "Never addresses that match one of these",
    "allowed_content_types": "As in text/html; none means all",
    "crawl_config_id": "Speaks for headers, timeouts and sizes",
}
CHOSEN = ("proxy_id", "crawl_config_id")
# The inputs that only one kind of authentication needs; style.css hides them while another is chosen.
AUTHENTICATION = {
    "source.username": "Basic",
    "source.password": "Basic",
    "source.api_key_header": "ApiKey",
    "source.api_key_value": "ApiKey",
    "source.bearer_token": "BearerToken",
}

Choices = Mapping[str, Sequence[tuple[str, str]]]


def _look(kind: ConnectorType, choices: Choices) -> Look:
    known = {name: choices.get(name, ()) for name in CHOSEN if name in kind.settings.model_fields}
    return Look(labels=LABELS, hints=HINTS, secrets=kind.secrets, required=kind.required, choices=known)


def source_fields(kind: ConnectorType, settings: Mapping[str, Any], choices: Choices) -> list[Field]:
    """The settings of the source itself, the ones that are needed first."""
    values = kind.settings.model_construct().model_dump() | dict(settings)
    found = fields_of(kind.settings, values, "source.", _look(kind, choices))
    return sorted(found, key=lambda field: not field.required)


def section_fields(plan: Plan) -> dict[str, list[Field]]:
    look = Look(labels=LABELS, hints=HINTS)
    return {
        section: fields_of(model, getattr(plan, section).model_dump(), f"{section}.", look)
        for section, model in SECTIONS.items()
    }


def number_fields(plan: Plan) -> dict[str, Field]:
    return {
        name: Field(name, label, "number", getattr(plan, name), required=True, least=least, most=most)
        for name, (label, least, most) in NUMBERS.items()
    }


def read_form(order: Order, type_name: str, known: Plan | None = None) -> PlanValues:
    """What somebody filled in; InvalidRequest that names every field that cannot be read."""
    kind = connector_type(type_name)
    before = known.ingestion_settings if known is not None else IngestionSettings()
    problems = Problems()
    if not order.text("name"):
        problems.add("name", "This is needed.")
    source = _read(order, "source", kind.settings, problems, _look(kind, {}))
    plain: dict[str, Any] = {name: _read(order, name, model, problems) for name, model in SECTIONS.items()}
    plain |= {name: _whole(order, name, problems) for name in NUMBERS}
    plain |= {name: order.checked(name) for name in (*SWITCHES, "is_active")}
    problems.raise_any()
    return PlanValues(
        name=order.text("name"),
        repository_type=kind.name,
        repository_settings=source.model_dump(mode="json", exclude_unset=True),
        ingestion_settings=before.model_copy(
            update={
                "ingestion_rule_id": order.text("ingestion_rule_id") or None,
                "collection_id": order.text("collection_id") or None,
                "store_original": order.checked("store_original"),
                "bucket_name": order.text("bucket_name") or None,
            }
        ),
        **plain,
    )


def _read(order: Order, section: str, model: Any, problems: Problems, look: Look | None = None) -> Any:
    try:
        return model.model_validate(dict(read_fields(order, model, f"{section}.", look or Look())))
    except ValidationError as error:
        problems.add_all(f"{section}.", error)


def _whole(order: Order, name: str, problems: Problems) -> int:
    _, least, most = NUMBERS[name]
    text = order.text(name)
    if not text.isdecimal() or len(text) > 9:
        problems.add(name, "This must be a whole number.")
        return least
    if not least <= int(text) <= most:
        problems.add(name, f"{name} must be between {least} and {most}.")
    return int(text)


def form_problems(error: ScrubjayError | None) -> Mapping[str, str]:
    """Which inputs an error is about: services name settings as they call them."""
    found = problems_of(error)
    return {_input_name(name): message for name, message in found.items()}


def _input_name(named: str) -> str:
    for section, prefix in (("repository_settings.", "source."), ("schedule.", "schedule."), ("filter.", "filter.")):
        if named.startswith(section):
            return prefix + named.removeprefix(section).split(".")[0]
    return {"cron": "schedule.cron"}.get(named, named)
