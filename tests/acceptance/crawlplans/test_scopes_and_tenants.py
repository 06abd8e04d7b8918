"""Every route of `/v1.0`, walked by keys that may not and by strangers: nothing is given, nothing is changed."""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID

import pytest
import pytest_asyncio
from tests.acceptance.crawlplans.asking import documents, make_plan, plan_body, run, upload
from tests.acceptance.house import House, Key, Place, app_of_nobody, places
from tests.plans import set_pages
from tests.site import Site, running_site

from scrubjay.model.ids import id_from_uuid, uuid_from_id
from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

READ, WRITE, ADMIN = RANK = [Scope.READ, Scope.WRITE, Scope.ADMIN]
MARK = "zygodactyl"  # a word that stands in everything this tenant has, and nowhere else
PLAN, OPERATION = "/crawlplans/{plan_id}", "/crawlplans/{plan_id}/operations/{operation_id}"
RULE, DOCUMENT = "/ingestion-rules/{rule_id}", "/documents/{document_id}"
# The least scope for each route. A new route must be added here before these tests pass again.
NEEDED = {
    Place(method, f"/v1.0{path}"): scope
    for scope, wanted in {
        READ: {
            "GET": f"/crawlplans {PLAN} {PLAN}/operations {PLAN}/operations/statistics {OPERATION} "
            f"{OPERATION}/statistics {OPERATION}/enumeration {OPERATION}/report /ingestion-rules {RULE} /documents "
            f"{DOCUMENT} {DOCUMENT}/processing-log {DOCUMENT}/download",
            "HEAD": f"{PLAN} {RULE} {DOCUMENT}",
        },
        WRITE: {
            "GET": f"{PLAN}/enumerate",
            "PUT": f"/crawlplans {PLAN} /ingestion-rules {RULE} /documents",
            "POST": f"{PLAN}/start {PLAN}/stop {PLAN}/connectivity {OPERATION}/retry",
        },
        ADMIN: {"DELETE": f"{PLAN} {OPERATION} {RULE} {DOCUMENT}", "POST": "/documents/delete"},
    }.items()
    for method, paths in wanted.items()
    for path in paths.split()
}
DOOR = sorted(NEEDED)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def small_site() -> AsyncIterator[Site]:
    async with running_site() as site:
        set_pages(site, [MARK])
        yield site


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tenant(library: House) -> Key:
    return await library.key(tenant="the planner")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def belongings(library: House, tenant: Key, small_site: Site) -> dict[str, str]:
    return await give_belongings(library, tenant, small_site)


async def give_belongings(library: House, key: Key, site: Site) -> dict[str, str]:
    body = {"Name": MARK, "CollectionName": MARK}
    rule = await library.plans("PUT", "/ingestion-rules", key, status=201, json=body)
    settings = {"IngestionRuleId": rule["Id"]}
    plan = await make_plan(library, key, site.url, Name=MARK, IngestionSettings=settings)
    operation = await run(library, key, plan)
    assert operation["State"] == "Success"
    document = await upload(library, key, f"A {MARK} document.", f"{MARK}.txt", IngestionRuleId=rule["Id"])
    return {
        "plan_id": plan["Id"],
        "operation_id": operation["Id"],
        "rule_id": rule["Id"],
        "document_id": document["Id"],
        "collection_id": rule["CollectionId"],
        "url": site.url,
    }


def sending(place: Place, ids: Mapping[str, str]) -> dict[str, Any]:
    """A request that is right in every respect, so that only the key decides."""
    rule = {"Name": f"{MARK} again", "CollectionId": ids["collection_id"]}
    references = {"IngestionRuleId": ids["rule_id"], "CollectionId": ids["collection_id"]}
    plan = plan_body(ids["url"], Name="again", IngestionSettings=references)
    bodies = {
        "/v1.0/crawlplans": plan,
        f"/v1.0{PLAN}": plan,
        "/v1.0/ingestion-rules": rule,
        f"/v1.0{RULE}": rule,
        "/v1.0/documents": {"Base64Content": base64.b64encode(b"A visitor's.").decode(), **references},
        "/v1.0/documents/delete": {"DocumentIds": [ids["document_id"]]},
    }
    takes_body = place.method == "PUT" or place.pattern.endswith("/delete")
    return {"json": bodies[place.pattern]} if takes_body else {}


async def look_at_everything(library: House, key: Key, ids: Mapping[str, str]) -> dict[str, Any]:
    seen = {}
    for place in DOOR:
        if place.method != "GET" or NEEDED[place] is not READ:
            continue
        answer = await library.ask("GET", place.path(ids), key)
        body = answer.json() if answer.headers["content-type"] == "application/json" else answer.content
        if isinstance(body, dict):
            body.pop("TotalMs", None)
        seen[str(place)] = (answer.status_code, body)
    return seen


async def test_the_table_of_scopes_has_every_route() -> None:
    everywhere = places(app_of_nobody())
    assert set(NEEDED) == {place for place in everywhere if place.pattern.startswith("/v1.0")}


