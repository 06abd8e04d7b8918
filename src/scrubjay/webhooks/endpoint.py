"""A webhook's end of the line: which addresses and headers are taken, and how its secrets are kept."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import is_secret_header
from scrubjay.errors import InvalidRequest
from scrubjay.model.urls import Url, parse_url
from scrubjay.model.webhook import Webhook
from scrubjay.storage.secrets import SecretBox

MAX_HEADERS = 50
MAX_HEADER_CHARACTERS = 8000
MAX_SECRET_CHARACTERS = 500
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,200}")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_RESERVED_PREFIX = "x-webhook-"
# They say where a request ends and what it is, or are between two machines only: sending decides them.
_RESERVED = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "content-type", "date", "expect", "host",
        "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip


def check_url(text: str, guard: EgressGuard, *, field: str = "url") -> Url:
    """The address, if it can be told at once that it may be dialled; names are resolved and checked at every dial."""
    url = parse_url(text, field=field)
    if url.username is not None or url.password is not None:
        raise InvalidRequest(
            f"{field}: an address is shown to everybody who may read webhooks; send credentials in a header.",
            field=field,
        )
    guard.check_host(url.host)
    return url


def check_headers(headers: Mapping[str, str], *, field: str = "headers") -> None:
    if len(headers) > MAX_HEADERS:
        raise InvalidRequest(f"{field}: at most {MAX_HEADERS} headers.", field=field)
    seen: set[str] = set()
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            raise InvalidRequest(f"{field}: '{name[:64]}' is not the name of a header.", field=field)
        if lower in _RESERVED or lower.startswith(_RESERVED_PREFIX):
            raise InvalidRequest(f"{field}: '{name}' is set by Scrubjay itself.", field=field)
        if lower in seen:
            raise InvalidRequest(f"{field}: '{name}' is there twice.", field=field)
        if len(value) > MAX_HEADER_CHARACTERS or not _VALUE.fullmatch(value):
            raise InvalidRequest(
                f"{field}: the value of '{name}' must be at most {MAX_HEADER_CHARACTERS} printable ASCII characters.",
                field=field,
            )
        seen.add(lower)


def check_secret(secret: str, *, field: str = "secret") -> None:
    if not 1 <= len(secret) <= MAX_SECRET_CHARACTERS:
        raise InvalidRequest(f"{field} must have 1 to {MAX_SECRET_CHARACTERS} characters.", field=field)


class Sealing:
    """A webhook's secret and the headers that authenticate, as they are kept and as they are sent."""

    def __init__(self, secrets: SecretBox) -> None:
        self._secrets = secrets

    def seal_secret(self, webhook_id: str, secret: str) -> str:
        return self._secrets.seal(secret, context=f"webhook:{webhook_id}:secret")

    def seal_headers(self, webhook_id: str, headers: Mapping[str, str]) -> dict[str, str]:
        return {
            name: self._secrets.seal(value, context=f"webhook:{webhook_id}:header") if is_secret_header(name) else value
            for name, value in headers.items()
        }

    def headers(self, webhook: Webhook) -> dict[str, str]:
        return {
            name: self._secrets.unseal(value, context=f"webhook:{webhook.id}:header")
            if is_secret_header(name)
            else value
            for name, value in webhook.headers.items()
        }

    def secrets(self, webhook: Webhook, now: datetime) -> Sequence[str]:
        """The secrets that are valid now, the newest first: after a rotation there are two for a while."""
        sealed = [webhook.sealed_secret]
        if webhook.previous_secret_until is not None and now < webhook.previous_secret_until:
            sealed.append(webhook.sealed_previous_secret)
        return [self._secrets.unseal(each, context=f"webhook:{webhook.id}:secret") for each in sealed if each]
