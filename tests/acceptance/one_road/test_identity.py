"""One document per tenant, collection and canonical URL, whichever door brought it and whoever holds it."""

from typing import Any

import pytest
from sqlalchemy import func, select
from tests.acceptance.control.test_bus import call
from tests.acceptance.crawlplans.asking import make_plan, run
from tests.acceptance.house import House, Key
from tests.acceptance.one_road.asking import crawl_site, documents, hits, job
from tests.plans import article
from tests.site import Site

from scrubjay.storage.documents import DocumentRow

pytestmark = pytest.mark.asyncio(loop_scope="module")

ANYWHERE = {"RestrictToChildUrls": False}
NAMES = ("acorn", "blackberry", "chestnut")


def fill(site: Site, *names: str) -> str:
    """Make the site a home page and these pages; returns the home page's URL."""
    site.pages.clear()
    for name in names:
        site.add(f"/{name}", article(name, "/"))
    return site.add("/", article("orchard", *(f"/{name}" for name in names)))


async def stored(library: House, key: Key) -> int:
    """Number of rows that the tenant has in the table of documents, also hidden ones."""
    async with library.jay.database.reading() as connection:
        found = await connection.execute(
            select(func.count()).select_from(DocumentRow).where(DocumentRow.tenant_id == key.record.tenant_id)
        )
        return int(found.scalar_one())


async def collection(library: House, key: Key, name: str | None) -> dict[str, Any]:
    """What a crawl says about its collection, as `/api/v1` and `/v1.0` spell it; nothing for none."""
    if name is None:
        return {"rag": {}, "plan": {}}
    rule = await library.plans("PUT", "/ingestion-rules", key, status=201, json={"Name": name, "CollectionName": name})
    (listed,) = (await library.api("GET", "/collections", key))["collections"]
    return {
        "rag": {"collection_id": listed["id"]},
        "plan": {"IngestionSettings": {"CollectionId": rule["CollectionId"]}},
    }


@pytest.mark.parametrize("name", [None, "orchard"])
async def test_a_crawl_and_then_a_plan_over_the_same_pages_share_their_documents(
    library: House, owner: Key, site: Site, name: str | None
) -> None:
    url = fill(site, *NAMES)
    into = await collection(library, owner, name)
    crawled = await crawl_site(library, owner, url, **into["rag"])
    assert crawled["documents"]["added"] == 4
    before = await documents(library, owner)
    plan = await make_plan(library, owner, url, ProcessDeletions=True, **into["plan"])

    operation = await run(library, owner, plan)

    assert operation["State"] == "Success"
    after = await documents(library, owner)
    assert {url: each["id"] for url, each in after.items()} == {url: each["id"] for url, each in before.items()}
    assert {each["version"] for each in after.values()} == {1}
    assert await stored(library, owner) == 4
    assert await hits(library, owner, "blackberry") == [after[f"{site.url}/blackberry"]["id"]]


async def test_a_page_that_a_plan_removes_is_not_findable_after_an_earlier_crawl(
    library: House, owner: Key, site: Site
) -> None:
    url = fill(site, *NAMES)
    await crawl_site(library, owner, url)
    plan = await make_plan(library, owner, url, ProcessDeletions=True)
    await run(library, owner, plan)
    fill(site, "acorn", "chestnut")

    operation = await run(library, owner, plan, confirmDeletions=True)

    assert operation["ObjectsDeleted"] == 1
    assert f"{site.url}/blackberry" not in await documents(library, owner)
    assert await hits(library, owner, "blackberry") == []


async def test_links_with_tracking_parameters_are_one_article(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home", "/news?utm_source=mail", "/news", "/news?fbclid=abc&utm_medium=x"))
    site.add("/news", article("news"))

    await crawl_site(library, owner, url)
    await job(library, owner, urls=[f"{site.url}/news?utm_source=feed"])

    assert sorted(await documents(library, owner)) == [f"{site.url}/", f"{site.url}/news"]
    assert await stored(library, owner) == 2


async def test_an_article_that_a_crawl_brought_is_not_inserted_again(library: House, owner: Key, site: Site) -> None:
    url = site.add("/", article("home"))
    await crawl_site(library, owner, url)
    known = (await documents(library, owner))[url]

    answers = [
        await call(library, owner, "persist_article", url=f"{url}{query}", title="home", content="A word from a tool.")
        for query in ("", "?utm_source=mail", "?fbclid=1")
    ]

    assert [each["inserted"] for each in answers] == [False] * 3
    (article_id,) = {each["article_id"] for each in answers}
    assert (await library.api("GET", f"/documents/{article_id}", owner))["id"] == known["id"]
    assert await stored(library, owner) == 1


async def test_a_document_of_two_plans_ends_when_the_second_lets_go(library: House, owner: Key, site: Site) -> None:
    fill(site, *NAMES)
    url = site.add("/", article("orchard", "/acorn", "/shared"))
    other = site.add("/other", article("hedge", "/shared"))
    site.add("/shared", article("hazelnut"))
    values = {"ProcessDeletions": True}
    first = await make_plan(library, owner, url, **values)
    second = await make_plan(library, owner, other, web=ANYWHERE, **values)
    await run(library, owner, first)
    await run(library, owner, second)
    shared = (await documents(library, owner))[f"{site.url}/shared"]
    site.add("/", article("orchard", "/acorn"))
    web = {"RepositorySettings": {"StartUrl": url, "CrawlDelayMs": 0, "RecheckMissing": False}}
    await library.plans("PUT", f"/crawlplans/{first['Id']}", owner, json={**first, **web})

    let_go = await run(library, owner, first, confirmDeletions=True)
    held = await documents(library, owner)
    await library.plans("DELETE", f"/crawlplans/{second['Id']}", owner, status=204, params={"documents": True})

    assert let_go["ObjectsDeleted"] == 1
    assert held[f"{site.url}/shared"]["id"] == shared["id"]
    left = await documents(library, owner)
    assert f"{site.url}/shared" not in left
    assert f"{site.url}/acorn" in left
    assert await hits(library, owner, "hazelnut") == []


async def test_deleting_a_plan_with_its_documents_keeps_what_another_plan_holds(
    library: House, owner: Key, site: Site
) -> None:
    url = site.add("/", article("orchard", "/acorn", "/shared"))
    site.add("/acorn", article("acorn"))
    site.add("/shared", article("hazelnut"))
    other = site.add("/other", article("hedge", "/shared"))
    first = await make_plan(library, owner, url)
    second = await make_plan(library, owner, other, web=ANYWHERE)
    await run(library, owner, first)
    await run(library, owner, second)

    await library.plans("DELETE", f"/crawlplans/{first['Id']}", owner, status=204, params={"documents": True})

    left = await documents(library, owner)
    assert sorted(left) == [f"{site.url}/other", f"{site.url}/shared"]
    assert left[f"{site.url}/shared"]["id"] in await hits(library, owner, "hazelnut")
