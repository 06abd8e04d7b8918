"""From a template to a page. Everything that comes from data is escaped, unless a template says otherwise."""

from functools import cache
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from scrubjay import __version__
from scrubjay.dashboard import words
from scrubjay.dashboard.assets import asset_url, is_live
from scrubjay.dashboard.error_words import error_words
from scrubjay.dashboard.session import TOKEN_FIELD, Visitor

FOLDER = Path(__file__).parent / "templates"
# What pages tell after something was done; the address says which, so that nothing from outside is ever shown.
NOTICES = {
    "paused": "Asked to pause. A running job pauses at its next checkpoint.",
    "resumed": "The job goes on.",
    "stopped": "Asked to stop. What it has brought stays.",
    "retried": "The job is queued again and goes on from its last checkpoint.",
    "deleted": "Deleted.",
    "restored": "Restored.",
    "uploaded": "Taken in.",
    "created": "Created.",
    "saved": "Saved.",
    "started": "Started.",
    "polled": "Looked at.",
    "sent": "Sent; the newest delivery says what came back.",
    "replayed": "Queued once more.",
    "switched": "Switched.",
    "signed-out": "Signed out.",
}


class Asked(dict[str, str]):
    """A page's query, as templates ask it: what is not there is empty."""

    def __missing__(self, name: str) -> str:
        return ""


@cache
def templates() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"asset": asset_url, "product_version": __version__, "token_field": TOKEN_FIELD}
    environment.globals |= {"with_query": words.with_query, "asset_missing": lambda: not is_live()}
    environment.filters |= {
        name: getattr(words, name)
        for name in ("ago", "duration", "size", "number", "web_address", "short_address", "job_title", "job_target")
    }
    environment.filters |= {"job_share": words.job_share, "zip": zip, "epoch": words.epoch}
    environment.filters |= {"plain": words.plain, "error_words": error_words}
    return environment


def render(template: str, **values: Any) -> str:
    return templates().get_template(template).render(**values)


def show(
    request: Request, template: str, visitor: Visitor | None = None, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """A page for somebody. Pages are theirs alone, and never what they were a while ago."""
    asked = request.query_params
    notice = NOTICES.get(asked.get("done") or asked.get("_done", ""))
    html = render(
        template, visitor=visitor, path=request.url.path, query=Asked(request.query_params), notice=notice, **values
    )
    return HTMLResponse(html, status_code=status, headers={"Cache-Control": "no-store"})
