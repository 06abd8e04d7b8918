"""`scrubjay webhooks`: addresses that are told what happened, and what became of every delivery."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Column
from rich.text import Text

from scrubjay.cli.context import cell, console, id_column, local_time, print_json, run_as_admin
from scrubjay.cli.crawl_options import read_headers
from scrubjay.cli.document_options import Json
from scrubjay.cli.plan_options import find_plan
from scrubjay.cli.plan_view import show_rows, show_settings
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.webhook import EVENTS, Delivery, DeliveryStatus, Webhook

if TYPE_CHECKING:
    from scrubjay.app import Scrubjay
    from scrubjay.model.tenant import Principal

app = typer.Typer(
    help="Have addresses told what happened: jobs that ended, documents that changed. docs/webhooks.md says how.",
    no_args_is_help=True,
)
MOST_LISTED = 1000
GRACE_HOURS = 24.0
STYLES = {DeliveryStatus.DELIVERED: "green", DeliveryStatus.PENDING: "yellow", DeliveryStatus.FAILED: "red"}
LIST_COLUMNS = (Column("address"), Column("state"), Column("events"), Column("of plan"), id_column())
DELIVERY_COLUMNS = (
    *(Column(each) for each in ("status", "event", "when")),
    *(Column(each, justify="right") for each in ("attempts", "answer")),
    Column("error"),
    id_column(),
)

WebhookName = Annotated[str, typer.Argument(help="The webhook's id (whk_…, also its beginning) or address.")]
SecretStdin = Annotated[
    bool, typer.Option("--secret-stdin", help="Read the secret from standard input. Default: one is made.")
]


async def find_webhook(jay: "Scrubjay", who: "Principal", name: str) -> Webhook:
    """The webhook of this id or address, or the only one whose id begins so."""
    known = (await jay.webhooks.page(who, limit=MOST_LISTED)).items
    named = [each for each in known if name in (each.id, each.url)]
    found = named or [each for each in known if name.startswith("whk_") and each.id.startswith(name)]
    if not found and name.startswith("whk_"):
        return await jay.webhooks.get(who, name)
    if not found:
        raise NotFound(f"There is no webhook '{name[:200]}'; `scrubjay webhooks ls` lists them.")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found[:5])
        raise InvalidRequest(f"Several webhooks are called '{name[:200]}'; name one by its id: {ids}.")
    return found[0]


def _facts(webhook: Webhook) -> dict[str, Any]:
    from scrubjay.crawler.fetcher import is_secret_header
    from scrubjay.services.webhooks import HIDDEN

    return {
        "id": webhook.id,
        "url": webhook.url,
        "state": _state(webhook),
        "events": list(webhook.events),
        "plan_id": webhook.plan_id,
        "headers": {name: HIDDEN if is_secret_header(name) else value for name, value in webhook.headers.items()},
        "has_secret": webhook.sealed_secret is not None,
        "previous_secret_until": webhook.previous_secret_until,
        "consecutive_failures": webhook.failures,
        "next_attempt_at": webhook.next_attempt_at,
        "created_at": webhook.created_at,
    }


def _state(webhook: Webhook) -> str:
    if not webhook.is_active:
        return "off"
    return "on" if webhook.circuit_opened_at is None else "failing"


def _delivery_facts(delivery: Delivery) -> dict[str, Any]:
    names = (
        "id", "webhook_id", "event", "event_id", "replay", "job_id", "status", "attempts", "max_attempts",
        "response_status", "response_body", "error", "created_at", "last_attempt_at", "next_attempt_at", "body",
    )  # fmt: skip
    return {name: getattr(delivery, name) for name in names}


def _read_secret(wanted: bool) -> str | None:
    if not wanted:
        return None
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise InvalidRequest("--secret-stdin: nothing came from standard input.")
    return secret


def _print_created(webhook: Webhook, secret: str | None, as_json: bool) -> None:
    if as_json:
        print_json({**_facts(webhook), "secret": secret})
        return
    console.print(webhook.id, soft_wrap=True, highlight=False)
    if secret is not None:
        console.print(Text(f"Secret: {secret}"), soft_wrap=True)
        console.print("It is shown this once, and signs everything that is sent.")


@app.command("add")
def add_webhook(
    url: Annotated[str, typer.Argument(help="Address that takes POST requests.")],
    event: Annotated[
        list[str] | None,
        typer.Option(
            "--event", "-e", help=f"{', '.join(EVENTS)}; may be given several times. Default: completed, failed"
        ),
    ] = None,
    plan: Annotated[str | None, typer.Option(help="Only events of this plan, by name or id.")] = None,
    header: Annotated[list[str] | None, typer.Option(help="Send this header too, as 'Name: value'.")] = None,
    secret_stdin: SecretStdin = False,
    as_json: Json = False,
) -> None:
    """Send events to an address. Prints its id and, only now, the secret that signs the deliveries."""
    given = _read_secret(secret_stdin)

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Webhook, str]:
        plan_id = None if plan is None else (await find_plan(jay, who, plan)).id
        values: dict[str, Any] = {"events": event} if event else {}
        made = await jay.webhooks.create(
            who, url=url, headers=read_headers(header), secret=given, plan_id=plan_id, **values
        )
        return made.webhook, made.secret

    webhook, secret = run_as_admin(main)
    _print_created(webhook, None if given else secret, as_json)


@app.command("ls")
def list_webhooks(as_json: Json = False) -> None:
    """List webhooks, newest first."""
    found = run_as_admin(lambda jay, who: jay.webhooks.page(who, limit=MOST_LISTED)).items
    if as_json:
        print_json([_facts(each) for each in found])
    elif not found:
        console.print("No webhooks yet; `scrubjay webhooks add URL` makes one.")
    else:
        show_rows(LIST_COLUMNS, [_row(each) for each in found])


def _row(webhook: Webhook) -> list[Text]:
    state = _state(webhook)
    return [
        cell(webhook.url),
        Text(state, style={"on": "green", "off": "dim"}.get(state, "red")),
        cell(", ".join(webhook.events)),
        Text(webhook.plan_id or ""),
        Text(webhook.id),
    ]


@app.command("show")
def show_webhook(name: WebhookName, as_json: Json = False) -> None:
    """Show a webhook, and how many deliveries were made, wait and failed."""

    async def main(jay: "Scrubjay", who: "Principal") -> dict[str, Any]:
        webhook = await find_webhook(jay, who, name)
        counts = {
            str(status): (await jay.webhooks.deliveries(who, webhook_id=webhook.id, status=status, limit=1)).total
            for status in DeliveryStatus
        }
        return {**_facts(webhook), "deliveries": counts}

    facts = run_as_admin(main)
    if as_json:
        print_json(facts)
        return
    counts, headers = facts.pop("deliveries"), facts.pop("headers")
    console.print(show_settings(facts.pop("url"), facts))
    for title, values in (("Headers", headers), ("Deliveries", counts)):
        if values:
            console.print(show_settings(title, values))


@app.command("rm")
def remove_webhook(name: WebhookName) -> None:
    """Remove a webhook and its deliveries; deliveries that wait are not sent."""

    async def main(jay: "Scrubjay", who: "Principal") -> None:
        await jay.webhooks.delete(who, (await find_webhook(jay, who, name)).id)

    run_as_admin(main)
    console.print("Removed.")


@app.command("rotate")
def rotate_secret(
    name: WebhookName,
    grace_hours: Annotated[
        float, typer.Option(min=0, max=168, help="How long the old secret signs as well.")
    ] = GRACE_HOURS,
    secret_stdin: SecretStdin = False,
    as_json: Json = False,
) -> None:
    """Give a webhook another secret. For the grace time everything is signed with both."""
    given = _read_secret(secret_stdin)

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[Webhook, str]:
        webhook = await find_webhook(jay, who, name)
        made = await jay.webhooks.rotate(who, webhook.id, secret=given, grace_hours=grace_hours)
        return made.webhook, made.secret

    webhook, secret = run_as_admin(main)
    _print_created(webhook, None if given else secret, as_json)


@app.command("test")
def send_ping(name: WebhookName, as_json: Json = False) -> None:
    """Send a `ping` now, and say what came back. Fails when that is not a success."""

    async def main(jay: "Scrubjay", who: "Principal") -> Delivery:
        return await jay.webhooks.test(who, (await find_webhook(jay, who, name)).id)

    ping = run_as_admin(main)
    if as_json:
        print_json(_delivery_facts(ping))
    else:
        said = f"HTTP status {ping.response_status}. " if ping.response_status else ""
        outcome = "Delivered." if ping.status is DeliveryStatus.DELIVERED else f"Not delivered: {ping.error}"
        console.print(cell(said + outcome))
    if ping.status is not DeliveryStatus.DELIVERED:
        raise typer.Exit(1)


@app.command("deliveries")
def list_deliveries(
    name: Annotated[str | None, typer.Argument(help="Only this webhook, by id or address.")] = None,
    status: Annotated[DeliveryStatus | None, typer.Option(help="Only those in this state.")] = None,
    event: Annotated[str | None, typer.Option(help="Only this event.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of deliveries.")] = 20,
    as_json: Json = False,
) -> None:
    """List what was sent or waits to be, newest first."""

    async def main(jay: "Scrubjay", who: "Principal") -> tuple[list[Delivery], int]:
        webhook_id = None if name is None else (await find_webhook(jay, who, name)).id
        page = await jay.webhooks.deliveries(who, webhook_id=webhook_id, status=status, event=event, limit=limit)
        return list(page.items), page.total

    found, total = run_as_admin(main)
    if as_json:
        print_json({"deliveries": [_delivery_facts(each) for each in found], "total": total})
    elif not found:
        console.print("No deliveries.")
    else:
        show_rows(DELIVERY_COLUMNS, [_delivery_row(each) for each in found])
        if total > len(found):
            console.print(f"{total - len(found):,} more; see --limit.", highlight=False)


def _delivery_row(delivery: Delivery) -> list[Text]:
    return [
        Text(str(delivery.status), style=STYLES[delivery.status]),
        cell(delivery.event + (f" (replay {delivery.replay})" if delivery.replay else "")),
        Text(local_time(delivery.last_attempt_at or delivery.created_at)),
        Text(str(delivery.attempts)),
        Text(str(delivery.response_status or "")),
        cell(delivery.error),
        Text(delivery.id),
    ]


@app.command("replay")
def replay_deliveries(
    delivery_id: Annotated[str | None, typer.Argument(help="The delivery's id (whd_…).")] = None,
    failed: Annotated[
        str | None, typer.Option(metavar="WEBHOOK", help="Everything that failed at this webhook, oldest first.")
    ] = None,
) -> None:
    """Send the same once more, also what was delivered. The worker or server that runs does it."""
    if (delivery_id is None) == (failed is None):
        raise InvalidRequest("Name a delivery, or give --failed with a webhook.")

    async def main(jay: "Scrubjay", who: "Principal") -> list[str]:
        if failed is None:
            return [(await jay.webhooks.replay(who, delivery_id or "")).id]
        return await _replay_failed(jay, who, (await find_webhook(jay, who, failed)).id)

    made = run_as_admin(main)
    for each in made:
        console.print(each, soft_wrap=True, highlight=False)
    if not made:
        console.print("Nothing has failed there that was not delivered since.")


async def _replay_failed(jay: "Scrubjay", who: "Principal", webhook_id: str) -> list[str]:
    """Each event once, and none that a replay has brought since or is about to."""
    everything = (await jay.webhooks.deliveries(who, webhook_id=webhook_id, limit=MOST_LISTED)).items
    settled = {each.event_id for each in everything if each.status is not DeliveryStatus.FAILED}
    wanted = {each.event_id: each.id for each in everything if each.event != "ping" and each.event_id not in settled}
    return [(await jay.webhooks.replay(who, each)).id for each in reversed(wanted.values())]
