"""Every setting, read in one place: the environment (`SCRUBJAY_*`), then `scrubjay.toml`, then defaults.

`docs/reference/settings.md` is generated from the descriptions below (`make docs`); a test keeps the two equal.
"""

import os
import tomllib
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from scrubjay import __version__
from scrubjay.errors import ConfigurationError

CONFIG_FILE = "scrubjay.toml"
DEFAULT_HOME = Path(".scrubjay")


def _environment(name: str) -> Any:
    """What other programs of this operator are told under a name of its own."""
    return os.environ.get(name) or None


class Settings(BaseSettings):
    """One immutable object, made at start and handed down by `app`."""

    model_config = SettingsConfigDict(env_prefix="SCRUBJAY_", env_ignore_empty=True, frozen=True, extra="forbid")

    home: Path = Field(DEFAULT_HOME, description="The one data folder: database, bodies, keys, indexes.")

    allowed_private_networks: Annotated[tuple[IPv4Network | IPv6Network, ...], NoDecode] = Field(
        (), description="Private networks (comma-separated CIDR) that crawls and webhooks may reach."
    )
    api_drain_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long a server that was told to stop still answers while `/health/ready` says 503, so that a "
        "load balancer sends requests elsewhere before they would be refused.",
    )
    api_host: str = Field("127.0.0.1", description="Address that `scrubjay serve` binds to.")
    api_port: int = Field(8642, ge=0, le=65535, description="Port that `scrubjay serve` binds to; 0 picks a free one.")
    audit_retention_days: int = Field(
        365, ge=1, le=36_500, description="How long administrative acts are kept in the audit log."
    )
    auto_migrate: bool = Field(True, description="Bring the database schema up to date at start.")
    azure_openai_api_key: SecretStr | None = Field(
        default_factory=lambda: _environment("AZURE_OPENAI_API_KEY"),
        description="Key for `azure_openai_endpoint`. Default: `AZURE_OPENAI_API_KEY`.",
    )
    azure_openai_api_version: str | None = Field(
        default_factory=lambda: _environment("AZURE_OPENAI_API_VERSION"),
        max_length=64,
        description="The dated API to speak with Azure, as in `2024-10-21`. Default: `AZURE_OPENAI_API_VERSION`, and "
        "Azure's `v1` API without it.",
    )
    azure_openai_endpoint: str | None = Field(
        default_factory=lambda: _environment("AZURE_OPENAI_ENDPOINT"),
        description="An Azure OpenAI resource, `https://….openai.azure.com`, whose files and vector stores are the "
        "inventory. Default: `AZURE_OPENAI_ENDPOINT`.",
    )
    blob_url: str | None = Field(
        None, description="Where bodies are kept: a folder or `s3://bucket/prefix`. Default: `$home/blobs`."
    )
    cache_url: str | None = Field(
        None, description="`redis://…` to share cache, counters and live events. Default: in process."
    )
    chromium_path: Path | None = Field(
        None, description="The Chromium that the `browser` strategy drives. Default: the one that is installed."
    )
    common_crawl_url: str = Field(
        "https://index.commoncrawl.org", description="Common Crawl's index, asked by discovery jobs."
    )
    crawl_sharing: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Whether workers share a crawl of several hosts. `auto`: when there is more than one worker.",
    )
    crawl_user_agent: str = Field(
        f"Scrubjay/{__version__}", min_length=1, max_length=500, description="How crawls introduce themselves to sites."
    )
    database_pool_size: int = Field(10, ge=1, le=200, description="Connections per process to a database server.")
    database_url: str | None = Field(
        None,
        description="`sqlite:///…`, `postgresql://…`, `mysql://…` or `mssql://…`. Default: `$home/scrubjay.db`.",
    )
    embedder: Literal["wordllama", "minilm", "tei", "openai"] = Field(
        "wordllama",
        description="What makes vectors: `wordllama` (built in), `minilm` (extra), or a server (`tei`, `openai`).",
    )
    embedding_api_key: SecretStr | None = Field(None, description="Key for `embedding_url`.")
    embedding_dimensions: int | None = Field(
        None, ge=1, le=16_384, description="Length of the vectors that `embedding_url` gives. Default: asked for once."
    )
    embedding_model: str | None = Field(None, description="Model that `embedding_url` is asked for.")
    embedding_url: str | None = Field(
        None, description="A TEI server, or the base of an OpenAI-compatible API (`https://…/v1`)."
    )
    enumeration_folder: Path | None = Field(
        None,
        description="Where runs of plans leave their enumeration files; one folder that all processes can reach. "
        "Default: `$home/enumerations`.",
    )
    export_folder: Path | None = Field(
        None,
        description="Where plans with an export write it, in a folder per plan; all processes must reach it. "
        "Default: `$home/exports`.",
    )
    extract_processes: int | None = Field(
        None, ge=1, le=64, description="Processes that turn pages into text. Default: one per core, at most 4."
    )
    extract_seconds: float = Field(
        20.0, ge=1, le=600, description="How long the extraction of one page may take before it is given up."
    )
    file_roots: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Folders (comma-separated, absolute) that plans of the type File may read. Default: none."
    )
    index_api_key: SecretStr | None = Field(None, description="Key for a Qdrant server.")
    index_url: str | None = Field(
        None,
        description="Where the search index is: `postgresql` (in the database, with pgvector), a Qdrant server's "
        "`http(s)://…`, or a folder. Default: `$home/index`.",
    )
    job_poll_seconds: float = Field(
        1.0, ge=0.05, le=60, description="How often an idle worker looks for jobs that nobody announced."
    )
    job_retention_days: int = Field(
        30, ge=1, le=3650, description="How long finished jobs and their event logs are kept."
    )
    llm_api_key: SecretStr | None = Field(None, description="Key for `llm_url`.")
    llm_model: str | None = Field(None, description="Model that `llm_url` is asked for.")
    llm_url: str | None = Field(
        None,
        description="Base of an OpenAI-compatible API (`https://…/v1`) for the `llm` extraction strategy, and for "
        "answers of the OpenAI door.",
    )
    log_format: Literal["auto", "human", "json"] = Field(
        "auto", description="`human`, `json`, or `auto`: human on a terminal, JSON otherwise."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="Least severe level logged.")
    max_blocks_per_page: int = Field(
        200_000,
        ge=100,
        le=5_000_000,
        description="Paragraphs, headings, list items, table rows or feed entries kept of one page or file. A page "
        "with more is cut, and the crawl's result counts it in `limits.blocks_per_page`.",
    )
    max_characters_per_page: int = Field(
        12_000_000,
        ge=10_000,
        le=200_000_000,
        description="Characters read of one page's HTML or of one file's text. Longer ones are cut, and the crawl's "
        "result counts them in `limits.characters_per_page`.",
    )
    max_links_per_page: int = Field(
        50_000,
        ge=1,
        le=1_000_000,
        description="Links read from one page. A page with more is cut, and the crawl's result counts it in "
        "`limits.links_per_page`.",
    )
    max_sitemap_urls: int = Field(
        1_000_000,
        ge=1,
        le=50_000_000,
        description="URLs that one crawl reads from all sitemaps together. A crawl that leaves some out says so in "
        "`limits.sitemap_urls` of its result.",
    )
    metrics_job_seconds: float = Field(
        600.0, ge=0, le=86_400, description="How long `/metrics` names a crawl after its end."
    )
    metrics_jobs: int = Field(
        40, ge=1, le=1000, description="How many crawls `/metrics` names at a time; the rest counts as `other`."
    )
    old_secret_keys: SecretStr | None = Field(
        None, description="Keys that `secret_key` replaced, with commas: they open what they sealed, and seal nothing."
    )
    openai_api_key: SecretStr | None = Field(
        default_factory=lambda: _environment("OPENAI_API_KEY"),
        description="Key of the OpenAI account whose files and vector stores are the inventory. "
        "Default: `OPENAI_API_KEY`.",
    )
    openai_backend: Literal["auto", "local", "remote"] = Field(
        "auto",
        description="Where files, vector stores and assistants are: `local` (here), `remote` (OpenAI or Azure), or "
        "`auto`: remote when a key for one of them is set.",
    )
    openai_base_url: str = Field(
        default_factory=lambda: _environment("OPENAI_BASE_URL") or "https://api.openai.com/v1",
        description="Base of OpenAI's API. Default: `OPENAI_BASE_URL`, and OpenAI itself without it.",
    )
    otlp_endpoint: str | None = Field(
        default_factory=lambda: os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or None,
        description="Where traces go: the base address of an OTLP/HTTP collector, `http://…:4318`. "
        "Default: `OTEL_EXPORTER_OTLP_ENDPOINT`, and no traces without it.",
    )
    rerank_api_key: SecretStr | None = Field(None, description="Key for `rerank_url`.")
    rerank_kind: Literal["tei", "cohere"] = Field("tei", description="How `rerank_url` is spoken to.")
    rerank_model: str | None = Field(None, description="Model that `rerank_url` is asked for.")
    rerank_url: str | None = Field(
        None, description="A TEI server, or the base of a Cohere-style API, that reranks results when asked to."
    )
    s3_access_key_id: SecretStr | None = Field(None, description="Access key for `s3://` bodies.")
    s3_allow_http: bool = Field(False, description="Allow an S3 endpoint without TLS.")
    s3_endpoint: str | None = Field(None, description="Endpoint of an S3-compatible server.")
    s3_region: str = Field("us-east-1", description="Region of the bucket.")
    s3_secret_access_key: SecretStr | None = Field(None, description="Secret key for `s3://` bodies.")
    secret_key: SecretStr | None = Field(
        None, description="Base64 of 32 bytes that seal stored secrets. Default: made in `$home/secret.key`."
    )
    sharepoint_authority_url: str = Field(
        "https://login.microsoftonline.com",
        description="Where tokens for SharePoint come from; national clouds have their own.",
    )
    sharepoint_certificate_file: Path | None = Field(
        default_factory=lambda: Path(path) if (path := os.environ.get("CRAWLER_CLIENT_CERTIFICATE_PFX_FILE")) else None,
        description="PFX file with the certificate and key of the app that reads SharePoint. "
        "Default: `CRAWLER_CLIENT_CERTIFICATE_PFX_FILE`.",
    )
    sharepoint_certificate_password: SecretStr | None = Field(
        default_factory=lambda: _secret_of("CRAWLER_CLIENT_CERTIFICATE_PASSWORD"),
        description="Password of that file. Default: `CRAWLER_CLIENT_CERTIFICATE_PASSWORD`.",
    )
    sharepoint_client_id: str | None = Field(
        default_factory=lambda: os.environ.get("CRAWLER_CLIENT_ID") or None,
        description="The app's (client) id. Default: `CRAWLER_CLIENT_ID`.",
    )
    sharepoint_client_secret: SecretStr | None = Field(
        default_factory=lambda: _secret_of("CRAWLER_CLIENT_SECRET"),
        description="The app's secret, used when there is no certificate. Default: `CRAWLER_CLIENT_SECRET`.",
    )
    sharepoint_tenant_id: str | None = Field(
        default_factory=lambda: os.environ.get("CRAWLER_TENANT_ID") or None,
        description="The Microsoft tenant that the app belongs to. Default: `CRAWLER_TENANT_ID`.",
    )
    shutdown_grace_seconds: float = Field(
        20.0, ge=0, le=600, description="How long a stopping worker waits for jobs to reach a checkpoint."
    )
    webhook_retention_days: int = Field(
        30, ge=1, le=3650, description="How long deliveries of webhooks are kept, and waited for, and can be replayed."
    )
    webhook_timeout_seconds: float = Field(
        10.0, ge=0.1, le=120, description="How long a webhook may take to answer before the attempt has failed."
    )
    storage_folder: Path | None = Field(
        default_factory=lambda: Path(path) if (path := os.environ.get("PERSISTENT_STORAGE_PATH")) else None,
        description="Where domains, what is crawled for them, and job files are, in a folder for each tenant; one that "
        "all processes can reach. Default: `PERSISTENT_STORAGE_PATH`, or `$home/storage`.",
    )
    tracking_parameters: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="More query parameters (comma-separated names; a trailing * is a prefix) that are left out of the "
        "URL by which a document is known, beside `utm_*`, `fbclid`, `gclid` and their like. Documents that are stored "
        "already keep their URL.",
    )
    watch_breaking_sources: int = Field(
        4, ge=2, le=1000, description="Independent sources that make a story breaking when they tell it in the window."
    )
    watch_breaking_window_seconds: int = Field(
        7200, ge=60, le=604_800, description="Window of `watch_breaking_sources`; as long without news ends a story."
    )
    watch_concurrency: int = Field(16, ge=1, le=256, description="Watches that one process polls at the same time.")
    watch_debounce_seconds: int = Field(
        600, ge=0, le=86_400, description="Changes of one address that come sooner after its last news wait so long."
    )
    watch_queue_limit: int = Field(
        200, ge=1, le=1_000_000, description="Pending jobs above which watches hold their crawls back."
    )
    watch_score_threshold: float = Field(
        0.6, ge=0, le=1, description="The least news score that triggers a crawl, unless the watch says otherwise."
    )
    watch_scorer: str = Field(
        "built-in", min_length=1, max_length=100, description="What scores news: `built-in`, or an entry point's name."
    )
    watch_throttle: Literal["off", "slow", "stop"] = Field(
        "off", description="The brake of all watches; the switch of the API can only be stricter."
    )
    worker_concurrency: int = Field(4, ge=1, le=256, description="Jobs that one worker runs at the same time.")
    worker_heartbeat_seconds: float = Field(5.0, ge=0.2, le=60, description="How often a worker says that it is alive.")
    worker_metrics_port: int | None = Field(
        None,
        ge=0,
        le=65535,
        description="Port on `api_host` where `scrubjay worker` serves its `/metrics`; 0 picks a free one. "
        "Default: none.",
    )
    worker_queues: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Kinds of jobs (comma-separated) that a worker runs. Default: all."
    )
    worker_silence_seconds: float = Field(
        20.0, ge=1, le=600, description="Silence after which a worker's jobs are taken up by another."
    )

    @field_validator("allowed_private_networks", "file_roots", "tracking_parameters", "worker_queues", mode="before")
    @classmethod
    def _split_list(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        return value

    @field_validator("tracking_parameters")
    @classmethod
    def _check_tracking_parameters(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not name.removesuffix("*") or set(name.removesuffix("*")) & set("*=&?# "):
                raise ValueError(f"'{name}' is not the name of a query parameter, such as ref or source_*")
        return value

    @field_validator("file_roots")
    @classmethod
    def _check_file_roots(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        if not all(root.is_absolute() for root in value):
            raise ValueError("its folders must be absolute")
        return value

    @field_validator("azure_openai_endpoint", "openai_base_url")
    @classmethod
    def _check_openai_address(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it should look like https://api.openai.com/v1")
        return value

    @field_validator("otlp_endpoint")
    @classmethod
    def _check_otlp_endpoint(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError("it should look like http://collector:4318")
        return value

    @field_validator("sharepoint_authority_url")
    @classmethod
    def _check_authority(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")) or "@" in value or "?" in value:
            raise ValueError("it should look like https://login.microsoftonline.com")
        return value.rstrip("/")

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        # Imported here because SQLAlchemy takes a moment to import, and `scrubjay --help` does not need it.
        from sqlalchemy import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            host = make_url(value).host
        except (ArgumentError, ValueError):
            raise ValueError("it should look like postgresql://user:password@host:5432/database") from None
        if host is not None and "@" in host:
            raise ValueError("an @ in the user name or password must be written as %40")
        return value

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / 'scrubjay.db'}"

    @property
    def resolved_blob_url(self) -> str:
        return self.blob_url or str(self.home / "blobs")

    @property
    def resolved_enumeration_folder(self) -> Path:
        return self.enumeration_folder or self.home / "enumerations"

    @property
    def resolved_export_folder(self) -> Path:
        return self.export_folder or self.home / "exports"

    @property
    def resolved_storage_folder(self) -> Path:
        return (self.storage_folder or self.home / "storage").expanduser().absolute()

    @property
    def is_embedded(self) -> bool:
        """Whether one process owns the data folder; only PostgreSQL serves several."""
        return not self.resolved_database_url.startswith(("postgresql", "postgres:"))

    @property
    def is_openai_remote(self) -> bool:
        """Whether the inventory is that of an OpenAI or Azure account."""
        if self.openai_backend != "auto":
            return self.openai_backend == "remote"
        azure = self.azure_openai_endpoint is not None and self.azure_openai_api_key is not None
        return azure or self.openai_api_key is not None

    @property
    def is_index_embedded(self) -> bool:
        """Whether the index is a folder, which one process has to itself."""
        return self.index_url is None or not (
            self.index_url == "postgresql" or self.index_url.startswith(("http://", "https://"))
        )

    @property
    def index_folder(self) -> Path:
        return Path(self.index_url).expanduser().absolute() if self.index_url else self.home / "index"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, Path(CONFIG_FILE))


def _secret_of(variable: str) -> SecretStr | None:
    """A secret under a name that other programs use too."""
    value = os.environ.get(variable)
    return SecretStr(value) if value else None


def load_settings(**overrides: Any) -> Settings:
    """Read the settings; what is not valid becomes one sentence that names the setting."""
    try:
        settings = Settings(**{name: value for name, value in overrides.items() if value is not None})
    except ValidationError as error:
        raise ConfigurationError(_describe(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{CONFIG_FILE} is not valid TOML: {error}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{CONFIG_FILE} cannot be read as UTF-8 text: {error}.") from error
    return settings.model_copy(update={"home": settings.home.expanduser().absolute()})


def _describe(error: ValidationError) -> str:
    first = error.errors()[0]
    # The setting itself; what follows in `loc` are Pydantic's names for the parts of its type.
    name = str(first["loc"][0]) if first["loc"] else "settings"
    if first["type"] == "extra_forbidden":
        return f"{CONFIG_FILE} has an unknown setting '{name}'; docs/reference/settings.md lists the known ones."
    return f"The setting '{name}' (SCRUBJAY_{name.upper()}) is not valid: {first['msg'].removeprefix('Value error, ')}."
