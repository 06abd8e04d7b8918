"""The options that `scrubjay plan add` and `plan edit` share, and how to find a plan by its name."""

import inspect
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel

from scrubjay.cli.model_options import flag, flag_of, option
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.plan import DeletionSettings, FilterSettings, IngestionSettings, ScheduleSettings, WebSettings

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.plan import Plan
    from scrubjay.model.tenant import Principal

PlanName = Annotated[str, typer.Argument(metavar="PLAN", help="The plan's name or id (cplan_…), or how its id begins.")]

_PLANS_AT_ONCE = 200
_WHEN = "When it runs"
_SITES = "Web sites"
_SECRETS = "Credentials"
_CONTENT = "What is taken in"
_GONE = "What is gone"


class LinkScope(StrEnum):
    CHILDREN = "children"
    HOST = "host"
    DOMAIN = "domain"
    ANY = "any"


def _flag(panel: str, name: str, *names: str, kind: Any = bool, **details: Any) -> inspect.Parameter:
    default = details.pop("default", None)
    accepted = kind if default is not None else kind | None
    return flag(name, *names, kind=accepted, default=default, rich_help_panel=panel, show_default=False, **details)


def _field(panel: str, model: type[BaseModel], field: str, *names: str, **details: Any) -> inspect.Parameter:
    return option(model, field, *names, default=None, rich_help_panel=panel, show_default=False, **details)


