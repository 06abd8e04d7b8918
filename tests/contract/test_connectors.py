"""What every connector must do, on a real folder, a real S3 server, a real site with a feed, and a small SharePoint."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests import servers
from tests.sharepoint_server import running_sharepoint
from tests.site import running_site
from tests.sources import BucketSource, FeedSource, FolderSource, SharePointSource, Source, Workplace, open_workplace

from scrubjay.errors import FetchFailed, InvalidRequest, JobCancelRequested

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Workplace]:
    home = tmp_path_factory.mktemp("connectors") / "home"
    home.mkdir(mode=0o700)
    async with open_workplace(home) as workplace:
        yield workplace


@pytest_asyncio.fixture(
    loop_scope="module", params=["File", pytest.param("AmazonS3", marks=pytest.mark.s3), "Feed", "SharePoint"]
)
async def source(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Source]:
    if request.param == "File":
        yield FolderSource(tmp_path)
    elif request.param == "AmazonS3":
        yield BucketSource(servers.s3_server())
    elif request.param == "SharePoint":
        async with running_sharepoint() as server:
            yield SharePointSource(server)
    else:
        async with running_site() as site:
            yield FeedSource(site)


@pytest.fixture
def place(house: Workplace, source: Source) -> Workplace:
    return source.place(house)


async def test_every_item_is_listed_once_with_its_validators(place: Workplace, source: Source) -> None:
    keys = {await source.put(name, f"What {name} wrote about acorns.") for name in ("ada", "bo", "cy")}

    async with place.opened(source.kind, **source.settings) as connector:
        found = await place.by_key(connector)

    assert set(found) == keys
    assert connector.problems == []
    for item in found.values():
        assert len(item.key_hash) == 64
        assert item.content_length
        assert item.last_modified_at is not None
        assert item.last_modified_at.utcoffset() is not None
        assert item.content_type in ("text/plain", "text/markdown")
        assert not item.is_folder
    assert len({item.key_hash for item in found.values()}) == len(keys)


async def test_only_what_changed_has_other_validators(place: Workplace, source: Source) -> None:
    same, changed = await source.put("same", "Acorns."), await source.put("changed", "Acorns.")
    async with place.opened(source.kind, **source.settings) as connector:
        before = await place.by_key(connector)
    await source.put("changed", "Beetles and acorns.")

    async with place.opened(source.kind, **source.settings) as connector:
        after = await place.by_key(connector)

    assert after[same] == before[same]
    assert after[changed] != before[changed]
    assert after[changed].key_hash == before[changed].key_hash


async def test_what_was_removed_is_no_longer_listed(place: Workplace, source: Source) -> None:
    kept, removed = await source.put("kept", "Acorns."), await source.put("removed", "Acorns.")
    async with place.opened(source.kind, **source.settings) as connector:
        assert set(await place.by_key(connector)) == {kept, removed}
        await source.remove("removed")
        assert set(await place.by_key(connector)) == {kept}

    assert source.kind.lists_everything == source.keeps_everything


async def test_an_item_is_read_with_its_content_and_an_address_of_its_own(place: Workplace, source: Source) -> None:
    for name in ("ada", "bo"):
        await source.put(name, f"What {name} wrote about acorns.")

    async with place.opened(source.kind, **source.settings) as connector:
        items = await place.by_key(connector)
        contents = {key: await connector.read(item) for key, item in items.items()}

    for key, content in contents.items():
        name = "ada" if "ada" in key else "bo"
        text = content.markdown if content.markdown is not None else (content.data or b"").decode()
        assert f"What {name} wrote about acorns." in text
        assert content.size_bytes == len(text.encode()) == items[key].content_length
    assert len({content.url for content in contents.values()}) == 2


async def test_an_item_is_read_by_a_connector_that_did_not_list_it(place: Workplace, source: Source) -> None:
    key = await source.put("ada", "Acorns.")
    async with place.opened(source.kind, **source.settings) as connector:
        item = (await place.by_key(connector))[key]

    async with place.opened(source.kind, **source.settings) as another:
        content = await another.read(item)

    assert "Acorns." in (content.markdown or (content.data or b"").decode())


async def test_reading_what_is_gone_fails_for_that_item_alone(place: Workplace, source: Source) -> None:
    gone, there = await source.put("gone", "Acorns."), await source.put("there", "Acorns.")
    async with place.opened(source.kind, **source.settings) as connector:
        items = await place.by_key(connector)
    await source.remove("gone")

    async with place.opened(source.kind, **source.settings) as connector:
        with pytest.raises(FetchFailed) as failed:
            await connector.read(items[gone])
        assert failed.value.error_type == "not_found"
        assert (await connector.read(items[there])).size_bytes


async def test_a_source_that_is_not_there_fails_and_says_so_when_checked(place: Workplace, source: Source) -> None:
    async with place.opened(source.kind, **source.unreachable) as connector:
        with pytest.raises(FetchFailed) as failed:
            await place.list(connector)
        connectivity = await connector.check()

    assert not connectivity.works
    assert connectivity.message == failed.value.message
    assert "nowhere" in connectivity.message


async def test_a_source_that_is_there_is_reachable(place: Workplace, source: Source) -> None:
    await source.put("ada", "Acorns.")

    async with place.opened(source.kind, **source.settings) as connector:
        connectivity = await connector.check()

    assert connectivity.works, connectivity.message


async def test_an_empty_source_has_nothing(place: Workplace, source: Source) -> None:
    await source.put("ada", "Acorns.")
    await source.remove("ada")

    async with place.opened(source.kind, **source.settings) as connector:
        assert await place.list(connector) == []
        assert connector.problems == []


async def test_no_more_is_listed_than_was_asked_for(place: Workplace, source: Source) -> None:
    for number in range(5):
        await source.put(f"note{number}", "Acorns.")

    async with place.opened(source.kind, **source.settings) as connector:
        assert len(await place.list(connector, limit=3)) == 3
        assert len(await place.list(connector, limit=99)) == 5


async def test_a_listing_stops_at_a_checkpoint_when_its_job_is_cancelled(place: Workplace, source: Source) -> None:
    for number in range(20):
        await source.put(f"note{number}", "Acorns.")

    async with place.opened(source.kind, **source.settings) as connector, place.context() as context:
        context.interrupt(JobCancelRequested)
        with pytest.raises(JobCancelRequested):
            _ = [item async for item in connector.enumerate(context)]
        # Nothing is left half done: the next listing is whole.
        assert len(await place.list(connector)) == 20


async def test_required_settings_may_be_missing_until_it_is_opened(place: Workplace, source: Source) -> None:
    (required,) = source.kind.required

    assert getattr(source.kind.read_settings({}), required) is None
    with pytest.raises(InvalidRequest) as refused:
        place.open(source.kind, {})
    assert refused.value.details["field"] == required


async def test_unknown_settings_are_refused_and_known_ones_cannot_be_changed(source: Source) -> None:
    with pytest.raises(ValueError, match="Extra inputs are not permitted"):
        source.kind.read_settings({"colour": "blue"})
    settings = source.kind.read_settings(source.settings)
    with pytest.raises(ValueError, match="frozen"):
        setattr(settings, source.kind.required[0], "x")
