"""The icecream resource of specification 002, line by line: one declaration, and everything else follows."""

from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from tests.acceptance.house import House, Key

from scrubjay.api.actions.declaration import Action, Call, Param, Resource
from scrubjay.api.actions.routing import ActionRoute, add_resources
from scrubjay.errors import NotFound
from scrubjay.model.tenant import Scope

PATH = "/v2/icecreams"
HTML = "text/html; charset=utf-8"


class Freezer:
    """The service behind the declaration."""

    def __init__(self) -> None:
        self.icecreams: dict[str, dict[str, Any]] = {"1": {"icecream_id": "1", "name": "Vanilla <b>"}}

    def find(self, identifier: str) -> dict[str, Any]:
        if identifier not in self.icecreams:
            raise NotFound(f"Icecream '{identifier}' not found.")
        return self.icecreams[identifier]

    async def all(self, call: Call) -> Any:
        return list(self.icecreams.values())

    async def get(self, call: Call) -> Any:
        return self.find(call.values["icecream_id"])

    async def create(self, call: Call) -> Any:
        made = {"icecream_id": str(len(self.icecreams) + 1), "name": call.values["name"]}
        if not call.dry_run:
            self.icecreams[made["icecream_id"]] = made
        return made

    async def update(self, call: Call) -> Any:
        changed = {**self.find(call.target_id), "name": call.values["name"]}
        if not call.dry_run:
            self.icecreams[call.target_id] = changed
        return changed

    async def delete(self, call: Call) -> Any:
        found = self.find(call.values["icecream_id"])
        if not call.dry_run:
            del self.icecreams[found["icecream_id"]]
        return found

    async def flavours(self, call: Call) -> Any:
        return [{"flavour_id": "sweet"}, {"flavour_id": "sour"}]

    async def flavour(self, call: Call) -> Any:
        return {"flavour_id": call.values["flavour_id"]}


def resources(freezer: Freezer) -> tuple[Resource, ...]:
    name = Param(name="name", about="What it is called.", required=True, in_body=True)
    return (
        Resource(
            shorthand="L(jhu)C(j)G(jh)U(j)D(jh)",
            path="icecreams",
            about="Icecream stock",
            id_param="icecream_id",
            list=Action(run=freezer.all),
            create=Action(run=freezer.create, params=(name,), scope=Scope.WRITE),
            get=Action(run=freezer.get),
            update=Action(
                run=freezer.update,
                params=(Param(name="icecream_id", about="Which.", required=True), name),
                scope=Scope.WRITE,
            ),
            delete=Action(run=freezer.delete, scope=Scope.WRITE),
        ),
        Resource(
            shorthand="L(jhu)G(jh)",
            path="icecreams/flavours",
            about="Available icecream flavours",
            id_param="flavour_id",
            list=Action(run=freezer.flavours),
            get=Action(run=freezer.flavour),
        ),
    )


@pytest.fixture
def freezer(house: House) -> Freezer:
    freezer = Freezer()
    router = APIRouter(route_class=ActionRoute)
    add_resources(router, resources(freezer))
    house.app.include_router(router)
    return freezer


Answer = tuple[httpx.Response, Any]


def found(answer: httpx.Response, data: Any) -> None:
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "error": "", "data": data})


def refused(answer: httpx.Response, message: str, status: int = 400) -> None:
    assert (answer.status_code, answer.json()) == (status, {"ok": False, "error": message, "data": {}})


