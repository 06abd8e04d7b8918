"""One bucket, asked through the one way out: signed or anonymous, patient when S3 asks for it."""

from collections.abc import Iterable
from dataclasses import dataclass

import stamina

from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse
from scrubjay.errors import FetchFailed, UrlBlocked, UrlInvalid
from scrubjay.model.clock import utc_now
from scrubjay.model.urls import parse_url
from scrubjay.sources.s3_answers import ListingPage, S3Error, read_error, read_listing
from scrubjay.sources.s3_signing import S3Credentials, encode_path, encode_query, sign_get
from scrubjay.telemetry import redact

ATTEMPTS = 5
PAGE_SIZE = 1000  # S3 gives no more at once
LISTING_SECONDS = 60.0
OBJECT_SECONDS = 600.0
_WAIT_SECONDS = (0.2, 10.0)
_MAX_LISTING_BYTES = 32 * 1024 * 1024
_MAX_ERROR_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 200
_PASSING = frozenset({"throttled", "server_error", "timeout", "connection", "dns", "incomplete"})
_ERROR_TYPES = {401: "forbidden", 403: "forbidden", 404: "not_found", 429: "throttled", 503: "throttled"}


@dataclass(frozen=True, slots=True)
class Bucket:
    fetcher: Fetcher
    name: str
    base_url: str  # of the bucket, without a slash at its end
    region: str
    credentials: S3Credentials | None = None  # None asks as nobody in particular

    async def list(
        self, prefix: str | None, token: str | None = None, *, count: int = PAGE_SIZE, patient: bool = True
    ) -> ListingPage:
        query = {"list-type": "2", "encoding-type": "url", "max-keys": str(min(count, PAGE_SIZE))}
        if prefix:
            query["prefix"] = prefix
        if token:
            query["continuation-token"] = token
        answer = await self._get("/", query.items(), _MAX_LISTING_BYTES, LISTING_SECONDS, ATTEMPTS if patient else 1)
        try:
            page = read_listing(answer.body)
        except FetchFailed as error:
            raise FetchFailed(
                f"The bucket '{self.name}' cannot be listed: {error.message}", error_type="not_s3"
            ) from error
        if not page.is_last and (page.next_token is None or page.next_token == token):
            raise FetchFailed(f"The listing of the bucket '{self.name}' cannot be continued.", error_type="not_s3")
        return page

    async def get(self, key: str, max_bytes: int) -> FetchResponse:
        # Room for what S3 says when it refuses, however small objects must be.
        answer = await self._get(f"/{key}", (), max(max_bytes, _MAX_ERROR_BYTES), OBJECT_SECONDS, ATTEMPTS)
        if answer.size > max_bytes:
            raise FetchFailed(f"The object is larger than {max_bytes:,} bytes.", error_type="too_large")
        return answer

    async def _get(
        self, path: str, query: Iterable[tuple[str, str]], max_bytes: int, seconds: float, attempts: int
    ) -> FetchResponse:
        first, longest = _WAIT_SECONDS
        encoded = encode_query(query)
        try:
            async for attempt in stamina.retry_context(
                on=_is_passing, attempts=attempts, wait_initial=first, wait_max=longest, wait_jitter=first, timeout=None
            ):
                with attempt:
                    return await self._ask(self._request(encode_path(path), encoded, max_bytes, seconds))
        except (UrlBlocked, UrlInvalid) as error:
            error_type = getattr(error, "error_type", "invalid_url")
            raise FetchFailed(
                f"{self._about(path)} cannot be asked for: {error.message}", error_type=error_type
            ) from error
        raise AssertionError("the last attempt returns or raises")

    def _about(self, path: str) -> str:
        return f"The bucket '{self.name}'" if path == "/" else f"'{path[1:]}' of the bucket '{self.name}'"

    def _request(self, path: str, query: str, max_bytes: int, seconds: float) -> FetchRequest:
        url = f"{self.base_url}{path}{'?' if query else ''}{query}"
        address = parse_url(url)
        if address.text != url:
            # What is signed must be what is sent; addresses know no `..`, keys do.
            raise UrlInvalid("Its name cannot be part of an address.")
        _, _, rest = self.base_url.partition("://")
        host, slash, folder = rest.partition("/")
        headers: dict[str, str] = {}
        if self.credentials is not None:
            signed_path = f"{slash}{folder}{path}"
            headers = sign_get(
                self.credentials, host=host, path=signed_path, query=query, region=self.region, now=utc_now()
            )
        return FetchRequest(
            url=url, headers=headers, timeout_seconds=seconds, max_bytes=max_bytes, follow_redirects=False
        )

    async def _ask(self, request: FetchRequest) -> FetchResponse:
        try:
            answer = await self.fetcher.fetch(request)
        except FetchFailed as error:
            if error.error_type == "too_large":
                raise
            message = f"The bucket '{self.name}' at {self.base_url} does not answer: {error.message}"
            raise FetchFailed(message, error_type=error.error_type) from error
        if answer.status == 200:
            return answer
        raise self._failure(answer)

    def _failure(self, answer: FetchResponse) -> FetchFailed:
        status, said = answer.status, read_error(answer.body[:_MAX_ERROR_BYTES])
        region = answer.headers.get("x-amz-bucket-region") or said.region
        if region and region != self.region and status in (301, 307, 400):
            message = f"The bucket '{self.name}' is in another region; set the region to '{region}'."
            return FetchFailed(message, error_type="wrong_region", region=region, code=said.code)
        message = f"S3 refused the bucket '{self.name}' with HTTP status {status}{_told(said)}"
        error_type = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "http_error")
        return FetchFailed(message, error_type=error_type, status=status, code=said.code)


def _told(said: S3Error) -> str:
    if said.code is None:
        return "."
    words = " ".join(str(redact(said.message or "")).split())[:_SHOWN_CHARACTERS]
    return f", {said.code}: {words}" if words else f", {said.code}."


def _is_passing(error: Exception) -> bool:
    return isinstance(error, FetchFailed) and error.error_type in _PASSING
