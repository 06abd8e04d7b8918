"""Bad input to `/v1.0`: 400 in this door's shape with the member named, on making and on changing; never 500."""

from typing import Any

import pytest
import pytest_asyncio
from tests.acceptance.crawlplans.asking import make_plan, plan_body, upload
from tests.acceptance.house import House, Key
from tests.logbook import Logbook

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The path of a member, the values that are refused, and the range that the refusal names.
RANGES: dict[str, tuple[tuple[Any, ...], str]] = {
    "MaxDrainTasks": ((0, 65, -1, 10**30), "between 1 and 64"),
    "RetentionDays": ((-1, 15), "between 0 and 14"),
    "MaxFailedShare": ((-0.5, 1.5), "between 0 and 1"),
    "Schedule.IntervalValue": ((0, 10_081), "between 1 and 10080"),
    "Schedule.JitterSeconds": ((-1, 86_401), "between 0 and 86400"),
    "Schedule.RequestsPerDay": ((23,), "between 24 and 100000000"),
    "Filter.MinimumSize": ((-1,), "0 or more"),
    "Filter.MaximumSize": ((-1,), "0 or more"),
    "Deletion.MaxMissingShare": ((-0.1, 1.1), "between 0 and 1"),
    "Deletion.MinMissingItems": ((0,), "between 1 and 1000000"),
    "Deletion.GraceRuns": ((-1, 101), "between 0 and 100"),
    "RepositorySettings.MaxDepth": ((0, 101), "between 1 and 100"),
    "RepositorySettings.MaxParallelTasks": ((0, 65), "between 1 and 64"),
    "RepositorySettings.CrawlDelayMs": ((-1, 60_001), "between 0 and 60000"),
    "RepositorySettings.MaxPages": ((0,), "between 1 and 100000000"),
}
WRONG: dict[str, tuple[Any, ...]] = {
    "Name": ("", "   ", 7, [], {}, True, "x" * 256, "a\x00b", "line\nbreak", "\u202e"),
    "RepositoryType": ("Fax", 7, [], {}, "x" * 10_000),
    "ProcessAdditions": ("yes", 1, "true", []),
    "ProcessUpdates": ("no",),
    "ProcessDeletions": (0,),
    "IsActive": ("true",),
    "MaxDrainTasks": ("8", 8.5, True, [8], {}),
    "RetentionDays": ("7", False),
    "IngestionSettings": (7, "x", [], True),
    "IngestionSettings.StoreInS3": ("true", 1),
    "IngestionSettings.IngestionRuleId": (7, "x" * 65),
    "IngestionSettings.Export": ("pdf", 7, [], {}, True),
    "IngestionSettings.S3BucketName": (7, "x" * 3000),
    "RepositorySettings": (7, "x", [], True),
    "RepositorySettings.StartUrl": (
        7, [], "nonsense", "ftp://a.example/", "https://", "https://a.example/" + "x" * 3000, "https://exa mple/",
        "https://jay:hunter2@a.example/", "file:///etc/passwd", "javascript:alert(1)",
    ),
    "RepositorySettings.AuthenticationType": ("Digest", 7, {}),
    "RepositorySettings.Username": (7, "x" * 201, "a\r\nb"),
    "RepositorySettings.Password": (7, {}, "x" * 10_000),
    "RepositorySettings.ApiKeyHeader": ("a b", "X\r\nY", "é"),
    "RepositorySettings.UserAgent": (7, "x" * 501, "a\nb"),
    "RepositorySettings.FollowLinks": ("yes", 1),
    "RepositorySettings.MaxDepth": ("5", 5.5, True),
    "RepositorySettings.IncludePatterns": ("x", [7], ["x"] * 101),
    "Schedule": (7, "daily", []),
    "Schedule.IntervalType": ("Fortnights", 7, True),
    "Schedule.IntervalValue": ("24", 1.5),
    "Schedule.Cron": (7, "every day", "61 * * * *", "* * * * * *", "0 0 31 2 *", "x" * 201),
    "Filter": (7, []),
    "Filter.ObjectPrefix": (7, "x" * 3000),
    "Filter.AllowedContentTypes": ("text/html", [7], [""], ["x" * 300], ["text/a"] * 101),
    "Deletion": ("never",),
    "Deletion.MaxMissingShare": ("0.5", True),
}  # fmt: skip


