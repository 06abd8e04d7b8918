"""Who asks for an action: a key, or a browser's session. Here is decided what a session may do.

Some actions change things by GET, so that they work from an address bar. Any page on the web can have a browser send
such a request, with its cookies. So a session may only change something when a form carries the session's token, which
no other site knows, or when the browser itself says that somebody typed the address (`Sec-Fetch-Site: none`) or that a
form of one of our pages was sent (`same-origin`, and not by GET). A GET from one of our pages is not enough: they show
addresses of documents and feeds, which are links that strangers wrote, and one of those may lead to an action here.
"""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request, Response, Security

from scrubjay.api.deps import SESSION_COOKIE, WAYS, Jay, key_of
from scrubjay.errors import Forbidden
from scrubjay.model.tenant import Principal


@dataclass(frozen=True, slots=True)
class Asker:
    principal: Principal
    may_change: bool

    def require_trust(self) -> None:
        if not self.may_change:
            raise Forbidden(
                "This changes something: send an API key, use the buttons of our pages, or type the address."
            )


async def asker(
    request: Request,
    response: Response,
    jay: Jay,
    _bearer: Annotated[object, Security(WAYS[0])],
    _header: Annotated[object, Security(WAYS[1])],
) -> Asker:
    key = key_of(request)
    session = request.cookies.get(SESSION_COOKIE)
    if key is None and session:
        who = await jay.access.authenticate_session(session)
        return Asker(who, _is_meant(request))
    who, allowance = await jay.access.authenticate(key)
    if allowance is not None:
        response.headers["X-RateLimit-Remaining"] = str(allowance.remaining)
        response.headers["X-RateLimit-Reset"] = str(allowance.reset_seconds)
    return Asker(who, True)


def _is_meant(request: Request) -> bool:
    asked_from = request.headers.get("sec-fetch-site")
    return asked_from == "none" or (asked_from == "same-origin" and request.method != "GET")


Asking = Annotated[Asker, Depends(asker)]
