"""Tokens for an app of its own, by certificate or secret. Microsoft's msal asks for them, through the one way out."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import stamina

from scrubjay.crawler.fetcher import Fetcher, FetchRequest, FetchResponse, Network
from scrubjay.errors import FetchFailed, UrlBlocked
from scrubjay.model.clock import utc_now
from scrubjay.settings import Settings
from scrubjay.sources.sharepoint.certificates import read_certificate
from scrubjay.sources.sharepoint.refusals import explain_token_refusal

ATTEMPTS = 4
RENEWED_SECONDS = 300.0  # so long before its end a token is no longer used
_WAIT_SECONDS = (0.2, 5.0)
_REQUEST_SECONDS = 30.0
_MAX_ANSWER_BYTES = 1024 * 1024
_PASSING = frozenset({"server_error", "throttled", "timeout", "connection", "dns", "incomplete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AppCredentials:
    """Who asks: an app registered with Microsoft Entra, which has a certificate, or at least a secret."""

    tenant_id: str
    client_id: str
    authority_url: str = "https://login.microsoftonline.com"
    certificate: bytes | None = field(default=None, repr=False)  # PFX
    certificate_password: str | None = field(default=None, repr=False)
    client_secret: str | None = field(default=None, repr=False)

    @classmethod
    def from_settings(cls, settings: Settings) -> "AppCredentials":
        """The deployment's own app; FetchFailed names the settings that are missing."""
        tenant_id, client_id = settings.sharepoint_tenant_id, settings.sharepoint_client_id
        file, secret = settings.sharepoint_certificate_file, settings.sharepoint_client_secret
        missing = [
            name
            for name, value in (
                ("CRAWLER_TENANT_ID", tenant_id),
                ("CRAWLER_CLIENT_ID", client_id),
                ("CRAWLER_CLIENT_CERTIFICATE_PFX_FILE (or CRAWLER_CLIENT_SECRET)", file or secret),
            )
            if not value
        ]
        if missing or tenant_id is None or client_id is None:
            raise FetchFailed(
                f"SharePoint cannot be read without an app; set {', '.join(missing)}.", error_type="not_configured"
            )
        password = settings.sharepoint_certificate_password
        return cls(
            tenant_id=tenant_id,
            client_id=client_id,
            authority_url=settings.sharepoint_authority_url,
            certificate=None if file is None else _read_file(file),
            certificate_password=None if password is None else password.get_secret_value(),
            client_secret=None if secret is None else secret.get_secret_value(),
        )

    def for_msal(self) -> Any:
        """What msal signs its requests with. That a certificate has expired is told before Microsoft is asked."""
        if self.certificate is None:
            return self.client_secret
        certificate = read_certificate(self.certificate, self.certificate_password)
        if certificate.expires_at < utc_now():
            raise FetchFailed(
                f"The app's certificate expired on {certificate.expires_at:%Y-%m-%d}. Make a new one, and register it "
                f"with the app {self.client_id}.",
                error_type="unauthorized",
            )
        return {"private_key": certificate.private_key, "public_certificate": certificate.public_certificate}


def _read_file(path: Path) -> bytes:
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise FetchFailed(
            f"The app's certificate {path} cannot be read: {error.strerror or error}.", error_type="not_configured"
        ) from error


@dataclass(frozen=True, slots=True)
class _Token:
    value: str = field(repr=False)
    good_until: float  # by the monotonic clock


class TokenSource:
    """Tokens of one app for any number of sites, kept until shortly before they end."""

    def __init__(self, load: Callable[[], AppCredentials], network: Network) -> None:
        self._load = load  # when the first token is needed, so that what is wrong with them is told as any failure
        self._fetcher = network.fetcher()
        self._tokens: dict[str, _Token] = {}
        self._asking = asyncio.Lock()
        self._app: Any = None
        self._forgotten = False

    @classmethod
    def from_settings(cls, settings: Settings, network: Network) -> "TokenSource":
        return cls(lambda: AppCredentials.from_settings(settings), network)

    async def token(self, resource: str) -> str:
        """A token for the origin of a site. Raises FetchFailed in words when Microsoft gives none."""
        async with self._asking:
            known = self._tokens.get(resource)
            if known is None or known.good_until <= time.monotonic():
                known = self._tokens[resource] = await self._ask(resource)
            return known.value

    def forget(self, resource: str, token: str) -> None:
        """SharePoint did not take this token; the next one is a new one."""
        known = self._tokens.get(resource)
        if known is not None and known.value == token:
            del self._tokens[resource]
            self._forgotten = True

    async def close(self) -> None:
        await self._fetcher.close()

    async def __aenter__(self) -> "TokenSource":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(self, resource: str) -> _Token:
        credentials = await asyncio.to_thread(self._load)
        http = _LoopHttp(self._fetcher, asyncio.get_running_loop(), credentials.authority_url)
        try:
            # msal is not asynchronous: it works in a thread, and its requests come back to this loop.
            answer = await asyncio.to_thread(self._acquire, credentials, f"{resource}/.default", http)
        except ValueError as error:
            raise FetchFailed(
                f"{credentials.authority_url} gives no tokens for the tenant '{credentials.tenant_id}': "
                "it is not known there, or the authority is not one of Microsoft's.",
                error_type="unauthorized",
            ) from error
        if "access_token" not in answer:
            raise explain_token_refusal(answer, credentials.client_id, credentials.tenant_id)
        lifetime = float(answer.get("expires_in") or 0)
        return _Token(str(answer["access_token"]), time.monotonic() + lifetime - min(RENEWED_SECONDS, lifetime / 10))

    def _acquire(self, credentials: AppCredentials, scope: str, http: "_LoopHttp") -> Mapping[str, Any]:
        # Imported here because msal takes a moment, and few commands ask SharePoint for anything.
        import msal

        if self._app is None:
            host = urlsplit(credentials.authority_url).netloc
            self._app = msal.ConfidentialClientApplication(
                credentials.client_id,
                authority=f"https://{host}/{credentials.tenant_id}",
                client_credential=credentials.for_msal(),
                http_client=http,
                instance_discovery=False,
            )
        if self._forgotten:
            self._app.remove_tokens_for_client()
            self._forgotten = False
        answer: Mapping[str, Any] = self._app.acquire_token_for_client([scope])
        return answer


