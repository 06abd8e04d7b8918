"""`scrubjay keys`: API keys."""

from datetime import timedelta
from typing import Annotated

import typer
from rich.table import Table

from scrubjay.cli.context import admin, cell, console, id_column, print_json, quiet_settings, run, run_as_admin
from scrubjay.cli.document_options import Json
from scrubjay.model.clock import utc_now
from scrubjay.model.tenant import ApiKey, Scope

app = typer.Typer(help="Make, list, disable, rotate and delete API keys.", no_args_is_help=True)
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
    days: Annotated[
        int | None,
        typer.Option(min=1, max=36_500, help="Number of days until the key expires. Default: it does not expire."),
    ] = None,
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
    keys = run_as_admin(lambda jay, who: jay.access.list_keys(who, limit=1000)).items
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
    run_as_admin(lambda jay, who: jay.access.change_key(who, key_id, is_active=is_active))
    console.print("Enabled." if is_active else "Disabled.")


@app.command("disable")
def disable(key_id: KeyId) -> None:
    """Refuse a key from now on, until it is enabled again."""
    _switch(key_id, False)


@app.command("enable")
def enable(key_id: KeyId) -> None:
    """Accept a disabled key again."""
    _switch(key_id, True)


@app.command("rotate")
def rotate(
    key_id: Annotated[str | None, typer.Argument(help="The key's id (cred_…). Default: the data folder's own.")] = None,
    as_json: Json = False,
) -> None:
    """Give a key another text, and print it this once. The text that it had is refused from now on.

    Without an id, it is the key of the command line itself, which stays in the data folder and is not printed.
    """

    async def main() -> tuple[ApiKey, str] | None:
        async with admin() as (jay, who):
            if key_id is None or key_id == who.key_id:
                await jay.access.rotate_admin(who, jay.settings.home)
                return None
            return await jay.access.rotate_key(who, key_id)

    rotated = run(main)
    if rotated is None:
        console.print("The data folder has another admin key now; the one before is refused.")
    elif as_json:
        print_json({**_facts(rotated[0]), "key": rotated[1]})
    else:
        console.print(rotated[1], soft_wrap=True, highlight=False)


@app.command("rotate-secret")
def rotate_secret() -> None:
    """Seal everything that is secret (passwords, tokens, webhooks' secrets) with another key.

    With `secret.key` in the data folder, a new key is made; stop the server first. With SCRUBJAY_SECRET_KEY, set that
    to a new key and SCRUBJAY_OLD_SECRET_KEYS to the one before in every process, and then run this.
    """
    from scrubjay.storage.home import own_home
    from scrubjay.storage.secrets import KEY_FILE, begin_new_key, forget_old_keys

    chosen = quiet_settings()
    path = chosen.home / KEY_FILE
    if chosen.secret_key is None:
        with own_home(chosen.home):
            if path.exists():
                begin_new_key(path)
            done = run_as_admin(lambda jay, who: jay.resealing.reseal(who))
            if not done.unreadable:
                forget_old_keys(path)
    else:
        done = run_as_admin(lambda jay, who: jay.resealing.reseal(who))
    console.print(f"Sealed {done.secrets:,} secret{'' if done.secrets == 1 else 's'} anew.", highlight=False)
    if done.unreadable:
        console.print(f"{done.unreadable:,} could not be opened with any key and stay as they are; old keys are kept.")
        raise typer.Exit(1)
    if chosen.secret_key is not None:
        console.print("SCRUBJAY_OLD_SECRET_KEYS is no longer needed.")


@app.command("rm")
def delete(key_id: KeyId) -> None:
    """Delete a key for good."""
    run_as_admin(lambda jay, who: jay.access.delete_key(who, key_id))
    console.print("Deleted.")


@app.command("link")
def link() -> None:
    """Print a path that signs a browser in once; put it behind the address of your server."""
    console.print(
        f"/signin?token={run_as_admin(lambda jay, who: jay.access.create_sign_in_link(who))}",
        soft_wrap=True,
        highlight=False,
    )
