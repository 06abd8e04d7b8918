"""schemathesis walks the OpenAPI document of `/v1.0` against a real server: no 5xx, and every answer as described."""

import base64
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import given
from hypothesis import strategies as st
from schemathesis.schemas import APIOperation
from tests.acceptance.command_line import serving
from tests.acceptance.house import app_of_nobody
from tests.acceptance.rag.test_openapi import PATIENCE_SECONDS, QUICK, Target, attack

pytestmark = pytest.mark.slow  # minutes with their like: `make test-all` runs them

DOCUMENT = schemathesis.openapi.from_dict(app_of_nobody().openapi()).include(path_regex=r"^/v1\.0/")
OPERATIONS = [result.ok() for result in DOCUMENT.get_all_operations()]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> Iterator[Target]:
    home = tmp_path_factory.mktemp("served") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    with serving(home, SCRUBJAY_EXTRACT_PROCESSES="1") as server, requests.Session() as session:
        session.trust_env = False
        headers = {"X-Api-Key": (home / "admin.key").read_text().strip()}
        with httpx.Client(base_url=f"{server.address}/v1.0", headers=headers, trust_env=False, timeout=30) as client:
            yield Target(server.address, headers, _things(client), session)
        assert "request failed" not in server.log.read_text()


def _things(client: httpx.Client) -> dict[str, str]:
    """One of everything, so that not every answer is 404. The plan's site is not there, so its run fails."""

    def made(path: str, **body: Any) -> str:
        answer = client.put(path, json=body)
        assert answer.is_success, answer.text
        return str(answer.json()["Id"])

    settings = {"StartUrl": "http://nobody.invalid/"}
    plan = made("/crawlplans", Name="things", IsActive=False, RepositorySettings=settings)
    assert client.post(f"/crawlplans/{plan}/start").is_success
    deadline = time.monotonic() + PATIENCE_SECONDS
    while client.get(f"/crawlplans/{plan}").json()["State"] != "Stopped":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return {
        "plan_id": plan,
        "operation_id": client.get(f"/crawlplans/{plan}/operations").json()["Objects"][0]["Id"],
        "rule_id": made("/ingestion-rules", Name="things"),
        "document_id": made("/documents", Base64Content=base64.b64encode(b"A document to look at.").decode()),
    }


def test_the_document_describes_the_whole_door() -> None:
    assert len(OPERATIONS) == 29


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
@QUICK
@given(data=st.data())
def test_whatever_the_schema_allows_or_forbids_is_answered_as_it_says(
    target: Target, operation: APIOperation[Any, Any, Any, Any], data: st.DataObject
) -> None:
    attack(target, operation, data)
