"""What a walk through every route needs: a tenant that has one of everything, a request for each route, snapshots."""

import asyncio
import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from tests.acceptance.actions.test_declarations import ENDPOINTS, needed_values
from tests.acceptance.actions.test_declarations import NEEDED as ACTIONS_NEED
from tests.acceptance.control.test_scopes import BODIES as CONTROL_BODIES
from tests.acceptance.crawlplans.test_scopes_and_tenants import NEEDED as PLANS_NEED
from tests.acceptance.crawlplans.test_scopes_and_tenants import sending as send_to_plans
from tests.acceptance.house import House, Key, Place, some_ids
from tests.acceptance.openai_door.test_scopes_and_tenants import NEEDED as OPENAI_NEEDS
from tests.acceptance.openai_door.test_scopes_and_tenants import sending as send_to_openai
from tests.acceptance.rag.belongings import sending as send_to_rag
from tests.acceptance.rag.scopes import NEEDED as OTHERS_NEED

from scrubjay.model.clock import utc_now
from scrubjay.model.knowledge import Response
from scrubjay.model.plan import Operation, OperationState, ScheduleSettings
from scrubjay.model.tenant import Principal, Scope
from scrubjay.model.watching import Story
from scrubjay.model.webhook import Delivery, DeliveryStatus
from scrubjay.openai.protocol import StoreFile
from scrubjay.services.action_jobs import JobOrder
from scrubjay.services.documents import Upload
from scrubjay.services.plans import PlanValues
from scrubjay.services.rules import RuleValues
from scrubjay.storage.deliveries import Deliveries
from scrubjay.storage.inventory import Responses
from scrubjay.storage.operations import Operations
from scrubjay.storage.tables import metadata
from scrubjay.storage.watches import Stories

MARK = "xylophagous"  # a word that stands in everything the walked tenant has, and nowhere else
HOST = f"{MARK}.example"
ADDRESS = f"https://{HOST}/"
PATIENCE_SECONDS = 30.0
RANK = [Scope.READ, Scope.WRITE, Scope.ADMIN]
READ, WRITE, ADMIN = RANK

# Pages of the dashboard that need more than a look. A page that is not named here is for everybody of the tenant.
_PAGES_FOR_ADMINS = {
    "GET /ui/settings/audit", "POST /ui/settings/keys", "POST /ui/settings/keys/{key_id}/switch",
    "POST /ui/settings/keys/{key_id}/delete", "POST /ui/settings/collections/{collection_id}/delete",
    "POST /ui/settings/rules/{rule_id}/delete", "POST /ui/plans/{plan_id}/delete",
    "POST /ui/plans/{plan_id}/operations/{operation_id}/delete",
}  # fmt: skip
_ENDPOINTS = {endpoint.path: endpoint for endpoint in ENDPOINTS}
_QUERIES = {"/v2/", "/describe", "/describe2", "/query", "/query2"}


def needed_scope(place: Place) -> Scope:
    """The least scope that a route takes; a KeyError for a route that no table knows."""
    if place.pattern.startswith("/ui/"):
        if str(place) in _PAGES_FOR_ADMINS:
            return ADMIN
        is_form = place.pattern.endswith(("/new", "/edit"))
        return WRITE if (place.method == "POST" and place.pattern != "/ui/signout") or is_form else READ
    if place.pattern in _ENDPOINTS:
        return ACTIONS_NEED[place.pattern]
    if place.pattern in _QUERIES:
        return READ
    for table in (PLANS_NEED, OPENAI_NEEDS, OTHERS_NEED):
        if place in table:
            return WRITE if place.pattern == "/call" else table[place]
    raise KeyError(f"{place} is in no table of scopes: say there what it needs")


@dataclass(frozen=True)
class Asked:
    """A request that is right in every respect, so that only who asks decides."""

    place: Place
    path: str
    options: Mapping[str, Any]
    names_things: bool  # of the walked tenant, in its path, query or body
    is_misdirected: bool = False  # `/v2` knows the method only to say that it is the wrong one