def with_member(path: str, value: Any) -> dict[str, Any]:
    part, _, member = path.partition(".")
    body = plan_body("https://good.example/")
    if not member:
        return {**body, part: value}
    return {**body, part: {**body.get(part, {}), member: value}}


def shape(answer: dict[str, Any]) -> tuple[str, int]:
    assert set(answer) <= {"Error", "Message", "StatusCode", "Context", "Description"}
    return answer["Error"], answer["StatusCode"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def one(library: House) -> Key:
    return await library.key(tenant="of bad input")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plan(library: House, one: Key) -> dict[str, Any]:
    return await make_plan(library, one, "https://good.example/")


@pytest.mark.parametrize("path", RANGES)
async def test_what_is_outside_its_range_is_refused_with_the_range(
    library: House, one: Key, plan: dict[str, Any], path: str
) -> None:
    values, said = RANGES[path]
    for value in values:
        for place in ("/crawlplans", f"/crawlplans/{plan['Id']}"):
            refused = await library.plans("PUT", place, one, status=400, json=with_member(path, value))
            assert shape(refused) == ("BadRequest", 400)
            assert refused["Message"].startswith(f"{path}: must be {said}"), refused


@pytest.mark.parametrize("path", WRONG)
async def test_what_makes_no_sense_is_400_and_names_the_member(
    library: House, one: Key, plan: dict[str, Any], path: str, logbook: Logbook
) -> None:
    for value in WRONG[path]:
        for place in ("/crawlplans", f"/crawlplans/{plan['Id']}"):
            refused = await library.plans("PUT", place, one, status=400, json=with_member(path, value))
            assert shape(refused) == ("BadRequest", 400)
            context = refused["Context"]
            named = context.get("field") or context["fields"][0]["field"]
            assert path.rpartition(".")[2] in named, (value, refused)
            assert "hunter2" not in str(refused)
    assert "hunter2" not in logbook.text
    assert await library.plans("GET", f"/crawlplans/{plan['Id']}", one) == {**plan, "ExpectedStaleness": 0.0}


async def test_sizes_types_and_credentials_that_contradict_each_other_are_400(library: House, one: Key) -> None:
    for body in (
        {"Filter": {"MinimumSize": 2, "MaximumSize": 1}},
        {"RepositoryType": "Web", "RepositorySettings": {"RepositoryType": "File"}},
        {"RepositorySettings": {"RepositoryType": 7}},
        {"RepositoryType": "File", "Schedule": {"RequestsPerDay": 1000}},
        {"RepositoryType": "File", "RepositorySettings": {"Path": "not/absolute"}},
        {"RepositoryType": "Feed", "RepositorySettings": {"Url": "nonsense"}},
        {"RepositoryType": "AmazonS3", "RepositorySettings": {"Bucket": "no/bucket"}},
    ):
        assert shape(await library.plans("PUT", "/crawlplans", one, status=400, json=body)) == ("BadRequest", 400), body


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "application/json"),
        (b"{", "application/json"),
        (b"\xff\xfe", "application/json"),
        (b'{"Name": "\\ud800"}', "application/json"),
        (b'{"Name": NaN}', "application/json"),
        (b'{"Deletion": {"MaxMissingShare": NaN}}', "application/json"),
        (b'{"RepositorySettings": {"StartUrl": "\\u0000"}}', "application/json"),
        (b"[]", "application/json"),
        (b"null", "application/json"),
        (b'"text"', "application/json"),
        (b"7", "application/json"),
        (b"[" * 5000 + b"]" * 5000, "application/json"),
        (b'{"RepositorySettings": ' + b'{"a":' * 200 + b"1" + b"}" * 201, "application/json"),
        (b'{"MaxDrainTasks": ' + b"9" * 5000 + b"}", "application/json"),
        (b"Name=x", "application/x-www-form-urlencoded"),
        (b"--b\r\n", "multipart/form-data; boundary=b"),
    ],
)
async def test_a_body_that_is_no_plan_is_400(library: House, one: Key, content: bytes, kind: str) -> None:
    for path in ("/crawlplans", "/ingestion-rules", "/documents"):
        answer = await library.ask("PUT", f"/v1.0{path}", one, content=content, headers={"Content-Type": kind})
        assert (answer.status_code, *shape(answer.json())) == (400, "BadRequest", 400), answer.text


