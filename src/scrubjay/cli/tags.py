"""`scrubjay tags`: what documents are labelled with."""

from typing import Annotated, Any

import typer

from scrubjay.cli.context import admin, cell, console, id_column, plain_table, print_json, run
from scrubjay.cli.document_options import DocumentName, Json, find_document, find_tags

app = typer.Typer(help="List tags, and put them on documents.", invoke_without_command=True)


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_tags(as_json=False)


@app.command("ls")
def list_tags(as_json: Json = False) -> None:
    """List tags."""

    async def main() -> list[dict[str, Any]]:
        async with admin() as (jay, who):
            usage = await jay.collections.tag_usage(who)
            tags = await jay.collections.list_tags(who)
            return [{"id": tag.id, "name": tag.name, "documents": usage.get(tag.id, 0)} for tag in tags]

    found = run(main)
    if as_json:
        print_json(found)
        return
    table = plain_table("name", "documents", id_column())
    for each in found:
        table.add_row(cell(each["name"]), f"{each['documents']:,}", each["id"])
    console.print(table if found else "No tags yet; `scrubjay tags add DOCUMENT TAG` makes one.")


@app.command("add")
def add_tags(name: DocumentName, tags: Annotated[list[str], typer.Argument(help="Tags to put on it.")]) -> None:
    """Tag a document."""

    async def main() -> list[str]:
        async with admin() as (jay, who):
            document = await find_document(jay, who, name)
            return [tag.name for tag in await jay.documents.tag(who, document.id, tags)]

    console.print(", ".join(run(main)), highlight=False)


@app.command("rm")
def remove_tag(name: DocumentName, tag: Annotated[str, typer.Argument(help="The tag to take off.")]) -> None:
    """Take a tag off a document."""

    async def main() -> None:
        async with admin() as (jay, who):
            document = await find_document(jay, who, name)
            await jay.documents.untag(who, document.id, (await find_tags(jay, who, [tag]))[0])

    run(main)
    console.print("Removed.")
