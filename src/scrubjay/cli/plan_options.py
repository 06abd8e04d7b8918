"""The options that `scrubjay plan add` and `plan edit` share, and how a plan is named."""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scrubjay.errors import InvalidRequest, NotFound

if TYPE_CHECKING:
    from scrubjay.bootstrap import Scrubjay
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


def _option(*names: str, panel: str, **details: Any) -> Any:
    return typer.Option(*names, rich_help_panel=panel, show_default=False, **details)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What was said on the command line; what was not is None, and stays as it is."""

    name: Annotated[str | None, typer.Option(help="What to call it. Default: its source.")] = None
    active: Annotated[
        bool | None, _option("--active/--inactive", panel=_WHEN, help="Let it run by itself, or only by `plan run`.")
    ] = None
    every: Annotated[
        str | None, _option("--every", panel=_WHEN, help="Run at intervals: 30m, 24h (the default), 7d, 2w.")
    ] = None
    cron: Annotated[
        str | None, _option("--cron", panel=_WHEN, help="Run when this cron expression says so (UTC), as '0 4 * * *'.")
    ] = None
    once: Annotated[bool, _option("--once", panel=_WHEN, help="Run by itself only once.")] = False
    budget: Annotated[
        int | None,
        _option(
            "--budget",
            panel=_WHEN,
            min=24,
            max=100_000_000,
            help="Look at single pages, those first that have probably changed, in so many requests a day.",
        ),
    ] = None
    jitter: Annotated[
        str | None, _option("--jitter", panel=_WHEN, help="Begin up to so much later, by chance: 90s, 10m, 2h.")
    ] = None
    max_depth: Annotated[
        int | None, _option("--max-depth", panel=_SITES, min=1, max=100, help="Links away from the start.")
    ] = None
    delay_ms: Annotated[
        int | None,
        _option("--delay-ms", panel=_SITES, min=0, max=60_000, help="Milliseconds between two requests to a host."),
    ] = None
    concurrency: Annotated[
        int | None, _option("--concurrency", panel=_SITES, min=1, max=64, help="Requests at the same time.")
    ] = None
    include: Annotated[
        list[str] | None,
        _option("--include", panel=_SITES, help="Only addresses that match this regular expression; '' for all."),
    ] = None
    exclude: Annotated[
        list[str] | None,
        _option("--exclude", panel=_SITES, help="No addresses that match this regular expression; '' for none."),
    ] = None
    scope: Annotated[
        LinkScope | None,
        _option(
            "--scope",
            panel=_SITES,
            help="Which links are followed: below the start (the default), its host, its domain, or any.",
        ),
    ] = None
    user: Annotated[str | None, _option("--user", panel=_SECRETS, help="User for Basic authentication.")] = None
    password_stdin: Annotated[
        bool, _option("--password-stdin", panel=_SECRETS, help="Read the user's password from standard input.")
    ] = False
    bearer_stdin: Annotated[
        bool, _option("--bearer-stdin", panel=_SECRETS, help="Read a Bearer token from standard input.")
    ] = False
    api_key_header: Annotated[
        str | None, _option("--api-key-header", panel=_SECRETS, help="Header that carries an API key.")
    ] = None
    api_key_stdin: Annotated[
        bool, _option("--api-key-stdin", panel=_SECRETS, help="Read the API key from standard input.")
    ] = False
    secret_stdin: Annotated[
        str | None,
        _option("--secret-stdin", panel=_SECRETS, metavar="NAME", help="Read this secret setting from standard input."),
    ] = None
    secret_env: Annotated[
        list[str] | None,
        _option(
            "--secret-env",
            panel=_SECRETS,
            metavar="NAME=VARIABLE",
            help="Read a secret setting from an environment variable, as password=SITE_PASSWORD.",
        ),
    ] = None
    no_auth: Annotated[bool, _option("--no-auth", panel=_SECRETS, help="Forget the credentials of a web site.")] = False
    collection: Annotated[
        str | None,
        _option(
            "--collection",
            "-c",
            panel=_CONTENT,
            help="A collection, by name or id; it is made if need be; '' for none.",
        ),
    ] = None
    rule: Annotated[
        str | None, _option("--rule", panel=_CONTENT, help="An ingestion rule's id (irule_…); '' for none.")
    ] = None
    allow_type: Annotated[
        list[str] | None,
        _option("--allow-type", panel=_CONTENT, help="Only this content type, as text/html or text/*; '' for all."),
    ] = None
    min_size: Annotated[int | None, _option("--min-size", panel=_CONTENT, min=0, help="Nothing smaller, in bytes.")] = (
        None
    )
    max_size: Annotated[
        int | None, _option("--max-size", panel=_CONTENT, min=0, help="Nothing larger, in bytes; 0 for no limit.")
    ] = None
    prefix: Annotated[
        str | None, _option("--prefix", panel=_CONTENT, help="Only keys that begin so, whatever their case.")
    ] = None
    suffix: Annotated[
        str | None, _option("--suffix", panel=_CONTENT, help="Only keys that end so, whatever their case.")
    ] = None
    additions: Annotated[
        bool | None, _option("--additions/--no-additions", panel=_CONTENT, help="Take in what is new.")
    ] = None
    updates: Annotated[
        bool | None, _option("--updates/--no-updates", panel=_CONTENT, help="Take in what has changed.")
    ] = None
    originals: Annotated[
        bool | None, _option("--originals/--no-originals", panel=_CONTENT, help="Keep files and pages as they came.")
    ] = None
    drain_tasks: Annotated[
        int | None, _option("--drain-tasks", panel=_CONTENT, min=1, max=64, help="Objects read at the same time.")
    ] = None
    delete: Annotated[
        bool | None, _option("--delete/--no-delete", panel=_GONE, help="Delete the documents of what is gone.")
    ] = None
    max_missing_share: Annotated[
        float | None,
        _option("--max-missing-share", panel=_GONE, min=0, max=1, help="Withhold when more is missing at once (0.3)."),
    ] = None
    min_missing_items: Annotated[
        int | None,
        _option("--min-missing-items", panel=_GONE, min=1, max=1_000_000, help="But never so few or fewer (20)."),
    ] = None
    grace_runs: Annotated[
        int | None,
        _option("--grace-runs", panel=_GONE, min=0, max=100, help="Complete runs that something may be missing from."),
    ] = None
    retention_days: Annotated[
        int | None, _option("--retention-days", panel=_WHEN, min=0, max=14, help="How long runs are remembered (7).")
    ] = None
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Any other setting of the source (docs/plans.md); no value: its default.",
        ),
    ] = None


def with_plan_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each field of PlanOptions as an option, in place of its parameter `options`."""
    own = inspect.signature(command, eval_str=True)
    shared = inspect.signature(PlanOptions).parameters
    first = [each for name, each in own.parameters.items() if name not in ("options", "as_json")]
    last = [own.parameters["as_json"]]

    @functools.wraps(command)
    def called(**arguments: Any) -> None:
        options = PlanOptions(**{name: arguments.pop(name) for name in shared})
        command(**arguments, options=options)

    in_order = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*first, *shared.values(), *last)]
    called.__signature__ = own.replace(parameters=in_order)  # type: ignore[attr-defined]
    return called


async def all_plans(jay: "Scrubjay", who: "Principal") -> "list[Plan]":
    """Every plan, newest first."""
    found: list[Plan] = []
    while True:
        page = await jay.plans.page(who, limit=_PLANS_AT_ONCE, offset=len(found))
        found += page.items
        if not page.has_more:
            return found


async def find_plan(jay: "Scrubjay", who: "Principal", name: str) -> "Plan":
    """The plan of this id or name, or the only one whose id begins so."""
    known = await all_plans(jay, who)
    named = [plan for plan in known if name in (plan.id, plan.name)]
    found = named or [plan for plan in known if name.startswith("cplan_") and plan.id.startswith(name)]
    if not found:
        raise NotFound(f"There is no plan '{name[:200]}'; `scrubjay plan ls` lists them.")
    if len(found) > 1:
        ids = ", ".join(plan.id for plan in found[:5])
        raise InvalidRequest(f"Several plans are called '{name[:200]}'; name one by its id: {ids}.")
    return found[0]
