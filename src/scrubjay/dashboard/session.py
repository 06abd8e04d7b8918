"""Who looks at a page: the owner of a browser's session. What changes anything also needs the session's form token."""

import hashlib
import hmac
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import Depends, Request
from starlette.datastructures import FormData

from scrubjay.app import Scrubjay
from scrubjay.errors import Forbidden, Unauthenticated
from scrubjay.model.clock import utc_now
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import SESSION_COOKIE

TOKEN_FIELD = "csrf"  # noqa: S105 - the name of a field, not a secret
SEEN_COOKIE = "scrubjay_seen"
RECENT = timedelta(days=7)
MAX_FILES = 50
MAX_FIELDS = 200
STALE_FORM = "This form is too old, or it did not come from this dashboard. Go back, reload the page and try again."


@dataclass(frozen=True, slots=True)
class Visitor:
    """Somebody who has signed in, and what the pages may offer to them."""

    who: Principal
    session: str
    seen_at: datetime = field(default_factory=lambda: utc_now() - RECENT)  # when they last looked at what failed
    failures: int = 0  # since then

    @property
    def form_token(self) -> str:
        """Made of the session, which no script and no other site can read; so is known only to pages from here."""
        return hmac.new(self.session.encode(), b"form of the dashboard", hashlib.sha256).hexdigest()

    def sent(self, token: object) -> bool:
        """Whether a form with this token came from one of our pages, and from this session's."""
        return (
            bool(self.session)
            and isinstance(token, str)
            and hmac.compare_digest(token.encode(errors="replace"), self.form_token.encode())
        )

    @property
    def may_write(self) -> bool:
        return self.who.may(Scope.WRITE)

    @property
    def may_administer(self) -> bool:
        return self.who.may(Scope.ADMIN)

    @property
    def role(self) -> str:
        if self.may_administer:
            return "admin"
        return "write" if self.may_write else "read"


@dataclass(frozen=True, slots=True)
class Order:
    """A form that a visitor sent from one of our pages."""

    visitor: Visitor
    form: FormData

    @property
    def who(self) -> Principal:
        return self.visitor.who

    def text(self, name: str, default: str = "") -> str:
        value = self.form.get(name)
        return value.replace("\x00", "").strip() if isinstance(value, str) else default

    def texts(self, name: str) -> list[str]:
        return [value for value in self.form.getlist(name) if isinstance(value, str)]

    def checked(self, name: str) -> bool:
        return self.form.get(name) is not None


def scrubjay(request: Request) -> Scrubjay:
    app: Scrubjay = request.app.state.scrubjay
    return app


async def find_visitor(request: Request, jay: Scrubjay) -> Visitor | None:
    session = request.cookies.get(SESSION_COOKIE)
    if not session:
        return None
    try:
        who = await jay.access.authenticate_session(session)
    except Unauthenticated:
        return None
    return await told_of_failures(request, jay, Visitor(who, session))


async def told_of_failures(request: Request, jay: Scrubjay, visitor: Visitor) -> Visitor:
    """The same visitor, with how much failed since they last looked at that."""
    seen_at = _last_look(request.cookies.get(SEEN_COOKIE))
    is_stream = request.url.path.endswith("/live")
    failures = 0 if is_stream else await jay.failures.count(visitor.who, seen_at)
    return replace(visitor, seen_at=seen_at, failures=failures)


def _last_look(text: str | None) -> datetime:
    """As the browser remembers it, but not longer ago than is of interest, nor in the future."""
    now = utc_now()
    milliseconds = int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 14 else 0
    return min(now, max(now - RECENT, datetime.fromtimestamp(milliseconds / 1000, UTC)))


async def visitor(request: Request, jay: Annotated[Scrubjay, Depends(scrubjay)]) -> Visitor:
    found = await find_visitor(request, jay)
    if found is None:
        raise Unauthenticated("Sign in to see this page.")
    return found


async def order(request: Request, sender: Annotated[Visitor, Depends(visitor)]) -> AsyncIterator[Order]:
    async with request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS) as form:  # and close its files afterwards
        if not sender.sent(form.get(TOKEN_FIELD)):
            raise Forbidden(STALE_FORM)
        yield Order(sender, form)


Jay = Annotated[Scrubjay, Depends(scrubjay)]
Looking = Annotated[Visitor, Depends(visitor)]
Ordering = Annotated[Order, Depends(order)]
