"""What clients may say about vector stores, files and assistants, with OpenAI's limits. Both doors check with these."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, field_validator, model_validator

from scrubjay.documents.texts import storable_text
from scrubjay.errors import InvalidRequest
from scrubjay.model.chunking import ChunkingOptions

MAX_KEYS = 16
MAX_DEPTH = 32
MAX_BATCH_FILES = 2000
MAX_STORE_FILES = 500  # that a new vector store can be given at once
LARGEST_CHUNK = 4000  # tokens; what OpenAI allows beyond is cut to this

Key = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Text = Annotated[str, StringConstraints(max_length=512)]
FileId = Annotated[str, StringConstraints(min_length=1, max_length=64)]


Number = Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)] | Annotated[float, Field(strict=True)]
Metadata = Annotated[dict[Key, Text], Field(max_length=MAX_KEYS)]
Attributes = Annotated[dict[Key, Annotated[bool, Field(strict=True)] | Number | Text], Field(max_length=MAX_KEYS)]


class Choice(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class Values(Choice):
    @field_validator("*", mode="before")
    @classmethod
    def _check_storable(cls, value: Any) -> Any:
        check_storable(value)
        return value


def check_storable(value: Any, depth: int = 0) -> None:
    """Refuse what JSON can say and a database cannot keep, wherever it is inside."""
    if depth > MAX_DEPTH:
        raise ValueError(f"it must not be nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str) and storable_text(value) != value:
        raise ValueError("it must be Unicode text without NUL characters and lone surrogates")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it must be a finite number")
    if isinstance(value, Mapping):
        for name, item in value.items():
            check_storable(name, depth + 1)
            check_storable(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            check_storable(item, depth + 1)


class ExpiresAfter(Values):
    anchor: Literal["last_active_at"] = "last_active_at"
    days: int = Field(ge=1, le=365)


class StaticChunks(Values):
    max_chunk_size_tokens: int = Field(800, ge=100, le=4096)
    chunk_overlap_tokens: int = Field(400, ge=0, le=2048)

    @model_validator(mode="after")
    def _check(self) -> "StaticChunks":
        if self.chunk_overlap_tokens * 2 > self.max_chunk_size_tokens:
            raise ValueError("chunk_overlap_tokens must not exceed half of max_chunk_size_tokens")
        return self


class StaticChunking(Choice):
    type: Literal["static"]
    static: StaticChunks


class AutoChunking(Choice):
    type: Literal["auto"]


ChunkingStrategy = Annotated[StaticChunking | AutoChunking, Field(discriminator="type")]


class VectorStoreValues(Values):
    name: str | None = Field(None, max_length=256)
    description: str | None = Field(None, max_length=512)
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None
    file_ids: list[FileId] = Field(default_factory=list, max_length=MAX_STORE_FILES)
    chunking_strategy: ChunkingStrategy | None = None


class VectorStoreChanges(Values):
    name: str | None = Field(None, max_length=256)
    metadata: Metadata | None = None
    expires_after: ExpiresAfter | None = None


class StoreFileValues(Values):
    file_id: FileId
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None


class AttributeValues(Values):
    attributes: Attributes | None


class AssistantTool(BaseModel):
    model_config = ConfigDict(extra="allow")

    type: Literal["code_interpreter", "file_search", "function"]


class AssistantChanges(Values):
    model: str = Field("", min_length=1, max_length=255)
    name: str | None = Field(None, max_length=256)
    description: str | None = Field(None, max_length=512)
    instructions: str | None = Field(None, max_length=256_000)
    tools: list[AssistantTool] = Field(default_factory=list, max_length=128)
    tool_resources: dict[str, Any] | None = None
    metadata: Metadata | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, ge=0, le=1)
    response_format: dict[str, Any] | Literal["auto"] | None = None
    reasoning_effort: str | None = Field(None, max_length=32)

    @model_validator(mode="after")
    def _check(self) -> "AssistantChanges":
        stores = ((self.tool_resources or {}).get("file_search") or {}) if self.tool_resources else {}
        named = stores.get("vector_store_ids") if isinstance(stores, Mapping) else stores
        if stores and not (named is None or (isinstance(named, list) and all(isinstance(each, str) for each in named))):
            raise ValueError("tool_resources.file_search.vector_store_ids must be a list of ids")
        return self


class AssistantValues(AssistantChanges):
    model: str = Field(min_length=1, max_length=255)


V = TypeVar("V", bound=BaseModel)


def read_values(kind: type[V], values: Mapping[str, Any]) -> V:
    """The values, or InvalidRequest that names the field."""
    try:
        return kind.model_validate(dict(values))
    except ValidationError as error:
        raise told(error) from error


def told(error: ValidationError, prefix: str = "") -> InvalidRequest:
    first = error.errors(include_input=False, include_url=False)[0]
    name = ".".join(str(part) for part in first["loc"]) or prefix or "body"
    return InvalidRequest(f"{name}: {first['msg'].removeprefix('Value error, ')}.", field=name)


def read_chunking_strategy(strategy: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Our chunking options for one of OpenAI's strategies; nothing is how documents are cut anyway."""
    if strategy is None or strategy.get("type") == "auto":
        return None
    chunks = read_values(StaticChunking, strategy).static
    size = min(chunks.max_chunk_size_tokens, LARGEST_CHUNK)
    options = ChunkingOptions(chunk_size=size, overlap=min(chunks.chunk_overlap_tokens, size // 2))
    return options.model_dump(mode="json", exclude_defaults=True) or None


def chunking_strategy_of(chunking: Mapping[str, Any] | None) -> dict[str, Any]:
    """How OpenAI's clients are told how a document was cut."""
    options = ChunkingOptions.model_validate(dict(chunking or {}))
    if set(chunking or {}) - {"chunk_size", "overlap"}:
        return {"type": "other"}
    static = {"max_chunk_size_tokens": options.chunk_size, "chunk_overlap_tokens": options.overlap}
    return {"type": "static", "static": static}
