"""What a crawl is asked to do, by a crawl config of specification 001 or a plan's web settings of specification 000."""

from collections.abc import Mapping
from typing import Any

from scrubjay.crawler.fetcher import is_secret_header
from scrubjay.model.chunking import ChunkingOptions
from scrubjay.model.crawl_spec import CrawlSpec, Extent, read_spec
from scrubjay.model.crawling import CrawlConfig
from scrubjay.model.plan import WebAuthType, WebSettings
from scrubjay.model.urls import parse_url
from scrubjay.storage.secrets import SecretBox

ALL_PAGES = 100_000_000
HEADER_CONTEXT = "config:header"


def seal_headers(headers: Mapping[str, str], secrets: SecretBox) -> dict[str, str]:
    """A config's headers as they are kept: what authenticates is sealed."""
    return {
        name: secrets.seal(value, context=HEADER_CONTEXT) if is_secret_header(name) else value
        for name, value in headers.items()
    }


def describe_config(config: CrawlConfig, secrets: SecretBox, **values: Any) -> dict[str, Any]:
    """A crawl as a config describes it; `values` say the rest, and win."""
    headers = {
        name: secrets.unseal(value, context=HEADER_CONTEXT) if is_secret_header(name) else value
        for name, value in config.headers.items()
    }
    described = {
        "max_depth": config.max_depth,
        "rate_limit_rps": config.rate_limit_rps,
        "respect_robots": config.respect_robots_txt,
        "headers": headers,
        "extraction": config.extraction_strategy,
        "timeout_seconds": config.page_timeout_ms / 1000,
        "max_bytes": config.max_page_size_mb * 1024 * 1024,
        "max_redirects": config.max_redirects,
    }
    return {**described, **{name: value for name, value in values.items() if value is not None}}


def chunking_of_config(config: CrawlConfig) -> ChunkingOptions:
    """How a config has pages cut; its `sliding_window` follows the structure of the page as well."""
    strategy = "structure" if config.chunking_strategy == "sliding_window" else config.chunking_strategy
    return ChunkingOptions.model_validate(
        {
            "strategy": strategy,
            "chunk_size": config.chunk_size,
            "overlap": min(config.chunk_overlap, config.chunk_size - 1),
            "min_size": config.min_chunk_size,
        }
    )


def spec_of_plan(
    settings: WebSettings, secret: str | None, config: Mapping[str, Any], *, keep_originals: bool
) -> CrawlSpec:
    """The crawl that a plan asks for; a config that it names speaks where the plan cannot."""
    described: dict[str, Any] = {
        "start_urls": [parse_url(settings.start_url or "", field="StartUrl").text],
        "extent": _extent(settings),
        "follow_links": settings.follow_links,
        "follow_redirects": settings.follow_redirects,
        "use_sitemaps": settings.extract_sitemap_links,
        "respect_robots": not settings.ignore_robots_txt,
        "max_depth": settings.max_depth,
        "max_pages": settings.max_pages or ALL_PAGES,
        "concurrency": settings.max_parallel_tasks,
        "host_concurrency": settings.max_parallel_tasks,
        "delay_ms": settings.crawl_delay_ms,
        "include": settings.include_patterns,
        "exclude": settings.exclude_patterns,
        "proxy_id": settings.proxy_id,
        "user_agent": settings.user_agent,
        "auth": _auth(settings, secret),
        "extraction": "browser" if settings.use_headless_browser else "markdown",
        "keep_originals": keep_originals,
    }
    return read_spec({**described, **config})


def settings_of_crawl(crawl: Mapping[str, Any]) -> dict[str, Any]:
    """A one-off crawl as a plan's web settings, as far as those can say it; a plan that is kept is edited by these."""
    spec = CrawlSpec.model_validate({**crawl, "auth": None, "headers": {}})
    return {
        "start_url": spec.start_urls[0],
        "follow_links": spec.follow_links,
        "follow_redirects": spec.follow_redirects,
        "extract_sitemap_links": spec.use_sitemaps,
        "ignore_robots_txt": not spec.respect_robots,
        "restrict_to_child_urls": spec.extent is Extent.CHILDREN,
        "restrict_to_subdomain": spec.extent is Extent.HOST,
        "restrict_to_root_domain": spec.extent is not Extent.ANYWHERE,
        "max_depth": min(100, max(1, spec.max_depth)),
        "max_pages": spec.max_pages,
        "max_parallel_tasks": min(64, spec.host_concurrency),
        "crawl_delay_ms": spec.delay_ms,
        "include_patterns": spec.include,
        "exclude_patterns": spec.exclude,
        "use_headless_browser": spec.extraction == "browser",
        **({"user_agent": spec.user_agent} if spec.user_agent else {}),
        **({"proxy_id": spec.proxy_id} if spec.proxy_id else {}),
    }


def _extent(settings: WebSettings) -> Extent:
    """The narrowest of the restrictions that are set."""
    if settings.restrict_to_child_urls:
        return Extent.CHILDREN
    if settings.restrict_to_subdomain:
        return Extent.HOST
    return Extent.DOMAIN if settings.restrict_to_root_domain else Extent.ANYWHERE


def secret_name(settings: WebSettings) -> str | None:
    """Which of the settings authenticates."""
    return {
        WebAuthType.BASIC: "password",
        WebAuthType.API_KEY: "api_key_value",
        WebAuthType.BEARER_TOKEN: "bearer_token",
    }.get(settings.authentication_type)


def _auth(settings: WebSettings, secret: str | None) -> dict[str, str | None] | None:
    if settings.authentication_type is WebAuthType.NONE:
        return None
    kinds = {WebAuthType.BASIC: "basic", WebAuthType.API_KEY: "api_key", WebAuthType.BEARER_TOKEN: "bearer"}
    name = settings.username if settings.authentication_type is WebAuthType.BASIC else settings.api_key_header
    return {"type": kinds[settings.authentication_type], "name": name, "secret": secret or ""}
