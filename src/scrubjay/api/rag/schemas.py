"""Wire shapes of `/api/v1`. Ids are UUIDs here; the same ids in our own spelling are accepted too.

Routes return the objects of services. FastAPI builds the response models from their attributes.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import isfinite
from operator import attrgetter
from typing import Annotated, Any, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    field_validator,
)

from scrubjay.api.rag.ids import WireId
from scrubjay.crawler.fetcher import is_secret_header
from scrubjay.model.job import JobState
from scrubjay.model.tenant import Scope
from scrubjay.services.webhooks import HIDDEN

T = TypeVar("T")

MAX_DEPTH = 32
_SURROGATE = re.compile("[\ud800-\udfff]")

Limit = Annotated[int, Query(ge=1, le=1000)]
Offset = Annotated[int, Query(ge=0, le=2**31 - 1)]


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("is beyond the calendar") from None


Moment = Annotated[AwareDatetime, AfterValidator(_in_utc)]


class RequestModel(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)

    @field_validator("*", mode="before")
    @classmethod
    def _check_storable(cls, value: Any) -> Any:
        check_storable(value)
        return value


def check_storable(value: Any, depth: int = 0) -> None:
    """Refuse what JSON can say and a database cannot keep, wherever it is inside."""
    if depth > MAX_DEPTH:
        raise ValueError(f"must not be nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, str):
        if "\x00" in value:
            raise ValueError("must not contain NUL characters")
        if not value.isascii() and _SURROGATE.search(value):
            raise ValueError("must be Unicode text without lone surrogates")
    elif isinstance(value, float) and not isfinite(value):
        raise ValueError("must be a finite number")
    elif isinstance(value, Mapping):
        for name, item in value.items():
            check_storable(name, depth + 1)
            check_storable(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_storable(item, depth + 1)


def field_values(thing: Any) -> dict[str, Any]:
    """The fields of a dataclass, to build a response from them and from other facts."""
    return {name: getattr(thing, name) for name in thing.__dataclass_fields__}


def _hide_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: HIDDEN if is_secret_header(name) else value for name, value in headers.items()}


ShownHeaders = Annotated[dict[str, str], BeforeValidator(_hide_secrets)]
IsSet = Annotated[bool, BeforeValidator(lambda value: value is not None)]


class ListResponse(BaseModel, Generic[T]):
    items: Sequence[T]
    total: int
    limit: int
    offset: int
    has_more: bool


class ErrorResponse(BaseModel):
    """What every error of this door looks like."""

    error: str = Field(description="What went wrong, in a sentence.")
    code: str = Field(examples=["VALIDATION_ERROR", "UNAUTHORIZED", "NOT_FOUND", "RATE_LIMIT_EXCEEDED"])
    details: dict[str, Any] | None = Field(None, description="The fields that are wrong, or other facts.")
    request_id: str | None = Field(None, description="The same as in the X-Request-Id header, and in the log.")


class HealthResponse(BaseModel):
    status: Literal["healthy"] = "healthy"


class ReadyResponse(BaseModel):
    status: Literal["ready", "not_ready"]
    checks: dict[str, bool]


RateLimit = Annotated[int, Field(strict=True, ge=1, le=10_000, description="Requests per minute.")]
KeyName = Annotated[str, Field(min_length=1, max_length=100)]
Scopes = Annotated[list[Scope], Field(min_length=1, max_length=3)]


class CreateKeyRequest(RequestModel):
    name: KeyName
    scopes: Scopes = Field(default_factory=lambda: [Scope.READ])
    rate_limit_rpm: RateLimit = 60
    expires_at: Moment | None = None


class ChangeKeyRequest(RequestModel):
    name: KeyName | None = None
    scopes: Scopes | None = None
    rate_limit_rpm: RateLimit | None = None
    is_active: StrictBool | None = None


class KeyResponse(BaseModel):
    id: WireId
    name: str
    scopes: list[Scope]
    rate_limit_rpm: int
    created_at: datetime
    expires_at: datetime | None
    is_active: bool


class CreatedKeyResponse(KeyResponse):
    key: str = Field(description="The key itself. It is shown this once.")


class JobResponse(BaseModel):
    id: WireId
    kind: str
    status: JobState = Field(validation_alias="state")
    requested: str | None = Field(description="What was asked of the running job and not yet obeyed.")
    priority: Annotated[str, BeforeValidator(attrgetter("label"))] = Field(examples=["high", "normal", "low"])
    progress: dict[str, Any]
    result: dict[str, Any] | None
    error: str | None
    retry_count: int
    max_retries: int
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None = Field(validation_alias="finished_at")


class JobStartedResponse(BaseModel):
    job_id: str
    status: JobState
    message: str | None = None


class JobEventResponse(BaseModel):
    sequence: int
    type: str
    at: datetime
    payload: dict[str, Any]
