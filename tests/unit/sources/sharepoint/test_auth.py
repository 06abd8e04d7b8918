"""Tokens: by certificate and by secret, kept and renewed, and every refusal in words that tell what to do."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr
from tests.sharepoint_app import app_settings, make_certificate
from tests.sharepoint_server import CLIENT_ID, CLIENT_SECRET, TENANT, SharePointServer, StoredSite

from scrubjay.crawler.addresses import EgressGuard
from scrubjay.crawler.fetcher import Network
from scrubjay.errors import FetchFailed
from scrubjay.settings import Settings, load_settings
from scrubjay.sources.sharepoint import AppCredentials, SharePointSite, TokenSource, auth, open_site

DOCUMENTS = "/Shared Documents"


@pytest.fixture(autouse=True)
def short_token_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "_WAIT_SECONDS", (0.01, 0.02))


async def ask(network: Network, settings: Settings, resource: str) -> str:
    async with TokenSource.from_settings(settings, network) as tokens:
        return await tokens.token(resource)


async def refusal(network: Network, settings: Settings, resource: str) -> FetchFailed:
    with pytest.raises(FetchFailed) as failed:
        await ask(network, settings, resource)
    return failed.value


def with_certificate(server: SharePointServer, folder: Path, data: bytes, password: str | None) -> Settings:
    path = folder / "app.pfx"
    path.write_bytes(data)
    return app_settings(
        server,
        folder,
        sharepoint_client_secret=None,
        sharepoint_certificate_file=path,
        sharepoint_certificate_password=None if password is None else SecretStr(password),
    )


@pytest.mark.parametrize("password", ["secret", None])
async def test_a_registered_certificate_gets_a_token(
    server: SharePointServer, network: Network, tmp_path: Path, password: str | None
) -> None:
    data, certificate = make_certificate(password=password)
    server.trust(certificate)

    assert await ask(network, with_certificate(server, tmp_path, data, password), server.url)


async def test_the_certificate_is_used_when_there_is_a_secret_too(
    server: SharePointServer, network: Network, tmp_path: Path
) -> None:
    data, _ = make_certificate()
    settings = with_certificate(server, tmp_path, data, "secret")
    both = settings.model_copy(update={"sharepoint_client_secret": SecretStr(CLIENT_SECRET)})

    assert "not registered" in (await refusal(network, both, server.url)).message


async def test_a_certificate_that_is_not_registered_is_told_as_such(
    server: SharePointServer, network: Network, tmp_path: Path
) -> None:
    data, _ = make_certificate()

    error = await refusal(network, with_certificate(server, tmp_path, data, "secret"), server.url)

    assert error.error_type == "unauthorized"
    assert "certificate is not registered" in error.message
    assert "AADSTS700027" in error.message


async def test_an_expired_certificate_is_told_before_anybody_is_asked(
    server: SharePointServer, network: Network, tmp_path: Path
) -> None:
    data, certificate = make_certificate(days=-3)
    server.trust(certificate)

    error = await refusal(network, with_certificate(server, tmp_path, data, "secret"), server.url)

    assert f"expired on {certificate.not_valid_after_utc:%Y-%m-%d}" in error.message
    assert server.requests == []


@pytest.mark.parametrize(("data", "password"), [(b"no certificate", "secret"), (None, "wrong"), (None, None)])
async def test_a_file_that_cannot_be_opened_is_told_without_its_password(
    server: SharePointServer, network: Network, tmp_path: Path, data: bytes | None, password: str | None
) -> None:
    settings = with_certificate(server, tmp_path, data or make_certificate()[0], password)

    error = await refusal(network, settings, server.url)

    assert error.error_type == "not_configured"
    assert "no PFX file, or its password" in error.message
    assert "wrong" not in error.message


async def test_missing_settings_are_named(network: Network, tmp_path: Path) -> None:
    error = await refusal(network, Settings(home=tmp_path), "https://acme.sharepoint.com")

    for name in ("CRAWLER_TENANT_ID", "CRAWLER_CLIENT_ID", "CRAWLER_CLIENT_CERTIFICATE_PFX_FILE"):
        assert name in error.message
    missing = Settings(
        home=tmp_path,
        sharepoint_tenant_id="t",
        sharepoint_client_id="c",
        sharepoint_certificate_file=tmp_path / "none.pfx",
    )
    assert "none.pfx cannot be read: No such file" in (await refusal(network, missing, "https://x.org")).message


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AADSTS7000222", "secret has expired"),
        ("AADSTS65001", "no consent"),
        ("AADSTS7000112", "is disabled"),
        ("AADSTS53003", "conditional access"),
        ("AADSTS99999", "no token for SharePoint"),
    ],
)
async def test_what_microsoft_refuses_is_told_in_words(
    server: SharePointServer, network: Network, tmp_path: Path, code: str, words: str
) -> None:
    server.token_refusal = (code, "Go away.")

    error = await refusal(network, app_settings(server, tmp_path), server.url)

    assert error.error_type == "unauthorized"
    assert words in error.message
    assert f"{code}: Go away." in error.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"sharepoint_client_secret": SecretStr("nonsense")}, "secret is not valid"),
        ({"sharepoint_client_id": "99999999-0000-0000-0000-000000000000"}, "no app with the id 99999999"),
        ({"sharepoint_tenant_id": "elsewhere"}, "tenant 'elsewhere'"),
    ],
)
async def test_wrong_credentials_are_told_without_the_secret(
    server: SharePointServer, network: Network, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    error = await refusal(network, app_settings(server, tmp_path, **changes), server.url)

    assert words in error.message
    assert CLIENT_SECRET not in error.message
    assert "nonsense" not in error.message


async def test_one_token_serves_many_requests_at_once(
    server: SharePointServer, network: Network, tmp_path: Path
) -> None:
    async with TokenSource.from_settings(app_settings(server, tmp_path), network) as tokens:
        got = await asyncio.gather(*(tokens.token(server.url) for _ in range(20)))

    assert len(set(got)) == 1
    assert len(server.asked("/token")) == 1


async def test_a_token_is_renewed_before_it_ends(server: SharePointServer, network: Network, tmp_path: Path) -> None:
    server.token_seconds = 1
    async with TokenSource.from_settings(app_settings(server, tmp_path), network) as tokens:
        first = await tokens.token(server.url)
        assert await tokens.token(server.url) == first
        await asyncio.sleep(0.95)
        assert await tokens.token(server.url) != first


async def test_a_token_that_sharepoint_does_not_take_any_more_is_renewed_once(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    stored.documents.put("a.txt", b"acorn")
    _ = [item async for item in site.library_items(DOCUMENTS)]
    server.revoke_tokens()

    assert len([item async for item in site.library_items(DOCUMENTS)]) == 1
    assert len(server.asked("/token")) == 2


async def test_a_second_refusal_is_final_and_says_what_is_needed(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    server.fault("_api", 401, times=99, body='{"error_description": "Unsupported app only token."}')

    with pytest.raises(FetchFailed, match="certificate only") as failed:
        _ = [item async for item in site.library_items(DOCUMENTS)]

    assert failed.value.error_type == "unauthorized"
    assert len(server.asked("_api")) == 2


async def test_an_authority_that_is_down_for_a_moment_is_asked_again(
    server: SharePointServer, network: Network, tmp_path: Path
) -> None:
    server.fault("/token", 503, times=2)

    assert await ask(network, app_settings(server, tmp_path), server.url)


async def test_an_authority_that_stays_down_is_told(server: SharePointServer, network: Network, tmp_path: Path) -> None:
    server.fault("/token", 503, times=99)

    error = await refusal(network, app_settings(server, tmp_path), server.url)

    assert error.error_type == "server_error"
    assert "503" in error.message


@pytest_asyncio.fixture
async def guarded() -> AsyncIterator[Network]:
    network = Network(EgressGuard([]))
    yield network
    await network.close()


async def test_tokens_and_sites_are_asked_for_behind_the_egress_guard(
    server: SharePointServer, stored: StoredSite, guarded: Network, tmp_path: Path
) -> None:
    error = await refusal(guarded, app_settings(server, tmp_path), server.url)
    assert error.error_type == "blocked_address"

    async with open_site(app_settings(server, tmp_path), guarded, server.url + stored.path) as site:
        with pytest.raises(FetchFailed):
            _ = [item async for item in site.library_items(DOCUMENTS)]
    assert server.requests == []


def test_credentials_do_not_show_their_secrets() -> None:
    shown = repr(AppCredentials(tenant_id=TENANT, client_id=CLIENT_ID, client_secret="s3cret", certificate=b"s3cret"))

    assert CLIENT_ID in shown
    assert "s3cret" not in shown


def test_the_variables_of_the_specification_are_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (
        ("CRAWLER_CLIENT_ID", "app"),
        ("CRAWLER_TENANT_ID", "tenant"),
        ("CRAWLER_CLIENT_CERTIFICATE_PFX_FILE", "/etc/app.pfx"),
        ("CRAWLER_CLIENT_CERTIFICATE_PASSWORD", "pass"),
        ("CRAWLER_CLIENT_SECRET", "secret"),
    ):
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert (settings.sharepoint_client_id, settings.sharepoint_tenant_id) == ("app", "tenant")
    assert settings.sharepoint_certificate_file == Path("/etc/app.pfx")
    assert settings.sharepoint_certificate_password == SecretStr("pass")
    assert settings.sharepoint_client_secret == SecretStr("secret")
    assert "secret'" not in repr(settings)

    monkeypatch.setenv("SCRUBJAY_SHAREPOINT_CLIENT_ID", "ours")
    assert load_settings().sharepoint_client_id == "ours"
