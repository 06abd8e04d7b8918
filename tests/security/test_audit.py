"""The audit log: every act of an admin is in it, in the act's own transaction, without a secret, for the own tenant."""

import asyncio
import json
import shutil
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import select
from tests.acceptance.dashboard.browsing import sign_in
from tests.acceptance.house import House, Key
from tests.security.walking import give_everything

from scrubjay.app import open_scrubjay
from scrubjay.errors import Conflict, Forbidden
from scrubjay.model.audit import ACTIONS, AuditEntry
from scrubjay.model.clock import utc_now
from scrubjay.model.tenant import Principal, Scope
from scrubjay.services.acts import COMMAND_LINE, asked_from, note_act
from scrubjay.settings import Settings
from scrubjay.storage.audit_log import AuditEntryRow, AuditLog

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "correct-horse-battery-staple"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def owner(still_house: House) -> Key:
    return await still_house.key(tenant="audited")


async def acts(house: House, key: Key, **query: Any) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = (await house.api("GET", "/audit", key, params=query))["items"]
    return answer


async def test_every_action_happens_and_none_tells_a_secret(still_house: House, tmp_path: Path) -> None:
    """All that `ACTIONS` names but passing on, which needs an account: done once, then looked for."""
    house, jay = still_house, still_house.jay
    key = await house.key(tenant="a busy admin")
    who = (await jay.access.authenticate(key.text))[0]
    ids = await give_everything(house, key)
    texts = [key.text, SECRET]
    made, text = await jay.access.create_key(who, name="extra")
    texts.append(text)
    await jay.access.change_key(who, made.id, name="renamed", scopes=(Scope.WRITE,))
    texts.append((await jay.access.rotate_key(who, made.id))[1])
    await jay.access.delete_key(who, made.id)
    link = await jay.access.create_sign_in_link(who)
    texts += [link, await jay.access.sign_in(link)]
    await jay.crawl_settings.change_config(who, ids["config_id"], headers={"Authorization": f"Bearer {SECRET}"})
    servers = [{"url": "http://proxy.example:3128", "username": "u", "password": SECRET}]
    await jay.crawl_settings.change_proxy(who, ids["proxy_id"], servers=servers)
    await jay.webhooks.change(who, ids["webhook_id"], secret=SECRET, headers={"X-Api-Key": SECRET})
    texts.append((await jay.webhooks.rotate(who, ids["webhook_id"])).secret)
    await jay.webhooks.delete(who, ids["webhook_id"])
    await jay.crawl_settings.delete_config(who, ids["config_id"])
    await jay.crawl_settings.delete_proxy(who, ids["proxy_id"])
    await jay.crawl_settings.forget_host(who, ids["host"])
    await jay.bus.remove(who, ids["agent_name"])
    await jay.documents.purge(who, [ids["document_id"]])
    await jay.operations.delete(who, ids["plan_id"], ids["operation_id"])
    await jay.plans.delete(who, ids["plan_id"])
    await jay.rules.delete(who, ids["rule_id"])
    await jay.collections.delete(who, ids["collection_id"])
    await jay.domains.delete(who, ids["domain_id"])
    await jay.inventory.delete_assistant(who, ids["assistant_id"], with_files=True)
    await jay.inventory.delete_vector_store(who, ids["vector_store_id"])
    await jay.health.clear_cache(who)
    entries = (await jay.audit.page(who, limit=500)).items
    operators = await _as_operator(house, tmp_path)
    happened = {entry.action for entry in (*entries, *operators)}
    assert happened == set(ACTIONS) - {"relay.sent"}
    everything = json.dumps([repr(entry) for entry in (*entries, *operators)])
    assert not [text for text in texts if text in everything]
    mine = [entry for entry in entries if entry.key_id == key.record.id]
    assert {(entry.key_name, entry.tenant_id) for entry in mine} == {("a key", who.tenant_id)}


async def _as_operator(house: House, folder: Path) -> list[AuditEntry]:
    """What only an admin of the default tenant may do."""
    jay, who = house.jay, house.admin
    await jay.access.create_tenant(who, "a tenant that is new")
    await jay.watches.set_throttle(who, (await jay.watches.throttle(who)).level, "an exercise")
    await jay.backups.take(who, folder / "all.backup", with_keys=False, tell=lambda *_: None)
    await jay.resealing.reseal(who)
    await jay.documents.rebuild(who)
    return list((await jay.audit.page(who, limit=500)).items)


async def test_what_is_for_every_tenant_is_for_the_operator_alone(still_house: House, owner: Key) -> None:
    jay, who = still_house.jay, (await still_house.jay.access.authenticate(owner.text))[0]
    assert who.may(Scope.ADMIN)
    for act in (
        jay.access.create_tenant(who, "mine"),
        jay.documents.rebuild(who),
        jay.resealing.reseal(who),
        jay.backups.take(who, jay.settings.home / "b", with_keys=True, tell=lambda *_: None),
        jay.watches.set_throttle(who, (await jay.watches.throttle(who)).level),
    ):
        with pytest.raises(Forbidden):
            await act


async def test_an_act_that_fails_leaves_no_entry(still_house: House, owner: Key) -> None:
    jay, who = still_house.jay, (await still_house.jay.access.authenticate(owner.text))[0]
    collection = await jay.collections.create(who, name="held")
    before = (await jay.audit.page(who)).total
    with pytest.raises(Conflict):
        await jay.access.delete_key(who, who.key_id)
    async with jay.database.writing() as connection:
        await note_act(connection, who, "collection.deleted", collection.id)
        await connection.rollback()
    assert (await jay.audit.page(who)).total == before


