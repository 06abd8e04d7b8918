"""Patience: throttling is waited through in bounds, passing faults are tried again, and a job can stop in the wait."""

import asyncio
import time
from pathlib import Path

import pytest
from tests.sharepoint_server import SharePointServer, StoredSite

from scrubjay.errors import FetchFailed, InvalidRequest, JobPauseRequested
from scrubjay.sources.sharepoint import SharePointSite, client
from scrubjay.sources.sharepoint.items import SiteAddress

DOCUMENTS = "/Shared Documents"


async def count(site: SharePointSite) -> int:
    return len([item async for item in site.library_items(DOCUMENTS)])


class Waits:
    """Notes what it should wait for, and lets it pass at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds: list[float] = []
        self._ahead = 0.0
        self._clock = time.monotonic
        monkeypatch.setattr(client.time, "monotonic", lambda: self._clock() + self._ahead)

    async def __call__(self, seconds: float, reason: str) -> None:
        assert "throttles" in reason
        self.seconds.append(seconds)
        self._ahead += seconds


@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_honoured(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, status: int
) -> None:
    stored.documents.put("a.txt", b"acorn")
    server.fault("/items", status, Retry_After="1")

    assert await count(site) == 1
    first, second = (request.at for request in server.asked("/items"))
    assert second - first >= 1.0


async def test_throttling_for_ten_minutes_is_waited_through(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored.documents.put("a.txt", b"acorn")
    site.wait = waits = Waits(monkeypatch)
    server.fault("/items", 429, times=10, Retry_After="60")

    assert await count(site) == 1
    assert len(waits.seconds) == 10
    assert 595 < sum(waits.seconds) <= 600


async def test_throttling_without_end_fails_the_listing(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.wait = waits = Waits(monkeypatch)
    server.fault("/items", 429, times=999, Retry_After="120")

    with pytest.raises(FetchFailed, match="throttles") as failed:
        await count(site)

    assert failed.value.error_type == "throttled"
    assert sum(waits.seconds) <= client.THROTTLED_SECONDS


async def test_a_job_that_is_paused_does_not_wait_on(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    async def refuse(seconds: float, reason: str) -> None:
        raise JobPauseRequested

    site.wait = refuse
    server.fault("/items", 429, Retry_After="600")

    with pytest.raises(JobPauseRequested):
        await count(site)


async def test_while_one_request_is_throttled_the_others_wait_with_it(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, tmp_path: Path
) -> None:
    for number in range(5):
        stored.documents.put(f"{number}.txt", b"acorn")
    items = [item async for item in site.library_items(DOCUMENTS)]
    server.fault("$value", 429, Retry_After="1")
    await asyncio.sleep(0)

    first = asyncio.create_task(site.download(items[0], tmp_path / "0"))
    while not server.asked("$value"):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await asyncio.gather(*(site.download(item, tmp_path / item.filename) for item in items[1:]))
    await first

    times = [request.at for request in server.asked("$value")]
    assert len(times) == 6
    assert min(times[1:]) - times[0] >= 0.95


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_passing_faults_are_tried_again(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, status: int
) -> None:
    stored.documents.put("a.txt", b"acorn")
    server.fault("/items", status, times=3)

    assert await count(site) == 1


async def test_lasting_faults_fail_after_some_tries(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    server.fault("/items", 502, times=99)

    with pytest.raises(FetchFailed) as failed:
        await count(site)

    assert failed.value.error_type == "server_error"
    assert len(server.asked("/items")) == client.ATTEMPTS


@pytest.mark.parametrize("status", [400, 403, 404, 302])
async def test_refusals_are_not_tried_again(
    site: SharePointSite, stored: StoredSite, server: SharePointServer, status: int
) -> None:
    server.fault("/items", status, times=99, Location="/elsewhere")

    with pytest.raises(FetchFailed, match=f"HTTP status {status}"):
        await count(site)

    assert len(server.asked("/items")) == 1


async def test_a_site_that_the_app_may_not_read_says_which_permission_it_needs(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    server.fault("_api", 403, times=99)

    with pytest.raises(FetchFailed, match=r"Sites\.Selected"):
        await count(site)


@pytest.mark.parametrize(
    ("text", "url", "path"),
    [
        ("https://acme.sharepoint.com/sites/demo/", "https://acme.sharepoint.com/sites/demo", "/sites/demo"),
        ("https://ACME.sharepoint.com", "https://acme.sharepoint.com", ""),
        (
            "https://acme.sharepoint.com/teams/R%20and%20D",
            "https://acme.sharepoint.com/teams/R%20and%20D",
            "/teams/R and D",
        ),
    ],
)
def test_addresses_of_sites_are_read(text: str, url: str, path: str) -> None:
    address = SiteAddress.parse(text)

    assert (address.url, address.path) == (url, path)
    assert address.resolve("/Shared Documents/") == f"{path}/Shared Documents"


@pytest.mark.parametrize(
    "text", ["", "acme", "ftp://acme.org/", "https://a:b@acme.org/", "https://acme.org/?q=1", "https://acme.org/#x"]
)
def test_what_is_no_address_of_a_site_is_refused_by_its_field(text: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        SiteAddress.parse(text)
    assert refused.value.details["field"] == "site_url"