def asked(place: Place, ids: Mapping[str, str]) -> Asked:
    if place.pattern in _ENDPOINTS:
        return _action(place, ids)
    path = place.path({**ids, "request": "pause" if "/ui/" in place.pattern else "cancel"})
    options = _sending(place, ids)
    text = json.dumps(options, default=str)
    things = {name: value for name, value in ids.items() if name not in _NOBODYS}
    is_in_path = any(f"{{{name}}}" in place.pattern for name in things)
    return Asked(place, path, options, is_in_path or any(value in text for value in things.values()))


def _sending(place: Place, ids: Mapping[str, str]) -> dict[str, Any]:
    """What goes with a request, as far as its route takes anything."""
    if place.pattern.startswith("/openai"):
        return send_to_openai(place, dict(ids))
    if place.pattern.startswith("/v1.0"):
        return send_to_plans(place, ids)
    if place.pattern.startswith("/api/v1"):
        return send_to_rag(place, ids)
    call = {"name": "get_document", "arguments": {"document_id": ids["document_id"]}}
    special: dict[str, dict[str, Any]] = {
        "POST /query": {"json": {"data": {"query": MARK, "vsid": ids["vector_store_id"]}}},
        "GET /query2": {"params": {"query": MARK, "vsid": ids["vector_store_id"], "format": "json"}},
        "POST /mcp": {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}},
        "PUT /watches/throttle": {"json": {"level": "slow"}},
        "POST /watches": {"json": {"url": ADDRESS, "plan_id": ids["plan_id"]}},
        "PATCH /watches/{watch_id}": {"json": {}},
        "POST /watches/{watch_id}/poll": {},
    }
    if str(place) in special or place.method != "POST" or place.pattern.startswith("/ui"):
        return special.get(str(place), {})
    return {"json": CONTROL_BODIES.get(place.pattern, {})}


_NOBODYS = {"request", "asset", "model", "url"}


def _action(place: Place, ids: Mapping[str, str]) -> Asked:
    endpoint = _ENDPOINTS[place.pattern]
    values: dict[str, Any] = {"format": "json"} if "json" in endpoint.formats else {"format": "ui"}
    if not endpoint.formats:
        values = {}
    values |= needed_values(endpoint)
    given = {**ids, "job_id": ids["run_id"]}
    given |= {f"{side}_vector_store_ids": ids["vector_store_id"] for side in ("source", "target")}
    values |= {name: given[name] for name in values if name in given}
    names_things = any(name in given for name in values)
    if endpoint.path.endswith("/create"):
        values["domain_id"] = "VISITOR" if "domain_id" in values else values.get("domain_id", "")
        values, names_things = {name: value for name, value in values.items() if value}, False
    if endpoint.path.endswith("/replicate"):
        values["target_vector_store_ids"] = "vs_nobody"
    is_misdirected = place.method not in endpoint.kind.methods
    return Asked(place, place.pattern, {"params": values}, names_things, is_misdirected)


async def give_everything(house: House, key: Key) -> dict[str, str]:
    """One of everything that a tenant can have: names as in paths → ids, as we spell them."""
    jay, who = house.jay, (await house.jay.access.authenticate(key.text))[0]
    collection = await jay.collections.create(who, name=MARK)
    upload = Upload(data=f"A {MARK} text.".encode(), url=ADDRESS, tags=(MARK,))
    (document,) = await jay.documents.add(who, [upload], wait_seconds=0)
    await jay.documents.tag(who, document.id, [MARK])
    tag = (await jay.collections.list_tags(who))[0]
    rule = await jay.rules.create(who, RuleValues(name=MARK, collection_id=collection.id))
    config = await jay.crawl_settings.create_config(who, name=MARK)
    proxy = await jay.crawl_settings.create_proxy(who, name=MARK, servers=[{"url": f"http://{HOST}:3128"}])
    await jay.crawl_settings.set_host(who, HOST, is_blocked=True, blocked_reason=MARK)
    plan = await jay.plans.create(
        who,
        PlanValues(
            name=MARK,
            repository_settings={"start_url": ADDRESS},
            schedule=ScheduleSettings(interval_type="OneTime"),  # type: ignore[arg-type]
            is_active=False,
        ),
    )
    watch = await jay.watches.create(who, url=f"{ADDRESS}feed.xml", name=MARK, enabled=False)
    webhook = (await jay.webhooks.create(who, url=ADDRESS, plan_id=plan.id)).webhook
    job = await jay.jobs.submit(who, "diagnostic.steps", {"steps": 1})
    await jay.bus.register(who, MARK, ADDRESS)
    order = JobOrder(kind="diagnostic.steps", payload={"steps": 1}, endpoint="/v2/crawler/crawl", object_id=MARK)
    run = await jay.action_jobs.start(who, order)
    rows = await _add_rows(house, who, plan.id, webhook.id)
    inventory = await _add_inventory(house, who)
    domain = await jay.domains.create(who, {"domain_id": MARK.upper(), "vector_store_id": inventory["vector_store_id"]})
    await _indexed(house, who)
    return some_ids() | rows | inventory | {
        "agent_name": MARK, "collection_id": collection.id, "config_id": config.id, "document_id": document.id,
        "domain_id": domain["domain_id"], "host": HOST, "job_id": job.id, "key_id": key.record.id, "plan_id": plan.id,
        "proxy_id": proxy.id, "rule_id": rule.id, "run_id": str(run["job_id"]), "source_id": plan.id,
        "tag_id": tag.id, "watch_id": watch.id, "webhook_id": webhook.id, "url": ADDRESS,
    }  # fmt: skip