@pytest.mark.parametrize(
    ("member", "body"),
    [
        ("Name", {}),
        ("Name", {"Name": ""}),
        ("Name", {"Name": "x" * 256}),
        ("Description", {"Name": "r", "Description": 7}),
        ("Labels", {"Name": "r", "Labels": "one"}),
        ("Labels", {"Name": "r", "Labels": ["$$$"]}),
        ("Labels", {"Name": "r", "Labels": ["x"] * 101}),
        ("Tags", {"Name": "r", "Tags": {"a": 7}}),
        ("Tags", {"Name": "r", "Tags": []}),
        ("Summarization", {"Name": "r", "Summarization": 7}),
        ("Summarization", {"Name": "r", "Summarization": {"a": "x" * 70_000}}),
        ("Chunking", {"Name": "r", "Chunking": "small"}),
        ("Chunking.Strategy", {"Name": "r", "Chunking": {"Strategy": "Guess"}}),
        ("Chunking.FixedTokenCount", {"Name": "r", "Chunking": {"FixedTokenCount": 15}}),
        ("Chunking.FixedTokenCount", {"Name": "r", "Chunking": {"FixedTokenCount": "256"}}),
        ("Chunking.OverlapPercentage", {"Name": "r", "Chunking": {"OverlapPercentage": 10}}),
        ("Chunking", {"Name": "r", "Chunking": {"FixedTokenCount": 16, "OverlapCount": 16}}),
        ("Chunking", {"Name": "r", "Chunking": {"OverlapPercentage": 1}}),
        ("Chunking.RowGroupSize", {"Name": "r", "Chunking": {"RowGroupSize": 0}}),
        ("Chunking", {"Name": "r", "Chunking": {"Strategy": "RegexBased"}}),
        ("Chunking.RegexPattern", {"Name": "r", "Chunking": {"Strategy": "RegexBased", "RegexPattern": "("}}),
        ("Chunking.RegexPattern", {"Name": "r", "Chunking": {"RegexPattern": "x" * 501}}),
        ("Embedding.L2Normalization", {"Name": "r", "Embedding": {"L2Normalization": "yes"}}),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_a_rule_that_makes_no_sense_is_400(library: House, one: Key, member: str, body: dict[str, Any]) -> None:
    refused = await library.plans("PUT", "/ingestion-rules", one, status=400, json=body)
    assert shape(refused) == ("BadRequest", 400)
    assert (refused["Context"].get("field") or refused["Context"]["fields"][0]["field"]).startswith(member), refused
    assert (await library.plans("GET", "/ingestion-rules", one))["TotalRecords"] == 0


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"Base64Content": ""},
        {"Base64Content": "%%%"},
        {"Base64Content": "QQ"},
        {"Base64Content": 7},
        {"Base64Content": "Grüße"},
        {"Base64Content": "    "},
        {"Base64Content": "QQ==", "OriginalFilename": "x" * 300},
        {"Base64Content": "QQ==", "Name": 7},
        {"Base64Content": "QQ==", "Labels": ["$$$"]},
        {"Base64Content": "QQ==", "Tags": {"a": ["b"]}},
        {"Base64Content": "QQ==", "ContentType": "x" * 300},
    ],
    ids=lambda value: str(value)[:50],
)
async def test_an_upload_that_makes_no_sense_is_400(library: House, one: Key, body: dict[str, Any]) -> None:
    refused = await library.plans("PUT", "/documents", one, status=400, json=body)
    assert shape(refused) == ("BadRequest", 400)
    assert (await library.plans("GET", "/documents", one))["TotalRecords"] == 0