async def test_an_entry_says_through_which_door_and_from_where(still_house: House, owner: Key) -> None:
    answer = await still_house.ask("POST", "/api/v1/configs", owner, json={"name": "through a door"})
    (entry,) = await acts(still_house, owner, action="config.created")
    assert (entry["door"], entry["remote_address"], entry["key_name"]) == ("rag", "127.0.0.1", "a key")
    assert entry["request_id"] == answer.headers["x-request-id"]
    assert entry["details"] == {"name": "through a door"}
    assert asked_from.get() is None
    asked_from.set((COMMAND_LINE, None))
    await still_house.key(tenant="audited")
    asked_from.set(None)
    newest = (await acts(still_house, owner, action="key.created"))[0]
    assert (newest["door"], newest["remote_address"]) == (COMMAND_LINE, None)


async def test_only_an_admin_reads_and_only_the_own_tenants(still_house: House, owner: Key) -> None:
    await still_house.ask("POST", "/api/v1/webhooks", owner, json={"url": "https://hooks.example/"})
    stranger = await still_house.key(tenant="another audited tenant")
    assert {entry["action"] for entry in await acts(still_house, stranger)} == {"key.created"}
    for scope in (Scope.READ, Scope.WRITE):
        key = await still_house.key(scope, tenant="audited")
        assert (await still_house.ask("GET", "/api/v1/audit", key)).status_code == 403
    with pytest.raises(Forbidden):
        await still_house.jay.audit.page(Principal(owner.record.tenant_id, "", frozenset({Scope.WRITE})))


async def test_the_log_is_filtered_and_paged_and_wrong_filters_are_told(still_house: House, owner: Key) -> None:
    mine = await acts(still_house, owner, key_id=str(owner.uuid))
    assert mine
    assert {entry["key_id"] for entry in mine} == {str(owner.uuid)}
    everything = await acts(still_house, owner)
    assert [entry["at"] for entry in everything] == sorted((entry["at"] for entry in everything), reverse=True)
    assert await acts(still_house, owner, limit=1, offset=1) == everything[1:2]
    for query in ({"action": "nothing.happened"}, {"key_id": "x"}, {"limit": 0}):
        answer = await still_house.ask("GET", "/api/v1/audit", owner, params=query)
        assert (answer.status_code, next(iter(query)) in answer.json()["error"]) == (400, True), answer.text


async def test_the_page_shows_acts_escaped_to_admins_and_to_nobody_else(still_house: House) -> None:
    admin = await sign_in(still_house, await still_house.key(tenant="audited pages"))
    reader = await sign_in(still_house, await still_house.key(Scope.READ, tenant="audited pages"))
    await admin.post("/ui/settings/keys", {"name": "<b>loud</b>", "scope": "read"})
    page = await admin.page("/ui/settings/audit")
    assert "&lt;b&gt;loud&lt;/b&gt;" in page
    assert "<b>loud" not in page
    assert "session.opened" in page
    only = await admin.page("/ui/settings/audit?action=key.created")
    assert "<td title" in only
    assert ">session.opened</td>" not in only
    assert (await reader.get("/ui/settings/audit")).status_code == 403
    assert "/ui/settings/audit" not in await reader.page("/ui/settings")
    for browser in (admin, reader):
        await browser.client.aclose()


async def test_old_entries_are_forgotten_a_batch_at_a_time(still_house: House, owner: Key) -> None:
    now = utc_now()
    async with still_house.jay.database.writing() as connection:
        log = AuditLog(connection)
        for days in (400, 380, 10):
            entry = AuditEntry(
                tenant_id=owner.record.tenant_id, at=now - timedelta(days=days), key_id=None, key_name="x",
                action="cache.cleared", details={"days": days},
            )  # fmt: skip
            await log.add(entry)
        before = now - timedelta(days=still_house.jay.settings.audit_retention_days)
        assert [await log.remove_before(before, 1) for _ in range(3)] == [1, 1, 0]
        left = await connection.scalars(select(AuditEntryRow.details).where(AuditEntryRow.key_name == "x"))
        assert left.all() == [{"days": 10}]


async def test_a_worker_forgets_what_is_older_than_the_setting_says(
    tmp_path_factory: pytest.TempPathFactory, migrated_databases: list[Path]
) -> None:
    home = tmp_path_factory.mktemp("tidy") / "home"
    home.mkdir(mode=0o700)
    for file in migrated_databases:
        shutil.copy(file, home)
    settings = Settings(home=home, audit_retention_days=30, extract_processes=1)
    async with open_scrubjay(settings) as jay:
        who = await jay.access.open_as_admin(home)
        old = AuditEntry(
            tenant_id=who.tenant_id,
            at=utc_now() - timedelta(days=31),
            key_id=None,
            key_name="x",
            action="cache.cleared",
        )
        async with jay.database.writing() as connection:
            await AuditLog(connection).add(old)
    async with open_scrubjay(settings, working=True) as jay:
        deadline = time.monotonic() + 30
        while any(entry.id == old.id for entry in (await jay.audit.page(who)).items):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        assert [entry.action for entry in (await jay.audit.page(who)).items] == ["key.created"]
