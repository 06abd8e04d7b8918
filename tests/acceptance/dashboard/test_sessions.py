"""Who gets into the dashboard, and what a session may do there and nowhere else."""

import pytest
from tests.acceptance.dashboard.browsing import ACCEPT, token_of
from tests.acceptance.dashboard.conftest import SignIn
from tests.acceptance.house import PAGES, House, Key, app_of_nobody, places, some_ids

from scrubjay.model.tenant import Scope

POSTS = [place for place in places(app_of_nobody()) if place.pattern.startswith(PAGES) and place.method == "POST"]
ORDERS = [place for place in POSTS if place.pattern != "/ui/signin"]


async def test_a_key_signs_in_and_its_session_is_not_readable_by_scripts(house: House, admin: Key) -> None:
    async with house.client() as client:
        page = (await client.get("/ui/signin", headers=ACCEPT)).text
        answer = await client.post("/ui/signin", data={"key": f" {admin.text} ", "csrf": token_of(page)})
        assert answer.status_code == 303
        cookie = next(each for each in answer.headers.get_list("set-cookie") if "scrubjay_session" in each).lower()
        assert "httponly" in cookie
        assert "samesite=lax" in cookie
        home = (await client.get("/", headers=ACCEPT)).text
    assert "Signed in · admin" in home
    assert admin.text not in home


async def test_a_wrong_key_is_refused_in_words_and_not_shown_again(house: House) -> None:
    async with house.client() as client:
        page = (await client.get("/ui/signin", headers=ACCEPT)).text
        answer = await client.post("/ui/signin", data={"key": "sj_nobody", "csrf": token_of(page)})
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text
        assert "sj_nobody" not in answer.text
        assert "scrubjay_session" not in client.cookies


async def test_signing_in_needs_the_form_that_this_browser_was_shown(house: House, admin: Key) -> None:
    for token in ("", "x" * 43):
        async with house.client() as client:
            await client.get("/ui/signin", headers=ACCEPT)
            answer = await client.post("/ui/signin", data={"key": admin.text, "csrf": token})
            assert answer.status_code == 403
            assert "scrubjay_session" not in client.cookies
    async with house.client() as stranger:  # another's token, without its cookie
        theirs = token_of((await house.ask("GET", "/ui/signin", headers=ACCEPT)).text)
        answer = await stranger.post("/ui/signin", data={"key": admin.text, "csrf": theirs})
        assert answer.status_code == 403


