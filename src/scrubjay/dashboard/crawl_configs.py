"""Crawl configs: named settings that crawls and crawlers can be told to use."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, StringConstraints, TypeAdapter, ValidationError
from starlette.responses import RedirectResponse, Response

from scrubjay.crawler.fetcher import is_secret_header
from scrubjay.dashboard.forms import Look, Problems, fields_of
from scrubjay.dashboard.identifiers import ConfigId, Offset
from scrubjay.dashboard.rendering import show
from scrubjay.dashboard.session import Jay, Looking, Order, Ordering, Visitor
from scrubjay.dashboard.setup_form import REFUSALS, ROWS, SetupForm, read_model, read_pairs, show_form
from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.model import crawl_limits as limits
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.crawling import CrawlConfig
from scrubjay.model.tenant import Scope
from scrubjay.services.access import require
from scrubjay.services.webhooks import HIDDEN

router = APIRouter(include_in_schema=False)

HERE = "/ui/settings/configs"
_HEADERS: TypeAdapter[dict[str, str]] = TypeAdapter(dict[limits.HeaderName, limits.HeaderValue])


class ConfigForm(BaseModel):
    name: limits.SettingName
    max_depth: limits.Depth = 0
    rate_limit_rps: limits.Rate = 1.0
    respect_robots_txt: bool = True
    max_redirects: limits.Redirects = 10
    page_timeout_ms: limits.PageTimeout = 30_000
    max_page_size_mb: limits.PageMegabytes = 50
    headers: Annotated[str, StringConstraints(max_length=100_000)] = ""
    extraction_strategy: limits.Extraction = "markdown"
    chunking_strategy: limits.Chunking = "sliding_window"
    chunk_size: limits.ChunkSize = 512
    chunk_overlap: limits.ChunkOverlap = 50
    min_chunk_size: limits.MinChunkSize = 50


LOOK = Look(
    labels={
        "max_depth": "Depth",
        "rate_limit_rps": "Requests a second to one host",
        "respect_robots_txt": "Respect robots.txt",
        "max_redirects": "Redirects",
        "page_timeout_ms": "Time for a page (ms)",
        "max_page_size_mb": "Size of a page (MB)",
        "extraction_strategy": "Extraction",
        "chunking_strategy": "Chunking",
        "chunk_size": "Tokens of a chunk",
        "chunk_overlap": "Tokens that chunks share",
        "min_chunk_size": "Fewest tokens of a chunk",
    },
    hints={
        "headers": f"Name: value, one a line. What authenticates is sealed and shown as {HIDDEN}; left so, it stays.",
        "max_depth": "0: the page itself",
    },
    required=("name",),
    lines=("headers",),
)
_READING = ("extraction_strategy", "chunking_strategy", "chunk_size", "chunk_overlap", "min_chunk_size")


def _values(config: CrawlConfig) -> Mapping[str, Any]:
    shown = (f"{name}: {HIDDEN if is_secret_header(name) else value}" for name, value in config.headers.items())
    return asdict(config) | {"headers": "\n".join(shown)}


def _form(
    request: Request,
    visitor: Visitor,
    config: CrawlConfig | None,
    filled: Order | None = None,
    error: ScrubjayError | None = None,
) -> Response:
    known = config or CrawlConfig(tenant_id=visitor.who.tenant_id, name="")
    fields = fields_of(ConfigForm, _values(known), look=LOOK)
    form = SetupForm(
        title="New crawl config" if config is None else config.name,
        action=HERE if config is None else f"{HERE}/{config.id}/edit",
        back=HERE,
        noun="Crawl configs",
        groups=[
            ("Asking", [each for each in fields if each.name not in _READING]),
            ("Reading", [each for each in fields if each.name in _READING]),
        ],
    )
    return show_form(request, visitor, form, filled=filled, error=error)


def _read(order: Order) -> dict[str, Any]:
    """InvalidRequest that names every field which cannot be read."""
    problems = Problems()
    said = read_model(order, ConfigForm, problems, LOOK)
    headers = read_pairs(order.text("headers"), ":", "headers", problems)
    _check_headers(headers, problems)
    if said is not None and said.chunk_overlap >= said.chunk_size:
        problems.add("chunk_overlap", "This must be less than the tokens of a chunk.")
    problems.raise_any()
    return {**said.model_dump(exclude={"headers"}), "headers": headers}


def _check_headers(headers: Mapping[str, str], problems: Problems) -> None:
    """What a crawl would refuse is refused here, where it can be put right."""
    if len(headers) > limits.MAX_HEADERS:
        problems.add("headers", f"At most {limits.MAX_HEADERS} headers.")
        return
    try:
        _HEADERS.validate_python(dict(headers))
        read_spec({"start_urls": ["http://localhost/"], "headers": dict(headers)})
    except ValidationError:
        problems.add("headers", "A name or value is too long.")
    except InvalidRequest as error:
        problems.add("headers", error.message.removeprefix("headers: ").capitalize())


@router.get("/settings/configs")
async def list_configs(request: Request, jay: Jay, visitor: Looking, offset: Offset = 0) -> Response:
    """All crawl configs."""
    page = await jay.crawl_settings.configs(visitor.who, limit=ROWS, offset=offset)
    return show(request, "configs.html", visitor, page=page)


@router.get("/settings/configs/new")
async def new_config(request: Request, visitor: Looking) -> Response:
    """The form for a new config."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, None)


@router.post("/settings/configs")
async def create_config(request: Request, jay: Jay, order: Ordering) -> Response:
    """Make a config."""
    require(order.who, Scope.WRITE)
    try:
        values = _read(order)
        if HIDDEN in values["headers"].values():
            raise InvalidRequest("A new config has no hidden value yet; give it.", field="headers")
        await jay.crawl_settings.create_config(order.who, **values)
    except REFUSALS as error:
        return _form(request, order.visitor, None, order, error)
    return RedirectResponse(f"{HERE}?done=created", status_code=303)


@router.get("/settings/configs/{config_id}/edit")
async def edit_config(request: Request, jay: Jay, visitor: Looking, config_id: ConfigId) -> Response:
    """The form of a config that there is."""
    require(visitor.who, Scope.WRITE)
    return _form(request, visitor, await jay.crawl_settings.config(visitor.who, config_id))


@router.post("/settings/configs/{config_id}/edit")
async def save_config(request: Request, jay: Jay, order: Ordering, config_id: ConfigId) -> Response:
    """Change a config."""
    require(order.who, Scope.WRITE)
    config = await jay.crawl_settings.config(order.who, config_id)
    try:
        await jay.crawl_settings.change_config(order.who, config_id, **_read(order))
    except REFUSALS as error:
        return _form(request, order.visitor, config, order, error)
    return RedirectResponse(f"{HERE}?done=saved", status_code=303)


@router.post("/settings/configs/{config_id}/delete")
async def delete_config(jay: Jay, order: Ordering, config_id: ConfigId) -> Response:
    """Remove a config."""
    await jay.crawl_settings.delete_config(order.who, config_id)
    return RedirectResponse(f"{HERE}?done=deleted", status_code=303)
