"""Ids in addresses: what cannot be one of ours is not there, and never reaches the database."""

import re
from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Query

from scrubjay.errors import NotFound
from scrubjay.model.ids import ID_LENGTH

_ID = re.compile(rf"(?=.{{{ID_LENGTH}}}$)[a-z]+_[0-9a-v]+")

_HOST = re.compile(r"[a-z0-9_.:\[\]-]{1,253}")


def _identifier(prefix: str, noun: str, name: str) -> Callable[[str], str]:
    def _parse(value: Annotated[str, Path(alias=name)]) -> str:
        if _ID.fullmatch(value) and value.startswith(prefix + "_"):
            return value
        raise NotFound(f"{noun.capitalize()} '{value[:64]}' not found.")

    return _parse


DocumentId = Annotated[str, Depends(_identifier("adoc", "document", "document_id"))]
JobId = Annotated[str, Depends(_identifier("job", "job", "job_id"))]
PlanId = Annotated[str, Depends(_identifier("cplan", "crawler", "plan_id"))]
OperationId = Annotated[str, Depends(_identifier("cop", "run", "operation_id"))]
WatchId = Annotated[str, Depends(_identifier("watch", "watch", "watch_id"))]
StoryId = Annotated[str, Depends(_identifier("story", "story", "story_id"))]
KeyId = Annotated[str, Depends(_identifier("cred", "key", "key_id"))]
CollectionId = Annotated[str, Depends(_identifier("coll", "collection", "collection_id"))]
TagId = Annotated[str, Depends(_identifier("tag", "tag", "tag_id"))]
WebhookId = Annotated[str, Depends(_identifier("whk", "webhook", "webhook_id"))]
DeliveryId = Annotated[str, Depends(_identifier("whd", "delivery", "delivery_id"))]
RuleId = Annotated[str, Depends(_identifier("irule", "ingestion rule", "rule_id"))]
ConfigId = Annotated[str, Depends(_identifier("ccfg", "crawl config", "config_id"))]
ProxyId = Annotated[str, Depends(_identifier("prx", "proxy", "proxy_id"))]


def _host_name(value: Annotated[str, Path(alias="host")]) -> str:
    if _HOST.fullmatch(value):
        return value
    raise NotFound(f"Host '{value[:64]}' not found.")


HostName = Annotated[str, Depends(_host_name)]

# In a query, where nothing means any.
AnyId = Annotated[str, Query(max_length=64, pattern=r"^[a-z0-9_]*$")]
Words = Annotated[str, Query(max_length=255, pattern=r"^[^\x00-\x1f]*$")]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