@dataclass(frozen=True, slots=True)
class _HttpAnswer:
    """An answer in the shape that msal expects."""

    status_code: int
    text: str
    headers: Mapping[str, str]

    def raise_for_status(self) -> None:
        if self.status_code >= 400:
            raise FetchFailed(f"The authority answered with HTTP status {self.status_code}.", error_type="server_error")


class _LoopHttp:
    """msal's HTTP client: called in msal's thread, it asks through the fetcher on the loop."""

    def __init__(self, fetcher: Fetcher, loop: asyncio.AbstractEventLoop, authority_url: str) -> None:
        self._fetcher = fetcher
        self._loop = loop
        self._authority_url = authority_url

    def get(
        self, url: str, params: Mapping[str, Any] | None = None, headers: Mapping[str, str] | None = None, **_: Any
    ) -> _HttpAnswer:
        return self._send("GET", url, params, headers, None)

    def post(
        self,
        url: str,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | str | None = None,
        headers: Mapping[str, str] | None = None,
        **_: Any,
    ) -> _HttpAnswer:
        body = data if isinstance(data, str) else urlencode(data or {})
        typed = {"Content-Type": "application/x-www-form-urlencoded", **(headers or {})}
        return self._send("POST", url, params, typed, body.encode())

    def close(self) -> None:
        """The fetcher is closed by whoever opened it."""

    def _send(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        body: bytes | None,
    ) -> _HttpAnswer:
        request = FetchRequest(
            url=self._address(url) + (f"?{urlencode(params)}" if params else ""),
            method=method,
            headers={name: str(value) for name, value in (headers or {}).items()},
            body=body,
            timeout_seconds=_REQUEST_SECONDS,
            max_bytes=_MAX_ANSWER_BYTES,
            follow_redirects=False,  # a redirect would carry the secret elsewhere
        )
        answer = asyncio.run_coroutine_threadsafe(self._fetch(request), self._loop).result()
        return _HttpAnswer(answer.status, answer.body.decode("utf-8", "replace"), dict(answer.headers))

    def _address(self, url: str) -> str:
        """msal speaks https only; an authority that was set with http is asked as it was set."""
        ours = urlsplit(self._authority_url)
        secure = f"https://{ours.netloc}/"
        return f"{ours.scheme}://{ours.netloc}/{url.removeprefix(secure)}" if url.startswith(secure) else url

    async def _fetch(self, request: FetchRequest) -> FetchResponse:
        first, longest = _WAIT_SECONDS
        try:
            async for attempt in stamina.retry_context(
                on=_is_passing, attempts=ATTEMPTS, wait_initial=first, wait_max=longest, wait_jitter=first, timeout=None
            ):
                with attempt:
                    return _require_answer(await self._fetcher.fetch(request))
        except (FetchFailed, UrlBlocked) as error:
            raise FetchFailed(
                f"{self._authority_url}, which gives the tokens for SharePoint, cannot be used: {error.message}",
                error_type=error.error_type,
            ) from error
        raise AssertionError("the last attempt returns or raises")


def _require_answer(answer: FetchResponse) -> FetchResponse:
    if answer.status == 429 or answer.status >= 500:
        error_type = "throttled" if answer.status == 429 else "server_error"
        raise FetchFailed(f"it answered with HTTP status {answer.status}.", error_type=error_type)
    return answer


def _is_passing(error: Exception) -> bool:
    return isinstance(error, FetchFailed) and error.error_type in _PASSING
