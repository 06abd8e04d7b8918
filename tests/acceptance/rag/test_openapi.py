"""schemathesis walks the OpenAPI document of `/api/v1` against a real server: no 5xx, and every answer as described."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.schemas import APIOperation
from tests.acceptance.command_line import serving
from tests.acceptance.house import app_of_nobody, some_ids

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

load_all_checks()
CHECKED = CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
    ]
)
DOCUMENT = schemathesis.openapi.from_dict(app_of_nobody().openapi()).include(path_regex="^/api/v1/")
OPERATIONS = [result.ok() for result in DOCUMENT.get_all_operations()]
PATIENCE_SECONDS = 30


@dataclass(frozen=True)
class Target:
    address: str
    headers: dict[str, str]
    ids: dict[str, str]
    session: requests.Session
    keys = ("authorization", "x-api-key")


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> Iterator[Target]:
    home = tmp_path_factory.mktemp("served") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    with serving(home, SCRUBJAY_EXTRACT_PROCESSES="1") as server, requests.Session() as session:
        session.trust_env = False
        headers = {"X-Api-Key": (home / "admin.key").read_text().strip()}
        with httpx.Client(base_url=f"{server.address}/api/v1", headers=headers, trust_env=False, timeout=30) as client:
            yield Target(server.address, headers, _things(client), session)
        assert "request failed" not in server.log.read_text()


def _things(client: httpx.Client) -> dict[str, str]:
    """One of everything, so that not every answer is 404."""

    def made(path: str, **body: Any) -> dict[str, Any]:
        answer = client.post(path, json=body)
        assert answer.is_success, answer.text
        return dict(answer.json())

    document = made("/documents", content="# Jays\n\nA document to look at.", tags=["jays"])
    job = made("/crawl", url="http://nobody.invalid/")["jobs"][0]
    client.post(f"/crawl/{job['job_id']}/cancel")
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.get(f"/jobs/{job['job_id']}").json()["status"] not in ("cancelled", "failed", "completed"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    webhook = made("/webhooks", url="http://nobody.invalid/", events=["failed"])
    return {
        "collection_id": made("/collections", name="things")["id"],
        "config_id": made("/configs", name="things")["id"],
        "delivery_id": made(f"/webhooks/{webhook['id']}/test")["id"],
        "document_id": document["id"],
        "job_id": job["job_id"],
        "key_id": made("/api-keys", name="things")["id"],
        "proxy_id": made("/proxies", name="things", servers=[{"url": "http://nobody.invalid:3128"}])["id"],
        "source_id": made("/sources", name="things", url_pattern="http://nobody.invalid/")["id"],
        "tag_id": document["tags"][0]["id"],
        "webhook_id": webhook["id"],
    }


def attack(target: Target, operation: APIOperation[Any, Any, Any, Any], data: st.DataObject) -> None:
    mode = data.draw(st.sampled_from([GenerationMode.POSITIVE, GenerationMode.NEGATIVE]))
    try:
        strategy = operation.as_strategy(generation_mode=mode)
    except Exception:
        strategy = operation.as_strategy()
    case = data.draw(strategy)
    known = target.ids if operation.method.upper() != "DELETE" else some_ids()
    for name in case.path_parameters or {}:
        if name in known and data.draw(st.integers(0, 3)):
            case.path_parameters[name] = known[name]
    for name in [name for name in case.headers or {} if name.lower() in target.keys]:
        del case.headers[name]  # with another key beside ours, nothing but 401 would be seen
    response = case.call(
        base_url=target.address, session=target.session, headers=target.headers, timeout=PATIENCE_SECONDS
    )
    case.validate_response(response, checks=CHECKED)


QUICK = settings(
    max_examples=6,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def test_the_document_describes_the_whole_door() -> None:
    assert len(OPERATIONS) > 65


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (500, b'{"error": "x", "code": "y"}', "application/json"),
        (200, b'{"documents": "many"}', "application/json"),
        (200, b"<html>", "text/html"),
        (302, b"", "application/json"),
        (404, b'{"detail": "Not Found"}', "application/json"),
    ],
)
def test_an_answer_that_is_not_as_described_would_be_noticed(status: int, body: bytes, kind: str) -> None:
    operation = next(operation for operation in OPERATIONS if operation.label == "GET /api/v1/stats")
    response = requests.Response()
    response.status_code, response._content, response.headers["Content-Type"] = status, body, kind
    response.request = requests.Request("GET", "http://scrubjay.test/api/v1/stats").prepare()
    with pytest.raises(FailureGroup):
        operation.Case().validate_response(response, checks=CHECKED)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@QUICK
@given(data=st.data())
def test_whatever_the_schema_allows_or_forbids_is_answered_as_it_says(
    target: Target, operation: APIOperation[Any, Any, Any, Any], data: st.DataObject
) -> None:
    attack(target, operation, data)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@settings(QUICK, max_examples=10)
@given(data=st.data())
def test_a_long_walk_finds_nothing_either(
    target: Target, operation: APIOperation[Any, Any, Any, Any], data: st.DataObject
) -> None:
    attack(target, operation, data)
