"""SharePoint as a plan's source: the files of a library, and lists and pages if the plan wants them."""

import base64
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scrubjay.errors import FetchFailed, InvalidRequest
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Plan
from scrubjay.model.source import Connectivity, ItemProblem, SourceContent, SourceItem, hash_key
from scrubjay.model.tenant import DEFAULT_TENANT_ID
from scrubjay.queue.context import JobContext
from scrubjay.sources.file_types import guess_content_type
from scrubjay.sources.protocol import ConnectorType, Tools
from scrubjay.sources.sharepoint.auth import AppCredentials, TokenSource
from scrubjay.sources.sharepoint.client import wait_in, wait_quietly
from scrubjay.sources.sharepoint.items import SharePointItem, SiteAddress
from scrubjay.sources.sharepoint.lists import ListState
from scrubjay.sources.sharepoint.site import SharePointSite, open_site

MAX_BYTES = 1024 * 1024 * 1024
_LIST_KEY = "list:"  # paths begin with a slash, so that no file has such a key
_MARKDOWN = "text/markdown"
_HTML_TYPE = "text/html"
_Name = Annotated[str, Field(min_length=1, max_length=255)]


class SharePointSettings(BaseModel):
    """What is read of which site, and as which app."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    site_url: Annotated[str, Field(max_length=2048)] | None = None
    files: bool = True  # those of the library; lists and pages can be read without them
    library: Annotated[str, Field(min_length=1, max_length=400)] = "/Shared Documents"  # or a folder of one
    filter: Annotated[str, Field(max_length=2000)] | None = None  # OData, for the files of the library
    lists: Annotated[tuple[_Name, ...], Field(max_length=100)] = ()  # titles; each list is one document
    site_pages: Annotated[str, Field(max_length=400)] | None = None  # the library of the pages, usually /SitePages
    max_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = 50 * 1024 * 1024
    # An app of the plan's own; without it, the deployment's app reads.
    tenant_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9.-]{1,255}$")] | None = None
    client_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]{1,64}$")] | None = None
    client_secret: Annotated[str, Field(max_length=4096)] | None = Field(None, repr=False)
    certificate_pfx: Annotated[str, Field(max_length=65_536)] | None = Field(None, repr=False)  # base64
    certificate_password: Annotated[str, Field(max_length=4096)] | None = Field(None, repr=False)

    @field_validator("site_url")
    @classmethod
    def _check_site(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            return SiteAddress.parse(value).url
        except InvalidRequest as error:
            raise ValueError(f"site_url: {error.message}") from error

    @field_validator("library", "site_pages")
    @classmethod
    def _check_path(cls, value: str | None) -> str | None:
        if value is not None and any(part in (".", "..") or "\0" in part for part in value.split("/")):
            raise ValueError("it must be a path like /Shared Documents/Reports")
        return value

    @field_validator("lists")
    @classmethod
    def _check_lists(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({title.casefold() for title in value}) < len(value):
            raise ValueError("lists names a list twice")
        return value


class SharePointConnector:
    def __init__(self, site: SharePointSite, wanted: SharePointSettings, tokens: TokenSource) -> None:
        self._site = site
        self._wanted = wanted
        self._tokens = tokens
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        return self._problems

    async def check(self) -> Connectivity:
        wanted = self._wanted
        try:
            for library in filter(None, (wanted.library if wanted.files else None, wanted.site_pages)):
                await self._site.check(library)
            for title in wanted.lists:
                await self._site.list_state(title, patient=False)
        except FetchFailed as error:
            return Connectivity(False, error.message)
        return Connectivity(True, f"The site {self._site.address.url} can be read.")

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._problems = []
        self._site.wait = wait_in(context)
        try:
            count = 0
            async for item in self._everything(context, limit):
                if limit is not None and count >= limit:
                    return
                count += 1
                yield item
        finally:
            self._site.wait = wait_quietly

    async def _everything(self, context: JobContext, limit: int | None) -> AsyncIterator[SourceItem]:
        wanted, seen = self._wanted, set[str]()
        await context.checkpoint()
        if wanted.files:
            async for item in self._site.library_items(wanted.library, wanted.filter, most=limit):
                await context.checkpoint()
                seen.add(item.server_relative_url)
                yield _item_of(item, guess_content_type(item.filename))
        if wanted.site_pages:
            async for item in self._site.page_items(wanted.site_pages, most=limit):
                await context.checkpoint()
                if item.server_relative_url not in seen:
                    yield _item_of(item, _HTML_TYPE)
        for title in wanted.lists:
            await context.checkpoint()
            yield _item_of_list(await self._site.list_state(title))

    async def read(self, item: SourceItem) -> SourceContent:
        if item.key.startswith(_LIST_KEY):
            return await self._read_list(item.key.removeprefix(_LIST_KEY))
        if self._is_page(item):
            return await self._read_page(item)
        data = await self._site.read_file(item.key, self._wanted.max_bytes)
        name = item.key.rpartition("/")[2]
        return SourceContent(
            url=self._site.address.url_of(item.key),
            data=data,
            filename=name,
            content_type=guess_content_type(name),
            details={"site_url": self._site.address.url, "server_relative_url": item.key},
            size_bytes=len(data),
            crawled_at=utc_now(),
        )

    async def close(self) -> None:
        await self._site.close()
        await self._tokens.close()

    def _is_page(self, item: SourceItem) -> bool:
        """A page has text of its own in SharePoint; what a browser would get for it is mostly chrome."""
        return item.key.lower().endswith(".aspx")

    async def _read_page(self, item: SourceItem) -> SourceContent:
        page = await self._site.page_at(item.key)
        return SourceContent(
            url=page.item.url,
            markdown=page.markdown,
            title=page.title,
            filename=page.item.filename,
            content_type=_MARKDOWN,
            details={"site_url": self._site.address.url, "server_relative_url": item.key},
            size_bytes=len(page.markdown.encode()),
            crawled_at=utc_now(),
        )

    async def _read_list(self, title: str) -> SourceContent:
        export = await self._site.list_items(title)
        return SourceContent(
            url=export.url,
            markdown=export.markdown,
            title=export.title,
            filename=f"{export.title}.md",
            content_type=_MARKDOWN,
            details={"site_url": self._site.address.url, "list_id": export.id, "items": len(export.rows)},
            size_bytes=len(export.markdown.encode()),
            crawled_at=utc_now(),
        )


def _item_of(item: SharePointItem, content_type: str | None) -> SourceItem:
    return SourceItem(
        key=item.server_relative_url,
        key_hash=hash_key(item.server_relative_url),
        content_type=content_type,
        content_length=item.file_size,
        etag=item.sharepoint_unique_file_id,  # another file under the same name is another one
        last_modified_at=item.modified_at,
        problem=None if item.problem is None else ItemProblem("unreadable", item.problem),
    )


def _item_of_list(state: ListState) -> SourceItem:
    key = _LIST_KEY + state.title
    return SourceItem(
        key=key, key_hash=hash_key(key), content_type=_MARKDOWN, etag=state.etag, last_modified_at=state.modified_at
    )


def _open(plan: Plan, tools: Tools) -> SharePointConnector:
    wanted = SharePointSettings.model_validate(plan.repository_settings)
    if wanted.site_url is None:
        raise InvalidRequest("The plan has no site_url.", field="site_url")
    if not (wanted.files or wanted.site_pages or wanted.lists):
        raise InvalidRequest("The plan wants neither files, nor lists, nor site pages.", field="files")
    settings, network = tools.crawler.settings, tools.crawler.network
    own = _own_app(plan, wanted, tools)
    if own is None and plan.tenant_id != DEFAULT_TENANT_ID:
        # The deployment's app may read whatever its owner's company has; other tenants are other companies.
        raise InvalidRequest("This tenant's plans need an app of their own: client_id, tenant_id and a secret.")
    tokens = TokenSource.from_settings(settings, network) if own is None else TokenSource(lambda: own, network)
    return SharePointConnector(open_site(settings, network, wanted.site_url, tokens=tokens), wanted, tokens)


def _own_app(plan: Plan, wanted: SharePointSettings, tools: Tools) -> AppCredentials | None:
    """The app that the plan itself names; without one, the deployment's own reads."""
    secret, certificate = tools.unseal(plan, "client_secret"), tools.unseal(plan, "certificate_pfx")
    if wanted.client_id is None and wanted.tenant_id is None and not secret and not certificate:
        return None
    if wanted.client_id is None or wanted.tenant_id is None or not (secret or certificate):
        raise InvalidRequest(
            "An app of the plan's own needs tenant_id, client_id, and certificate_pfx or client_secret.",
            field="client_id",
        )
    return AppCredentials(
        tenant_id=wanted.tenant_id,
        client_id=wanted.client_id,
        authority_url=tools.crawler.settings.sharepoint_authority_url,
        certificate=_decode(certificate) if certificate else None,
        certificate_password=tools.unseal(plan, "certificate_password"),
        client_secret=secret,
    )


def _decode(certificate: str) -> bytes:
    try:
        return base64.b64decode(certificate, validate=True)
    except ValueError as error:
        raise InvalidRequest("certificate_pfx must be a PFX file in base64.", field="certificate_pfx") from error


SHAREPOINT = ConnectorType(
    name="SharePoint",
    settings=SharePointSettings,
    secrets=frozenset({"client_secret", "certificate_pfx", "certificate_password"}),
    required=("site_url",),
    open=_open,
)
