"""The contract's list of what `/v1.0` does better, as far as its clients can see it; a test is named after each."""

import base64
from typing import Any

import pytest
from sqlalchemy import func, select
from tests.acceptance.crawlplans.asking import documents, make_plan, plan_body, run, upload
from tests.acceptance.crawlplans.conftest import NAMES
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import found, until
from tests.plans import article, set_pages
from tests.site import Reply, Site, SiteRequest

from scrubjay.index.consistency import Consistency
from scrubjay.storage.document_logs import DocumentLogRow
from scrubjay.storage.documents import DocumentRow
from scrubjay.storage.versions import DocumentVersionRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "hunter2-and-more"
CREDENTIALS: dict[str, tuple[dict[str, Any], str, str]] = {
    "Basic": (
        {"AuthenticationType": "Basic", "Username": "jay", "Password": SECRET},
        "authorization",
        f"Basic {base64.b64encode(f'jay:{SECRET}'.encode()).decode()}",
    ),
    "ApiKey": (
        {"AuthenticationType": "ApiKey", "ApiKeyHeader": "X-Nest", "ApiKeyValue": SECRET},
        "x-nest",
        SECRET,
    ),
    "BearerToken": (
        {"AuthenticationType": "BearerToken", "BearerToken": SECRET},
        "authorization",
        f"Bearer {SECRET}",
    ),
}


def guard_site(site: Site, header: str, value: str) -> None:
    """From now on the site answers only those who send this."""
    pages = dict(site.pages)

    def answer(request: SiteRequest) -> Reply:
        page = pages[request.path]
        assert isinstance(page, Reply)
        return page if request.headers.get(header) == value else Reply("<h1>Who are you?</h1>", 401)

    for path in pages:
        site.pages[path] = answer


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_credentials_are_really_sent(library: House, owner: Key, site: Site, kind: str) -> None:
    web, header, value = CREDENTIALS[kind]
    guard_site(site, header, value)
    stranger = await make_plan(library, owner, site.url)
    assert (await library.plans("POST", f"/crawlplans/{stranger['Id']}/connectivity", owner))["Success"] is False
    site.forget()

    plan = await make_plan(library, owner, site.url, web=web)
    assert (await library.plans("POST", f"/crawlplans/{plan['Id']}/connectivity", owner))["Success"] is True
    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsAdded"]) == ("Success", 6)
    assert {request.headers.get(header) for request in site.requests} == {value}


@pytest.mark.parametrize("kind", CREDENTIALS)
async def test_secrets_never_come_back_and_stay_until_they_are_said_anew(
    library: House, owner: Key, site: Site, kind: str
) -> None:
    web, header, value = CREDENTIALS[kind]
    guard_site(site, header, value)
    (name,) = [member for member, said in web.items() if said == SECRET]
    plan = await make_plan(library, owner, site.url, web=web)
    path = f"/v1.0/crawlplans/{plan['Id']}"
    answers = [
        await library.ask("GET", path, owner),
        await library.ask("GET", "/v1.0/crawlplans", owner),
        await library.ask("PUT", path, owner, json=plan),
        await library.ask("POST", f"{path}/start", owner),
        await library.ask("POST", f"{path}/stop", owner),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert SECRET not in answer.text
        assert f'"{name}":' not in answer.text
    # Sent back without it, the plan still has it; empty text takes it away; another host never gets it.
    assert (await library.plans("POST", f"/crawlplans/{plan['Id']}/connectivity", owner))["Success"] is True
    elsewhere = {**plan["RepositorySettings"], "StartUrl": "https://elsewhere.example/"}
    refused = await library.plans(
        "PUT", f"/crawlplans/{plan['Id']}", owner, status=400, json={**plan, "RepositorySettings": elsewhere}
    )
    assert refused["Context"] == {"field": f"RepositorySettings.{name}"}
    cleared = {**plan["RepositorySettings"], name: ""}
    await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json={**plan, "RepositorySettings": cleared})
    assert (await library.plans("POST", f"/crawlplans/{plan['Id']}/connectivity", owner))["Success"] is False


