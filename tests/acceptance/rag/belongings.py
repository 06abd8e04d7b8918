"""One of everything that a tenant can have, and what to send to each route so that only the key decides."""

import json
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tests.acceptance.house import PREFIX_OF, House, Key, Place
from tests.acceptance.rag.asking import add, finished

from scrubjay.model.ids import id_from_uuid, new_id, uuid_from_id
from scrubjay.model.tenant import Principal
from scrubjay.model.webhook import Delivery, DeliveryStatus
from scrubjay.storage.deliveries import Deliveries

MARK = "xylophagous"  # a word that stands in everything this tenant has, and nowhere else
HOST = f"{MARK}.example"


async def give_belongings(library: House, key: Key) -> dict[str, str]:
    """Names as in paths → the UUIDs of things that belong to the key's tenant."""

    async def made(path: str, **body: Any) -> str:
        return str((await library.api("POST", path, key, status=201, json=body))["id"])

    collection = await made("/collections", name=MARK, description=MARK)
    document = await add(
        library, key, f"A {MARK} document.", url=f"https://{HOST}/d", collection_id=collection, tags=[MARK]
    )
    await add(library, key, f"A {MARK} document, changed.", url=f"https://{HOST}/d", collection_id=collection)
    config = await made("/configs", name=MARK)
    proxy = await made("/proxies", name=MARK, servers=[{"url": f"http://{HOST}:3128", "username": MARK}])
    source = await made("/sources", name=MARK, url_pattern=f"https://{HOST}/s", collection_id=collection)
    await library.api("POST", f"/domains/{HOST}/block", key, json={"reason": MARK})
    who = await principal(library, key)
    job = await library.jay.jobs.submit(who, "diagnostic.steps", {"steps": 1})
    await finished(library, key, job.id)
    webhook = await made("/webhooks", url=f"https://{HOST}/w", events=["plan.changed"], source_id=source)
    delivery = Delivery(
        tenant_id=who.tenant_id,
        webhook_id=own_spelling("webhook_id", webhook),
        event="plan.changed",
        event_id=new_id("evt"),
        body=json.dumps({"data": MARK}),
        status=DeliveryStatus.FAILED,
    )
    async with library.jay.database.writing() as connection:
        await Deliveries(connection).add(delivery)
    return {
        "collection_id": collection,
        "config_id": config,
        "delivery_id": str(uuid_from_id(delivery.id)),
        "document_id": document["id"],
        "job_id": str(uuid_from_id(job.id)),
        "key_id": str(key.uuid),
        "proxy_id": proxy,
        "source_id": source,
        "tag_id": document["tags"][0]["id"],
        "webhook_id": webhook,
    }


async def principal(library: House, key: Key) -> Principal:
    return (await library.jay.access.authenticate(key.text))[0]


def own_spelling(name: str, uuid: str) -> str:
    return id_from_uuid(PREFIX_OF[name], UUID(uuid))


def sending(place: Place, ids: Mapping[str, str]) -> dict[str, Any]:
    """A request to a route that is right in every respect, with the ids in its body where it takes any."""
    crawl = {"config_id": ids["config_id"], "collection_id": ids["collection_id"], "proxy_id": ids["proxy_id"]}
    document = {"content": "A document by a visitor.", "collection_id": ids["collection_id"]}
    search = {"query": MARK, "collection_ids": [ids["collection_id"]], "tag_ids": [ids["tag_id"]]}
    address = "https://visitors.example/"
    bodies: dict[str, Any] = {
        "POST /api-keys": {"name": "by a visitor"},
        "PATCH /api-keys/{key_id}": {"name": "by a visitor"},
        "POST /collections": {"name": "by a visitor"},
        "PATCH /collections/{collection_id}": {"name": "by a visitor"},
        "POST /configs": {"name": "by a visitor"},
        "PATCH /configs/{config_id}": {"name": "by a visitor"},
        "POST /crawl": {"url": address, **crawl},
        "POST /crawl/batch": {"urls": [address], **crawl},
        "POST /crawl/deep": {"url": address, **crawl},
        "POST /discover": {"domain": "visitors.example"},
        "POST /discover/score": {"urls": [address], "query": "x"},
        "POST /documents": document,
        "POST /documents/batch": {"documents": [document]},
        "POST /documents/{document_id}/tags": {"tags": ["visited"]},
        "POST /domains/{host}/block": {"reason": "a visitor"},
        "PUT /domains/{host}": {"rate_limit_rps": 2},
        "POST /proxies": {"name": "by a visitor", "servers": [{"url": "http://visitors.example:3128"}]},
        "PATCH /proxies/{proxy_id}": {"name": "by a visitor"},
        "POST /search": search,
        "POST /search/vector": search,
        "POST /search/keyword": search,
        "POST /sources": {
            "name": "by a visitor",
            "url_pattern": address,
            "collection_id": ids["collection_id"],
            "crawl_config_id": ids["config_id"],
        },
        "PATCH /sources/{source_id}": {"name": "by a visitor"},
        "POST /sources/{source_id}/webhooks": {"url": address},
        "POST /tags": {"name": "by-a-visitor"},
        "PATCH /tags/{tag_id}": {"name": "by-a-visitor"},
        "POST /webhooks": {"url": address, "source_id": ids["source_id"]},
        "PUT /webhooks/{webhook_id}": {"url": address},
    }
    name = f"{place.method} {place.pattern.removeprefix('/api/v1')}"
    if name == "POST /documents/upload":
        return {"files": [("files", ("v.txt", b"By a visitor."))], "data": {"collection_id": ids["collection_id"]}}
    return {"json": bodies[name]} if name in bodies else {}
