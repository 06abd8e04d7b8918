"""Guards, each checked by a function that fails when its guard is gone; `test_guards_matter.py` takes them away."""

import asyncio
from collections.abc import Awaitable
from ipaddress import ip_network

from tests.acceptance.dashboard.browsing import sign_in
from tests.acceptance.house import House
from tests.site import redirect, running_site
from tests.unit.extract.test_browser_proxy import ask, listening, pass_for

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.browser_proxy import BrowserProxy
from scrubjay.crawler.fetcher import Credentials, FetchRequest, Network
from scrubjay.errors import FetchFailed, NotFound, ScrubjayError, UrlBlocked
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.urls import parse_url

INNER = "127.0.0.2"  # stands for what is inside: these tests' sites are at 127.0.0.1, which is allowed


def _guard() -> EgressGuard:
    return EgressGuard([ip_network("127.0.0.1/32")])


async def fetching_refuses_what_is_inside() -> None:
    """A crawl, feed, sitemap or webhook that is redirected inside reaches nobody there."""
    async with running_site(pages=0) as site, listening(INNER) as inside:
        site.pages["/a"] = redirect(f"http://{INNER}:{inside.port}/secret")
        network = Network(_guard())
        try:
            async with network.fetcher() as fetcher:
                for url in (f"http://{INNER}:{inside.port}/", site.url + "/a"):
                    await _ignoring(fetcher.fetch(FetchRequest(url=url, timeout_seconds=5)))
        finally:
            await network.close()
        assert inside.requests == [], "somebody inside was asked"


async def browsing_refuses_what_is_inside() -> None:
    """Whatever a page in a browser asks for goes through this proxy."""
    proxy = BrowserProxy(_guard())
    await proxy.start()
    try:
        async with listening(INNER) as inside:
            session = proxy.open_session()
            await ask(proxy, f"GET http://{INNER}:{inside.port}/ HTTP/1.1\r\n{pass_for(session)}")
            assert inside.requests == [], "somebody inside was asked"
    finally:
        await proxy.close()


async def webhooks_refuse_what_is_inside(house: House) -> None:
    for url in (f"http://{INNER}/", "http://169.254.169.254/", "http://[::1]/", "http://0x7f.1/"):
        made = None
        try:
            made = await house.jay.webhooks.create(house.admin, url=url)
        except UrlBlocked:
            continue
        assert made is None, f"a webhook to {url} was made"


async def credentials_stay_with_their_origin() -> None:
    async with running_site(pages=0, hosts=2) as site:
        site.pages["/a"] = redirect(site.url_at(2) + "/b")
        site.add("/b", "here")
        network = Network(EgressGuard([ip_network("127.0.0.0/8")]))
        try:
            async with network.fetcher(credentials=Credentials.bearer(parse_url(site.url), "token-1")) as fetcher:
                await fetcher.fetch(FetchRequest(url=site.url + "/a"))
        finally:
            await network.close()
        first, second = site.requests
        assert first.headers["authorization"] == "Bearer token-1"
        assert "authorization" not in second.headers, "another origin was sent the token"


async def strangers_find_nothing(house: House) -> None:
    """By raw id, of another tenant."""
    mine = await house.jay.collections.create(house.admin, name=f"mine {id(object())}")
    stranger = await house.jay.access.create_tenant(house.admin, "a stranger to guards")
    found = None
    try:
        found = await house.jay.collections.get(stranger, mine.id)
    except NotFound:
        return
    finally:
        await house.jay.collections.delete(house.admin, mine.id)
    assert found is None, "another tenant's collection was found"


async def readers_change_nothing(house: House) -> None:
    reader = Principal(house.admin.tenant_id, house.admin.key_id, frozenset({Scope.READ}))
    made = None
    try:
        made = await house.jay.access.create_key(reader, name="more than I may", scopes=(Scope.ADMIN,))
    except ScrubjayError:
        return
    assert made is None, "a reader made an admin's key"


async def forms_of_others_do_nothing(house: House) -> None:
    """Cross-site request forgery: the browser sends its cookie, but no other site knows the session's token."""
    browser = await sign_in(house, await house.key())
    try:
        answer = await browser.post("/ui/settings/tags", {"name": "forged"}, token="0" * 64)
        names = [tag.name for tag in await house.jay.collections.list_tags(house.admin)]
        assert answer.status_code == 403, "a form without the session's token was taken"
        assert "forged" not in names
    finally:
        await browser.client.aclose()
        for tag in await house.jay.collections.list_tags(house.admin):
            await house.jay.collections.delete_tag(house.admin, tag.id)


async def _ignoring(fetching: Awaitable[object]) -> None:
    try:
        async with asyncio.timeout(10):
            await fetching
    except (UrlBlocked, FetchFailed):
        return
