"""One document per collection and canonical URL, in whatever order the pages that claim it come in."""

from collections.abc import AsyncIterator
from itertools import permutations

import pytest
from tests.library import Library, open_library

from scrubjay.documents.identity import natural_key
from scrubjay.model.content import Document, DocumentSource, IncomingDocument, IngestOutcome
from scrubjay.model.tenant import Principal
from scrubjay.settings import Settings
from scrubjay.storage.documents import DocumentRow, Documents
from scrubjay.storage.versions import DocumentVersions

SITE = "https://birds.example"
ADDED, CHANGED, UNCHANGED = IngestOutcome.ADDED, IngestOutcome.CHANGED, IngestOutcome.UNCHANGED


@pytest.fixture
async def library(settings: Settings) -> AsyncIterator[Library]:
    async with open_library(settings) as library:
        yield library


@pytest.fixture
async def who(library: Library) -> Principal:
    return await library.tenant("birds")


def page(
    who: Principal, path: str, text: str, canonical: str | None = None, plan: str | None = None
) -> IncomingDocument:
    return IncomingDocument(
        tenant_id=who.tenant_id,
        url=SITE + path,
        source=DocumentSource.CRAWL,
        markdown=f"# Birds\n\n{text}",
        details={} if canonical is None else {"canonical_url": SITE + canonical},
        plan_id=plan,
    )


async def ingest(library: Library, *pages: IncomingDocument) -> list[IngestOutcome]:
    return [each.outcome for each in await library.ingester.ingest_many(pages)]


async def documents(library: Library) -> dict[str, Document]:
    async with library.database.reading() as connection:
        found = await Documents(connection).page(DocumentRow.deleted_at.is_(None), limit=100)
    assert all(each.natural_key == natural_key(None, each.url) for each in found.items)
    return {each.url.removeprefix(SITE): each for each in found.items}


async def texts(library: Library) -> dict[str, tuple[str, int]]:
    """Path → what its document says, and in which version."""
    found = await documents(library)
    return {
        path: ((await library.texts.read(each.tenant_id, each.content_sha256 or "")).split("\n\n")[1], each.version)
        for path, each in sorted(found.items())
    }


async def test_a_plan_a_crawl_and_an_upload_of_one_page_are_one_document(library: Library, who: Principal) -> None:
    assert await ingest(library, page(who, "/a", "The jay.")) == [ADDED]
    assert await ingest(library, page(who, "/a?utm_source=mail", "The jay.", plan="plan_1")) == [UNCHANGED]
    assert (await library.add(who, f"{SITE}/a?fbclid=1", "# Birds\n\nThe jay.")).outcome is UNCHANGED
    [(path, document)] = (await documents(library)).items()
    assert (path, document.plan_id, document.version) == ("/a", "plan_1", 1)
    assert await ingest(library, page(who, "/a", "The crow.")) == [CHANGED]
    [document] = (await documents(library)).values()
    assert (document.plan_id, document.version) == ("plan_1", 2)


@pytest.mark.parametrize("together", [True, False])
async def test_pages_that_claim_one_url_settle_in_the_first_crawl(
    library: Library, who: Principal, together: bool
) -> None:
    for number, order in enumerate(permutations(range(4))):
        top = f"/{number}"
        pages = [
            page(who, top, "The jay."),
            page(who, f"{top}/print", "The jay.", top),  # a copy
            page(who, f"{top}/2", "The jay, continued.", top),  # declares another page's URL by mistake
            page(who, f"{top}/3", "The jay, concluded.", top),
        ]
        ordered = [pages[each] for each in order]
        for crawl in range(3):
            batches = [ordered] if together else [[each] for each in ordered]
            outcomes = [outcome for batch in batches for outcome in await ingest(library, *batch)]
            if crawl:
                assert outcomes == [UNCHANGED] * 4, order
            found = {path: said for path, said in (await texts(library)).items() if path.startswith(top)}
            assert found.pop(f"{top}/print", ("The jay.", 1)) == ("The jay.", 1)
            assert found == {
                top: ("The jay.", 1),
                f"{top}/2": ("The jay, continued.", 1),
                f"{top}/3": ("The jay, concluded.", 1),
            }, order
        async with library.database.writing() as connection:
            for each in (await documents(library)).values():
                await Documents(connection).delete(each.tenant_id, each.id)


async def test_the_index_follows_a_document_that_goes_back_to_its_own_url(library: Library, who: Principal) -> None:
    await ingest(library, page(who, "/a/2", "The jay, continued.", "/a"))
    await library.indexer.drain()
    await ingest(library, page(who, "/a", "The jay."))
    differences = await library.settle()
    assert differences.none
    assert differences.points == 2


async def test_pages_that_declare_each_other_keep_their_own_urls(library: Library, who: Principal) -> None:
    pages = [page(who, "/c", "The crow.", "/d"), page(who, "/d", "The dove.", "/c")]
    for each in pages:
        await ingest(library, each)
    assert await texts(library) == {"/c": ("The crow.", 1), "/d": ("The dove.", 1)}
    assert await ingest(library, *pages) == [UNCHANGED, UNCHANGED]


async def test_a_page_whose_canonical_url_nothing_else_claims_lives_there(library: Library, who: Principal) -> None:
    assert await ingest(library, page(who, "/a?print=1", "The jay.", "/a")) == [ADDED]
    assert await ingest(library, page(who, "/a?print=1", "The crow.", "/a")) == [CHANGED]
    assert await texts(library) == {"/a": ("The crow.", 2)}
    # The page itself comes, and says something else: the history stays with the page that it is of.
    assert await ingest(library, page(who, "/a", "The dove.")) == [ADDED]
    assert await texts(library) == {"/a": ("The dove.", 1), "/a?print=1": ("The crow.", 2)}
    async with library.database.reading() as connection:
        found = await DocumentVersions(connection).of_document((await documents(library))["/a?print=1"].id)
    assert len(found) == 2


async def test_a_copy_and_its_page_that_change_together_make_one_version_each(library: Library, who: Principal) -> None:
    for text in ("The jay.", "The crow.", "The dove."):
        await ingest(library, page(who, "/a/print", text, "/a"), page(who, "/a", text))
    assert await texts(library) == {"/a": ("The dove.", 3)}


async def test_a_page_that_comes_twice_in_one_batch_counts_as_it_came_last(library: Library, who: Principal) -> None:
    await ingest(library, page(who, "/a?utm_source=x", "The jay."), page(who, "/a", "The crow."))
    assert await texts(library) == {"/a": ("The crow.", 1)}
