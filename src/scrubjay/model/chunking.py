"""How a document is to be cut into chunks: the ingestion rule's choices, with their limits."""

from enum import StrEnum
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scrubjay.errors import InvalidRequest


class ChunkStrategy(StrEnum):
    STRUCTURE = "structure"  # along headings, paragraphs, lists, tables and code
    FIXED = "fixed"  # windows of so many tokens
    SENTENCE = "sentence"  # whole sentences, whatever they stand in
    REGEX = "regex"  # between matches of a pattern
    TABLE_ROWS = "table_rows"  # tables in groups of rows, each with the table's header; the rest by structure
    WHOLE_LIST = "whole_list"  # lists in one piece; the rest by structure


class ChunkingOptions(BaseModel):
    """Sizes are in tokens of the embedding model. A chunk is never larger than the model can read."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: ChunkStrategy = ChunkStrategy.STRUCTURE
    chunk_size: int = Field(512, ge=16, le=4000)
    overlap: int = Field(50, ge=0, le=2000)
    min_size: int = Field(50, ge=1, le=2000)
    row_group_size: int = Field(10, ge=1, le=1000)
    pattern: str | None = Field(None, min_length=1, max_length=500)
    context_prefix: str | None = Field(None, min_length=1, max_length=500)  # embedded before every chunk

    @model_validator(mode="after")
    def _check(self) -> "ChunkingOptions":
        if self.strategy is ChunkStrategy.REGEX and self.pattern is None:
            raise ValueError("the strategy regex needs a pattern")
        if self.overlap >= self.chunk_size:
            raise ValueError("overlap must be smaller than chunk_size")
        return self


def read_chunking(values: Any, field: str = "chunking") -> ChunkingOptions:
    """The options, or InvalidRequest that names the field."""
    try:
        return ChunkingOptions.model_validate(values or {})
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join([field, *(str(part) for part in first["loc"])])
        message = first["msg"].removeprefix("Value error, ")
        raise InvalidRequest(f"{name}: {message}.", field=name) from error