async def test_put_never_takes_what_is_not_the_clients_to_say(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    await run(library, owner, plan)
    before = await library.plans("GET", f"/crawlplans/{plan['Id']}", owner)
    forged = {
        "Id": "cplan_00000000000000000000000000", "TenantId": "ten_0000000000000000000000000000", "State": "Running",
        "LastCrawlStartUtc": "2001-01-01T00:00:00Z", "LastCrawlFinishUtc": "2001-01-01T00:00:00Z",
        "LastCrawlSuccess": False, "CreatedUtc": "2001-01-01T00:00:00Z", "LastUpdateUtc": "2001-01-01T00:00:00Z",
        "NextCrawlUtc": "2001-01-01T00:00:00Z", "ExpectedStaleness": 1,
    }  # fmt: skip
    await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json={**before, **forged, "Name": "Renamed"})
    after = await library.plans("GET", f"/crawlplans/{plan['Id']}", owner)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"Name", "LastUpdateUtc"}
    assert after["LastUpdateUtc"] > before["LastUpdateUtc"]

    made = await library.plans("PUT", "/crawlplans", owner, status=201, json={**forged, "Name": "Another"})
    assert made["Id"] not in (plan["Id"], forged["Id"])
    assert (made["TenantId"], made["State"]) == (before["TenantId"], "Stopped")
    assert made["CreatedUtc"] > before["CreatedUtc"]


@pytest.mark.parametrize("allowed", ["text/html", "TEXT/HTML", "text/*", "text/html; charset=utf-8"])
async def test_allowed_content_types_match_with_parameters_and_wildcards(
    library: House, owner: Key, site: Site, allowed: str
) -> None:
    site.add("/", article("home", "/page1", "/data.json"))
    site.add(
        "/data.json",
        Reply('{"a": "Some words in a file that is no text of any kind."}', content_type="application/json"),
    )
    assert isinstance(page := site.pages["/page1"], Reply)
    assert page.content_type == "text/html; charset=utf-8"
    plan = await make_plan(library, owner, site.url, Filter={"AllowedContentTypes": [allowed]})

    operation = await run(library, owner, plan)

    assert operation["ObjectsAdded"] == 2
    urls = {each["SourceUrl"].removeprefix(site.url) for each in await documents(library, owner)}
    assert urls == {"/", "/page1"}


async def left_of(library: House, document_id: str) -> dict[str, int]:
    """The rows that a document has anywhere."""
    columns = (DocumentRow.id, DocumentVersionRow.document_id, DocumentLogRow.document_id)
    async with library.jay.database.reading() as connection:
        return {
            str(column): int((await connection.execute(select(func.count()).where(column == document_id))).scalar_one())
            for column in columns
        }


async def test_cleanup_really_deletes_vectors_blob_and_log(library: House, owner: Key) -> None:
    text = "Xerothermic words that stand in no other document of this whole house."
    made = await upload(library, owner, text, "gone.txt")
    assert await found(library, owner, "xerothermic") != []
    document = await library.jay.documents.get(await who(library, owner), made["Id"])
    assert document.original_sha256 is not None
    assert await library.jay.blobs.exists(document.original_sha256)
    assert min((await left_of(library, made["Id"])).values()) > 0

    await library.plans("DELETE", f"/documents/{made['Id']}", owner, status=204)

    for path in ("", "/processing-log", "/download"):
        await library.plans("GET", f"/documents/{made['Id']}{path}", owner, status=404)

    async def rows() -> int:
        return sum((await left_of(library, made["Id"])).values())

    await until(rows, 0)
    assert await found(library, owner, "xerothermic") == []
    await until(lambda: library.jay.blobs.exists(str(document.original_sha256)), False)
    compared = await Consistency(library.jay.database, library.jay.catalog).compare()
    assert compared.none, compared.describe()


