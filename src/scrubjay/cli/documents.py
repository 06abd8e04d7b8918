"""`scrubjay ls`, `show`, `diff`, `rm` and `restore`: look at documents and end them."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from scrubjay.cli.context import (
    admin,
    cell,
    console,
    local_time,
    print_indented,
    print_json,
    print_markdown,
    run,
    searching,
)
from scrubjay.cli.document_options import (
    DocumentName,
    InCollection,
    Json,
    document_facts,
    find_collection,
    find_document,
    find_tags,
)
from scrubjay.model.content import DocumentStatus

if TYPE_CHECKING:
    from scrubjay.model.content import Document
    from scrubjay.model.page import Page

INDENT = 2
STYLES = {"+": "green", "-": "red", "@": "cyan"}


def list_documents(
    collection: InCollection = None,
    tag: Annotated[str | None, typer.Option("--tag", "-t", help="Only documents with this tag.")] = None,
    host: Annotated[str | None, typer.Option(help="Only this host or domain.")] = None,
    status: Annotated[DocumentStatus | None, typer.Option(help="Only documents in this state.")] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="The deleted ones instead.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of rows.")] = 50,
    as_json: Json = False,
) -> None:
    """List documents, newest first."""

    async def main() -> "Page[Document]":
        from scrubjay.services.documents import DocumentQuery

        async with admin() as (jay, who):
            query = DocumentQuery(
                collection_id=await find_collection(jay, who, collection) if collection else None,
                tag_id=(await find_tags(jay, who, [tag]))[0] if tag else None,
                host=host,
                status=status,
                deleted=deleted,
                limit=limit,
            )
            return await jay.documents.page(who, query)

    page = run(main)
    if as_json:
        print_json([document_facts(document) for document in page.items])
        return
    narrowed = any((collection, tag, host, status, deleted))
    for document in page.items:
        _show_listed(document)
    if not page.items:
        console.print(
            "No documents." + ("" if narrowed else " `scrubjay add FILE|URL…` and `scrubjay crawl URL` make some.")
        )
    elif page.has_more:
        console.print(f"{page.total - len(page.items):,} more; see --limit.", highlight=False)


def _show_listed(document: "Document") -> None:
    """Title, address and facts below each other: an id and an address leave no place for columns."""
    state = "" if document.status is DocumentStatus.COMPLETED else f"  {document.status}"
    title = cell(document.title or document.filename or document.url).plain
    console.print(Text.assemble((title, "bold"), (state, "red" if document.error else "yellow")))
    console.print(Text(f"  {cell(document.url).plain}", style="cyan"), soft_wrap=True)
    if document.error:
        print_indented(cell(document.error), INDENT)
    chunks = f"{document.chunk_count:,} chunk{'' if document.chunk_count == 1 else 's'}"
    facts = f"version {document.version}, {chunks}  {local_time(document.updated_at)}"
    console.print(Text(f"  {document.id}  {facts}", style="dim"), soft_wrap=True)


def show(
    name: DocumentName,
    version: Annotated[int | None, typer.Option(min=1, help="An earlier version.")] = None,
    chunks: Annotated[bool, typer.Option("--chunks", help="How it was cut.")] = False,
    versions: Annotated[bool, typer.Option("--versions", help="Which versions there are.")] = False,
    log: Annotated[bool, typer.Option("--log", help="How it came to be what it is.")] = False,
    as_json: Json = False,
) -> None:
    """Print what a document says, as Markdown."""

    async def main() -> dict[str, Any]:
        async with admin() as (jay, who):
            document = await find_document(jay, who, name)
            facts: dict[str, Any] = {"document": document_facts(document)}
            if chunks:
                facts["chunks"] = [
                    asdict(each) for each in await jay.documents.chunks(who, document.id, version=version)
                ]
            elif versions:
                facts["versions"] = [asdict(each) for each in await jay.documents.versions(who, document.id)]
            elif log:
                facts["log"] = [asdict(each) for each in await jay.documents.log(who, document.id)]
            elif document.version or version:
                _, facts["content"] = await jay.documents.content(who, document.id, version=version)
            return facts

    facts = run(main)
    if as_json:
        print_json(facts)
    else:
        _show_facts(facts)


def _show_facts(facts: dict[str, Any]) -> None:
    if "chunks" in facts:
        _show_chunks(facts["chunks"])
    elif "versions" in facts:
        _show_versions(facts["versions"])
    elif "content" in facts:
        print_markdown(facts["content"])
    elif "log" in facts:
        for line in facts["log"]:
            console.print(Text(f"{local_time(line['at'])}  {line['level']}  {cell(line['message']).plain}"))
    else:
        document = facts["document"]
        console.print(Text(f"{document['status']}: {cell(document['error'] or 'it has no content yet').plain}"))


def _show_chunks(chunks: list[dict[str, Any]]) -> None:
    for chunk in chunks:
        place = f"{chunk['start_char']:,}–{chunk['end_char']:,}"
        head = f"#{chunk['chunk_index']}  {place}  {chunk['token_count']} tokens  {chunk['content_type']}"
        console.print(Text.assemble((head, "bold"), f"  {cell(chunk['section_header']).plain}"))
        print_markdown(chunk["content"])
        console.print()


def _show_versions(versions: list[dict[str, Any]]) -> None:
    table = Table("version", "title", "size", "from", "until", box=None, pad_edge=False, header_style="dim")
    for version in versions:
        until = local_time(version["ended_at"]) if version["ended_at"] else "now"
        table.add_row(
            str(version["version"]),
            cell(version["title"]),
            f"{version['size_bytes']:,}",
            local_time(version["created_at"]),
            until,
        )
    console.print(table)


def diff(
    name: DocumentName,
    older: Annotated[int | None, typer.Option("--from", min=1, help="The older version.")] = None,
    newer: Annotated[int | None, typer.Option("--to", min=1, help="The newer version. Default: the last.")] = None,
    as_json: Json = False,
) -> None:
    """Show what changed between two versions of a document; by default between the last two."""

    async def main() -> Any:
        async with admin() as (jay, who):
            document = await find_document(jay, who, name)
            return await jay.documents.diff(who, document.id, from_version=older, to_version=newer)

    found = run(main)
    if as_json:
        print_json(asdict(found))
        return
    for line in found.unified.splitlines():
        console.print(Text(cell(line).plain, style=STYLES.get(line[:1], "")), soft_wrap=True)
    if not found.unified:
        console.print(f"Versions {found.from_version} and {found.to_version} say the same.")


def remove(
    names: Annotated[list[str], typer.Argument(help="Ids (adoc_…) or addresses of documents.")],
    purge: Annotated[bool, typer.Option("--purge", help="For good: its texts, versions and log as well.")] = False,
) -> None:
    """Delete documents; `scrubjay undelete` brings them back unless they were purged."""

    async def main() -> None:
        # What is purged should be gone from the index and the disk when this ends, so that one has to be at hand.
        async with searching() if purge else admin() as (jay, who):
            for document in [await find_document(jay, who, name) for name in names]:
                if purge:
                    await jay.documents.purge(who, [document.id])
                    done = "Purged"
                else:
                    done = "Deleted" if document.deleted_at is None else "Was deleted already:"
                    await jay.documents.delete(who, document.id)
                console.print(f"{done} {document.id}", highlight=False)
            if purge:
                await jay.indexer.drain()

    run(main)


def restore(name: DocumentName) -> None:
    """Bring a deleted document back."""

    async def main() -> str:
        async with admin() as (jay, who):
            return (await jay.documents.restore(who, (await find_document(jay, who, name)).id)).id

    console.print(f"Restored {run(main)}", highlight=False)
