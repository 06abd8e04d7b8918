"""From declarations to routes: one request, from its parameters to its answer in the format that it asks for."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Sequence
from contextlib import aclosing
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.types import Receive, Scope, Send

from scrubjay.api.actions.asking import Asker, Asking
from scrubjay.api.actions.declaration import Call, Endpoint, Format, Kind, Resource
from scrubjay.api.actions.documentation import describe_endpoint, describe_resource, openapi_of
from scrubjay.api.actions.pages import Pages, is_page, visitor_of
from scrubjay.api.actions.values import Given, gather_rows, read_format, read_given, read_values
from scrubjay.api.deps import Jay
from scrubjay.api.problems import problem_of, problem_response
from scrubjay.api.streams import SEND_SECONDS, EventStream
from scrubjay.app import Scrubjay
from scrubjay.errors import Conflict, FollowerTooSlow, InvalidRequest, ScrubjayError
from scrubjay.services.access import require

Handler = Callable[..., Coroutine[Any, Any, Response]]


class ActionRoute(APIRoute):
    """A route of this door: other methods than its own are a bad request, in the specification's words."""

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            raise unsupported_method(scope["method"])
        await super().handle(scope, receive, send)


def unsupported_method(method: str) -> InvalidRequest:
    return InvalidRequest(f"HTTP method '{method}' not supported.")


def add_resources(router: APIRouter, resources: Sequence[Resource]) -> None:
    """Routes for every action of every resource."""
    for resource in resources:
        children = [each for each in resources if each.path.startswith(f"{resource.path}/")]
        for endpoint in resource.endpoints():
            _add_endpoint(router, endpoint, children, resources)


def _add_endpoint(
    router: APIRouter, endpoint: Endpoint, children: Sequence[Resource], resources: Sequence[Resource]
) -> None:
    text = describe_resource(endpoint.resource, children) if endpoint.kind is Kind.LIST else describe_endpoint(endpoint)
    handler = _handler(endpoint, text, resources)
    name = f"{endpoint.resource.path.replace('/', '_')}_{endpoint.kind.suffix or 'list'}"
    methods = dict.fromkeys([*endpoint.kind.methods, "GET"])
    if endpoint.changes:
        methods["POST"] = None  # for forms, which have no other way; unless they say what they mean, it is refused
    for method in methods:
        router.add_api_route(
            endpoint.path,
            handler,
            methods=[method],
            name=name,
            operation_id=f"v2_{name}_{method.lower()}",
            summary=f"{endpoint.resource.about} ({endpoint.kind.suffix or 'list'})",
            response_class=Response,
            openapi_extra=openapi_of(endpoint, method),
        )


def _handler(endpoint: Endpoint, text: str, resources: Sequence[Resource]) -> Handler:
    async def serve(request: Request, response: Response, jay: Jay, asker: Asking) -> Response:
        if request.method == "GET" and not request.url.query:
            answer: Response = PlainTextResponse(text)
        else:
            pages = Pages(request, await visitor_of(request, jay, asker.principal), resources)
            answer = await _serve(endpoint, request, jay, asker, pages)
        for name in ("x-ratelimit-remaining", "x-ratelimit-reset"):
            if name in response.headers:
                answer.headers[name] = response.headers[name]
        return answer

    return serve


async def _serve(endpoint: Endpoint, request: Request, jay: Scrubjay, asker: Asker, pages: Pages) -> Response:
    format_, given, is_form = Format.JSON, None, False
    try:
        given = gather_rows(endpoint, await read_given(request))
        is_form = pages.visitor.sent(given.form_token)
        if given.method not in endpoint.kind.methods:
            raise unsupported_method(request.method)
        answering = read_format(endpoint, given)
        if answering in (given.query.get("format"), given.body.get("format")):
            format_ = answering  # a problem is only drawn for somebody who asked for a page
        call = _call(endpoint, request, given, jay, asker, is_trusted=is_form)
        if is_form:
            return pages.go_on(endpoint, (await _result(endpoint, call))["data"], given)
        return await _ANSWERS[answering](endpoint, call, pages)
    except ScrubjayError as error:
        return _problem(endpoint, format_, error, pages, given if is_form else None)


def _call(endpoint: Endpoint, request: Request, given: Given, jay: Scrubjay, asker: Asker, *, is_trusted: bool) -> Call:
    require(asker.principal, endpoint.action.scope)
    if endpoint.changes and not is_trusted:
        asker.require_trust()
    values, target_id = read_values(endpoint, given)
    query = f"?{request.url.query}" if request.url.query else ""
    return Call(jay=jay, who=asker.principal, values=values, target_id=target_id, endpoint=f"{request.url.path}{query}")


def _problem(
    endpoint: Endpoint, format_: Format, error: ScrubjayError, pages: Pages, form: Given | None = None
) -> Response:
    """To this door's clients a wrong moment is a wrong request: it knows 200, 400, 404, and who may not."""
    shown = InvalidRequest(error.message) if isinstance(error, Conflict) else error
    problem = problem_of(shown)
    if problem.code == "INTERNAL_ERROR":
        raise error
    if form is not None:
        return pages.refuse_form(endpoint, form, problem, str(error.details.get("field", "")))
    data = {name: value for name, value in error.details.items() if name.endswith("_id")}
    if is_page(format_):
        return pages.result(endpoint, {"ok": False, "error": problem.message, "data": data}, problem.status)
    if data:
        body = {"ok": False, "error": problem.message, "data": data}
        return JSONResponse(body, status_code=problem.status, headers=dict(problem.headers or {}))
    return problem_response(endpoint.path, problem)


async def _result(endpoint: Endpoint, call: Call) -> dict[str, Any]:
    action = endpoint.action
    step = action.run or action.start
    if step is None:
        raise RuntimeError(f"{endpoint.path} is declared without anything that answers it")
    return {"ok": True, "error": "", "data": await step(call)}


async def _json(endpoint: Endpoint, call: Call, _: Pages) -> Response:
    return JSONResponse(await _result(endpoint, call))


async def _html(endpoint: Endpoint, call: Call, pages: Pages) -> Response:
    if endpoint.action.watch is not None:
        return await pages.watch(endpoint, call)
    return pages.result(endpoint, await _result(endpoint, call))


async def _ui(endpoint: Endpoint, call: Call, pages: Pages) -> Response:
    return await pages.ui(endpoint.resource, endpoint, call)


async def _stream(endpoint: Endpoint, call: Call, _: Pages) -> Response:
    """The stream of a job: one that is started for it, or one that is going on."""
    action = endpoint.action
    if action.follow is not None:
        frames = await action.follow(call)
    elif action.start is not None:
        job = await action.start(call)
        frames = await call.jay.action_jobs.follow(call.who, job["job_id"])
    else:
        raise RuntimeError(f"{endpoint.path} is declared without a job to stream")
    return EventStream(_events(frames), send_timeout=SEND_SECONDS, sep="\n")


async def _events(frames: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(frames):
        try:
            async for frame in frames:
                yield frame
        except FollowerTooSlow as error:
            yield f": {error.message}\n\n".encode()


async def _zip(endpoint: Endpoint, call: Call, _: Pages) -> Response:
    return Response((await _result(endpoint, call))["data"], media_type="application/zip")


_ANSWERS: dict[Format, Callable[[Endpoint, Call, Pages], Coroutine[Any, Any, Response]]] = {
    Format.JSON: _json,
    Format.HTML: _html,
    Format.UI: _ui,
    Format.STREAM: _stream,
    Format.ZIP: _zip,
}
