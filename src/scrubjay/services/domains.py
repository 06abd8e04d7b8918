"""Domains as doors see them: list, create, change, rename, delete. Files are the truth (`domains/store.py`)."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from scrubjay.domains.definition import SOURCE_LISTS, Definition, Domain, check_definition, read_sources
from scrubjay.domains.names import check_name
from scrubjay.domains.source_plans import domains_of_plans, rename_source_plans, source_plans
from scrubjay.domains.store import DomainStore
from scrubjay.errors import InvalidRequest, NotFound
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.access import require
from scrubjay.services.action_jobs import ActionJobService
from scrubjay.services.acts import note_act
from scrubjay.services.domain_crawls import CRAWL_ACTIONS
from scrubjay.services.inventory import InventoryService
from scrubjay.services.plans import PlanService
from scrubjay.services.verbs import Tell, Verb, silently
from scrubjay.storage.database import Database

MAX_STORE_NAME = 256  # as OpenAI has it; a domain's own name may be longer
FIELDS = ("name", "description", "vector_store_name", "vector_store_id", *SOURCE_LISTS)


class DomainService:
    def __init__(
        self,
        database: Database,
        store: DomainStore,
        inventory: InventoryService,
        jobs: ActionJobService,
        plans: PlanService,
    ) -> None:
        self._database = database
        self._store = store
        self._inventory = inventory
        self._jobs = jobs
        self._plans = plans
        self._writing = asyncio.Lock()

    @property
    def verbs(self) -> Mapping[str, Verb]:
        """These as actions that can run as jobs."""

        async def create(who: Principal, values: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
            return await self.create(who, values, dry_run=values.get("dry_run", False), tell=tell)

        async def update(who: Principal, values: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
            return await self.update(who, values["target_id"], values, dry_run=values.get("dry_run", False), tell=tell)

        async def delete(who: Principal, values: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
            return await self.delete(who, values["domain_id"], dry_run=values.get("dry_run", False), tell=tell)

        return {
            "domains.create": Verb(create),
            "domains.update": Verb(update),
            "domains.delete": Verb(delete, scope=Scope.ADMIN),
        }

    async def all(self, principal: Principal) -> list[dict[str, Any]]:
        """Every domain; one whose file is broken says so in `error`."""
        return [show_domain(domain) for domain in await self.definitions(principal)]

    async def definitions(self, principal: Principal) -> Sequence[Domain]:
        require(principal, Scope.READ)
        return await asyncio.to_thread(self._store.all, principal.tenant_id)

    async def names(self, principal: Principal) -> Mapping[str, str]:
        """The name of each domain, by its id."""
        found = await self.definitions(principal)
        return {domain.domain_id: domain.definition.name or domain.domain_id for domain in found}

    async def of_plans(self, principal: Principal, plan_ids: Collection[str]) -> Mapping[str, str]:
        """The id of the domain of each of these plans that belongs to a domain's source."""
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await domains_of_plans(connection, principal.tenant_id, plan_ids)

    async def get(self, principal: Principal, domain_id: str) -> dict[str, Any]:
        require(principal, Scope.READ)
        return show_domain(await asyncio.to_thread(self._store.read, principal.tenant_id, domain_id))

    async def create(
        self, principal: Principal, values: Mapping[str, Any], *, dry_run: bool = False, tell: Tell = silently
    ) -> dict[str, Any]:
        require(principal, Scope.WRITE)
        domain_id = check_name(str(values.get("domain_id", "")), "domain_id")
        changes = _changes(values)
        named = {"name": domain_id, "vector_store_name": changes.get("name") or domain_id}
        definition = check_definition({**named, **{name: value for name, value in changes.items() if value != ""}})
        domain = Domain(tenant_id=principal.tenant_id, domain_id=domain_id, definition=definition)
        async with self._writing:
            await asyncio.to_thread(self._store.require_free, principal.tenant_id, domain_id)
            await self._check_store(principal, definition)
            await tell(f"Creating domain '{domain_id}'...")
            if dry_run:
                return show_domain(domain)
            await asyncio.to_thread(self._store.create, domain)
            return show_domain(await self._with_store(principal, domain, tell))

    async def update(
        self,
        principal: Principal,
        domain_id: str,
        values: Mapping[str, Any],
        *,
        dry_run: bool = False,
        tell: Tell = silently,
    ) -> dict[str, Any]:
        """Change what is given. Another `domain_id` renames; a broken file is replaced, and kept beside the new one."""
        require(principal, Scope.WRITE)
        async with self._writing:
            domain = await asyncio.to_thread(self._store.find, principal.tenant_id, domain_id)
            if domain is None:
                raise NotFound(f"Domain '{domain_id}' not found.")
            before = Definition(name=domain_id) if domain.problem else domain.definition
            changes = _changes(values)
            if domain.problem and not any(changes.get(listed) for listed in SOURCE_LISTS):
                raise InvalidRequest(
                    f"Domain '{domain_id}' cannot be read: {domain.problem} Repair the file, or give all sources anew.",
                    domain_id=domain_id,
                )
            domain = replace(domain, definition=check_definition({**before.dump(), **changes}))
            new_id = str(values.get("domain_id") or domain_id)
            await self._check_change(principal, domain_id, new_id, before, domain.definition)
            await tell(f"Updating domain '{domain_id}'...")
            if dry_run:
                return show_domain(replace(domain, domain_id=new_id, problem=""))
            domain = await asyncio.to_thread(self._store.save, domain)
            domain = await self._with_store(principal, domain, tell)
            if new_id != domain_id:
                await tell(f"Renaming domain '{domain_id}' to '{new_id}'...")
                await asyncio.to_thread(self._store.rename, principal.tenant_id, domain_id, new_id)
                async with self._database.writing() as connection:
                    await rename_source_plans(connection, domain, new_id)
            return show_domain(replace(domain, domain_id=new_id))

    async def delete(
        self, principal: Principal, domain_id: str, *, dry_run: bool = False, tell: Tell = silently
    ) -> dict[str, Any]:
        """Remove the domain and its local files; its vector store stays, and is deleted through the inventory."""
        require(principal, Scope.ADMIN)
        async with self._writing:
            domain = await asyncio.to_thread(self._store.find, principal.tenant_id, domain_id)
            if domain is None:
                raise NotFound(f"Domain '{domain_id}' not found.")
            await self._jobs.require_idle(principal, domain_id, CRAWL_ACTIONS)
            await tell(f"Deleting domain '{domain_id}'...")
            if not dry_run:
                async with self._database.writing() as connection:  # before: files know no transaction
                    await note_act(connection, principal, "domain.deleted", domain_id)
                    plans = await source_plans(connection, domain)
                for _, plan in plans:
                    await self._plans.delete(principal, plan.id)
                await asyncio.to_thread(self._store.delete, principal.tenant_id, domain_id)
        return show_domain(domain)

    async def _check_change(
        self, principal: Principal, domain_id: str, new_id: str, before: Definition, after: Definition
    ) -> None:
        if new_id != domain_id:
            check_name(new_id, "domain_id")
            await self._jobs.require_idle(principal, domain_id, CRAWL_ACTIONS)
            if new_id.lower() != domain_id.lower():
                await asyncio.to_thread(self._store.require_free, principal.tenant_id, new_id)
        if after.vector_store_id != before.vector_store_id:
            await self._check_store(principal, after)

    async def _check_store(self, principal: Principal, definition: Definition) -> None:
        if definition.vector_store_id:
            await self._inventory.get_vector_store(principal, definition.vector_store_id)

    async def _with_store(self, principal: Principal, domain: Domain, tell: Tell) -> Domain:
        """Each domain has one vector store: where none is named, one is made."""
        if domain.definition.vector_store_id:
            return domain
        name = (domain.definition.vector_store_name or domain.domain_id)[:MAX_STORE_NAME]
        await tell(f"Creating vector store '{name}'...")
        made = await self._inventory.create_vector_store(principal, {"name": name})
        values = {**domain.definition.dump(), "vector_store_id": made["id"], "vector_store_name": name}
        return await asyncio.to_thread(self._store.save, replace(domain, definition=check_definition(values)))


def show_domain(domain: Domain) -> dict[str, Any]:
    """The domain as the door shows it: its file, with its id before it."""
    if domain.problem:
        return {"domain_id": domain.domain_id, "error": domain.problem}
    return {"domain_id": domain.domain_id, **domain.definition.dump()}


def _changes(values: Mapping[str, Any]) -> dict[str, Any]:
    """What the request says of the definition; `sources_json` is another way to give the lists."""
    changes = {name: values[name] for name in FIELDS if values.get(name) is not None}
    text = values.get("sources_json")
    if text:
        for name, listed in read_sources(text).items():
            if name in changes and changes[name] != listed:
                raise InvalidRequest(f"Parameter '{name}' is also in 'sources_json'; give it once.", field=name)
            changes[name] = listed
    return changes