def documented(answer: httpx.Response, *words: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; charset=utf-8")
    for word in words:
        assert word in answer.text


def shown(answer: httpx.Response, *words: str) -> None:
    assert (answer.status_code, answer.headers["content-type"]) == (200, HTML)
    assert "<script>" not in answer.text
    assert " style=" not in answer.text
    for word in words:
        assert word in answer.text


async def test_the_list(house: House, admin: Key, freezer: Freezer) -> None:
    documented(
        await house.ask("GET", PATH, admin),
        "Icecream stock", f"POST {PATH}/create", f"PUT {PATH}/update", f"DELETE, GET {PATH}/delete", "icecream_id",
        "dry_run", f"{PATH}/flavours",
    )  # fmt: skip
    found(await house.ask("GET", f"{PATH}?format=json", admin), list(freezer.icecreams.values()))
    shown(await house.ask("GET", f"{PATH}?format=html", admin), "<table>", "Vanilla &lt;b&gt;")
    page = await house.ask("GET", f"{PATH}?format=ui", admin)
    shown(page, ">Create</a>", ">Edit</a>", ">Delete</summary>", ">View</a>")
    assert "<b>" not in page.text
    refused(await house.ask("GET", f"{PATH}?format=stream", admin), "Format 'stream' not supported.")


async def test_create(house: House, admin: Key, freezer: Freezer) -> None:
    documented(await house.ask("GET", f"{PATH}/create", admin), f"POST {PATH}/create", "name")
    found(
        await house.ask("POST", f"{PATH}/create", admin, json={"name": "Lemon"}), {"icecream_id": "2", "name": "Lemon"}
    )
    found(await house.ask("POST", f"{PATH}/create", admin, data={"name": "Mint"}), {"icecream_id": "3", "name": "Mint"})
    answer = await house.ask("POST", f"{PATH}/create?dry_run=true", admin, json={"name": "Air"})
    found(answer, {"icecream_id": "4", "name": "Air"})
    assert len(freezer.icecreams) == 3
    answer = await house.ask("POST", f"{PATH}/create?format=json", admin, data={"name": "Nut"})
    found(answer, {"icecream_id": "4", "name": "Nut"})
    refused(
        await house.ask("POST", f"{PATH}/create?format=html", admin, json={"name": "x"}), "Format 'html' not supported."
    )
    refused(await house.ask("PUT", f"{PATH}/create", admin, json={"name": "x"}), "HTTP method 'PUT' not supported.")
    refused(await house.ask("GET", f"{PATH}/create?name=x", admin), "HTTP method 'GET' not supported.")
    assert len(freezer.icecreams) == 4


async def test_get(house: House, admin: Key, freezer: Freezer) -> None:
    vanilla = dict(freezer.icecreams["1"])
    documented(await house.ask("GET", f"{PATH}/get", admin), f"GET {PATH}/get", "icecream_id")
    found(await house.ask("GET", f"{PATH}/get?icecream_id=1", admin), vanilla)
    found(await house.ask("GET", f"{PATH}/get?icecream_id=1&format=json", admin), vanilla)
    shown(await house.ask("GET", f"{PATH}/get?icecream_id=1&format=html", admin), "Vanilla &lt;b&gt;")
    for unsupported in ("ui", "stream", "zip", "xml"):
        answer = await house.ask("GET", f"{PATH}/get?icecream_id=1&format={unsupported}", admin)
        refused(answer, f"Format '{unsupported}' not supported.")
    refused(await house.ask("GET", f"{PATH}/get?format=json", admin), "Missing 'icecream_id' parameter.")
    refused(await house.ask("GET", f"{PATH}/get?icecream_id=9", admin), "Icecream '9' not found.", 404)
    missing = await house.ask("GET", f"{PATH}/get?icecream_id=9&format=html", admin)
    assert (missing.status_code, missing.headers["content-type"]) == (404, HTML)


async def test_update(house: House, admin: Key, freezer: Freezer) -> None:
    documented(await house.ask("GET", f"{PATH}/update", admin), f"PUT {PATH}/update")
    answer = await house.ask("PUT", f"{PATH}/update", admin, json={"icecream_id": "1", "name": "A"})
    found(answer, {"icecream_id": "1", "name": "A"})
    answer = await house.ask("PUT", f"{PATH}/update?icecream_id=1&format=json", admin, data={"name": "B"})
    found(answer, {"icecream_id": "1", "name": "B"})
    answer = await house.ask("PUT", f"{PATH}/update?icecream_id=1&dry_run=true", admin, data={"name": "C"})
    found(answer, {"icecream_id": "1", "name": "C"})
    refused(await house.ask("PUT", f"{PATH}/update?format=html", admin), "Format 'html' not supported.")
    for method in ("POST", "PATCH"):
        answer = await house.ask(method, f"{PATH}/update", admin, json={"icecream_id": "1", "name": "D"})
        refused(answer, f"HTTP method '{method}' not supported.")
    assert freezer.icecreams["1"]["name"] == "B"


async def test_delete(house: House, admin: Key, freezer: Freezer) -> None:
    documented(await house.ask("GET", f"{PATH}/delete", admin), f"DELETE, GET {PATH}/delete")
    for method in ("DELETE", "GET"):
        for query in ("", "&format=json"):
            freezer.icecreams = {"1": {"icecream_id": "1", "name": "Gone"}}
            answer = await house.ask(method, f"{PATH}/delete?icecream_id=1&dry_run=true{query}", admin)
            found(answer, {"icecream_id": "1", "name": "Gone"})
            assert freezer.icecreams
            answer = await house.ask(method, f"{PATH}/delete?icecream_id=1{query}", admin)
            found(answer, {"icecream_id": "1", "name": "Gone"})
            assert not freezer.icecreams
        freezer.icecreams = {"1": {"icecream_id": "1", "name": "Gone"}}
        shown(await house.ask(method, f"{PATH}/delete?icecream_id=1&format=html", admin), "Gone")
        assert not freezer.icecreams
        answer = await house.ask(method, f"{PATH}/delete?icecream_id=1&format=stream", admin)
        refused(answer, "Format 'stream' not supported.")
    answer = await house.ask("PATCH", f"{PATH}/delete?icecream_id=1", admin, json={})
    refused(answer, "HTTP method 'PATCH' not supported.")
    refused(await house.ask("DELETE", f"{PATH}/delete", admin), "Missing 'icecream_id' parameter.")


async def test_flavours(house: House, admin: Key, freezer: Freezer) -> None:
    path = f"{PATH}/flavours"
    documented(await house.ask("GET", path, admin), "Available icecream flavours", "flavour_id")
    found(await house.ask("GET", f"{path}?format=json", admin), [{"flavour_id": "sweet"}, {"flavour_id": "sour"}])
    shown(await house.ask("GET", f"{path}?format=html", admin), "sweet", "sour")
    page = await house.ask("GET", f"{path}?format=ui", admin)
    shown(page, ">View</a>")
    assert "Edit" not in page.text
    assert "Delete" not in page.text
    assert "Create" not in page.text
    documented(await house.ask("GET", f"{path}/get", admin), "flavour_id")
    found(await house.ask("GET", f"{path}/get?flavour_id=sour", admin), {"flavour_id": "sour"})
    found(await house.ask("GET", f"{path}/get?flavour_id=sour&format=json", admin), {"flavour_id": "sour"})
    shown(await house.ask("GET", f"{path}/get?flavour_id=sour&format=html", admin), "sour")
    refused(await house.ask("POST", f"{path}/get", admin), "HTTP method 'POST' not supported.")


async def test_a_form_of_the_page_can_change_and_delete(house: House, admin: Key, freezer: Freezer) -> None:
    """Browsers send GET and POST only; the pages say in the form what they mean."""
    form = {"_method": "PUT", "icecream_id": "1", "name": "Formed"}
    found(
        await house.ask("POST", f"{PATH}/update?icecream_id=1&format=json", admin, data=form),
        {"icecream_id": "1", "name": "Formed"},
    )
    in_json = await house.ask("POST", f"{PATH}/update?icecream_id=1", admin, json=form)
    refused(in_json, "HTTP method 'POST' not supported.")
    answer = await house.ask("POST", f"{PATH}/delete?icecream_id=1", admin, data={"_method": "DELETE"})
    found(answer, {"icecream_id": "1", "name": "Formed"})
    assert not freezer.icecreams


async def test_a_reader_may_look_and_read_but_not_change(house: House, freezer: Freezer) -> None:
    reader = await house.key(Scope.READ)
    found(await house.ask("GET", f"{PATH}?format=json", reader), list(freezer.icecreams.values()))
    documented(await house.ask("GET", f"{PATH}/delete", reader), "delete")
    for method, path in (("GET", "delete?icecream_id=1"), ("DELETE", "delete?icecream_id=1"), ("POST", "create")):
        answer = await house.ask(
            method, f"{PATH}/{path}", reader, **({"json": {"name": "x"}} if method == "POST" else {})
        )
        refused(answer, "This needs a key with the scope 'write'.", 403)
    assert freezer.icecreams


async def test_json_that_curl_calls_a_form_is_json(house: House, admin: Key, freezer: Freezer) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    answer = await house.ask("POST", f"{PATH}/create", admin, content=b' {"name": "Mint"}', headers=headers)
    assert answer.json()["data"]["name"] == "Mint", answer.text


async def test_a_link_on_our_own_pages_changes_nothing_for_a_session(house: House, freezer: Freezer) -> None:
    """Addresses of documents and feeds are links there, and strangers wrote them. A form that we made may."""
    ours = {"Sec-Fetch-Site": "same-origin"}
    async with house.client() as browser:
        await browser.get("/signin", params={"token": await house.jay.access.create_sign_in_link(house.admin)})
        refused(
            await browser.get(f"{PATH}/delete?icecream_id=1", headers=ours),
            "This changes something: send an API key, use the buttons of our pages, or type the address.",
            403,
        )
        assert list(freezer.icecreams) == ["1"]
        sent = await browser.post(f"{PATH}/delete?icecream_id=1", data={"_method": "GET"}, headers=ours)
        assert sent.status_code == 200, sent.text
    assert not freezer.icecreams


@pytest.mark.parametrize(
    ("site", "status"), [("same-origin", 200), ("none", 200), ("same-site", 403), ("cross-site", 403), (None, 403)]
)
async def test_a_session_changes_things_only_from_our_own_pages(
    house: House, freezer: Freezer, site: str | None, status: int
) -> None:
    headers = {} if site is None else {"Sec-Fetch-Site": site}
    async with house.client() as browser:
        await browser.get("/signin", params={"token": await house.jay.access.create_sign_in_link(house.admin)})
        assert (await browser.get(f"{PATH}?format=ui", headers=headers)).status_code == 200
        form = {"_method": "DELETE"}
        deleted = await browser.post(f"{PATH}/delete?icecream_id=1", data=form, headers=headers)
        made = await browser.post(f"{PATH}/create", data={"name": "x"}, headers=headers)
    assert (deleted.status_code, made.status_code) == (status, status)
    assert {each["name"] for each in freezer.icecreams.values()} == ({"x"} if status == 200 else {"Vanilla <b>"})


async def test_what_is_given_twice_or_unknown_is_refused(house: House, admin: Key, freezer: Freezer) -> None:
    for query, message in {
        "icecream_id=1&icecream_id=2": "Parameter 'icecream_id' is given more than once in the address.",
        "icecream_id=1&dryrun=true": "Unknown parameter 'dryrun'.",
        "icecream_id=1&dry_run=yes": "Parameter 'dry_run' must be 'true' or 'false'.",
        "icecream_id=": "Missing 'icecream_id' parameter.",
        "icecream_id=%00": "Parameter 'icecream_id' has a character that cannot be stored.",
        f"icecream_id={'x' * 501}": "Parameter 'icecream_id' must have at most 500 characters.",
    }.items():
        refused(await house.ask("GET", f"{PATH}/delete?{query}", admin), message)
    body = await house.ask("DELETE", f"{PATH}/delete?icecream_id=1", admin, json={"icecream_id": "2"})
    refused(body, "Parameter 'icecream_id' is given twice, with different values.")
    for text in (b"{", b"[1]", b'"x"', b"\xff\xfe", b"[" * 100_000):
        answer = await house.ask("POST", f"{PATH}/create", admin, content=text)
        assert answer.status_code == 400, text[:10]
        assert "body" in answer.json()["error"]
    assert list(freezer.icecreams) == ["1"]
