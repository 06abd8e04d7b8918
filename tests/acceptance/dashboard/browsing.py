"""A browser without scripts: keeps its session, follows where forms lead, and sends the token that the page gave it."""

import re
from typing import Any

import httpx
from tests.acceptance.house import House, Key

ACCEPT = {"Accept": "text/html,application/xhtml+xml"}
_TOKEN = re.compile(r'name="csrf" value="([^"]+)"')


def token_of(page: str) -> str:
    found = _TOKEN.search(page)
    assert found is not None, "the page has no form"
    return found.group(1)


class Browser:
    """Signed in, with the token that every page's own form (to sign out) carries."""

    def __init__(self, client: httpx.AsyncClient, token: str) -> None:
        self.client = client
        self.token = token

    async def get(self, path: str, **options: Any) -> httpx.Response:
        return await self.client.get(path, headers=ACCEPT, **options)

    async def page(self, path: str, status: int = 200, **options: Any) -> str:
        answer = await self.get(path, **options)
        assert answer.status_code == status, f"{path}: {answer.status_code} {answer.text[:1500]}"
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    async def post(self, path: str, data: Any = None, *, token: str | None = None, **options: Any) -> httpx.Response:
        values = {**(data or {}), "csrf": self.token if token is None else token}
        return await self.client.post(path, data=values, headers=ACCEPT, **options)


async def sign_in(house: House, key: Key) -> Browser:
    client = house.client()
    page = (await client.get("/ui/signin", headers=ACCEPT)).text
    answer = await client.post("/ui/signin", data={"key": key.text, "csrf": token_of(page)})
    assert (answer.status_code, answer.headers["location"]) == (303, "/"), answer.text
    return Browser(client, token_of((await client.get("/", headers=ACCEPT)).text))
