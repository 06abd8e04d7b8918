"""An error as a page: what happened, in words, and where to go from there."""

from collections.abc import Mapping

from fastapi import Request
from starlette.requests import HTTPConnection
from starlette.responses import HTMLResponse

from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.signing_in import signed_out_page

TITLES = {
    400: "That does not work",
    403: "Not allowed",
    404: "Not found",
    409: "Not now",
    413: "Too large",
    429: "Too many requests",
    503: "Not available",
}


def problem_page(
    connection: HTTPConnection, status: int, message: str, headers: Mapping[str, str] | None = None
) -> HTMLResponse:
    """Who has not signed in is asked to; everybody else is told what is wrong."""
    request = Request(connection.scope)
    if status == 401:
        page = signed_out_page(request, message, status=status)
    else:
        title = TITLES.get(status, "Something went wrong" if status >= 500 else TITLES[400])
        page = show(request, "problem.html", status=status, title=title, message=message)
    page.headers.update(headers or {})
    return page
