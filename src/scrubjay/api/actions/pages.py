"""The formats `html` and `ui`: pages of the dashboard, made of the same `{ok, error, data}` and of the declaration.

Links and forms do everything; browsers send GET and POST only, so forms say in `_method` what they mean (`values.py`).
What a form did is answered with a redirect, and what is wrong with it is said beside the input that it is about.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response
from starlette.responses import RedirectResponse

from scrubjay.api.actions import views
from scrubjay.api.actions.declaration import PREFIX, Call, Endpoint, Format, Kind, Resource, in_words
from scrubjay.api.actions.values import METHOD_FIELD, THEN_FIELD, Given
from scrubjay.api.deps import SESSION_COOKIE, key_of
from scrubjay.api.problems import HttpProblem
from scrubjay.app import Scrubjay
from scrubjay.dashboard.problem_page import TITLES
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Visitor, told_of_failures
from scrubjay.errors import NotFound
from scrubjay.model.tenant import Principal
from scrubjay.openai.protocol import Window
from scrubjay.services.access import require

ROWS = 50
MAX_OFFSET = 10_000_000
_RARE = ("error", "last_error")  # columns that are only shown where something is in them
_LABELS = {Kind.CREATE: "Create", Kind.UPDATE: "Save"}
_NOTICES = {Kind.CREATE: "created", Kind.UPDATE: "saved", Kind.DELETE: "deleted"}


async def visitor_of(request: Request, jay: Scrubjay, who: Principal) -> Visitor:
    """Whoever looks: a browser's session, or a key, which has no forms to send."""
    if key_of(request):
        return Visitor(who, "")
    visitor = Visitor(who, request.cookies.get(SESSION_COOKIE, ""))
    return await told_of_failures(request, jay, visitor) if request.method == "GET" else visitor


