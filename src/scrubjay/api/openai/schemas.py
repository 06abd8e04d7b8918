"""Wire shapes of this door that are not the backend's own values: lists, cursors, searches and embeddings."""

import base64
import struct
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from scrubjay.openai.protocol import Item, Listed, StoreFile, StoreSearch, Window
from scrubjay.openai.values import MAX_BATCH_FILES, Attributes, ChunkingStrategy, FileId, StoreFileValues, Values

MAX_QUERY = 4096
Cursor = Annotated[str | None, Query(min_length=1, max_length=64)]
Status = Annotated[Literal["in_progress", "completed", "failed", "cancelled"] | None, Query(alias="filter")]


class ErrorDetail(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class OpenAiErrorResponse(BaseModel):
    """OpenAI's shape of an error."""

    error: ErrorDetail


def window(
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    order: Literal["asc", "desc"] = "desc",
    after: Cursor = None,
    before: Cursor = None,
) -> Window:
    return Window(limit=limit, newest_first=order == "desc", after=after, before=before)


def wide_window(
    limit: Annotated[int, Query(ge=1, le=10_000)] = 10_000,
    order: Literal["asc", "desc"] = "desc",
    after: Cursor = None,
) -> Window:
    return Window(limit=limit, newest_first=order == "desc", after=after)


Cut = Annotated[Window, Depends(window)]
WideCut = Annotated[Window, Depends(wide_window)]


def list_object(listed: Listed) -> Item:
    items = list(listed.items)
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": listed.has_more,
    }


class FileBatchRequest(Values):
    file_ids: list[FileId] | None = Field(None, min_length=1, max_length=MAX_BATCH_FILES)
    files: list[StoreFileValues] | None = Field(None, min_length=1, max_length=MAX_BATCH_FILES)
    attributes: Attributes | None = None
    chunking_strategy: ChunkingStrategy | None = None

    @model_validator(mode="after")
    def _check(self) -> "FileBatchRequest":
        if (self.file_ids is None) is (self.files is None):
            raise ValueError("give either file_ids or files")
        return self

    def store_files(self) -> list[StoreFile]:
        if self.files is not None:
            return [store_file(each) for each in self.files]
        shared = {"attributes": self.attributes, "chunking_strategy": self.chunking_strategy}
        return [store_file(StoreFileValues(file_id=each, **shared)) for each in self.file_ids or ()]


def store_file(values: StoreFileValues) -> StoreFile:
    strategy = values.chunking_strategy
    return StoreFile(
        file_id=values.file_id,
        attributes=values.attributes or {},
        chunking_strategy=None if strategy is None else strategy.model_dump(),
    )


class RankingOptions(Values):
    ranker: str | None = Field(None, max_length=64)
    score_threshold: float = Field(0.0, ge=0, le=1)


QueryText = Annotated[str, StringConstraints(min_length=1, max_length=MAX_QUERY)]


class StoreSearchRequest(Values):
    """`rewrite_query` and `ranker` are understood and change nothing: there is one ranking."""

    query: QueryText | Annotated[list[QueryText], Field(min_length=1, max_length=10)]
    filters: dict[str, Any] | None = None
    max_num_results: int = Field(10, ge=1, le=50)
    ranking_options: RankingOptions | None = None
    rewrite_query: bool = False

    def wanted(self) -> StoreSearch:
        options = self.ranking_options or RankingOptions()
        return StoreSearch(
            queries=(self.query,) if isinstance(self.query, str) else tuple(self.query),
            filters=self.filters,
            limit=self.max_num_results,
            score_threshold=options.score_threshold,
        )


def results_object(queries: Sequence[str], results: Sequence[Item]) -> Item:
    return {
        "object": "vector_store.search_results.page",
        "search_query": list(queries),
        "data": list(results),
        "has_more": False,
        "next_page": None,
    }


class EmbeddingRequest(Values):
    input: Annotated[str, StringConstraints(min_length=1)] | list[str] = Field(description="A text, or up to 2048.")
    model: str = Field(min_length=1, max_length=255)
    dimensions: int | None = Field(None, ge=1, le=16_384)
    encoding_format: Literal["float", "base64"] = "float"
    user: str | None = Field(None, max_length=1000)

    @model_validator(mode="before")
    @classmethod
    def _refuse_tokens(cls, values: Any) -> Any:
        given = values.get("input") if isinstance(values, Mapping) else None
        if isinstance(given, list) and given and not all(isinstance(each, str) for each in given):
            raise ValueError("input must be text; this model has tokens of its own")
        return values


def in_base64(embeddings: Item) -> Item:
    """The same list with each vector as little-endian 32-bit floats, in base 64."""
    for each in embeddings["data"]:
        vector = each["embedding"]
        each["embedding"] = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    return embeddings


class ModelRequest(BaseModel):
    """What a language model is asked; everything else in it is passed on as it is."""

    model_config = ConfigDict(extra="allow", hide_input_in_errors=True)

    model: Annotated[str, StringConstraints(min_length=1, max_length=255)] | None = None
    stream: bool | None = None


class ChatRequest(ModelRequest):
    messages: list[dict[str, Any]] = Field(min_length=1)


class AnswerRequest(ModelRequest):
    input: str | list[Any]