# What is not given stays as it is. An option is called like the member of the plan or of its settings that it changes.
PLAN_OPTIONS = (
    flag("name", kind=str | None, default=None, help="What to call it. Default: its source."),
    _flag(_WHEN, "is_active", "--active/--inactive", help="Let it run by itself, or only by `plan run`."),
    _flag(_WHEN, "every", kind=str, help="Run at intervals: 30m, 24h (the default), 7d, 2w."),
    _flag(_WHEN, "cron", kind=str, help="Run when this cron expression says so (UTC), as '0 4 * * *'."),
    _flag(_WHEN, "once", "--once", default=False, help="Run by itself only once."),
    _field(
        _WHEN, ScheduleSettings, "requests_per_day", "--budget",
        help="Maximum number of requests per day; pages that have probably changed come first.",
    ),
    _flag(_WHEN, "jitter", kind=str, help="Begin later by a random time of up to this: 90s, 10m, 2h."),
    _field(_SITES, WebSettings, "max_depth", help="Maximum number of links away from the start."),
    _field(_SITES, WebSettings, "crawl_delay_ms", "--delay-ms", help="Milliseconds between two requests to a host."),
    _field(_SITES, WebSettings, "max_parallel_tasks", "--concurrency", help="Maximum number of concurrent requests."),
    _field(
        _SITES, WebSettings, "include_patterns", "--include",
        help="Only URLs that match this regular expression; '' for all.",
    ),
    _field(
        _SITES, WebSettings, "exclude_patterns", "--exclude",
        help="No URLs that match this regular expression; '' for none.",
    ),
    _flag(
        _SITES, "scope", kind=LinkScope,
        help="Which links are followed: below the start (the default), its host, its domain, or any.",
    ),
    _field(_SECRETS, WebSettings, "username", "--user", help="User for Basic authentication."),
    _flag(_SECRETS, "password_stdin", "--password-stdin", default=False, help="Read the password from standard input."),
    _flag(_SECRETS, "bearer_stdin", "--bearer-stdin", default=False, help="Read a Bearer token from standard input."),
    _field(_SECRETS, WebSettings, "api_key_header", help="Header that carries an API key."),
    _flag(_SECRETS, "api_key_stdin", "--api-key-stdin", default=False, help="Read the API key from standard input."),
    _flag(_SECRETS, "secret_stdin", kind=str, metavar="NAME", help="Read this secret setting from standard input."),
    _flag(
        _SECRETS, "secret_env", kind=list[str], metavar="NAME=VARIABLE",
        help="Read a secret setting from an environment variable, as password=SITE_PASSWORD.",
    ),
    _flag(_SECRETS, "no_auth", "--no-auth", default=False, help="Forget the credentials of a web site."),
    _flag(
        _CONTENT, "collection", "--collection", "-c", kind=str,
        help="A collection, by name or id; it is created if it does not exist; '' for none.",
    ),
    _field(
        _CONTENT, IngestionSettings, "ingestion_rule_id", "--rule",
        help="An ingestion rule's id (irule_…); '' for none.",
    ),
    _field(
        _CONTENT, FilterSettings, "allowed_content_types", "--allow-type",
        help="Only this content type, as text/html or text/*; '' for all.",
    ),
    _field(_CONTENT, FilterSettings, "minimum_size", "--min-size", help="Nothing smaller, in bytes."),
    _field(_CONTENT, FilterSettings, "maximum_size", "--max-size", help="Nothing larger, in bytes; 0 for no limit."),
    _field(_CONTENT, FilterSettings, "object_prefix", "--prefix", help="Only keys with this prefix, in any case."),
    _field(_CONTENT, FilterSettings, "object_suffix", "--suffix", help="Only keys with this suffix, in any case."),
    _flag(_CONTENT, "process_additions", "--additions/--no-additions", help="Take in what is new."),
    _flag(_CONTENT, "process_updates", "--updates/--no-updates", help="Take in what has changed."),
    _flag(_CONTENT, "store_original", "--originals/--no-originals", help="Keep files and pages as they came."),
    _field(
        _CONTENT, IngestionSettings, "export",
        help="Write the documents to files after each run: none (the default), markdown, jsonl or warc.",
    ),
    _flag(
        _CONTENT, "max_drain_tasks", "--drain-tasks", kind=int, min=1, max=64,
        help="Maximum number of objects read concurrently.",
    ),
    _flag(_GONE, "process_deletions", "--delete/--no-delete", help="Delete the documents of what is gone."),
    _field(_GONE, DeletionSettings, "max_missing_share", help="Withhold when more is missing at once (0.3)."),
    _field(_GONE, DeletionSettings, "min_missing_items", help="But never for this number of items or fewer (20)."),
    _field(_GONE, DeletionSettings, "grace_runs", help="Complete runs that an item may be missing from."),
    _flag(
        _CONTENT, "max_failed_share", kind=float, min=0, max=1,
        help="The run fails if a larger share of items fails (0.5).",
    ),
    _flag(_WHEN, "retention_days", kind=int, min=0, max=14, help="Days that runs are kept (7)."),
    flag(
        "settings", "--set", kind=list[str] | None, default=None, metavar="NAME=VALUE",
        help="Any other setting of the source (docs/plans.md); no value: its default.",
    ),
)  # fmt: skip
# The flag of each option, for messages.
FLAGS = {each.name: flag_of(each) for each in PLAN_OPTIONS}


async def all_plans(jay: "Scrubjay", who: "Principal", *, with_one_off: bool = False) -> "list[Plan]":
    """Every plan, newest first; one-off crawls only if asked for."""
    found: list[Plan] = []
    while True:
        page = await jay.plans.page(who, limit=_PLANS_AT_ONCE, offset=len(found), with_one_off=with_one_off)
        found += page.items
        if not page.has_more:
            return found


async def find_plan(jay: "Scrubjay", who: "Principal", name: str) -> "Plan":
    """The plan of this id or name, or the only one whose id begins so."""
    known = await all_plans(jay, who, with_one_off=name.startswith("cplan_"))
    named = [plan for plan in known if name in (plan.id, plan.name)]
    found = named or [plan for plan in known if name.startswith("cplan_") and plan.id.startswith(name)]
    if not found:
        raise NotFound(f"There is no plan '{name[:200]}'; `scrubjay plan ls` lists them.")
    if len(found) > 1:
        ids = ", ".join(plan.id for plan in found[:5])
        raise InvalidRequest(f"Several plans are called '{name[:200]}'; name one by its id: {ids}.")
    return found[0]
