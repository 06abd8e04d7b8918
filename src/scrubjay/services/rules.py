"""Ingestion rules as doors see them: how documents are chunked, embedded and stored."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from sqlalchemy import ColumnElement

from scrubjay.errors import Conflict, InvalidRequest
from scrubjay.ingest.chunking import compile_pattern
from scrubjay.model.chunking import read_chunking
from scrubjay.model.clock import utc_now
from scrubjay.model.content import Collection, IngestionRule
from scrubjay.model.page import Page
from scrubjay.model.tenant import Principal, Scope
from scrubjay.operations.rules import chunking_of
from scrubjay.services.access import require
from scrubjay.services.acts import note_act
from scrubjay.services.collections import clean_tag
from scrubjay.services.documents import Upload
from scrubjay.storage.collections import CollectionRow, Collections
from scrubjay.storage.database import Database
from scrubjay.storage.plans import Plans
from scrubjay.storage.rules import IngestionRuleRow, IngestionRules


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleValues:
    """What somebody may say about a rule. A collection can be named, and is made when there is none of that name."""

    name: str
    description: str | None = None
    bucket: str | None = None
    collection_id: str | None = None
    collection_name: str | None = None
    labels: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    summarization: dict[str, Any] = field(default_factory=dict)
    chunking: dict[str, Any] = field(default_factory=dict)
    embedding: dict[str, Any] = field(default_factory=dict)


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
        require(principal, Scope.READ)
        async with self._database.reading() as connection:
            return await IngestionRules(connection).get(principal.tenant_id, rule_id)

    async def page(
        self, principal: Principal, *, limit: int = 100, offset: int = 0, newest_first: bool = True
    ) -> Page[IngestionRule]:
        require(principal, Scope.READ)
        row = IngestionRuleRow
        order: Sequence[ColumnElement[Any]] = [row.created_at.asc(), row.id.asc()]
        if newest_first:
            order = [row.created_at.desc(), row.id.desc()]
        async with self._database.reading() as connection:
            return await IngestionRules(connection).page(
                row.tenant_id == principal.tenant_id, limit=limit, offset=offset, order=order
            )

    async def update(self, principal: Principal, rule_id: str, values: RuleValues) -> IngestionRule:
        require(principal, Scope.WRITE)
        rule = await self._filled(principal, await self.get(principal, rule_id), values)
        changes = {each.name: getattr(rule, each.name) for each in fields(rule)}
        for fixed in ("id", "tenant_id", "created_at"):
            del changes[fixed]
        async with self._database.writing() as connection:
            return await IngestionRules(connection).update(principal.tenant_id, rule_id, **changes)

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
        async with self._database.reading() as connection:
            found = await Collections(connection).page(
                CollectionRow.tenant_id == principal.tenant_id, CollectionRow.id.in_(ids), limit=len(ids)
            )
        return {collection.id: collection.name for collection in found.items}

    async def _filled(self, principal: Principal, rule: IngestionRule, values: RuleValues) -> IngestionRule:
        if not values.name.strip() or len(values.name) > 255 or not values.name.isprintable():
            raise InvalidRequest("Name must have 1 to 255 printable characters.", field="name")
        rule = replace(
            rule,
            name=values.name,
            description=values.description,
            bucket=values.bucket,
            collection_id=await self._collection_id(principal, values),
            labels=tuple(dict.fromkeys(clean_tag(label) for label in values.labels)),
            tags=values.tags,
            summarization=values.summarization,
            chunking=values.chunking,
            embedding=values.embedding,
            updated_at=utc_now(),
        )
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
