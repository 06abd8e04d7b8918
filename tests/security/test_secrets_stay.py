"""Secrets go in and do not come out: no answer, page, log line, error or export holds one, sealed or not."""

from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.acceptance.dashboard.browsing import sign_in
from tests.acceptance.house import PUBLIC_PATHS, House, app_of_nobody, places
from tests.logbook import keep_logbook
from tests.security.test_every_route import STREAMS
from tests.security.test_resealing import PLANS
from tests.security.walking import asked, give_everything

from scrubjay.model.crawl_spec import read_spec
from scrubjay.services.plans import PlanValues

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "correct-horse-battery-staple"
LEFT_OUT = (*STREAMS, "/enumerate")  # the last is a job, and nobody works here
LOOKS = [
    place
    for place in places(app_of_nobody())
    if place.method == "GET" and place.pattern not in PUBLIC_PATHS and not place.pattern.endswith(LEFT_OUT)
]


async def give_secrets(house: House, who: Any, ids: dict[str, str]) -> None:
    """Secrets wherever one can be given."""
    jay = house.jay
    for kind, settings in PLANS.items():
        secret = {
            name: SECRET if any(word in name for word in ("password", "value", "token", "secret")) else value
            for name, value in settings.items()
        }
        await jay.plans.create(who, PlanValues(name=kind, repository_type=kind, repository_settings=secret))
    headers = {"Authorization": f"Bearer {SECRET}", "X-Api-Key": SECRET, "Cookie": f"a={SECRET}"}
    await jay.crawl_settings.change_config(who, ids["config_id"], headers=headers)
    servers = [{"url": "http://proxy.example:3128", "username": "u", "password": SECRET}]
    await jay.crawl_settings.change_proxy(who, ids["proxy_id"], servers=servers)
    await jay.webhooks.change(who, ids["webhook_id"], secret=SECRET, headers={"X-Api-Key": SECRET})
    spec = {"start_urls": [f"https://u:{SECRET}@a.example/"], "headers": {"X-Api-Key": SECRET}}
    own = jay.webhooks.of_job(who, "https://h.example/", {"Authorization": SECRET}, SECRET)
    await jay.crawls.start(who, read_spec(spec), webhook=own)


async def test_no_answer_no_page_no_log_line_and_no_export_holds_a_secret(still_house: House, tmp_path: Path) -> None:
    house = still_house
    key = await house.key(tenant="who has secrets")
    who, _ = await house.jay.access.authenticate(key.text)
    sealed = f"v1.{house.jay.secrets.key_id}."
    with keep_logbook() as book:
        ids = await give_everything(house, key)
        await give_secrets(house, who, ids)
        browser = await sign_in(house, key)
        job_ids = [job.id for job in (await house.jay.jobs.page(who)).items]
        plan_ids = [plan.id for plan in (await house.jay.plans.page(who)).items]
        asked_for = 0
        for place in LOOKS:
            changing = [{}]
            changing = [{"job_id": each} for each in job_ids] if "{job_id}" in place.pattern else changing
            changing = [{"plan_id": each} for each in plan_ids] if "{plan_id}" in place.pattern else changing
            for change in changing:
                wanted = asked(place, ids | change)
                if wanted.path.startswith("/ui/"):
                    answer = await browser.get(wanted.path)
                else:
                    answer = await house.ask("GET", wanted.path, key, **wanted.options)
                assert answer.status_code < 500, (place, answer.text)
                assert SECRET not in answer.text, (place, answer.text)
                assert sealed not in answer.text, (place, answer.text)
                asked_for += 1
        assert asked_for > 150
        bad = {"url": f"http://u:{SECRET}@10.0.0.1/", "webhook_secret": SECRET}
        for path in ("/api/v1/crawl", "/api/v1/webhooks", "/watches", "/register"):
            answer = await house.ask("POST", path, key, json={**bad, "address": bad["url"], "agent": "a"})
            assert answer.status_code in (400, 403), answer.text
            assert SECRET not in answer.text
        await browser.client.aclose()
        await house.jay.backups.take(house.admin, tmp_path / "b", with_keys=False, tell=lambda *_: None)
    assert book.lines
    assert SECRET not in book.text
    assert key.text not in book.text
    with (tmp_path / "b").open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as packed:
        exported = packed.read()
    assert b"who has secrets" in exported
    for text in (SECRET, key.text, (house.jay.settings.home / "admin.key").read_text().strip()):
        assert text.encode() not in exported
    assert (house.jay.settings.home / "secret.key").read_bytes().strip() not in exported