async def who(library: House, key: Key) -> Any:
    return (await library.jay.access.authenticate(key.text))[0]


async def test_deletion_works_at_any_number_of_documents(library: House, owner: Key) -> None:
    """More than a page of a list, more than one transaction's worth, some of them twice."""
    made = []
    for start in range(0, 250, 50):
        bodies = [{"content": f"Document number {start + number} of many."} for number in range(50)]
        answer = await library.api("POST", "/documents/batch", owner, json={"documents": bodies})
        made += answer["results"]
    listed = [each["Id"] for each in await documents(library, owner, maxResults=100)]
    assert len(listed) == len(set(listed)) == 250

    await library.plans("POST", "/documents/delete", owner, status=204, json={"DocumentIds": [*listed, *listed[:9]]})

    assert await documents(library, owner) == []
    for each in (listed[0], listed[-1]):
        await library.plans("GET", f"/documents/{each}", owner, status=404)


async def test_a_deletion_that_names_a_missing_document_deletes_nothing(library: House, owner: Key) -> None:
    made = [await upload(library, owner, f"Kept as number {number}.", f"{number}.txt") for number in range(2)]
    ids = [made[0]["Id"], "adoc_001k7k00000000000000000000000", made[1]["Id"]]
    refused = await library.plans("POST", "/documents/delete", owner, status=404, json={"documentids": ids})
    assert refused["Error"] == "NotFound"
    assert len(await documents(library, owner)) == 2


async def test_a_run_deletes_what_is_gone_at_any_number_of_documents(library: House, owner: Key, site: Site) -> None:
    names = [f"p{number}" for number in range(120)]
    set_pages(site, names)
    guard = {"MinMissingItems": 100_000}
    plan = await make_plan(library, owner, site.url, ProcessDeletions=True, Deletion=guard)
    assert (await run(library, owner, plan))["ObjectsAdded"] == 121
    set_pages(site, names[:1])

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["ObjectsDeleted"]) == ("Success", 119)
    assert len(await documents(library, owner, crawlPlanId=plan["Id"], maxResults=1000)) == 2


async def test_an_update_replaces_the_one_document(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    await run(library, owner, plan)
    before = {each["SourceUrl"]: each["Id"] for each in await documents(library, owner)}
    site.add("/page1", article("page1", "/", text="It says something else now, in a sentence of its own. " * 8))

    operation = await run(library, owner, plan)

    assert (operation["ObjectsUpdated"], operation["ObjectsAdded"]) == (1, 0)
    after = {each["SourceUrl"]: each["Id"] for each in await documents(library, owner)}
    assert after == before
    (changed,) = await documents(library, owner, crawlOperationId=operation["Id"])
    assert (changed["Id"], changed["Version"]) == (before[f"{site.url}/page1"], 2)


async def test_crawl_delay_ms_is_the_gap_between_requests_to_a_host(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url, web={"CrawlDelayMs": 150, "ExtractSitemapLinks": False})
    await run(library, owner, plan)
    pages = [request.at for request in site.requests if request.path != "/robots.txt"]
    assert len(pages) == 1 + len(NAMES)
    gaps = [later - earlier for earlier, later in zip(sorted(pages), sorted(pages)[1:], strict=False)]
    assert min(gaps) > 0.14


async def test_a_changed_plan_counts_from_its_next_run_on(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    await run(library, owner, plan)
    body = plan_body(site.url, Filter={"ObjectSuffix": "/page1"}, ProcessUpdates=False)
    await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json=body)
    site.add(
        "/page1", article("page1", "/", text="Nobody takes this in, because updates are not wanted any more. " * 8)
    )
    operation = await run(library, owner, plan)
    assert (operation["State"], operation["ObjectsUpdated"]) == ("Success", 0)
