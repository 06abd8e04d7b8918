"""A guard that is taken away is noticed: each check passes, and fails as soon as its path has no guard any more."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import true
from tests.acceptance.house import House
from tests.security import checks

from scrubjay.crawler import browser_proxy, fetcher
from scrubjay.crawler.addresses import EgressGuard, _as_literal
from scrubjay.dashboard.session import Visitor
from scrubjay.model.urls import Url
from scrubjay.services import access, webhooks
from scrubjay.storage.repository import Repository
from scrubjay.webhooks.endpoint import parse_url

pytestmark = pytest.mark.asyncio(loop_scope="module")

Check = Callable[[House], Awaitable[None]]


class NoGuard(EgressGuard):
    """Lets everything through."""

    def check(self, address: Any) -> Any:
        return address

    def check_host(self, host: str) -> None:
        return None

    async def resolve(self, host: str, port: int, family: int = 0) -> Any:
        return [_as_literal(host)]


def of_the_fetcher(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = fetcher.Network.__init__
    monkeypatch.setattr(fetcher.Network, "__init__", lambda self, guard, **options: begin(self, NoGuard(), **options))


def of_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = browser_proxy.BrowserProxy.__init__
    monkeypatch.setattr(browser_proxy.BrowserProxy, "__init__", lambda self, guard: begin(self, NoGuard()))


def of_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    def unguarded(text: str, guard: EgressGuard, *, field: str = "url") -> Url:
        return parse_url(text, field=field)

    monkeypatch.setattr(webhooks, "check_url", unguarded)


def of_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher, "is_same_party", lambda ours, other: True)


def of_tenants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Repository, "of_tenant", lambda self, tenant_id: true())


def of_scopes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "require", lambda principal, scope: None)


def of_forms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Visitor, "sent", lambda self, token: True)


def alone(check: Callable[[], Awaitable[None]]) -> Check:
    """A check that needs no house."""

    async def run(_: House) -> None:
        await check()

    return run


PATHS: dict[str, tuple[Check, Callable[[pytest.MonkeyPatch], None]]] = {
    "fetcher": (alone(checks.fetching_refuses_what_is_inside), of_the_fetcher),
    "browser": (alone(checks.browsing_refuses_what_is_inside), of_the_browser),
    "webhooks": (checks.webhooks_refuse_what_is_inside, of_webhooks),
    "credentials": (alone(checks.credentials_stay_with_their_origin), of_credentials),
    "tenants": (checks.strangers_find_nothing, of_tenants),
    "scopes": (checks.readers_change_nothing, of_scopes),
    "forms": (checks.forms_of_others_do_nothing, of_forms),
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_path_is_guarded_and_removing_its_guard_turns_the_check_red(
    still_house: House, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    check, remove = PATHS[path]
    await check(still_house)
    with monkeypatch.context() as without:
        remove(without)
        with pytest.raises(AssertionError):
            await check(still_house)
    await check(still_house)