@pytest.mark.parametrize("body", [{}, {"DocumentIds": []}, {"DocumentIds": "x"}, {"DocumentIds": [7]}, []])
async def test_a_deletion_that_names_nothing_is_400(library: House, one: Key, body: Any) -> None:
    assert shape(await library.plans("POST", "/documents/delete", one, status=400, json=body)) == ("BadRequest", 400)


@pytest.mark.parametrize("query", ["maxResults=0", "maxResults=1001", "maxResults=x", "maxResults=", "maxResults=-1"])
async def test_a_page_of_an_impossible_size_is_400_with_the_range(
    library: House, one: Key, plan: dict[str, Any], query: str
) -> None:
    for path in ("/crawlplans", "/documents", "/ingestion-rules", f"/crawlplans/{plan['Id']}/operations"):
        refused = await library.plans("GET", f"{path}?{query}", one, status=400)
        assert (*shape(refused), "maxResults" in refused["Message"]) == ("BadRequest", 400, True)
        if query[-1].isdigit():
            assert "between 1 and 1000" in refused["Message"]


@pytest.mark.parametrize(
    "query",
    [
        "ordering=Sideways", "continuationToken=x", "continuationToken=%F0%9F%A6%9C", "continuationToken=W10",
        "continuationToken=" + "x" * 501, "continuationToken=bnVsbA", "status=Lost", "crawlPlanId=" + "x" * 65,
    ],
)  # fmt: skip
async def test_a_query_that_makes_no_sense_is_400(library: House, one: Key, query: str) -> None:
    assert shape(await library.plans("GET", f"/documents?{query}", one, status=400)) == ("BadRequest", 400)


async def test_a_look_at_too_much_is_400(library: House, one: Key, plan: dict[str, Any]) -> None:
    for query in ("maxResults=0", "maxResults=1001", "skip=-1", "skip=10000", "skip=99999999999999999999", "skip=x"):
        refused = await library.plans("GET", f"/crawlplans/{plan['Id']}/enumerate?{query}", one, status=400)
        assert shape(refused) == ("BadRequest", 400), query
    await library.plans("POST", f"/crawlplans/{plan['Id']}/start?confirmDeletions=perhaps", one, status=400)
    await library.plans("DELETE", f"/crawlplans/{plan['Id']}?documents=perhaps", one, status=400)


@pytest.mark.parametrize("identifier", ["x", "cplan_", "adoc_x", "..%2f..", "%00", "x" * 3000, "00000000-0000"])
async def test_an_id_that_is_none_is_404(library: House, one: Key, identifier: str) -> None:
    for path in ("/crawlplans", "/documents", "/ingestion-rules"):
        answer = await library.ask("GET", f"/v1.0{path}/{identifier}", one)
        assert (answer.status_code, answer.json()["Error"]) == (404, "NotFound")


async def test_a_method_that_is_not_there_is_405_in_this_doors_shape(library: House, one: Key) -> None:
    answer = await library.ask("POST", "/v1.0/crawlplans", one, json={})
    assert (answer.status_code, *shape(answer.json())) == (405, "BadRequest", 405)


async def test_after_all_that_an_upload_is_taken(library: House) -> None:
    key = await library.key(tenant="after bad input")
    assert (await upload(library, key, "Everything goes on as before."))["Status"] == "Completed"