@pytest.mark.parametrize("scope", RANK[:2])
async def test_a_key_without_the_scope_is_403_on_its_own_things_and_changes_nothing(
    library: House, tenant: Key, belongings: dict[str, str], scope: Scope
) -> None:
    key = await library.key(scope, tenant="the planner")
    before = await look_at_everything(library, tenant, belongings)
    refused = 0
    for place in DOOR:
        if RANK.index(NEEDED[place]) <= RANK.index(scope):
            continue
        answer = await library.ask(place.method, place.path(belongings), key, **sending(place, belongings))
        assert (answer.status_code, answer.json()["Error"]) == (403, "AuthorizationFailed"), (place, answer.text)
        assert NEEDED[place] in answer.json()["Message"]
        refused += 1
    assert refused == (5 if scope is WRITE else 15)
    assert await look_at_everything(library, tenant, belongings) == before


async def test_a_key_with_just_the_scope_is_served(library: House, small_site: Site) -> None:
    for scope in RANK:
        owner = await library.key(ADMIN, tenant=f"planner with {scope}")
        key = await library.key(scope, tenant=f"planner with {scope}")
        ids = await give_belongings(library, owner, small_site)
        # What is deleted last is what the others stand in.
        order = [place for place in DOOR if place.method != "DELETE"]
        order += [Place("DELETE", f"/v1.0{path}") for path in (OPERATION, DOCUMENT, PLAN, RULE)]
        for place in order:
            if NEEDED[place] != scope:
                continue
            if place.pattern.endswith("/delete"):
                ids["document_id"] = (await upload(library, owner, "Another.", "another.txt"))["Id"]
            answer = await library.ask(place.method, place.path(ids), key, **sending(place, ids))
            if place == Place("DELETE", f"/v1.0{DOCUMENT}"):
                assert answer.status_code == 404, "it was among those that were removed before"
                continue
            assert answer.status_code in (200, 201, 204, 409), (place, answer.text)
            if place.pattern.endswith("/start"):
                await asyncio.sleep(0.5)


async def test_another_tenants_things_do_not_exist_on_any_route_in_either_spelling(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    stranger = await library.key(tenant="strangers to plans")
    before = await look_at_everything(library, tenant, belongings)
    spelled = {name: value if name == "url" else str(uuid_from_id(value)) for name, value in belongings.items()}
    walked = 0
    for place in DOOR:
        if "{" not in place.pattern and not sending(place, belongings):
            continue
        for ids in (belongings, spelled) if "{" in place.pattern else (belongings,):
            answer = await library.ask(place.method, place.path(ids), stranger, **sending(place, belongings))
            assert answer.status_code == 404, (place, answer.text)
            if place.method != "HEAD":
                assert answer.json()["Error"] == "NotFound"
            assert MARK not in answer.text
        walked += 1
    assert walked == len(DOOR) - 3
    assert await look_at_everything(library, tenant, belongings) == before


async def test_each_foreign_id_in_a_body_is_refused_by_itself(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    stranger = await library.key(tenant="strangers with bodies")
    own = await make_plan(library, stranger, "https://own.example/")
    proxy = await library.api(
        "POST", "/proxies", tenant, status=201, json={"name": MARK, "servers": [{"url": "http://p.example:3128"}]}
    )
    config = await library.api("POST", "/configs", tenant, status=201, json={"name": MARK})
    for part in (
        {"IngestionSettings": {"IngestionRuleId": belongings["rule_id"]}},
        {"IngestionSettings": {"CollectionId": belongings["collection_id"]}},
        {"RepositorySettings": {"ProxyId": id_from_uuid("prx", UUID(proxy["id"]))}},
        {"RepositorySettings": {"CrawlConfigId": id_from_uuid("ccfg", UUID(config["id"]))}},
    ):
        for path in ("/crawlplans", f"/crawlplans/{own['Id']}"):
            refused = await library.plans("PUT", path, stranger, status=404, json={"Name": "x", **part})
            assert refused["Error"] == "NotFound"
    body = {"Name": "r", "CollectionId": belongings["collection_id"]}
    await library.plans("PUT", "/ingestion-rules", stranger, status=404, json=body)
    content = base64.b64encode(b"words").decode()
    for reference in ({"IngestionRuleId": belongings["rule_id"]}, {"CollectionId": belongings["collection_id"]}):
        await library.plans("PUT", "/documents", stranger, status=404, json={"Base64Content": content, **reference})
    assert await documents(library, stranger) == []


async def test_an_operation_of_another_plan_of_the_same_tenant_is_not_found(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    other = await make_plan(library, tenant)
    path = f"/crawlplans/{other['Id']}/operations/{belongings['operation_id']}"
    for method, rest in (("GET", ""), ("GET", "/statistics"), ("GET", "/enumeration"), ("DELETE", "")):
        await library.plans(method, path + rest, tenant, status=404)


async def test_what_another_tenant_has_is_in_no_list_and_behind_no_filter(
    library: House, tenant: Key, belongings: dict[str, str]
) -> None:
    stranger = await library.key(tenant="strangers with filters")
    for path in ("/crawlplans", "/ingestion-rules", "/documents"):
        assert (await library.plans("GET", path, stranger))["TotalRecords"] == 0
        assert (await library.plans("GET", path, tenant))["TotalRecords"] > 0
    for name, key in (("crawlPlanId", "plan_id"), ("crawlOperationId", "operation_id")):
        assert await documents(library, stranger, **{name: belongings[key]}) == []
        assert await documents(library, tenant, **{name: belongings[key]}) != []
