"""Buckets as a source: Amazon's S3, and every server that speaks its protocol."""

import re
from collections.abc import AsyncIterator
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scrubjay.errors import FetchFailed, InvalidRequest, UrlInvalid
from scrubjay.model.clock import utc_now
from scrubjay.model.plan import Plan
from scrubjay.model.source import Connectivity, SourceContent, SourceItem, hash_key
from scrubjay.model.urls import parse_url
from scrubjay.queue.context import JobContext
from scrubjay.sources.file_types import guess_content_type
from scrubjay.sources.protocol import ConnectorType, Tools
from scrubjay.sources.s3_answers import S3Object
from scrubjay.sources.s3_bucket import PAGE_SIZE, Bucket
from scrubjay.sources.s3_signing import S3Credentials

MAX_BYTES = 1024 * 1024 * 1024
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
# What S3 says of objects whose uploader said nothing.
_VAGUE_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream"})


class S3Settings(BaseModel):
    """Which objects are read, and from where."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bucket: str | None = None
    prefix: Annotated[str, Field(max_length=1024)] | None = None
    region: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")] = "us-east-1"
    endpoint_url: Annotated[str, Field(max_length=1024)] | None = None  # None is Amazon's own
    access_key_id: Annotated[str, Field(max_length=512)] | None = None
    secret_access_key: Annotated[str, Field(max_length=4096)] | None = Field(None, repr=False)
    path_style: bool | None = None  # the bucket in the path, not in the host; by default at endpoints of others
    max_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = 50 * 1024 * 1024

    @field_validator("bucket")
    @classmethod
    def _check_bucket(cls, value: str | None) -> str | None:
        if value is not None and not _BUCKET.fullmatch(value):
            raise ValueError("bucket must be a name of letters, digits, dots, dashes and underscores")
        return value

    @field_validator("endpoint_url")
    @classmethod
    def _check_endpoint(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            url = parse_url(value)
        except UrlInvalid as error:
            raise ValueError(f"endpoint_url: {error.message}") from error
        if url.username or url.password or "?" in url.text:
            raise ValueError("endpoint_url must have neither credentials nor a query")
        return url.text.rstrip("/")

    def address_of(self, bucket: str) -> str:
        """Where the bucket is, without a slash at the end."""
        endpoint = self.endpoint_url
        if endpoint is None:
            suffix = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
            endpoint = f"https://s3.{self.region}.{suffix}"
        in_path = self.endpoint_url is not None if self.path_style is None else self.path_style
        # Amazon's certificates are for names without further dots.
        if in_path or (self.endpoint_url is None and "." in bucket):
            return f"{endpoint}/{bucket}"
        scheme, _, rest = endpoint.partition("://")
        return f"{scheme}://{bucket.lower()}.{rest}"


class S3Connector:
    def __init__(self, wanted: S3Settings, bucket: Bucket) -> None:
        self._wanted = wanted
        self._bucket = bucket
        self._problems: list[str] = []

    @property
    def problems(self) -> list[str]:
        return self._problems

    async def check(self) -> Connectivity:
        try:
            await self._bucket.list(self._wanted.prefix, count=1, patient=False)
        except FetchFailed as error:
            return Connectivity(False, error.message)
        return Connectivity(True, f"The bucket '{self._bucket.name}' can be listed.")

    async def enumerate(self, context: JobContext, limit: int | None = None) -> AsyncIterator[SourceItem]:
        self._problems = []
        token: str | None = None
        left = limit
        while left is None or left > 0:
            await context.checkpoint()
            page = await self._bucket.list(self._wanted.prefix, token, count=PAGE_SIZE if left is None else left)
            for found in page.objects[:left]:
                if "\0" in found.key:
                    self._problems.append(f"{found.key[:100]!r} is no name that can be kept.")
                    continue
                yield _item_of(found)
            if page.is_last:
                return
            token = page.next_token
            left = None if left is None else left - len(page.objects)

    async def read(self, item: SourceItem) -> SourceContent:
        answer = await self._bucket.get(item.key, self._wanted.max_bytes)
        declared = (answer.content_type or "").strip()
        vague = declared.partition(";")[0].strip().lower() in _VAGUE_TYPES
        return SourceContent(
            url=f"s3://{self._bucket.name}/{item.key}",
            data=answer.body,
            filename=item.key.rstrip("/").rpartition("/")[2],
            content_type=(guess_content_type(item.key) or declared or None) if vague else declared,
            details={"bucket": self._bucket.name, "key": item.key},
            size_bytes=answer.size,
            crawled_at=utc_now(),
        )

    async def close(self) -> None:
        await self._bucket.fetcher.close()


def _item_of(found: S3Object) -> SourceItem:
    return SourceItem(
        key=found.key,
        key_hash=hash_key(found.key),
        content_type=None if found.is_folder else guess_content_type(found.key),
        content_length=found.size,
        etag=found.etag,
        md5=found.md5,
        last_modified_at=found.last_modified_at,
        is_folder=found.is_folder,
    )


def _open(plan: Plan, tools: Tools) -> S3Connector:
    wanted = S3Settings.model_validate(plan.repository_settings)
    if wanted.bucket is None:
        raise InvalidRequest("The plan has no bucket.", field="bucket")
    secret = tools.unseal(plan, "secret_access_key")
    if bool(wanted.access_key_id) != bool(secret):
        raise InvalidRequest(
            "access_key_id and secret_access_key belong together; a public bucket needs neither.",
            field="secret_access_key",
        )
    credentials = S3Credentials(wanted.access_key_id, secret) if wanted.access_key_id and secret else None
    base = parse_url(wanted.address_of(wanted.bucket)).text.rstrip("/")
    fetcher = tools.crawler.network.fetcher()
    return S3Connector(wanted, Bucket(fetcher, wanted.bucket, base, wanted.region, credentials))


S3 = ConnectorType(
    name="AmazonS3",
    settings=S3Settings,
    secrets=frozenset({"secret_access_key"}),
    required=("bucket",),
    open=_open,
)
