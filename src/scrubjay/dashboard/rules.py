"""Ingestion rules: how documents are cut, and where they go."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import RedirectResponse, Response

from scrubjay.app import Scrubjay
from scrubjay.dashboard.forms import Look, Problems, fields_of
from scrubjay.dashboard.identifiers import Offset, RuleId
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.dashboard.setup_form import REFUSALS, ROWS, SetupForm, read_model, read_pairs, show_form
from scrubjay.errors import Conflict, ScrubjayError
from scrubjay.model.content import IngestionRule
from scrubjay.model.tenant import Scope
from scrubjay.plans.rules import STRATEGY_NAMES
from scrubjay.services.access import require
from scrubjay.services.rules import RuleValues

router = APIRouter(include_in_schema=False)

HERE = "/ui/settings/rules"
Line = Annotated[str, StringConstraints(max_length=500)]
Tokens = Annotated[int, Field(ge=16, le=4000)]


class RuleForm(BaseModel):
    name: Annotated[str, StringConstraints(min_length=1, max_length=255)]
    description: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    collection_id: str | None = None
    labels: tuple[str, ...] = Field((), max_length=100)
    facts: Annotated[str, StringConstraints(max_length=100_000)] = ""
    strategy: Literal[STRATEGY_NAMES] | None = None  # type: ignore[valid-type]
    fixed_token_count: Tokens = 256
    overlap_count: Annotated[int, Field(ge=0, le=2000)] | None = None
    row_group_size: Annotated[int, Field(ge=1, le=1000)] | None = None
    context_prefix: Line | None = None
    regex_pattern: Line | None = None


WHERE = ("name", "description", "collection_id", "labels", "facts")
# As `/v1.0` calls them, which is how a rule keeps them.
WIRE = {
    "strategy": "Strategy",
    "fixed_token_count": "FixedTokenCount",
    "overlap_count": "OverlapCount",
    "row_group_size": "RowGroupSize",
    "context_prefix": "ContextPrefix",
    "regex_pattern": "RegexPattern",
}
# How the service names what these inputs say.
NAMES = {
    "tags": "labels",
    "Chunking.Strategy": "strategy",
    "Chunking.overlap": "overlap_count",
    "Chunking.pattern": "regex_pattern",
    "chunking.pattern": "regex_pattern",
}


@dataclass(frozen=True, slots=True)
class _RulesPage:
    """What every answer about rules is made with."""

    request: Request
    jay: Scrubjay
    visitor: Visitor

    async def form(
        self, rule: IngestionRule | None, filled: Order | None = None, error: ScrubjayError | None = None
    ) -> Response:
        collections = await self.jay.collections.all(self.visitor.who)
        look = Look(
            labels={"collection_id": "Collection", "facts": "Tags with values",
                    "fixed_token_count": "Tokens of a chunk",
                    "overlap_count": "Tokens that chunks share", "labels": "Tags",
                    "strategy": "Cut by", "row_group_size": "Rows of a table in a chunk",
                    "context_prefix": "Text before every chunk", "regex_pattern": "Pattern between chunks"},
            hints={"facts": "name=value, one a line", "labels": "Given to every document",
                   "strategy": "None: along headings and paragraphs, 512 tokens",
                   "regex_pattern": "Only for RegexBased", "row_group_size": "Only for RowGroupWithHeaders",
                   "context_prefix": "Embedded with it, not shown"},
            required=("name",),
            choices={"collection_id": [(each.id, each.name) for each in collections],
                     "strategy": [(each, each) for each in STRATEGY_NAMES]},
            lines=("facts",),
        )  # fmt: skip
        fields = fields_of(RuleForm, _values(rule), look=look)
        form = SetupForm(
            title="New ingestion rule" if rule is None else rule.name,
            action=HERE if rule is None else f"{HERE}/{rule.id}/edit",
            back=HERE,
            noun="Ingestion rules",
            groups=[
                ("General", [each for each in fields if each.name in WHERE]),
                ("Chunking", [each for each in fields if each.name not in WHERE]),
            ],
        )
        return show_form(self.request, self.visitor, form, filled=filled, error=error, names=NAMES)


def _values(rule: IngestionRule | None) -> Mapping[str, Any]:
    if rule is None:
        return {"fixed_token_count": 256}
    said = {str(name).lower(): value for name, value in rule.chunking.items()}
    values = {name: said.get(wire.lower()) for name, wire in WIRE.items()}
    facts = "\n".join(f"{name}={value}" for name, value in rule.tags.items())
    plain = {name: getattr(rule, name) for name in ("name", "description", "collection_id", "labels")}
    known = next((each for each in STRATEGY_NAMES if each.lower() == str(values["strategy"] or "").lower()), None)
    return values | plain | {"facts": facts, "strategy": known or values["strategy"]}


def _read(order: Order, before: IngestionRule | None = None) -> RuleValues:
    """InvalidRequest that names every field which cannot be read."""
    problems = Problems()
    look = Look(lines=("facts",))
    said = read_model(order, RuleForm, problems, look)
    facts = read_pairs(order.text("facts"), "=", "facts", problems)
    if said is not None:
        _check(said, problems)
    problems.raise_any()
    chunking = {wire: getattr(said, name) for name, wire in WIRE.items() if getattr(said, name) is not None}
    kept = {} if before is None else {n: v for n, v in before.chunking.items() if n not in WIRE.values()}
    return RuleValues(
        name=said.name,
        description=said.description,
        bucket=None if before is None else before.bucket,
        collection_id=said.collection_id,
        labels=said.labels,
        tags=facts,
        chunking={**kept, **chunking} if said.strategy is not None else {},
        summarization={} if before is None else dict(before.summarization),
        embedding={} if before is None else dict(before.embedding),
    )


def _check(said: RuleForm, problems: Problems) -> None:
    if said.strategy == "RegexBased" and not said.regex_pattern:
        problems.add("regex_pattern", "RegexBased needs a pattern.")
    if said.overlap_count is not None and said.overlap_count >= said.fixed_token_count:
        problems.add("overlap_count", "This must be less than the tokens of a chunk.")


@router.get("/settings/rules")
async def list_rules(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All ingestion rules, newest first."""
    return await _list(request, jay, visitor, offset)


