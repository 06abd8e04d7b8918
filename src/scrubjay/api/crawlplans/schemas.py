"""Wire shapes that all nouns of `/v1.0` share: members in PascalCase, read in any case, left out when they are null."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_pascal
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from scrubjay.api.rag.schemas import check_storable
from scrubjay.model.field_kinds import field_kind


class Wire(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, populate_by_name=True, extra="ignore")


class WireRequest(Wire):
    """What clients send: whole objects, so what is not theirs to say is ignored, and null says nothing."""

    @model_validator(mode="before")
    @classmethod
    def _fold_names(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        names = _members(cls)
        known = ((names.get(str(name).lower()), value) for name, value in given.items())
        return {name: value for name, value in known if name is not None and value is not None}

    @field_validator("*", mode="before")
    @classmethod
    def _check_storable(cls, value: Any) -> Any:
        check_storable(value)
        return value


@cache
def _members(model: type[BaseModel]) -> Mapping[str, str]:
    aliases = [field.alias or name for name, field in model.model_fields.items()]
    return {alias.lower(): alias for alias in aliases}


@dataclass(frozen=True, slots=True)
class Range:
    """The values that a number may have. What is outside is refused, with both ends named."""

    least: float
    most: float | None = None

    @classmethod
    def of(cls, model: type[BaseModel], name: str) -> "Range":
        """The range of a field of one of our models."""
        kind = field_kind(model.model_fields[name])
        return cls(kind.least or 0, kind.most)

    def __str__(self) -> str:
        return f"{self.least} or more" if self.most is None else f"between {self.least} and {self.most}"

    def check(self, value: float) -> float:
        if value < self.least or (self.most is not None and value > self.most):
            raise PydanticCustomError("out_of_range", "must be {range}", {"range": str(self)})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        ends = {"minimum": self.least, "maximum": self.most}
        return {**handler(schema), **{name: end for name, end in ends.items() if end is not None}}


def any_case(kind: type[StrEnum]) -> BeforeValidator:
    """A member of an enum, whatever the case of its letters."""
    return BeforeValidator(lambda value: fold_case(kind, value))


def fold_case(kind: type[StrEnum], value: Any) -> Any:
    if not isinstance(value, str):
        return value
    return next((member for member in kind if member.lower() == value.lower()), value)


def _blank_as_none(value: Any) -> Any:
    return None if value == "" else value


Blankable = BeforeValidator(_blank_as_none)  # forms send empty text for what nobody filled in
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=255)]
Reference = Annotated[Annotated[str, StringConstraints(max_length=64)] | None, Blankable]
Line = Annotated[Annotated[str, StringConstraints(max_length=2048)] | None, Blankable]


class ProblemResponse(Wire):
    """What every error of this door looks like."""

    error: str = Field(examples=["BadRequest", "AuthenticationFailed", "AuthorizationFailed", "NotFound", "Conflict"])
    message: str = Field(description="What went wrong, in a sentence.")
    status_code: int
    context: dict[str, Any] | None = Field(None, description="The members that are wrong, or other facts.")
    description: str | None = None
