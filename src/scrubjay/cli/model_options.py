"""Options of commands made from fields of pydantic models: type, range, default and help are the field's."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel

from scrubjay.model.field_kinds import field_kind

Command = Callable[..., None]


def flag(name: str, *names: str, kind: Any = bool, default: Any = False, **details: Any) -> inspect.Parameter:
    """An option that is no field of a model."""
    annotation = Annotated[kind, typer.Option(*names, **details)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def option(model: type[BaseModel], field: str, *names: str, **details: Any) -> inspect.Parameter:
    """The option for a field. Lists are given by repeating it; `details` go before what the field says."""
    known = model.model_fields[field]
    kind, default = field_kind(known), known.get_default(call_default_factory=True)
    accepted = kind.type
    if get_origin(accepted) is tuple:
        item = get_args(accepted)[0]
        accepted, default = list[getattr(item, "__origin__", item)], None  # type: ignore[misc]
    elif get_origin(accepted) is Literal:
        accepted = str
    if accepted in (int, float):
        details = {"min": kind.least, "max": kind.most} | details
    default = details.pop("default", default)
    details.setdefault("help", known.description)
    return flag(field, *names, kind=accepted if default is not None else accepted | None, default=default, **details)


def flag_of(parameter: inspect.Parameter) -> str:
    """The flag of an option as messages name it: `--max-depth`."""
    declared = get_args(parameter.annotation)[1].default  # typer keeps the first flag of an annotation there
    return str(declared) if isinstance(declared, str) else f"--{parameter.name.replace('_', '-')}"


def with_options(*options: inspect.Parameter) -> Callable[[Command], Command]:
    """Give a command these options in place of its parameter `options`, which gets those that have a value."""

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)

        @functools.wraps(command)
        def called(**arguments: Any) -> None:
            values = {each.name: arguments.pop(each.name) for each in options}
            command(options={name: value for name, value in values.items() if value is not None}, **arguments)

        in_order: list[inspect.Parameter] = []
        for name, each in own.parameters.items():
            in_order += options if name == "options" else [each.replace(kind=inspect.Parameter.KEYWORD_ONLY)]
        called.__signature__ = own.replace(parameters=in_order)  # type: ignore[attr-defined]
        return called

    return decorate