async def _list(
    request: Request, jay: Scrubjay, visitor: Visitor, offset: int = 0, error: ScrubjayError | None = None
) -> Response:
    page = await jay.rules.page(visitor.who, limit=ROWS, offset=offset)
    names = await jay.rules.collection_names(visitor.who, page.items)
    message = None if error is None else error.message
    status = 200 if error is None else 409
    return show(request, "rules.html", visitor, status=status, page=page, collections=names, error=message)


@router.get("/settings/rules/new")
async def new_rule(request: Request, jay: Jay, visitor: Looking) -> Response:
    """The form for a new rule."""
    require(visitor.who, Scope.WRITE)
    return await _RulesPage(request, jay, visitor).form(None)


@router.post("/settings/rules")
async def create_rule(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a rule."""
    require(order.who, Scope.WRITE)
    try:
        await jay.rules.create(order.who, _read(order))
    except REFUSALS as error:
        return await _RulesPage(request, jay, order.visitor).form(None, order, error)
    return RedirectResponse(f"{HERE}?done=created", status_code=303)


@router.get("/settings/rules/{rule_id}/edit")
async def edit_rule(request: Request, jay: Jay, visitor: Looking, rule_id: RuleId) -> Response:
    """The form of a rule that there is."""
    require(visitor.who, Scope.WRITE)
    return await _RulesPage(request, jay, visitor).form(await jay.rules.get(visitor.who, rule_id))


@router.post("/settings/rules/{rule_id}/edit")
async def save_rule(request: Request, jay: Jay, order: Ordering, rule_id: RuleId) -> Response:
    """Change a rule. It counts for what comes in from now on."""
    require(order.who, Scope.WRITE)
    rule = await jay.rules.get(order.who, rule_id)
    try:
        await jay.rules.update(order.who, rule_id, _read(order, rule))
    except REFUSALS as error:
        return await _RulesPage(request, jay, order.visitor).form(rule, order, error)
    return RedirectResponse(f"{HERE}?done=saved", status_code=303)


@router.post("/settings/rules/{rule_id}/delete")
async def delete_rule(request: Request, jay: Jay, order: Ordering, rule_id: RuleId) -> Response:
    """Remove a rule that no crawler needs."""
    try:
        await jay.rules.delete(order.who, rule_id)
    except Conflict as error:
        return await _list(request, jay, order.visitor, error=error)
    return RedirectResponse(f"{HERE}?done=deleted", status_code=303)
