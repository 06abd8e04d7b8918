"""Crawls of domains as doors see them: checked here, done by a job (`domains/crawl_jobs.py`), one at a time each."""

import asyncio
from typing import Any

from scrubjay.domains.definition import Definition
from scrubjay.domains.orders import KIND_OF, CrawlScope, DomainCrawlOrder
from scrubjay.domains.store import DomainStore
from scrubjay.errors import Conflict, InvalidRequest, NotFound
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.action_jobs import ActionJobService, JobOrder
from scrubjay.services.inventory import InventoryService

CRAWL_ACTIONS = tuple(KIND_OF)
_EMBEDDING = ("embed_data", "crawl")


class DomainCrawlService:
    def __init__(self, store: DomainStore, inventory: InventoryService, jobs: ActionJobService) -> None:
        self._store = store
        self._inventory = inventory
        self._jobs = jobs

    async def start(
        self, principal: Principal, action: str, order: DomainCrawlOrder, *, endpoint: str
    ) -> dict[str, Any]:
        """Queue the steps of an action; returns the job's metadata. What can be wrong with the order is said now."""
        require(principal, Scope.WRITE)
        domain = await asyncio.to_thread(self._store.read, principal.tenant_id, order.domain_id)
        _check_source(domain.definition, order)
        if action in _EMBEDDING:
            await self._check_vector_store(principal, domain.definition, order)
        return await self._jobs.start(
            principal,
            JobOrder(
                kind=KIND_OF[action],
                payload=order.dump(),
                endpoint=endpoint,
                object_id=order.domain_id,
                alone_in=CRAWL_ACTIONS,
            ),
        )

    async def _check_vector_store(self, principal: Principal, definition: Definition, order: DomainCrawlOrder) -> None:
        store_id = order.vector_store_id or definition.vector_store_id
        if not store_id:
            raise Conflict(f"Domain '{order.domain_id}' has no vector store; give one with 'vector_store_id'.")
        await self._inventory.get_vector_store(principal, store_id)


def _check_source(definition: Definition, order: DomainCrawlOrder) -> None:
    if order.source_id is None:
        return
    if order.scope is CrawlScope.ALL:
        raise InvalidRequest("Parameter 'source_id' needs a 'scope' other than 'all'.", field="source_id")
    if not list(definition.sources(order.scope, order.source_id)):
        raise NotFound(f"Source '{order.source_id}' not found in domain '{order.domain_id}'.")
