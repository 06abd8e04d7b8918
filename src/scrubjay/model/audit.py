"""Administrative acts: who did what to what, and from where. Kept apart from logs, which come and go."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from scrubjay.model.clock import utc_now
from scrubjay.model.ids import new_id

# Every act that is noted, and what it means.
ACTIONS: Mapping[str, str] = {
    "agent.registered": "Calls for an agent's name are passed on to an address",
    "agent.removed": "An agent was removed from the bus",
    "assistant.deleted": "An assistant was deleted with its files",
    "backup.started": "A backup of every tenant's content was begun",
    "cache.cleared": "Cached answers, pages and vectors were forgotten",
    "collection.deleted": "A collection was deleted",
    "config.changed": "A crawl config was changed",
    "config.created": "A crawl config was made",
    "config.deleted": "A crawl config was deleted",
    "documents.purged": "Documents were removed for good",
    "domain.deleted": "A domain and its files were deleted",
    "host.changed": "A host was set up, blocked or unblocked",
    "host.forgotten": "A host is treated like any other again",
    "index.rebuilt": "The index is built anew",
    "key.changed": "An API key was renamed, rescoped, limited, disabled or enabled",
    "key.created": "An API key was made",
    "key.deleted": "An API key was deleted",
    "key.rotated": "An API key was given another text",
    "link.created": "A link that signs a browser in was made",
    "operation.deleted": "A run of a plan was removed from its history",
    "plan.deleted": "A plan was deleted",
    "proxy.changed": "A proxy was changed",
    "proxy.created": "A proxy was made",
    "proxy.deleted": "A proxy was deleted",
    "relay.sent": "A request that needs an admin was passed on to the account behind the OpenAI door",
    "rule.deleted": "An ingestion rule was deleted",
    "secrets.resealed": "Everything that is sealed is given another key",
    "session.opened": "Somebody signed in to the dashboard",
    "tenant.created": "A tenant was made",
    "vector_store.deleted": "A vector store was deleted",
    "watches.throttled": "The brake of all watches was set",
    "webhook.changed": "A webhook was changed",
    "webhook.created": "A webhook was made",
    "webhook.deleted": "A webhook was deleted",
    "webhook.rotated": "A webhook was given another secret",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    id: str = field(default_factory=lambda: new_id("act"))
    tenant_id: str
    at: datetime = field(default_factory=utc_now)
    key_id: str | None  # nothing for what the program does by itself
    key_name: str  # as it was then; keys are renamed and deleted
    action: str
    target_id: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)  # never a secret
    door: str | None = None  # nothing for what a job did
    remote_address: str | None = None
    request_id: str | None = None
