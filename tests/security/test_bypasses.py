"""Ways around what is checked: other headers, other methods, other paths, other parts of a request."""

import json
import re

import pytest
from tests.acceptance.dashboard.browsing import ACCEPT, sign_in
from tests.acceptance.house import House, Key
from tests.model_server import running_model_server

from scrubjay.api.app import app_around
from scrubjay.app.resources import open_embedder
from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Network
from scrubjay.model.tenant import Scope
from scrubjay.services.documents import Upload
from scrubjay.settings import Settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Headers with which proxies and frameworks let a request be something else than it is.
PRETENDING = (
    {"X-HTTP-Method-Override": "GET"},
    {"X-Method-Override": "GET"},
    {"X-Original-URL": "/api/v1/health"},
    {"X-Rewrite-URL": "/api/v1/health"},
    {"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1"},
    {"X-Forwarded-User": "admin", "X-Remote-User": "admin", "X-Scopes": "admin"},
    {"X-Tenant-Id": "ten_0000000000000000000000000000", "Tenant": "default"},
    {"Forwarded": "for=127.0.0.1;host=localhost"},
    {"Host": "127.0.0.1"},
    {"Cookie": "scrubjay_session=admin; admin=true"},
)


@pytest.mark.parametrize("pretending", PRETENDING, ids=lambda headers: next(iter(headers)))
async def test_no_other_header_gives_a_scope(still_house: House, pretending: dict[str, str]) -> None:
    reader = await still_house.key(Scope.READ, tenant="who pretends")
    nobody = await still_house.ask("GET", "/api/v1/api-keys", headers=pretending)
    assert nobody.status_code == 401
    for method, path in (("GET", "/api/v1/api-keys"), ("POST", "/api/v1/api-keys"), ("DELETE", "/api/v1/cache")):
        answer = await still_house.ask(method, path, reader, headers=pretending, json={"name": "x"})
        assert answer.status_code == 403, (method, path, answer.text)


async def test_a_form_that_means_another_method_needs_the_same_scope(still_house: House) -> None:
    reader = await still_house.key(Scope.READ, tenant="who fills in forms")
    for meant in ("DELETE", "PUT", "GET"):
        answer = await still_house.ask(
            "POST", "/v2/domains/delete", reader, data={"_method": meant, "domain_id": "X"}, headers=ACCEPT
        )
        assert answer.status_code in (400, 403), (meant, answer.text)
    writer = await still_house.key(Scope.WRITE, tenant="who fills in forms")
    answer = await still_house.ask("POST", "/v2/domains/delete", writer, data={"_method": "DELETE", "domain_id": "X"})
    assert (answer.status_code, "scope 'admin'" in answer.text) == (403, True)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/health/../api-keys", "/api/v1/health/%2e%2e/api-keys", "/api/v1//api-keys", "/API/v1/api-keys",
        "/api/v1/api-keys/", "/api/v1/api-keys;x=/health", "/ui/static/..%2f..%2f..%2fsettings.py", "/ui/static/%2fetc",
        "/api/v1/health%00/../api-keys", "//api/v1/api-keys", "/signin/../api/v1/api-keys",
    ],
)  # fmt: skip
async def test_no_spelling_of_a_path_is_less_guarded(still_house: House, path: str) -> None:
    answer = await still_house.ask("GET", path)
    assert answer.status_code in (307, 400, 401, 404), (path, answer.text)
    assert "key_hash" not in answer.text
    assert "SCRUBJAY" not in answer.text


async def test_a_key_in_the_address_is_no_key(still_house: House) -> None:
    key = await still_house.key()
    for name in ("api_key", "key", "token", "access_token", "x-api-key"):
        assert (await still_house.ask("GET", "/api/v1/jobs", params={name: key.text})).status_code == 401


async def test_no_request_can_name_the_server_of_a_model(still_house: House) -> None:
    """Whoever may set the base address of a language model or embedder would be sent its key, and the documents."""
    document = json.dumps(app_around(still_house.jay).openapi())
    names = set(re.findall(r'"([A-Za-z_]+)": \{[^{}]*"(?:type|anyOf|title)"', document))
    assert not {name for name in names if re.search(r"base_?url|api_?base|llm|embedding_?url|azure", name, re.I)}
    key = await still_house.key(Scope.WRITE, tenant="who has a model of their own")
    for path, body in (
        ("/openai/v1/embeddings", {"input": "a", "model": "wordllama", "base_url": "https://evil.example"}),
        ("/openai/v1/responses", {"input": "a", "model": "m", "base_url": "https://evil.example"}),
        ("/api/v1/search", {"query": "a", "embedding_url": "https://evil.example"}),
    ):
        answer = await still_house.ask("POST", path, key, json=body, headers={"X-Base-Url": "https://evil.example"})
        assert "evil.example" not in answer.text
        assert answer.status_code in (200, 400, 422, 503), answer.text


