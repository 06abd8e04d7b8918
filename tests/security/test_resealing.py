"""Another secret key: whatever product code seals, wherever it keeps it, opens with the new key alone afterwards."""

import ast
import secrets
import shutil
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select

import scrubjay
from scrubjay.app import Scrubjay, open_scrubjay
from scrubjay.crawler.web_crawler import AUTH_CONTEXT, HEADER_CONTEXT
from scrubjay.errors import SecretUnreadable
from scrubjay.model.crawl_spec import read_spec
from scrubjay.model.tenant import Principal
from scrubjay.queue.endings import ending
from scrubjay.services.plans import PlanValues
from scrubjay.services.resealing import Resealing
from scrubjay.settings import Settings
from scrubjay.sources.protocol import secret_context
from scrubjay.sources.web_config import HEADER_CONTEXT as CONFIG_HEADER
from scrubjay.storage.outbox import Outbox
from scrubjay.storage.secrets import SecretBox, decode_key, is_sealed, sealed_with
from scrubjay.storage.tables import metadata

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Every place in the product where something is sealed. A new one must be sealed and opened below, too.
SEALING = {
    "sources/web_config.py", "crawler/web_crawler.py", "services/crawl_settings.py", "services/plans.py",
    "services/resealing.py", "webhooks/endpoint.py",
}  # fmt: skip
PLANS: dict[str, dict[str, Any]] = {
    "Web": {
        "start_url": "https://a.example/", "authentication_type": "ApiKey", "api_key_header": "X-Key",
        "api_key_value": "web-key", "password": "web-password", "bearer_token": "web-token",
    },
    "AmazonS3": {
        "bucket": "bucket", "endpoint_url": "https://s3.example", "access_key_id": "AK",
        "secret_access_key": "s3-secret",
    },
    "SharePoint": {
        "site_url": "https://x.sharepoint.com/sites/a", "tenant_id": "t", "client_id": "c",
        "client_secret": "app-secret", "certificate_pfx": "cGZ4", "certificate_password": "pfx-password",
    },
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def jay(tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]) -> AsyncIterator[Scrubjay]:
    home = tmp_path_factory.mktemp("sealing") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    async with open_scrubjay(Settings(home=home)) as jay:
        yield jay


async def seal_everything(jay: Scrubjay, who: Principal) -> dict[str, str]:
    """One secret at every place: context → what it says."""
    sealed: dict[str, str] = {}
    for kind, settings in PLANS.items():
        plan = await jay.plans.create(who, PlanValues(repository_type=kind, repository_settings=settings))
        kept = {name: value for name, value in plan.repository_settings.items() if is_sealed(str(value))}
        assert kept, f"nothing is sealed in plans of the kind {kind}"
        sealed |= {secret_context(plan.id, name): settings[name] for name in kept}
    servers = [{"url": f"http://p{number}.example:1", "username": "u", "password": "proxy"} for number in (1, 2)]
    proxy = await jay.crawl_settings.create_proxy(who, name="p", servers=servers)
    sealed[f"proxy:{proxy.id}:password"] = "proxy"
    await jay.crawl_settings.create_config(who, name="c", headers={"Authorization": "config-header"})
    sealed[CONFIG_HEADER] = "config-header"
    webhook = await jay.webhooks.create(who, url="https://h.example/", secret="first", headers={"X-Api-Key": "hook"})
    await jay.webhooks.rotate(who, webhook.webhook.id, secret="hooks")
    sealed[f"webhook:{webhook.webhook.id}:secret"] = "hooks"  # the one before is `first`
    sealed[f"webhook:{webhook.webhook.id}:header"] = "hook"
    return sealed | await seal_a_job(jay, who)


async def seal_a_job(jay: Scrubjay, who: Principal) -> dict[str, str]:
    spec = read_spec(
        {
            "start_urls": ["https://a.example/"],
            "auth": {"type": "basic", "name": "jay", "secret": "crawl-auth"},
            "headers": {"X-Api-Key": "crawl-header"},
        }
    )
    own = jay.webhooks.of_job(who, "https://own.example/", {"Authorization": "own-header"}, "own-secret")
    job = await jay.crawls.start(who, spec, webhook=own)
    async with jay.database.writing() as connection:  # as its end would be told
        told = ending(jay.jobs._kinds, job, {"state": "completed", "result": {}, "finished_at": job.created_at})
        assert told is not None
        await Outbox(connection).add(told)
    assert own is not None
    return {
        AUTH_CONTEXT: "crawl-auth", HEADER_CONTEXT: "crawl-header", f"webhook:{own['id']}:secret": "own-secret",
        f"webhook:{own['id']}:header": "own-header",
    }  # fmt: skip


async def sealed_texts(jay: Scrubjay) -> list[str]:
    """Every sealed text in the whole database."""
    found: list[str] = []

    def look(value: Any) -> None:
        if isinstance(value, str) and is_sealed(value):
            found.append(value)
        elif isinstance(value, Mapping):
            for inner in value.values():
                look(inner)
        elif isinstance(value, list | tuple):
            for inner in value:
                look(inner)

    async with jay.database.reading() as connection:
        for table in metadata.sorted_tables:
            for row in await connection.execute(select(table)):
                look(tuple(row))
    return found


def opened(box: SecretBox, text: str, contexts: list[str]) -> str | None:
    for context in contexts:
        try:
            return box.unseal(text, context=context)
        except SecretUnreadable:
            continue
    return None


async def test_everything_that_is_sealed_anywhere_opens_with_the_new_key_alone(jay: Scrubjay) -> None:
    who = await jay.access.open_as_admin(jay.settings.home)
    expected = await seal_everything(jay, who)
    before = await sealed_texts(jay)
    old = decode_key((jay.settings.home / "secret.key").read_text(), "the file")
    assert {opened(SecretBox(old), text, list(expected)) for text in before} == {*expected.values(), "first"}
    key = secrets.token_bytes(32)

    done = await Resealing(jay.database, SecretBox(key, old)).reseal(who)

    after = await sealed_texts(jay)
    alone = SecretBox(key)
    assert (done.secrets, done.unreadable, len(after)) == (len(before), 0, len(before))
    assert {sealed_with(text) for text in after} == {alone.key_id}
    assert {opened(alone, text, list(expected)) for text in after} == {*expected.values(), "first"}
    again = await Resealing(jay.database, SecretBox(key, old)).reseal(who)
    assert (again.secrets, again.unreadable) == (0, 0)


async def test_these_are_all_the_places_that_seal() -> None:
    source = Path(scrubjay.__file__).parent
    sealing = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "seal"
    }
    assert sealing == SEALING
