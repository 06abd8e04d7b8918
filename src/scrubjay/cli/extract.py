"""`scrubjay extract`: turn what lies in a file into Markdown, and see why."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from scrubjay.cli.context import admin, cell, console, print_json, print_markdown, run
from scrubjay.cli.crawl_options import IgnoreRobots
from scrubjay.cli.document_options import Json
from scrubjay.errors import InvalidRequest
from scrubjay.model.crawl_spec import read_spec

if TYPE_CHECKING:
    from scrubjay.extract.boilerplate import RepeatedBlock
    from scrubjay.extract.html import BlockReport

app = typer.Typer(help="Turn files into Markdown, and see what becomes of a page's blocks.", no_args_is_help=True)
Url = Annotated[str, typer.Option(help="The address that a file came from; links in it are read from there.")]
SHOWN_TEXT = 160


@app.command("file")
def extract_file(
    path: Annotated[Path, typer.Argument(help="HTML, PDF, Office, Markdown, CSV, JSON, XML, a feed or text.")],
    url: Url = "http://localhost/",
    as_json: Json = False,
) -> None:
    """Print a file as Markdown."""
    from scrubjay.extract import extract

    found = extract(_read(path), url=url)
    if as_json:
        names = ("title", "method", "verdict", "markdown", "metadata", "links")
        print_json({name: getattr(found, name) for name in names})
    else:
        print_markdown(found.markdown)


@app.command("explain")
def explain(
    target: Annotated[str, typer.Argument(help="An address, or an HTML file.")],
    url: Url = "http://localhost/",
    ignore_robots: IgnoreRobots = False,
    as_json: Json = False,
) -> None:
    """Show every block of a page: its score, whether it is kept, and what repeats across its site.

    What repeats is known from crawls of the same host in this data folder.
    """
    is_address = target.startswith(("http://", "https://"))
    data, url, repeated = run(lambda: _fetch(target, ignore_robots)) if is_address else (_read(Path(target)), url, [])
    from scrubjay.extract.decoding import decode_html
    from scrubjay.extract.html import explain_html

    reports = explain_html(decode_html(data, None), url)
    if as_json:
        print_json(
            {
                "page_type": reports[0].page_type if reports else None,
                "blocks": [
                    {"text": one.text, "path": one.path, "score": round(one.score, 4), "kept": one.kept}
                    for one in reports
                ],
                "repeated": [{"text": one.text, "pages": one.pages, "share": one.share} for one in repeated],
            }
        )
        return
    _show(reports, repeated)


async def _fetch(url: str, ignore_robots: bool) -> "tuple[bytes, str, list[RepeatedBlock]]":
    from scrubjay.model.extraction import ExtractOptions
    from scrubjay.model.urls import host_of

    spec = read_spec({"start_urls": [url], "respect_robots": not ignore_robots})
    async with admin() as (jay, who):
        response, extraction = await jay.crawls.fetch_page(who, spec, ExtractOptions())
        memory = await jay.crawls.site_memory(who, host_of(response.url))
    return response.body, response.url, [] if memory is None else memory.explain(extraction)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequest(f"Cannot read {path}: {error.strerror}.", field="path") from error


def _show(reports: "list[BlockReport]", repeated: "list[RepeatedBlock]") -> None:
    if not reports:
        console.print("There is no text in this page.")
        return
    table = Table("score", "kept", "path", "text", title=f"a page of the type {reports[0].page_type}")
    for report in reports:
        text = " ".join(report.text.split())
        table.add_row(
            f"{report.score:.2f}",
            Text("yes", style="green") if report.kept else Text("no", style="dim"),
            cell(report.path),
            cell(text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT] + "…"),
        )
    console.print(table)
    for block in repeated:
        console.print(
            Text.assemble(
                ("dropped in crawls, ", "yellow"), f"on {block.pages} pages ({block.share:.0%}): ", cell(block.text)
            )
        )