@dataclass(frozen=True, slots=True)
class Pages:
    """Draws for one request; `resources` are those that the door has, for its navigation."""

    request: Request
    visitor: Visitor
    resources: Sequence[Resource]

    def draw(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return show(
            self.request,
            f"actions/{template}",
            self.visitor,
            status=status,
            tabs=[each for each in self.resources if each.is_listed],
            method_field=METHOD_FIELD,
            then_field=THEN_FIELD,
            in_words=in_words,
            **values,
        )

    async def ui(self, resource: Resource, endpoint: Endpoint, call: Call) -> Response:
        """All items, a page at a time, with what can be done with each; or the form that makes or changes one."""
        asked = self.request.query_params
        carried = {param.name: str(call.values[param.name]) for param in endpoint.params if param.required}
        if "_new" in asked and (create := resource.endpoint(Kind.CREATE)) is not None:
            require(self.visitor.who, create.action.scope)
            return self.form(create, {}, carried)
        if (identifier := asked.get("_edit")) and (update := resource.endpoint(Kind.UPDATE)) is not None:
            require(self.visitor.who, update.action.scope)
            return self.form(
                update, await _item(resource, call, identifier), {**carried, resource.id_param: identifier}
            )
        items, newer, older = await _browse(endpoint, call, asked)
        columns = resource.columns or tuple(dict.fromkeys(name for item in items[:1] for name in item))
        columns = tuple(name for name in columns if name not in _RARE or any(item.get(name) for item in items))
        return self.draw(
            "list.html",
            resource=resource,
            columns=columns,
            rows=[self._row(resource, item, columns, carried) for item in items],
            newer=newer and views.address_of(endpoint.path, {**carried, "format": "ui", **newer}),
            older=older and views.address_of(endpoint.path, {**carried, "format": "ui", **older}),
            may_create=self._may(resource.endpoint(Kind.CREATE)),
        )

    def _may(self, endpoint: Endpoint | None) -> bool:
        return endpoint is not None and self.visitor.who.may(endpoint.action.scope)

    def _row(
        self, resource: Resource, item: Mapping[str, Any], columns: Sequence[str], carried: Mapping[str, str]
    ) -> tuple[list[views.Cell], list[views.Deed]]:
        home = views.home_of(resource, views.item_id(resource, item), carried)
        cells = [
            views.show_cell(name, item.get(name), home if not number else "") for number, name in enumerate(columns)
        ]
        return cells, views.deeds_of(resource, item, self.visitor.who, carried)

    def form(
        self,
        endpoint: Endpoint,
        item: Mapping[str, Any],
        query: Mapping[str, str],
        *,
        problem: HttpProblem | None = None,
        wrong: str = "",
    ) -> Response:
        """What makes or changes an item; with what was wrong, beside the input that it is about."""
        return self.draw(
            "form.html",
            status=200 if problem is None else problem.status,
            resource=endpoint.resource,
            inputs=views.inputs_of(endpoint, item),
            address=views.address_of(endpoint.path, {**query, **views.format_of(endpoint)}),
            means="PUT" if endpoint.kind is Kind.UPDATE else "",
            label=_LABELS[endpoint.kind],
            identifier=query.get(endpoint.resource.id_param, ""),
            error=None if problem is None else problem.message,
            wrong=wrong,
        )

    def result(self, endpoint: Endpoint, result: Mapping[str, Any], status: int = 200) -> Response:
        """The result as tables, nested where the data is."""
        data, resource = result["data"], endpoint.resource
        known = endpoint.kind is Kind.GET and result["ok"] and isinstance(data, Mapping)
        deeds = views.deeds_of(resource, data, self.visitor.who) if known else []
        return self.draw(
            "result.html",
            status=status,
            resource=resource,
            title=views.item_id(resource, data) if known else endpoint.path,
            error=result["error"],
            deeds=[deed for deed in deeds if deed.label != "View"],
            data=views.value_html(data),
        )

    async def watch(self, endpoint: Endpoint, call: Call) -> Response:
        """A job while it goes on."""
        if endpoint.action.watch is None:
            raise RuntimeError(f"{endpoint.path} is declared without a job to watch")
        return self.draw("run.html", run=await endpoint.action.watch(call))

    def problem(self, problem: HttpProblem) -> Response:
        """What a button could not do."""
        title = TITLES.get(problem.status, TITLES[400])
        return show(
            self.request, "problem.html", self.visitor, status=problem.status, title=title, message=problem.message
        )

    def refuse_form(self, endpoint: Endpoint, given: Given, problem: HttpProblem, wrong: str) -> Response:
        if endpoint.kind not in _LABELS:
            return self.problem(problem)
        query = {name: value for name, value in given.query.items() if name != "format"}
        return self.form(endpoint, given.body, query, problem=problem, wrong=wrong)

    def go_on(self, endpoint: Endpoint, data: Any, given: Given) -> Response:
        """Where a form leads once it was obeyed."""
        return RedirectResponse(self._next(endpoint, data, given), status_code=303)

    def _next(self, endpoint: Endpoint, data: Any, given: Given) -> str:
        resource, facts = endpoint.resource, data if isinstance(data, Mapping) else {}
        then = given.notes.get(THEN_FIELD, "")
        if then.startswith("/ui/") and then.isprintable():
            return then
        if endpoint.kind is Kind.LIST and "job_id" in facts:
            return views.address_of(f"{PREFIX}/jobs/monitor", {"job_id": str(facts["job_id"]), "format": "html"})
        notice = {"_done": _NOTICES.get(endpoint.kind, "")}
        if endpoint.kind in _LABELS and (home := views.home_of(resource, views.item_id(resource, facts), {})):
            mark = "&" if "?" in home else "?"
            return f"{home}{mark}_done={notice['_done']}"
        names = {param.name for param in endpoint.params if param.required} - {resource.id_param}
        carried = {name: value for name, value in given.query.items() if name in names}
        return views.address_of(resource.title, {**carried, "format": "ui", **notice})


async def _item(resource: Resource, call: Call, identifier: str) -> Mapping[str, Any]:
    view = resource.endpoint(Kind.GET)
    if view is None or view.action.run is None:
        raise NotFound(f"'{identifier[:64]}' not found.")
    values = {**call.values, resource.id_param: identifier[:500]}
    found = await view.action.run(Call(jay=call.jay, who=call.who, values=values, endpoint=call.endpoint))
    # A domain whose file is broken has only its id: the form then gives everything anew.
    return {**found, resource.id_param: identifier}


Way = dict[str, str] | None


async def _browse(
    endpoint: Endpoint, call: Call, asked: Mapping[str, str]
) -> tuple[Sequence[Mapping[str, Any]], Way, Way]:
    """Some items, and how to ask for those before and after them."""
    action = endpoint.action
    if action.browse is not None:
        after, before = asked.get("_after"), asked.get("_before")
        found = await action.browse(call, Window(limit=ROWS, after=after or None, before=before or None))
        has_newer, has_older = (found.has_more, True) if before else (bool(after), found.has_more)
        newer = {"_before": str(found.items[0]["id"])} if has_newer and found.items else None
        older = {"_after": str(found.items[-1]["id"])} if has_older and found.items else None
        return found.items, newer, older
    if action.run is None:
        raise RuntimeError(f"{endpoint.path} is declared without anything that lists it")
    text = asked.get("_offset", "0")
    offset = min(int(text), MAX_OFFSET) if text.isascii() and text.isdecimal() and len(text) < 9 else 0
    if {"limit", "offset"} <= {param.name for param in endpoint.params}:
        part = {**call.values, "limit": ROWS + 1, "offset": offset}
        items = await action.run(Call(jay=call.jay, who=call.who, values=part, endpoint=call.endpoint))
    else:
        items = (await action.run(call))[offset : offset + ROWS + 1]
    newer = {"_offset": str(max(0, offset - ROWS))} if offset else None
    older = {"_offset": str(offset + ROWS)} if len(items) > ROWS else None
    return items[:ROWS], newer, older


def is_page(format_: Format) -> bool:
    return format_ in (Format.HTML, Format.UI)
