"""The one form of everything that is set up by name: rules, crawl configs, proxies and hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from scrubjay.dashboard.forms import PLAIN, Field, Look, Problems, problems_of, read_fields
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Order, Visitor
from scrubjay.errors import Conflict, InvalidRequest, NotFound, ScrubjayError, UrlBlocked

ROWS = 50
# What is wrong with what somebody filled in, and is shown beside it.
REFUSALS = (InvalidRequest, UrlBlocked, NotFound, Conflict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupForm:
    """A form with its fields in groups, each with a title."""

    title: str
    action: str
    back: str  # where the list is
    noun: str  # what the list is called
    groups: Sequence[tuple[str, Sequence[Field]]]

    @property
    def is_new(self) -> bool:
        return not self.action.endswith("/edit")


def show_form(
    request: Request,
    visitor: Visitor,
    form: SetupForm,
    *,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
    names: Mapping[str, str] | None = None,
    **values: Any,
) -> Response:
    """The form, with what was filled in before and what is wrong beside each field."""
    status = 200 if error is None else 409 if isinstance(error, Conflict) else 400
    return show(
        request,
        "setup_form.html",
        visitor,
        status=status,
        form=form,
        filled=filled,
        problems=_placed(form, problems_of(error, names), error),
        error=None if error is None else error.message,
        **values,
    )


def _placed(form: SetupForm, problems: Mapping[str, str], error: ScrubjayError | None) -> Mapping[str, str]:
    """A name that is taken is said at the name; the rest stands where it belongs."""
    known = {field.name for _, fields in form.groups for field in fields}
    if isinstance(error, Conflict) and "name" in known:
        return {"name": error.message}
    return problems


def read_model(order: Order, model: type[BaseModel], problems: Problems, look: Look = PLAIN) -> Any:
    """What somebody filled in, as far as it can be read; what cannot goes to the problems."""
    try:
        return model.model_validate(dict(read_fields(order, model, look=look)))
    except ValidationError as error:
        problems.add_all("", error)


def read_pairs(text: str, separator: str, name: str, problems: Problems) -> dict[str, str]:
    """Lines such as `name: value`."""
    found: dict[str, str] = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        left, found_separator, right = line.partition(separator)
        if not found_separator or not left.strip():
            problems.add(name, f"Each line must be a name, “{separator}” and a value: “{line[:40]}” is not.")
        else:
            found[left.strip()] = right.strip()
    return found
