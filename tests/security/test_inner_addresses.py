"""Every door that takes an address, given some that lead inside or are no web addresses, in all their spellings."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.acceptance.house import House, Key
from tests.unit.extract.test_browser_proxy import listening

from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The loopback address and a cloud's metadata, as parsers of different strictness read them.
INNER = (
    "http://127.0.0.1:PORT/", "http://127.1:PORT/", "http://0x7f.1:PORT/", "http://0177.0.0.1:PORT/",
    "http://2130706433:PORT/", "http://0:PORT/", "http://[::1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/", "http://[64:ff9b::7f00:1]:PORT/", "http://[2002:7f00:1::]:PORT/",
    "http://[::7f00:1]:PORT/", "http://[fe80::1%25lo]:PORT/", "http://169.254.169.254/latest/meta-data/",
    "http://metadata.google.internal/", "http://168.63.129.16/", "http://100.64.0.1/", "http://user@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\\\@example.com/", "http://example.com@127.0.0.1:PORT/", "http://\uff11\uff12\uff17.0.0.1:PORT/",
    "http://127。0。0。1:PORT/",
)  # fmt: skip
# What is no web address, and what other crawlers take for something of their own.
OTHERS = (
    "file:///etc/passwd", "FILE:///etc/passwd", "file:/etc/passwd", "file://localhost/etc/passwd", " file:///etc/passwd",
    "\tfile:///etc/passwd", "view-source:file:///etc/passwd", "raw:<html>x</html>", "raw://<html>x</html>",
    "data:text/html,x", "javascript:alert(1)", "jar:file:///a.zip!/b", "gopher://127.0.0.1:6379/_INFO", "ftp://a.example/",
    "dict://127.0.0.1:11211/", "chrome://settings", "about:blank", "blob:http://a.example/x", "//127.0.0.1:PORT/",
    "http://", "unix:///var/run/docker.sock", "netdoc:///etc/passwd", "php://filter/resource=x",
)  # fmt: skip
PLAN = {"RepositoryType": "Web", "Name": "p"}


def requests(url: str) -> Mapping[str, tuple[str, str, Any]]:
    """Wherever an address is taken: what is asked of which door."""
    return {
        "crawl": ("POST", "/api/v1/crawl", {"url": url}),
        "batch": ("POST", "/api/v1/crawl/batch", {"urls": [url]}),
        "deep": ("POST", "/api/v1/crawl/deep", {"url": url}),
        "discover": ("POST", "/api/v1/discover", {"domain": url}),
        "source": ("POST", "/api/v1/sources", {"name": "s", "url_pattern": url}),
        "webhook": ("POST", "/api/v1/webhooks", {"url": url}),
        "job webhook": ("POST", "/api/v1/crawl", {"url": "https://a.example/", "webhook_url": url}),
        "proxy": ("POST", "/api/v1/proxies", {"name": f"p {url[:40]}", "servers": [{"url": url}]}),
        "plan": ("PUT", "/v1.0/crawlplans", {**PLAN, "RepositorySettings": {"StartUrl": url}}),
        "bucket": (
            "PUT",
            "/v1.0/crawlplans",
            {"RepositoryType": "AmazonS3", "RepositorySettings": {"Bucket": "bucket", "EndpointUrl": url}},
        ),
        "feed": ("PUT", "/v1.0/crawlplans", {"RepositoryType": "Feed", "RepositorySettings": {"Url": url}}),
        "watch": ("POST", "/watches", {"url": url}),
        "agent": ("POST", "/register", {"agent": "inside", "address": url}),
        "production crawl": ("POST", "/api/crawl/start", {"domains": url}),
        "tool": ("POST", "/call", {"agent": "scrubjay", "tool": "crawl_url", "kwargs": {"url": url}}),
    }


async def refused(house: House, key: Key, url: str) -> dict[str, int]:
    """How each door answers; whatever it answers, it is an answer."""
    statuses = {}
    for name, (method, path, body) in requests(url).items():
        answer = await house.ask(method, path, key, json=body)
        assert answer.status_code < 500, (name, url, answer.text)
        assert "root:x:" not in answer.text
        statuses[name] = answer.status_code
    statuses.pop("batch")  # it says of each address whether it was taken; that none was is seen in the jobs
    return statuses


async def jobs_of(house: House, key: Key) -> int:
    who, _ = await house.jay.access.authenticate(key.text)
    return (await house.jay.jobs.page(who)).total


async def test_no_door_takes_an_address_that_leads_inside(still_house: House) -> None:
    key = await still_house.key(Scope.ADMIN, tenant="who looks inside")
    async with listening() as inside:
        for text in INNER:
            url = text.replace("PORT", str(inside.port))
            statuses = await refused(still_house, key, url)
            assert {name for name, status in statuses.items() if status < 400} == set(), url
        await asyncio.sleep(0)
        assert inside.requests == []
    assert await jobs_of(still_house, key) == 0


async def test_no_door_takes_what_is_no_web_address(still_house: House) -> None:
    key = await still_house.key(Scope.ADMIN, tenant="who reads files")
    for url in OTHERS:
        statuses = await refused(still_house, key, url)
        taken = {name for name, status in statuses.items() if status < 400}
        assert taken <= {"production crawl"}, url  # which takes names of hosts, and `file:` begins like one
    who, _ = await still_house.jay.access.authenticate(key.text)
    for job in (await still_house.jay.jobs.page(who)).items:
        assert {str(url).partition(":")[0] for url in job.payload["spec"]["start_urls"]} <= {"http", "https"}


async def test_a_folder_is_read_only_where_the_operator_opened_one(still_house: House) -> None:
    key = await still_house.key(Scope.ADMIN, tenant="who reads folders")
    for path in ("/etc", "/", "/proc/self", "/etc/../etc", f"{still_house.jay.settings.home}"):
        body = {"RepositoryType": "File", "RepositorySettings": {"Path": path}}
        answer = await still_house.ask("PUT", "/v1.0/crawlplans", key, json=body)
        if answer.status_code < 400:  # what may be read is the operator's to say, and may change: it is asked then
            plan_id = answer.json()["Id"]
            checked = await still_house.ask("POST", f"/v1.0/crawlplans/{plan_id}/connectivity", key)
            assert checked.json()["Success"] is False, (path, checked.text)
            assert "SCRUBJAY_FILE_ROOTS" in checked.text


async def test_the_guard_says_which_setting_would_open_what_it_refuses(still_house: House) -> None:
    key = await still_house.key(Scope.WRITE, tenant="who is told")
    answer = await still_house.ask("POST", "/api/v1/crawl", key, json={"url": "http://10.0.0.1/"})
    assert (answer.status_code, "SCRUBJAY_ALLOWED_PRIVATE_NETWORKS" in answer.text) == (403, True)
