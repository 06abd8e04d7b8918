"""How this door's routes answer: without null members, and with errors that name members as its clients know them."""

import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from pydantic.alias_generators import to_pascal

from scrubjay.errors import InvalidRequest

_OTHER_NAMES = {"chunking.pattern": "Chunking.RegexPattern"}


class DoorRoute(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["response_model_exclude_none"] = True
        super().__init__(path, endpoint, **options)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except InvalidRequest as error:
                raise in_members(error) from error

        return answer


def door_router(prefix: str, tag: str) -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=DoorRoute)


def in_members(error: InvalidRequest) -> InvalidRequest:
    """The same error, with the field that it names spelled as a member of this door."""
    field = error.details.get("field")
    if not isinstance(field, str) or not field:
        return error
    member = _OTHER_NAMES.get(field) or pascal_path(field)
    message = say_member(error.message.replace(f"{field}:", f"{member}:", 1), field.rpartition(".")[2])
    return InvalidRequest(message, **{**error.details, "field": member})


def say_member(message: str, field: str) -> str:
    """The message with the field spelled as a member, where it begins with it."""
    return re.sub(rf"^{re.escape(field)}\b", to_pascal(field), message) if field[:1].islower() else message


def pascal_path(path: str) -> str:
    return ".".join(part if part[:1].isupper() else to_pascal(part) for part in path.split("."))