@pytest.mark.parametrize(
    ("wanted", "led_to"),
    [
        ("/ui/jobs?state=failed", "/ui/jobs?state=failed"),
        ("https://evil.example/", "/"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("/ui/signout", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
async def test_signing_in_leads_to_the_page_that_was_asked_for_and_never_elsewhere(
    house: House, admin: Key, wanted: str, led_to: str
) -> None:
    async with house.client() as client:
        page = (await client.get("/ui/signin", headers=ACCEPT, params={"next": wanted})).text
        values = {"key": admin.text, "csrf": token_of(page), "next": wanted}
        assert (await client.post("/ui/signin", data=values)).headers["location"] == led_to


async def test_a_page_asks_whoever_is_not_signed_in_and_remembers_where_they_wanted_to_go(house: House) -> None:
    answer = await house.ask("GET", "/ui/jobs?state=failed", headers=ACCEPT)
    assert answer.status_code == 401
    assert 'name="next" value="/ui/jobs?state=failed"' in answer.text


async def test_signing_out_ends_the_session_on_the_server(house: House, signed_in: SignIn) -> None:
    browser = await signed_in()
    session = browser.client.cookies["scrubjay_session"]
    answer = await browser.post("/ui/signout")
    assert (answer.status_code, answer.headers["location"]) == (303, "/ui/signin?done=signed-out")
    async with house.client(cookies={"scrubjay_session": session}) as thief:
        assert (await thief.get("/ui/jobs", headers=ACCEPT)).status_code == 401


async def test_no_form_works_without_the_token_of_its_session(house: House, signed_in: SignIn) -> None:
    other = await signed_in()
    for place in ORDERS:
        browser = await signed_in()  # one of the forms signs out
        path = place.path(some_ids() | {"request": "stop"})
        for token in ("", "0" * 64, other.token):
            answer = await browser.post(path, token=token)
            assert answer.status_code == 403, (place, token)
            assert "did not come from this dashboard" in answer.text, place
        assert (await browser.client.post(path, json={"csrf": browser.token})).status_code == 403, place
        assert (await browser.client.post(path, params={"csrf": browser.token})).status_code == 403, place
        good = await browser.post(path)  # and with it, the request itself is judged
        assert good.status_code in (303, 400, 404), (place, good.text)


async def test_a_session_and_its_token_write_nothing_at_the_other_doors(house: House, signed_in: SignIn) -> None:
    browser = await signed_in()
    job = await house.job()
    for method, path in (
        ("POST", f"/jobs/{job.id}/stop"),
        ("POST", f"/api/v1/jobs/{job.id}/cancel"),
        ("PUT", "/v1.0/crawlplans"),
        ("DELETE", f"/jobs/{job.id}"),
    ):
        answer = await browser.client.request(method, path, data={"csrf": browser.token})
        assert answer.status_code == 401, path
    assert (await house.jay.jobs.get(house.admin, job.id)).requested is None


async def test_a_key_alone_opens_no_page(house: House, admin: Key) -> None:
    assert (await house.ask("GET", "/ui/jobs", admin, headers=ACCEPT)).status_code == 401


async def test_pages_run_only_our_own_scripts_and_are_kept_nowhere(signed_in: SignIn) -> None:
    browser = await signed_in()
    for path in ("/", "/ui/jobs"):
        answer = await browser.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        for inline in ("<script>", " onclick=", " style=", "javascript:"):
            assert inline not in answer.text
    elsewhere = await browser.get("/jobs")
    assert "script-src" not in elsewhere.headers["content-security-policy"]


async def test_assets_are_kept_for_good_under_the_address_that_pages_use(signed_in: SignIn) -> None:
    browser = await signed_in()
    page = await browser.page("/")
    address = page.split('<link rel="stylesheet" href="')[1].split('"')[0]
    answer = await browser.get(address)
    assert answer.headers["content-type"] == "text/css; charset=utf-8"
    assert "immutable" in answer.headers["cache-control"]
    assert "immutable" not in (await browser.get(address.split("?")[0])).headers["cache-control"]
    assert (await browser.get("/ui/static/..%2Frouting.py")).status_code == 404
    assert (await browser.get("/ui/static/nothing.js")).status_code == 404


async def test_what_a_key_may_not_do_is_neither_offered_nor_done(house: House, signed_in: SignIn) -> None:
    job = await house.job()
    reader, writer = await signed_in(Scope.READ), await signed_in(Scope.WRITE)
    assert "Pause" in await writer.page(f"/ui/jobs/{job.id}")
    page = await reader.page(f"/ui/jobs/{job.id}")
    assert "Signed in · read" in page
    assert "Pause" not in page
    assert "/stop" not in page
    refused = await reader.post(f"/ui/jobs/{job.id}/stop")
    assert refused.status_code == 403
    assert "scope &#39;write&#39;" in refused.text
    assert (await house.jay.jobs.get(house.admin, job.id)).state == "pending"
    assert (await writer.post(f"/ui/jobs/{job.id}/pause")).status_code == 303
    assert (await house.jay.jobs.get(house.admin, job.id)).state == "paused"


async def test_a_link_that_was_used_is_refused_in_words(house: House) -> None:
    token = await house.jay.access.create_sign_in_link(house.admin)
    assert (await house.ask("GET", f"/signin?token={token}", headers=ACCEPT)).status_code == 303
    again = await house.ask("GET", f"/signin?token={token}", headers=ACCEPT)
    assert again.status_code == 401
    assert "This sign-in link was used or has expired" in again.text
    assert 'action="/ui/signin"' in again.text
    assert token not in again.text
    assert (await house.ask("GET", f"/signin?token={token}")).json()["code"] == "UNAUTHORIZED"  # a program


async def test_who_asks_too_often_gets_a_page_that_says_so(house: House) -> None:
    key = await house.key(Scope.READ, rpm=3)
    async with house.client() as client:
        page = (await client.get("/ui/signin", headers=ACCEPT)).text
        await client.post("/ui/signin", data={"key": key.text, "csrf": token_of(page)})
        answers = [await client.get(path, headers=ACCEPT) for path in ("/ui/jobs", "/ui/jobs", "/ui/jobs", "/")]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
    for answer in answers[2:]:
        assert "<h1>Too many requests</h1>" in answer.text
        assert int(answer.headers["retry-after"]) > 0