async def test_the_key_of_an_embedder_goes_to_the_address_in_the_settings_alone(still_house: House) -> None:
    """A generation of the index remembers the address that it was made with; it may be another one by now."""
    allowed = Settings(home=still_house.jay.settings.home, allowed_private_networks="127.0.0.0/8").allowed_private_networks  # type: ignore[arg-type] # noqa: E501 # fmt: skip
    async with running_model_server() as server, running_model_server() as other:
        settings = still_house.jay.settings.model_copy(
            update={"embedding_url": server.url, "embedding_api_key": _secret("sk-embedder")}
        )
        network = Network(EgressGuard(allowed))
        try:
            for each in (server, other):
                embedder = await open_embedder({"kind": "tei", "url": each.url, "model": ""}, settings, network)
                await embedder.embed(["a jay"])
                await embedder.close()
        finally:
            await network.close()
        assert any("sk-embedder" in str(sent) for sent in server.keys)
        assert not any("sk-embedder" in str(sent) for sent in other.keys)


def _secret(text: str) -> object:
    from pydantic import SecretStr

    return SecretStr(text)


async def test_what_looks_like_a_template_is_shown_as_it_was_written(still_house: House) -> None:
    browser = await sign_in(still_house, await still_house.key(tenant="who writes templates"))
    for hostile in ("{{7*7}}", "{% raw %}", "${7*7}", "{{config}}"):
        await browser.post("/ui/settings/keys", {"name": hostile, "scope": "read"})
        assert hostile in await browser.page("/ui/settings")
    assert ">49<" not in await browser.page("/ui/settings")
    await browser.client.aclose()


@pytest.mark.parametrize("name", ['a"\r\nSet-Cookie: stolen=1.txt', "../../etc/passwd", "..\\..\\x.html", "<b>.html"])
async def test_an_original_is_only_ever_saved_and_its_name_leads_nowhere(still_house: House, name: str) -> None:
    key = await still_house.key(Scope.WRITE, tenant="who uploads")
    who, _ = await still_house.jay.access.authenticate(key.text)
    upload = Upload(data=b"<script>alert(1)</script>", filename=name, content_type="text/html")
    (document,) = await still_house.jay.documents.add(who, [upload], wait_seconds=0)
    for path in (f"/api/v1/documents/{document.id}/original", f"/v1.0/documents/{document.id}/download"):
        answer = await still_house.ask("GET", path, key)
        if answer.status_code == 404:
            continue  # nobody works here, so it may not be there yet
        assert answer.headers["content-disposition"].startswith("attachment")
        assert not set("\r\n\\/<>") & set(answer.headers["content-disposition"].replace("''", ""))
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_stopping_another_tenants_job_is_a_404_at_every_door_and_it_goes_on(still_house: House) -> None:
    owner: Key = await still_house.key(tenant="who works")
    who, _ = await still_house.jay.access.authenticate(owner.text)
    job = await still_house.jay.jobs.submit(who, "diagnostic.steps", {"steps": 1})
    stranger = await still_house.key(tenant="who stops others")
    for method, path in (
        ("POST", f"/jobs/{job.id}/stop"), ("POST", f"/jobs/{job.id}/pause"), ("POST", f"/stop_job/{job.id}"),
        ("DELETE", f"/jobs/{job.id}"), ("POST", f"/api/v1/jobs/{job.id}/cancel"), ("DELETE", f"/api/v1/jobs/{job.id}"),
        ("POST", f"/api/v1/crawl/{job.id}/cancel"),
    ):  # fmt: skip
        assert (await still_house.ask(method, path, stranger)).status_code == 404, path
    await still_house.ask("POST", "/clear_jobs", stranger)
    after = await still_house.jay.jobs.get(who, job.id)
    assert (after.state, after.requested) == (job.state, None)