async def _add_rows(house: House, who: Principal, plan_id: str, webhook_id: str) -> dict[str, str]:
    """What only work would make: a run, a delivery, a story, a stored response."""
    operation = Operation(tenant_id=who.tenant_id, plan_id=plan_id, state=OperationState.SUCCESS, status_message=MARK)
    delivery = Delivery(
        tenant_id=who.tenant_id, webhook_id=webhook_id, event="plan.changed", event_id="evt", body=f'"{MARK}"',
        status=DeliveryStatus.FAILED,
    )  # fmt: skip
    story = Story(tenant_id=who.tenant_id, title=MARK, breaking_at=utc_now())
    kept = Response(tenant_id=who.tenant_id, id=f"resp_{MARK}", body={"id": f"resp_{MARK}", "object": "response"})
    async with house.jay.database.writing() as connection:
        await Operations(connection).add(operation)
        await Deliveries(connection).add(delivery)
        await Stories(connection).add(story)
        await Responses(connection).add(kept)
    return {
        "operation_id": operation.id, "delivery_id": delivery.id, "story_id": story.id, "response_id": kept.id,
    }  # fmt: skip


async def _add_inventory(house: House, who: Principal) -> dict[str, str]:
    inventory = house.jay.inventory
    answer = await house.jay.access.create_key(who, name=MARK, scopes=[ADMIN], rate_limit_rpm=10_000)
    headers = {"Authorization": f"Bearer {answer[1]}"}
    files = {"file": (f"{MARK}.txt", f"A {MARK} file.".encode())}
    made = await house.ask("POST", "/openai/v1/files", headers=headers, files=files, data={"purpose": "assistants"})
    file_id = made.json()["id"]
    store = await inventory.create_vector_store(who, {"name": MARK})
    batch = await inventory.create_batch(who, store["id"], [StoreFile(file_id=file_id)])
    assistant = await inventory.create_assistant(who, {"model": "m", "name": MARK})
    return {
        "file_id": file_id, "vector_store_id": store["id"], "batch_id": batch["id"], "assistant_id": assistant["id"],
    }  # fmt: skip


async def _indexed(house: House, who: Principal) -> None:
    """Nothing is waiting for the index any more, so that nothing changes by itself."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (await house.jay.health.stats(who))["index"]["waiting"]:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)


async def snapshot(house: House, tenant_id: str, ids: Mapping[str, str]) -> dict[str, list[str]]:
    """All rows that are a tenant's, or that say something about its things, and all of its files."""
    mine = set(ids.values()) - {ids["request"], ids["asset"], ids["model"]}
    found: dict[str, list[str]] = {}
    async with house.jay.database.reading() as connection:
        for table in metadata.sorted_tables:
            if table.name == "sign_ins":
                continue
            query = select(table)
            if "tenant_id" in table.c:
                query = query.where(table.c.tenant_id == tenant_id)
            rows = [tuple(row) for row in await connection.execute(query)]
            if "tenant_id" not in table.c:
                rows = [row for row in rows if mine.intersection(value for value in row if isinstance(value, str))]
            found[table.name] = sorted(map(repr, rows))
    folder = house.jay.settings.resolved_storage_folder / tenant_id
    found["files"] = [
        f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}"
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    return found
