"""`scrubjay collections`: where documents are searched together."""

from typing import Annotated, Any

import typer

from scrubjay.cli.context import admin, cell, console, id_column, plain_table, print_json, run, run_as_admin
from scrubjay.cli.document_options import Json, find_collection

app = typer.Typer(help="List, make, rename and remove collections.", invoke_without_command=True)
Name = Annotated[str, typer.Argument(help="The collection's name or id.")]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_collections(as_json=False)


@app.command("ls")
def list_collections(as_json: Json = False) -> None:
    """List collections."""

    async def main() -> list[dict[str, Any]]:
        async with admin() as (jay, who):
            counts = await jay.collections.document_counts(who)
            return [
                {
                    "id": each.id,
                    "name": each.name,
                    "description": each.description,
                    "documents": counts.get(each.id, 0),
                    "created_at": each.created_at,
                }
                for each in await jay.collections.all(who)
            ]

    found = run(main)
    if as_json:
        print_json(found)
        return
    table = plain_table("name", "documents", "description", id_column())
    for each in found:
        table.add_row(cell(each["name"]), f"{each['documents']:,}", cell(each["description"]), each["id"])
    console.print(table if found else "No collections yet; `scrubjay collections add NAME` makes one.")


@app.command("add")
def add_collection(
    name: Annotated[str, typer.Argument(help="Letters, digits, hyphens, underscores and spaces.")],
    description: Annotated[str | None, typer.Option(help="What it is for.")] = None,
) -> None:
    """Make a collection."""
    made = run_as_admin(lambda jay, who: jay.collections.create(who, name=name, description=description))
    console.print(made.id, highlight=False)


@app.command("rename")
def rename_collection(name: Name, new_name: Annotated[str, typer.Argument(help="The new name.")]) -> None:
    """Give a collection another name."""

    async def main() -> None:
        async with admin() as (jay, who):
            await jay.collections.change(who, await find_collection(jay, who, name), name=new_name)

    run(main)
    console.print("Renamed.")


@app.command("rm")
def remove_collection(
    name: Name,
    force: Annotated[
        bool, typer.Option("--force", help="Also when it has documents; they stay without a collection.")
    ] = False,
) -> None:
    """Remove a collection."""

    async def main() -> None:
        async with admin() as (jay, who):
            await jay.collections.delete(who, await find_collection(jay, who, name), force=force)

    run(main)
    console.print("Removed.")
