"""`scrubjay keys`: API keys."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

import typer
from rich.table import Table

from scrubjay.cli.context import admin, cell, console, id_column, print_json, run
from scrubjay.model.clock import utc_now
from scrubjay.model.tenant import ApiKey, Scope

app = typer.Typer(help="Make, list, disable and delete API keys.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KeyId = Annotated[str, typer.Argument(help="The key's id (cred_…), as `scrubjay keys ls` shows it.")]


def _facts(key: ApiKey) -> dict[str, object]:
    return {
        "id": key.id,
        "name": key.name,
        "scopes": [str(scope) for scope in key.scopes],
        "rate_limit_rpm": key.rate_limit_rpm,
        "expires_at": key.expires_at,
        "is_active": key.is_active,
    }


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="read (the default), write or admin; may be given more than once.", show_default=False),
    ] = None,
    rate: Annotated[int, typer.Option(min=1, max=10_000, help="Requests per minute.")] = 60,
    days: Annotated[int | None, typer.Option(min=1, max=36_500, help="Let the key expire after so many days.")] = None,
    tenant: Annotated[str | None, typer.Option(help="Make the key in this tenant, which is made if it is new.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key and print it. It is shown this once and stored only as a hash."""

    scopes, expires_at = scope or [Scope.READ], None if days is None else utc_now() + timedelta(days=days)

    async def main() -> tuple[ApiKey, str]:
        async with admin() as (jay, who):
            owner = who if tenant is None else await jay.access.create_tenant(who, tenant)
            return await jay.access.create_key(
                owner, name=name, scopes=scopes, rate_limit_rpm=rate, expires_at=expires_at
            )

    record, text = run(main)
    if as_json:
        print_json({**_facts(record), "key": text})
    else:
        console.print(text, soft_wrap=True, highlight=False)


@app.command("ls")
def list_keys(as_json: Json = False) -> None:
    """List the keys."""

    async def main() -> Sequence[ApiKey]:
        async with admin() as (jay, who):
            return (await jay.access.list_keys(who, limit=1000)).items

    keys = run(main)
    if as_json:
        print_json([_facts(key) for key in keys])
        return
    table = Table(id_column(), "name", "scopes", "per minute", "expires", "active")
    for key in keys:
        expires = "never" if key.expires_at is None else f"{key.expires_at:%Y-%m-%d %H:%M} UTC"
        scopes, active = ", ".join(key.scopes), "yes" if key.is_active else "no"
        table.add_row(key.id, cell(key.name), scopes, str(key.rate_limit_rpm), expires, active)
    console.print(table)


def _switch(key_id: str, is_active: bool) -> None:
    async def main() -> None:
        async with admin() as (jay, who):
            await jay.access.change_key(who, key_id, is_active=is_active)

    run(main)
    console.print("Enabled." if is_active else "Disabled.")


@app.command("disable")
def disable(key_id: KeyId) -> None:
    """Refuse a key from now on, until it is enabled again."""
    _switch(key_id, False)


@app.command("enable")
def enable(key_id: KeyId) -> None:
    """Accept a disabled key again."""
    _switch(key_id, True)


@app.command("rm")
def delete(key_id: KeyId) -> None:
    """Delete a key for good."""

    async def main() -> None:
        async with admin() as (jay, who):
            await jay.access.delete_key(who, key_id)

    run(main)
    console.print("Deleted.")


@app.command("link")
def link() -> None:
    """Print a path that signs a browser in once; put it behind the address of your server."""

    async def main() -> str:
        async with admin() as (jay, who):
            return await jay.access.create_sign_in_link(who)

    console.print(f"/signin?token={run(main)}", soft_wrap=True, highlight=False)
