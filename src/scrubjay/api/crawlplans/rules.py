"""Ingestion rules over `/v1.0`: how documents are cut, and where they go."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends
from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_pascal
from pydantic_core import PydanticCustomError

from scrubjay.api.crawlplans.lists import EnvelopeResponse, Listed
from scrubjay.api.crawlplans.routing import door_router
from scrubjay.api.crawlplans.schemas import Blankable, Name, Range, Reference, Wire, WireRequest
from scrubjay.api.deps import Jay, Who, identifier
from scrubjay.api.rag.schemas import field_values
from scrubjay.errors import InvalidRequest
from scrubjay.model.chunking import ChunkingOptions
from scrubjay.model.content import IngestionRule
from scrubjay.plans.rules import STRATEGY_NAMES
from scrubjay.services.collections import clean_tag
from scrubjay.services.rules import RuleValues

router = door_router("/ingestion-rules", "ingestion rules")

RuleId = Annotated[str, Depends(identifier("irule", "ingestion rule", "rule_id"))]
Pattern = Annotated[Annotated[str, StringConstraints(max_length=500)] | None, Blankable]
TagName = Annotated[str, StringConstraints(min_length=1, max_length=255)]
TagValue = Annotated[str, StringConstraints(max_length=2048)]
_MAX_SUMMARIZATION_BYTES = 65_536


def _check_label(value: str) -> str:
    try:
        return clean_tag(value)
    except InvalidRequest as error:
        raise PydanticCustomError("label", "{reason}", {"reason": error.message.removeprefix("tags: ")}) from error


def _name_strategy(value: str) -> str:
    return next((name for name in STRATEGY_NAMES if name.lower() == value.lower()), value)


Label = Annotated[str, AfterValidator(_check_label)]
Strategy = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_name_strategy)]


class ChunkingBody(WireRequest):
    """Sizes are in tokens of the embedding model."""

    strategy: Strategy = Field("FixedTokenCount", description=f"One of {', '.join(STRATEGY_NAMES)}.")
    fixed_token_count: Annotated[StrictInt, Range.of(ChunkingOptions, "chunk_size")] = 256
    overlap_count: Annotated[StrictInt, Range.of(ChunkingOptions, "overlap")] | None = None
    overlap_percentage: Annotated[StrictFloat, Range(0, 1)] | None = Field(None, description="A share of the chunk.")
    overlap_strategy: Annotated[Annotated[str, StringConstraints(max_length=64)] | None, Blankable] = None
    row_group_size: Annotated[StrictInt, Range.of(ChunkingOptions, "row_group_size")] | None = None
    context_prefix: Pattern = None
    regex_pattern: Pattern = None

    @model_validator(mode="after")
    def _check_parts(self) -> "ChunkingBody":
        if self.overlap_count is not None and self.overlap_count >= self.fixed_token_count:
            raise PydanticCustomError("overlap", "OverlapCount must be smaller than FixedTokenCount")
        if self.overlap_count is None and self.overlap_percentage == 1:
            raise PydanticCustomError("overlap", "OverlapPercentage must be less than 1")
        if self.strategy == "RegexBased" and self.regex_pattern is None:
            raise PydanticCustomError("pattern", "the strategy RegexBased needs a RegexPattern")
        return self


class EmbeddingBody(WireRequest):
    embedding_endpoint_id: Reference = None
    l2_normalization: StrictBool | None = None


class IngestionRuleRequest(WireRequest):
    """A rule, said completely: what is left out has its default."""

    name: Name
    description: Annotated[Annotated[str, StringConstraints(max_length=10_000)] | None, Blankable] = None
    bucket: Annotated[Annotated[str, StringConstraints(max_length=255)] | None, Blankable] = None
    collection_name: Annotated[Annotated[str, StringConstraints(max_length=255)] | None, Blankable] = Field(
        None, description="Made when there is no such collection; CollectionId wins."
    )
    collection_id: Reference = None
    labels: list[Label] = Field(default_factory=list, max_length=100)
    tags: dict[TagName, TagValue] = Field(default_factory=dict, max_length=100)
    summarization: dict[str, Any] | None = None
    chunking: ChunkingBody | None = None
    embedding: EmbeddingBody | None = None

    @field_validator("summarization")
    @classmethod
    def _check_size(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and len(json.dumps(value)) > _MAX_SUMMARIZATION_BYTES:
            raise ValueError(f"must have at most {_MAX_SUMMARIZATION_BYTES} bytes")
        return value

    def values(self) -> RuleValues:
        parts = {
            "labels": tuple(self.labels),
            "summarization": self.summarization or {},
            "chunking": _said(self.chunking),
            "embedding": _said(self.embedding),
        }
        return RuleValues(**dict(self) | parts)


def _said(body: WireRequest | None) -> dict[str, Any]:
    return {} if body is None else body.model_dump(by_alias=True, exclude_none=True)


class IngestionRuleResponse(Wire):
    id: str
    tenant_id: str
    name: str
    description: str | None = None
    bucket: str | None = None
    collection_name: str | None = None
    collection_id: str | None = None
    labels: list[str]
    tags: dict[str, str]
    summarization: dict[str, Any] | None = None
    chunking: ChunkingBody | None = None
    embedding: EmbeddingBody | None = None
    created_utc: datetime = Field(validation_alias="created_at")
    last_update_utc: datetime = Field(validation_alias="updated_at")


def rule_response(rule: IngestionRule, names: Mapping[str, str]) -> IngestionRuleResponse:
    parts = {
        "collection_name": names.get(rule.collection_id or ""),
        "summarization": rule.summarization or None,
        "chunking": _shown(ChunkingBody, rule.chunking),
        "embedding": _shown(EmbeddingBody, rule.embedding),
    }
    return IngestionRuleResponse.model_validate(field_values(rule) | parts)


def _shown(body: Any, said: Mapping[str, Any]) -> Any:
    if not said:
        return None
    folded = {name.lower(): value for name, value in said.items()}
    known = {name: folded.get(to_pascal(name).lower()) for name in body.model_fields}
    return body.model_construct(**known)


async def _answer(jay: Jay, who: Who, rule: IngestionRule) -> IngestionRuleResponse:
    return rule_response(rule, await jay.rules.collection_names(who, [rule]))


@router.put("", status_code=201, response_model=IngestionRuleResponse)
async def create_rule(jay: Jay, who: Who, body: IngestionRuleRequest) -> IngestionRuleResponse:
    return await _answer(jay, who, await jay.rules.create(who, body.values()))


@router.get("", response_model=EnvelopeResponse[IngestionRuleResponse])
async def list_rules(jay: Jay, who: Who, listed: Listed) -> EnvelopeResponse[IngestionRuleResponse]:
    page = await jay.rules.page(who, limit=listed.limit, offset=listed.offset, newest_first=listed.newest_first)
    names = await jay.rules.collection_names(who, page.items)
    return listed.answer(page, lambda rule: rule_response(rule, names))


@router.head("/{rule_id}", include_in_schema=False)
async def look_for_rule(jay: Jay, who: Who, rule_id: RuleId) -> None:
    """Whether there is such a rule."""
    await jay.rules.get(who, rule_id)


@router.get("/{rule_id}", response_model=IngestionRuleResponse)
async def get_rule(jay: Jay, who: Who, rule_id: RuleId) -> IngestionRuleResponse:
    return await _answer(jay, who, await jay.rules.get(who, rule_id))


@router.put("/{rule_id}", response_model=IngestionRuleResponse)
async def update_rule(jay: Jay, who: Who, rule_id: RuleId, body: IngestionRuleRequest) -> IngestionRuleResponse:
    """Say a rule anew. It counts for what comes in from now on."""
    return await _answer(jay, who, await jay.rules.update(who, rule_id, body.values()))


@router.delete("/{rule_id}", status_code=204)
async def delete_rule(jay: Jay, who: Who, rule_id: RuleId) -> None:
    """Remove a rule that no plan needs."""
    await jay.rules.delete(who, rule_id)
