"""Which addresses and headers are taken, and that secrets are sealed to their place."""

import base64
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network

import pytest

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.errors import InvalidRequest, SecretUnreadable, UrlBlocked
from scrubjay.model.webhook import Webhook
from scrubjay.storage.secrets import SecretBox, is_sealed
from scrubjay.webhooks.endpoint import Sealing, check_headers, check_secret, check_url

NOW = datetime(2026, 11, 17, tzinfo=UTC)
SEALING = Sealing(SecretBox(base64.b64decode("MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")))


@pytest.mark.parametrize(
    "url", ["ftp://example.org/", "example.org", "", "https://", "javascript:alert(1)", "x" * 3000]
)
def test_what_is_no_web_address_is_refused_by_its_field(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_url(url, EgressGuard(), field="webhook_url")
    assert refusal.value.details["field"] == "webhook_url"


def test_credentials_in_an_address_are_refused_because_it_is_shown() -> None:
    with pytest.raises(InvalidRequest, match="header"):
        check_url("https://user:hunter2@example.org/", EgressGuard())


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "2130706433", "metadata"]
)
def test_private_addresses_are_refused_unless_the_deployment_allows_them(host: str) -> None:
    with pytest.raises(UrlBlocked):
        check_url(f"http://{host}/", EgressGuard())
    allowed = EgressGuard([ip_network("127.0.0.0/8")])
    assert check_url("http://127.0.0.1:9/x#y", allowed).text == "http://127.0.0.1:9/x"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Webhook-Signature": "sha256=forged"},
        {"x-webhook-anything": "x"},
        {"Host": "other.example"},
        {"content-length": "1"},
        {"Content-Type": "text/plain"},
        {"Transfer-Encoding": "chunked"},
        {"Connection": "close"},
        {"Proxy-Authorization": "Basic x"},
        {"": "x"},
        {"A B": "x"},
        {"X-A": "x\r\nX-B: y"},
        {"X-A": "ü"},
        {"X-A": "x" * 8001},
        {"X-A": "1", "x-a": "2"},
        {f"X-{number}": "x" for number in range(51)},
    ],
)
def test_headers_that_scrubjay_sets_or_that_are_none_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        check_headers(headers)
    assert refusal.value.details["field"] == "headers"
    check_headers({"X-Team": "jays", "Authorization": "Bearer x", "User-Agent": "mine"})


def test_a_secret_has_a_length() -> None:
    for secret in ("", "x" * 501):
        with pytest.raises(InvalidRequest):
            check_secret(secret)
    check_secret("s")


def test_what_authenticates_is_sealed_and_opens_only_for_its_webhook() -> None:
    headers = SEALING.seal_headers("whk_1", {"X-Team": "jays", "Authorization": "Bearer hunter2"})
    webhook = Webhook(id="whk_1", tenant_id="t", url="u", host="h", headers=headers)
    assert headers["X-Team"] == "jays"
    assert is_sealed(headers["Authorization"])
    assert SEALING.headers(webhook) == {"X-Team": "jays", "Authorization": "Bearer hunter2"}
    with pytest.raises(SecretUnreadable):
        SEALING.headers(Webhook(id="whk_2", tenant_id="t", url="u", host="h", headers=headers))


def test_the_previous_secret_is_valid_until_its_time_is_up() -> None:
    webhook = Webhook(
        id="whk_1",
        tenant_id="t",
        url="u",
        host="h",
        sealed_secret=SEALING.seal_secret("whk_1", "new"),
        sealed_previous_secret=SEALING.seal_secret("whk_1", "old"),
        previous_secret_until=NOW,
    )
    assert SEALING.secrets(webhook, NOW - timedelta(seconds=1)) == ["new", "old"]
    assert SEALING.secrets(webhook, NOW) == ["new"]
    assert SEALING.secrets(Webhook(tenant_id="t", url="u", host="h"), NOW) == []
