"""Ingestion rules as doors see them: how documents are chunked, embedded and stored."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from scrubjay.documents.chunking import compile_pattern
from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.model.chunking import read_chunking
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Collection, IngestionRule, RuleFields
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.plans.rules import chunking_of
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.collections import clean_tag
from scrubjay.services.documents import Upload
from scrubjay.services.reading import read_item, read_page
from scrubjay.storage.collections import CollectionRow, Collections
from scrubjay.storage.database import Database
from scrubjay.storage.plans import Plans
from scrubjay.storage.rules import IngestionRules


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleValues(RuleFields):
    """A rule as users give it. `collection_name` names its collection, which is created if it does not exist."""

    collection_name: str | None = None


class RuleService:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, principal: Principal, values: RuleValues) -> IngestionRule:
        require(principal, Scope.WRITE)
        rule = IngestionRule(tenant_id=principal.tenant_id, name=values.name)
        rule = await self._filled(principal, rule, values)
        async with self._database.writing() as connection:
            return await IngestionRules(connection).add(rule)

    async def get(self, principal: Principal, rule_id: str) -> IngestionRule:
        return await read_item(self._database, principal, IngestionRules, rule_id)

    async def page(
        self, principal: Principal, *, limit: int = 100, offset: int = 0, newest_first: bool = True
    ) -> Page[IngestionRule]:
        return await read_page(
            self._database, principal, IngestionRules, newest_first=newest_first, limit=limit, offset=offset
        )

    async def update(self, principal: Principal, rule_id: str, values: RuleValues) -> IngestionRule:
        require(principal, Scope.WRITE)
        rule = await self._filled(principal, await self.get(principal, rule_id), values)
        changes = {each.name: getattr(rule, each.name) for each in fields(RuleFields)}
        async with self._database.writing() as connection:
            return await IngestionRules(connection).update(
                principal.tenant_id, rule_id, updated_at=rule.updated_at, **changes
            )

    async def delete(self, principal: Principal, rule_id: str) -> None:
        """Remove a rule that no plan needs."""
        require(principal, Scope.ADMIN)
        rule = await self.get(principal, rule_id)
        async with self._database.writing() as connection:
            after = ""
            while plans := await Plans(connection).all(after):
                for plan in plans:
                    if plan.tenant_id == principal.tenant_id and plan.ingestion_settings.ingestion_rule_id == rule_id:
                        raise Conflict(f"The rule is used by the plan '{plan.name}'.")
                after = plans[-1].id
            await IngestionRules(connection).delete(principal.tenant_id, rule_id)
            await note_act(connection, principal, "rule.deleted", rule_id, name=rule.name)

    async def apply(self, principal: Principal, rule_id: str, upload: Upload) -> Upload:
        """An upload as a rule wants it; what is said of the upload itself wins."""
        rule = await self.get(principal, rule_id)
        chunking = chunking_of(rule)
        tags = {**rule.tags, **(upload.details.get("tags") or {})}
        return replace(
            upload,
            rule_id=rule.id,
            collection_id=upload.collection_id or rule.collection_id,
            tags=(*rule.labels, *upload.tags),
            details={**upload.details, "tags": tags} if tags else upload.details,
            chunking=upload.chunking or (read_chunking(chunking, "Chunking") if chunking else None),
        )

    async def collection_names(self, principal: Principal, rules: Sequence[IngestionRule]) -> dict[str, str]:
        """Collection id → name, for the collections of these rules."""
        ids = {rule.collection_id for rule in rules if rule.collection_id is not None}
        if not ids:
            return {}
        found = await read_page(self._database, principal, Collections, CollectionRow.id.in_(ids), limit=len(ids))
        return {collection.id: collection.name for collection in found.items}

    async def _filled(self, principal: Principal, rule: IngestionRule, values: RuleValues) -> IngestionRule:
        if not values.name.strip() or len(values.name) > 255 or not values.name.isprintable():
            raise InvalidRequest("Name must have 1 to 255 printable characters.", field="name")
        given: dict[str, Any] = {each.name: getattr(values, each.name) for each in fields(RuleFields)}
        given["collection_id"] = await self._collection_id(principal, values)
        given["labels"] = tuple(dict.fromkeys(clean_tag(label) for label in values.labels))
        rule = replace(rule, **given, updated_at=utc_now())
        options = chunking_of(rule)
        if options is not None and options.get("pattern"):
            compile_pattern(options["pattern"])
        return rule

    async def _collection_id(self, principal: Principal, values: RuleValues) -> str | None:
        async with self._database.writing() as connection:
            collections = Collections(connection)
            if values.collection_id is not None:
                return (await collections.get(principal.tenant_id, values.collection_id)).id
            if not values.collection_name:
                return None
            known = await collections.find(
                CollectionRow.tenant_id == principal.tenant_id, CollectionRow.name == values.collection_name
            )
            if known is None:
                known = await collections.add(Collection(tenant_id=principal.tenant_id, name=values.collection_name))
            return known.id
