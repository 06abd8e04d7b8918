"""From the options of `scrubjay plan add` and `edit` to what a plan is: schedule, settings of its source, secrets."""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from pydantic import BaseModel, ValidationError

from scrubjay.cli.plan_options import FLAGS, LinkScope
from scrubjay.errors import InvalidRequest
from scrubjay.model.patterns import UrlPattern
from scrubjay.model.plan import IntervalType, Plan, RepositoryType, ScheduleSettings, WebAuthType

if TYPE_CHECKING:
    from scrubjay.model.plan import PlanValues
    from scrubjay.sources.protocol import ConnectorType

Model = TypeVar("Model", bound=BaseModel)

SOURCE = "SOURCE"
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_INTERVALS = {"m": IntervalType.MINUTES, "h": IntervalType.HOURS, "d": IntervalType.DAYS, "w": IntervalType.WEEKS}
_DURATION = re.compile(r"(\d{1,6})\s*([smhdw])")
_S3 = re.compile(r"s3://([^/]+)/*(.*)", re.DOTALL)
_FOLDERS = ("/", "./", "../", "~")
_SCOPES = {  # children, subdomain, root domain
    LinkScope.CHILDREN: (True, False, True),
    LinkScope.HOST: (False, True, True),
    LinkScope.DOMAIN: (False, False, True),
    LinkScope.ANY: (False, False, False),
}
_AUTHENTICATION = {
    "password": WebAuthType.BASIC,
    "bearer_token": WebAuthType.BEARER_TOKEN,
    "api_key_value": WebAuthType.API_KEY,
}
_SCHEDULE_OPTIONS = FLAGS | {"interval_value": "--every", "jitter_seconds": "--jitter"}


def read_duration(text: str, option: str) -> timedelta:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise InvalidRequest(f"{option} must be a number with s, m, h, d or w, as 90s, 30m, 24h, 7d or 2w.")
    return timedelta(seconds=int(found[1]) * _SECONDS[found[2]])


def guess_type(source: str) -> str:
    """The kind of source that this looks like; feeds look like web sites."""
    if source.startswith("s3://"):
        return RepositoryType.S3
    if "://" not in source and (source.startswith(_FOLDERS) or _is_folder(source)):
        return RepositoryType.FILE
    return RepositoryType.WEB


def _is_folder(source: str) -> bool:
    try:
        return Path(source).is_dir()
    except OSError:  # no name that a file could have
        return False


