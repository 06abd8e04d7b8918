"""The AmazonS3 connector: paging, odd keys, refusals in words, and patience; on a real server where it can be had."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Any

import obstore
import pytest
from tests import servers
from tests.site import Reply, Site, SiteRequest
from tests.sources import BucketSource, Workplace, open_workplace

from scrubjay.errors import FetchFailed, InvalidRequest
from scrubjay.model.source import SourceItem, hash_key
from scrubjay.sources import s3_bucket
from scrubjay.sources.protocol import Connector
from scrubjay.sources.s3 import S3, S3Settings
from scrubjay.sources.s3_answers import read_error, read_listing

pytestmark = pytest.mark.asyncio(loop_scope="module")

ODD_KEYS = ["a b+c.txt", "ünïcödé/…/日本.txt", "100%25.txt", "a&b=c?d#e.txt", "deep/er/est/x.md", "~(it's)!*.txt"]
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_bucket, "_WAIT_SECONDS", (0.01, 0.02))


def listing(keys: Sequence[str] = (), *, token: str | None = None) -> Reply:
    contents = "".join(
        f"<Contents><Key>{key}</Key><Size>3</Size><ETag>&quot;{'0' * 32}&quot;</ETag>"
        "<LastModified>2025-01-06T10:00:00.000Z</LastModified></Contents>"
        for key in keys
    )
    more = f"<IsTruncated>true</IsTruncated><NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    return Reply(f"<ListBucketResult xmlns='{NAMESPACE}'>{more}{contents}</ListBucketResult>", content_type="text/xml")


def error(status: int, code: str, *, message: str = "No.", region: str = "", **headers: str) -> Reply:
    body = f"<Error><Code>{code}</Code><Message>{message}</Message>{region and f'<Region>{region}</Region>'}</Error>"
    return Reply(
        body, status, "application/xml", headers={name.replace("_", "-"): each for name, each in headers.items()}
    )


def settings_for(site: Site, **more: Any) -> dict[str, Any]:
    return {"bucket": "jays", "endpoint_url": site.url, **more}


async def failure_of(house: Workplace, settings: dict[str, Any]) -> FetchFailed:
    async with house.opened(S3, **settings) as connector:
        with pytest.raises(FetchFailed) as failed:
            await house.list(connector)
    return failed.value


async def read(connector: Connector, key: str) -> bytes:
    content = await connector.read(SourceItem(key=key, key_hash=hash_key(key)))
    assert content.data is not None
    return content.data


@pytest.mark.s3
async def test_more_objects_than_a_page_has_are_each_listed_once(house: Workplace) -> None:
    source = BucketSource(servers.s3_server())
    wanted = {f"box{number % 7}/note-{number:04}.txt" for number in range(1203)}
    places = asyncio.Semaphore(32)

    async def put(key: str) -> None:
        async with places:
            await obstore.put_async(source.store, key, b"acorn")

    await asyncio.gather(*map(put, wanted))

    async with house.opened(S3, **source.settings) as connector:
        found = await house.by_key(connector)
        assert set(found) == wanted
        assert len(await house.list(connector, limit=1100)) == 1100
        seen = await house.list_until_cancelled(connector)
    assert len(seen) == 1000
    assert {item.md5 for item in found.values()} == {hashlib.md5(b"acorn").hexdigest()}


@pytest.mark.s3
async def test_odd_keys_are_listed_and_read_as_they_are(house: Workplace) -> None:
    source = BucketSource(servers.s3_server())
    for key in ODD_KEYS:
        await obstore.put_async(source.store, key, key.encode())

    async with house.opened(S3, **source.settings) as connector:
        found = await house.by_key(connector)
        contents = {key: await connector.read(item) for key, item in found.items()}

    assert set(found) == set(ODD_KEYS)
    for key, content in contents.items():
        assert (content.data, content.url) == (key.encode(), f"s3://{source.bucket}/{key}")


@pytest.mark.s3
async def test_a_prefix_limits_what_is_listed_and_a_wrong_secret_is_told_by_its_code(house: Workplace) -> None:
    source = BucketSource(servers.s3_server())
    for key in ("in/a.txt", "in/b.txt", "out/c.txt"):
        await obstore.put_async(source.store, key, b"acorn")

    async with house.opened(S3, **source.settings, prefix="in/") as connector:
        assert set(await house.by_key(connector)) == {"in/a.txt", "in/b.txt"}

    failed = await failure_of(house, {**source.settings, "secret_access_key": "wrong"})
    assert failed.error_type == "forbidden"
    assert "SignatureDoesNotMatch" in failed.message
    assert source.bucket in failed.message


async def test_without_keys_requests_are_anonymous_and_with_them_signed(house: Workplace, site: Site) -> None:
    site.pages["/jays/"] = listing(["a.txt"])
    async with house.opened(S3, **settings_for(site)) as connector:
        await house.list(connector)
    async with house.opened(
        S3, **settings_for(site, access_key_id="AKIA", secret_access_key="hunter2", region="eu-west-1")
    ) as connector:
        await house.list(connector)

    anonymous, signed = site.requests
    assert "authorization" not in anonymous.headers
    assert (
        "/eu-west-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,"
        in (signed.headers["authorization"])
    )
    assert anonymous.query["list-type"] == "2"
    assert "hunter2" not in str(signed.headers)


async def test_a_private_endpoint_is_refused_unless_its_network_is_allowed(
    site: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = tmp_path_factory.mktemp("refused") / "home"
    home.mkdir(mode=0o700)
    site.pages["/jays/"] = listing(["a.txt"])

    async with open_workplace(home, allowed=()) as house:
        failed = await failure_of(house, settings_for(site))
        async with house.opened(S3, **settings_for(site)) as connector:
            connectivity = await connector.check()

    assert failed.error_type == "blocked_address"
    assert not connectivity.works
    assert "jays" in connectivity.message
    assert site.requests == []


@pytest.mark.parametrize(
    ("reply", "error_type", "words"),
    [
        (error(403, "AccessDenied"), "forbidden", "AccessDenied"),
        (error(404, "NoSuchBucket"), "not_found", "NoSuchBucket"),
        (error(400, "InvalidArgument"), "http_error", "InvalidArgument"),
        (error(500, "InternalError"), "server_error", "InternalError"),
        (error(503, "SlowDown"), "throttled", "SlowDown"),
        (Reply("<html>Bad gateway</html>", 502), "server_error", "HTTP status 502"),
        (Reply("<html>Welcome</html>"), "not_s3", "cannot be listed"),
        (Reply("<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>"), "not_s3", "without a key"),
        (Reply("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"), "not_s3", "be continued"),
    ],
)
async def test_a_refusal_names_the_bucket_and_what_s3_says(
    house: Workplace, site: Site, reply: Reply, error_type: str, words: str
) -> None:
    site.pages["/jays/"] = reply

    failed = await failure_of(house, settings_for(site))

    assert failed.error_type == error_type
    assert words in failed.message
    assert "'jays'" in failed.message


@pytest.mark.parametrize(
    "reply",
    [
        error(301, "PermanentRedirect", x_amz_bucket_region="eu-central-1", Location="http://127.0.0.1/elsewhere"),
        error(400, "AuthorizationHeaderMalformed", region="eu-central-1"),
    ],
)
async def test_a_bucket_of_another_region_says_which_to_set(house: Workplace, site: Site, reply: Reply) -> None:
    site.pages["/jays/"] = reply

    failed = await failure_of(house, settings_for(site))

    assert failed.error_type == "wrong_region"
    assert failed.message == "The bucket 'jays' is in another region; set the region to 'eu-central-1'."
    assert len(site.requests) == 1


async def test_a_listing_goes_on_when_s3_only_asked_to_slow_down(house: Workplace, site: Site) -> None:
    answers = iter([error(503, "SlowDown"), listing(["a.txt"], token="t/1+"), Reply(status=429), listing(["b.txt"])])

    def answer(request: SiteRequest) -> Reply:
        return next(answers)

    site.pages["/jays/"] = answer

    async with house.opened(S3, **settings_for(site)) as connector:
        assert set(await house.by_key(connector)) == {"a.txt", "b.txt"}
    assert [request.query.get("continuation-token") for request in site.requests] == [None, None, "t/1+", "t/1+"]


async def test_a_check_asks_once(house: Workplace, site: Site) -> None:
    site.pages["/jays/"] = error(503, "SlowDown")

    async with house.opened(S3, **settings_for(site)) as connector:
        connectivity = await connector.check()

    assert not connectivity.works
    assert "SlowDown" in connectivity.message
    assert len(site.requests) == 1
    assert site.requests[0].query["max-keys"] == "1"


async def test_a_server_that_does_not_answer_is_told(house: Workplace, site: Site) -> None:
    settings = settings_for(site)
    await site.stop()

    failed = await failure_of(house, settings)

    assert failed.error_type == "connection"
    assert "'jays'" in failed.message


async def test_objects_that_stand_for_folders_are_told_apart(house: Workplace, site: Site) -> None:
    site.pages["/jays/"] = Reply(
        "<ListBucketResult><Contents><Key>box/</Key><Size>0</Size></Contents>"
        '<Contents><Key>box/a.txt</Key><Size>0</Size><ETag>"d41d8cd98f00b204e9800998ecf8427e-2"</ETag></Contents>'
        "<Contents><Key>odd/</Key><Size>7</Size></Contents></ListBucketResult>"
    )

    async with house.opened(S3, **settings_for(site)) as connector:
        found = await house.by_key(connector)

    assert [key for key, item in found.items() if item.is_folder] == ["box/"]
    assert found["box/a.txt"].etag == "d41d8cd98f00b204e9800998ecf8427e-2"
    assert found["box/a.txt"].md5 is None


async def test_an_object_above_the_limit_is_not_read_and_a_refusal_of_one_is_told(house: Workplace, site: Site) -> None:
    site.add("/jays/big.bin", b"x" * 11, "binary/octet-stream")
    site.add("/jays/huge.bin", b"x" * 100_000, "binary/octet-stream")
    site.pages["/jays/no.txt"] = error(403, "AccessDenied", message="No. " * 10)

    async with house.opened(S3, **settings_for(site, max_bytes=10)) as connector:
        for key in ("big.bin", "huge.bin"):
            with pytest.raises(FetchFailed) as failed:
                await read(connector, key)
            assert failed.value.error_type == "too_large"
        with pytest.raises(FetchFailed, match="AccessDenied"):
            await read(connector, "no.txt")
    async with house.opened(S3, **settings_for(site, max_bytes=11)) as connector:
        assert await read(connector, "big.bin") == b"x" * 11


@pytest.mark.parametrize("key", ["../other/secret.txt", "a/./b", "a/../b", "é" * 400])
async def test_a_key_that_no_address_can_have_fails_alone_and_asks_nobody(
    house: Workplace, site: Site, key: str
) -> None:
    async with house.opened(S3, **settings_for(site)) as connector:
        with pytest.raises(FetchFailed) as failed:
            await read(connector, key)

    assert failed.value.error_type == "invalid_url"
    assert site.requests == []


async def test_the_type_is_the_declared_one_or_what_the_name_says(house: Workplace, site: Site) -> None:
    site.add("/jays/a.md", b"# Jay", "binary/octet-stream")
    site.add("/jays/b.txt", b"<p>Jay</p>", "text/html; charset=utf-8")

    async with house.opened(S3, **settings_for(site)) as connector:
        types = [
            (await connector.read(SourceItem(key=key, key_hash=hash_key(key)))).content_type
            for key in ("a.md", "b.txt")
        ]

    assert types == ["text/markdown", "text/html; charset=utf-8"]


async def test_one_key_without_the_other_is_refused(house: Workplace, site: Site) -> None:
    with pytest.raises(InvalidRequest, match="belong together"):
        house.open(S3, settings_for(site, access_key_id="AKIA"))


@pytest.mark.parametrize(
    ("settings", "address"),
    [
        ({}, "https://jays.s3.us-east-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://jays.s3.cn-north-1.amazonaws.com.cn"),
        ({"path_style": True}, "https://s3.us-east-1.amazonaws.com/jays"),
        ({"bucket": "ja.ys"}, "https://s3.us-east-1.amazonaws.com/ja.ys"),
        ({"endpoint_url": "https://s3.example.com/"}, "https://s3.example.com/jays"),
        ({"endpoint_url": "https://s3.example.com", "path_style": False}, "https://jays.s3.example.com"),
    ],
)
async def test_the_bucket_is_in_the_path_at_endpoints_of_others_and_in_the_host_at_amazons(
    settings: dict[str, Any], address: str
) -> None:
    wanted = S3Settings.model_validate({"bucket": "jays", **settings})

    assert wanted.bucket is not None
    assert wanted.address_of(wanted.bucket) == address


@pytest.mark.parametrize(
    "settings",
    [
        {"bucket": "a/b"},
        {"bucket": "evil.com/?"},
        {"bucket": ".."},
        {"region": "us-east-1/../x"},
        {"endpoint_url": "file:///etc"},
        {"endpoint_url": "https://me:hunter2@s3.example.com"},
        {"endpoint_url": "https://s3.example.com/?x=1"},
        {"max_bytes": 0},
    ],
)
async def test_settings_that_could_lead_elsewhere_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        S3Settings.model_validate(settings)


async def test_xml_that_plays_with_entities_is_not_expanded() -> None:
    bomb = b"<!DOCTYPE x [<!ENTITY a 'aaaa'><!ENTITY b '&a;&a;'>]><Error><Code>&b;</Code></Error>"
    outside = b"<!DOCTYPE x [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><Error><Code>&f;</Code></Error>"

    assert not read_error(bomb).code
    assert not read_error(outside).code
    assert read_error(b"\0\xff not xml").code is None


async def test_keys_are_decoded_only_when_the_server_says_that_they_are_encoded() -> None:
    body = "<ListBucketResult>{}<Contents><Key>a%2Bb+c</Key><Size>1</Size></Contents></ListBucketResult>"

    assert read_listing(body.format("").encode()).objects[0].key == "a%2Bb+c"
    assert read_listing(body.format("<EncodingType>url</EncodingType>").encode()).objects[0].key == "a+b c"