@dataclass(slots=True)
class Draft:
    """What the options make of a plan. Remembers which option each setting came from, to name it in an error."""

    kind: "ConnectorType"
    options: dict[str, Any]  # those that were given
    source: str | None
    origins: dict[str, str] = field(default_factory=dict)

    def values(self, before: "PlanValues") -> "PlanValues":
        """What is to be, from what was (or the defaults) and the options that were given."""
        said = self.options
        if said.get("maximum_size") == 0:
            said = said | {"maximum_size": ""}
        return replace(
            before,
            **{each.name: said[each.name] for each in fields(before) if each.name in said},
            repository_type=self.kind.name,
            repository_settings=self._settings(before.repository_settings),
            schedule=self._schedule(before.schedule),
            ingestion_settings=_changed(before.ingestion_settings, said),
            filter=_changed(before.filter, said),
            deletion=_changed(before.deletion, said),
        )

    @contextmanager
    def explaining(self) -> Iterator[None]:
        """Name the option where a service names the field."""
        origins = _SCHEDULE_OPTIONS | self.origins
        try:
            yield
        except InvalidRequest as error:
            where = str(error.details.get("field", ""))
            option = origins.get(where.rpartition(".")[2])
            if option is None:
                raise
            raise InvalidRequest(f"{option}: {error.message.removeprefix(f'{where}: ')}") from error

    def _schedule(self, before: ScheduleSettings) -> ScheduleSettings:
        said = self.options
        ways = ("every", "cron", "once", "requests_per_day")
        given = [FLAGS[name] for name in ways if said.get(name)]
        if len(given) > 1:
            raise InvalidRequest(f"Give only one of {' and '.join(given)}.")
        changes = {name: said.get(name) for name in ("cron", "requests_per_day")} if given else {}
        if "every" in said:
            changes |= read_interval(said["every"])
        elif said["once"]:
            changes["interval_type"] = IntervalType.ONE_TIME
        if "jitter" in said:
            changes["jitter_seconds"] = int(read_duration(said["jitter"], "--jitter").total_seconds())
        return _validated(ScheduleSettings, before.model_dump() | changes, _SCHEDULE_OPTIONS)

    def _settings(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """The source's settings in their own types. Secrets that are not given are not in it: they stay."""
        settings = dict(before)
        for option, name, value in self._given():
            if name not in self.kind.settings.model_fields:
                raise InvalidRequest(self._unknown(option, name))
            self.origins[name] = option
            if value is None:
                settings.pop(name, None)
            else:
                settings[name] = value
        self._require_pairs(settings)
        secrets = {name: settings.pop(name) for name in self.kind.secrets if name in settings}
        checked = _validated(self.kind.settings, settings | secrets, self.origins)
        return checked.model_dump(mode="json", include=set(settings)) | secrets

    def _require_pairs(self, settings: Mapping[str, Any]) -> None:
        """A name without its secret, or a password without its user, would never be sent."""
        wanted = settings.get("authentication_type")
        for name, kind in (("username", WebAuthType.BASIC), ("api_key_header", WebAuthType.API_KEY)):
            if name in self.origins and settings.get(name) and wanted != kind:
                raise InvalidRequest(f"{self.origins[name]}: its secret must be given, too; see `plan add --help`.")
        if wanted == WebAuthType.BASIC and not settings.get("username"):
            raise InvalidRequest("--user must be given with a password.")
        if wanted == WebAuthType.API_KEY and not settings.get("api_key_header"):
            raise InvalidRequest("--api-key-header must be given with an API key.")

    def _unknown(self, option: str, name: str) -> str:
        if not option.startswith("--set"):
            return f"{option} is not for plans of the type {self.kind.name}."
        names = sorted(set(self.kind.settings.model_fields) - self.kind.secrets)
        return f"--set: plans of the type {self.kind.name} have no setting '{name[:50]}', but {', '.join(names)}."

    def _given(self) -> Iterator[tuple[str, str, Any]]:
        """Option, setting, value; a later one wins."""
        said = self.options
        if self.source is not None:
            yield from ((SOURCE, name, value) for name, value in self._source(self.source))
        for name in ("include_patterns", "exclude_patterns"):
            if name in said:
                yield FLAGS[name], name, _patterns(FLAGS[name], said[name])
        plain = ("max_depth", "crawl_delay_ms", "max_parallel_tasks", "username", "api_key_header")
        yield from ((FLAGS[name], name, said[name]) for name in plain if name in said)
        if "scope" in said:
            names = ("restrict_to_child_urls", "restrict_to_subdomain", "restrict_to_root_domain")
            yield from (("--scope", name, value) for name, value in zip(names, _SCOPES[said["scope"]], strict=True))
        yield from self._secrets()
        for each in said.get("settings", ()):
            name, value = _pair(each, "--set", "NAME=VALUE")
            if name in self.kind.secrets:
                raise InvalidRequest(
                    f"--set: {name} is a secret, which others can read on a command line; "
                    f"give it with --secret-stdin {name} or --secret-env {name}=VARIABLE."
                )
            yield f"--set {name}", name, _parsed(value, name)

    def _source(self, source: str) -> Iterator[tuple[str, Any]]:
        if self.kind.name == RepositoryType.S3:
            found = _S3.fullmatch(source)
            if found is None:
                raise InvalidRequest("SOURCE: a bucket looks like s3://bucket/prefix.")
            yield "bucket", found[1]
            yield "prefix", found[2] or None
        elif self.kind.name == RepositoryType.FILE:
            yield "path", _absolute(source.removeprefix("file://"))
        elif self.kind.required:
            yield self.kind.required[0], source

    def _secrets(self) -> Iterator[tuple[str, str, Any]]:
        """Secrets, and with those of web sites the kind of authentication."""
        said = self.options
        if said["no_auth"]:
            yield "--no-auth", "authentication_type", WebAuthType.NONE
            yield from (("--no-auth", name, "") for name in _AUTHENTICATION)
        for option, name, value in _given_secrets(said):
            if name not in self.kind.secrets:
                known = ", ".join(sorted(self.kind.secrets)) or "none"
                raise InvalidRequest(f"{option}: the secrets of plans of the type {self.kind.name} are: {known}.")
            if self.kind.name == RepositoryType.WEB:
                yield from ((option, other, "") for other in _AUTHENTICATION)  # a site has one way in
                yield option, "authentication_type", _AUTHENTICATION[name]
            yield option, name, value


def _given_secrets(said: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    from_input = {
        "--password-stdin": "password" if said["password_stdin"] else None,
        "--bearer-stdin": "bearer_token" if said["bearer_stdin"] else None,
        "--api-key-stdin": "api_key_value" if said["api_key_stdin"] else None,
        "--secret-stdin": said.get("secret_stdin"),
    }
    given = {option: name for option, name in from_input.items() if name}
    if len(given) > 1:
        raise InvalidRequest(f"Standard input holds one secret: give only one of {' and '.join(given)}.")
    for each in said.get("secret_env", ()):
        name, variable = _pair(each, "--secret-env", "NAME=VARIABLE")
        value = os.environ.get(variable)  # not a setting of ours, but what somebody keeps a secret in
        if not value:
            raise InvalidRequest(f"--secret-env: the environment variable {variable[:50]} is not set.")
        yield "--secret-env", name, value
    for option, name in given.items():
        typed = sys.stdin.isatty()
        secret = typer.prompt(name, hide_input=True, err=True) if typed else sys.stdin.readline().rstrip("\r\n")
        if not secret:
            raise InvalidRequest(f"{option}: nothing came in on standard input.")
        yield option, name, secret


def _absolute(folder: str) -> str:
    try:
        return str(Path(folder).expanduser().absolute())
    except RuntimeError as error:
        raise InvalidRequest(f"SOURCE: cannot find the home folder of '{folder[:100]}'.") from error


def values_of(plan: Plan, kind: "ConnectorType") -> "PlanValues":
    """What may be said of a plan, as it is now; secrets are left out, which keeps them."""
    from scrubjay.model.plan import PlanValues

    known = {each.name: getattr(plan, each.name) for each in fields(PlanValues)}
    shown = {name: value for name, value in plan.repository_settings.items() if name not in kind.secrets}
    return PlanValues(**known | {"repository_settings": shown})


def read_interval(text: str) -> dict[str, Any]:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _INTERVALS:
        raise InvalidRequest("--every must be a number with m, h, d or w, as 30m, 24h, 7d or 2w.")
    return {"interval_type": _INTERVALS[found[2]], "interval_value": int(found[1])}


def _changed(before: Model, said: Mapping[str, Any]) -> Model:
    """The same with what was given; an empty text or list takes away what there was."""
    given = {name: said[name] for name in type(before).model_fields if name in said}
    given = {name: tuple(filter(None, each)) if isinstance(each, list) else each for name, each in given.items()}
    return before.model_copy(update={name: None if value in ("", ()) else value for name, value in given.items()})


def _patterns(option: str, given: list[str]) -> tuple[str, ...]:
    patterns = tuple(filter(None, given))
    for pattern in patterns:
        UrlPattern(pattern, field=option)
    return patterns


def _pair(text: str, option: str, shape: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidRequest(f"{option} looks like {shape}, not '{text[:50]}'.")
    return name.strip(), value


def _parsed(text: str, name: str) -> Any:
    """Text, which the setting's type makes the best of; only lists have to be JSON."""
    if not text.startswith(("[", "{")):
        return text or None
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"--set {name} is not JSON: {error}.") from error


def _validated(model: type[Model], values: Mapping[str, Any], origins: Mapping[str, str]) -> Model:
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else "settings"
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"{origins.get(name, name)}: {message}.") from error
