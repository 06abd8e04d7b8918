"""Plans over `/v1.0`: from their making, over runs on a real site, to their end."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.crawlplans.asking import documents, ended, make_collection, make_plan, plan_body, run
from tests.acceptance.crawlplans.conftest import NAMES
from tests.acceptance.house import House, Key
from tests.plans import article, set_pages
from tests.site import Site

pytestmark = pytest.mark.asyncio(loop_scope="module")

# In the order of the specification, with ours among them.
PLAN = [
    "Id", "TenantId", "Name", "RepositoryType", "IngestionSettings", "RepositorySettings", "Schedule", "Filter",
    "ProcessAdditions", "ProcessUpdates", "ProcessDeletions", "MaxDrainTasks", "RetentionDays", "MaxFailedShare",
    "Deletion", "IsActive",
    "State", "CreatedUtc", "LastUpdateUtc",
]  # fmt: skip
COUNTED = ("Enumerated", "Added", "Updated", "Deleted", "Success", "Failed")
OPERATION = {
    "Id", "TenantId", "CrawlPlanId", "State", "EnumerationFile", "StartUtc", "StartEnumerationUtc",
    "FinishEnumerationUtc", "StartRetrievalUtc", "FinishRetrievalUtc", "FinishUtc", "CreatedUtc", "LastUpdateUtc",
    "ObjectsUnchanged", "ObjectsWithheld", "ObjectsDenied", "ObjectsSkipped", "ObjectsWarned", "IsComplete",
    "Trigger", "JobId",
    *(f"{what}{how}" for what in ("Objects", "Bytes") for how in COUNTED),
}  # fmt: skip
STATISTICS = {
    "LastRun", "FailedRunCount", "SuccessfulRunCount", "ObjectCount", "BytesCrawled",
    *(f"{how}{what}" for how in ("Min", "Max", "Avg") for what in ("RuntimeMs", "ObjectCount", "BytesCrawled")),
}  # fmt: skip


async def test_a_plan_lives_from_its_making_to_its_documents(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    assert (plan["State"], "LastCrawlSuccess" in plan) == ("Stopped", False)

    operation = await run(library, owner, plan)

    assert (operation["State"], operation["CrawlPlanId"]) == ("Success", plan["Id"])
    assert (operation["ObjectsEnumerated"], operation["ObjectsAdded"], operation["ObjectsSuccess"]) == (6, 6, 6)
    assert set(operation) == OPERATION
    after = await library.plans("GET", f"/crawlplans/{plan['Id']}", owner)
    assert (after["State"], after["LastCrawlSuccess"], after["ExpectedStaleness"]) == ("Stopped", True, 0.0)
    assert after["LastCrawlStartUtc"] < after["LastCrawlFinishUtc"]
    assert all(value.endswith("Z") for name, value in {**operation, **after}.items() if name.endswith("Utc"))

    found = await documents(library, owner, crawlPlanId=plan["Id"])
    assert {each["SourceUrl"].removeprefix(site.url) for each in found} == {"/", *(f"/{name}" for name in NAMES)}
    assert {(each["CrawlPlanId"], each["CrawlOperationId"]) for each in found} == {(plan["Id"], operation["Id"])}
    # By their ids: meanwhile the index catches up, which changes their status.
    again = await documents(library, owner, crawlOperationId=operation["Id"])
    assert [each["Id"] for each in again] == [each["Id"] for each in found]
    assert await documents(library, owner, crawlOperationId=plan["Id"]) == []
    assert await documents(library, owner, crawlPlanId=plan["Id"], status="failed") == []


async def test_statistics_are_of_all_runs_or_of_one(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    path = f"/crawlplans/{plan['Id']}/operations"
    before = await library.plans("GET", f"{path}/statistics", owner)
    assert (before["SuccessfulRunCount"], before["ObjectCount"], "LastRun" in before) == (0, 0, False)
    first = await run(library, owner, plan)
    set_pages(site, [*NAMES, "more"])
    await run(library, owner, plan)

    both = await library.plans("GET", f"{path}/statistics", owner)
    one = await library.plans("GET", f"{path}/{first['Id']}/statistics", owner)

    assert set(both) == STATISTICS
    assert (both["SuccessfulRunCount"], both["FailedRunCount"]) == (2, 0)
    assert (both["MinObjectCount"], both["MaxObjectCount"], both["ObjectCount"]) == (6, 7, 13)
    assert both["MinBytesCrawled"] < both["AvgBytesCrawled"] < both["MaxBytesCrawled"] < both["BytesCrawled"]
    assert (one["MinObjectCount"], one["ObjectCount"], one["BytesCrawled"]) == (6, 6, first["BytesEnumerated"])
    assert 0 < one["MinRuntimeMs"] == one["MaxRuntimeMs"] == one["AvgRuntimeMs"]


async def test_the_enumeration_file_is_served_and_goes_with_its_operation(
    library: House, owner: Key, site: Site
) -> None:
    plan = await make_plan(library, owner, site.url)
    operation = await run(library, owner, plan)
    path = f"/crawlplans/{plan['Id']}/operations/{operation['Id']}"

    answer = await library.ask("GET", f"/v1.0{path}/enumeration", owner)

    facts = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert list(facts) == [
        "AllFiles", "Added", "Changed", "Deleted", "Unchanged", "Success", "Failed", "Warnings", "Skipped",
        "Statistics",
    ]  # fmt: skip
    assert (facts["Statistics"]["AddedCount"], facts["Statistics"]["SuccessCount"]) == (6, 6)
    assert {each["DocumentId"] for each in facts["Success"]} == {
        each["Id"] for each in await documents(library, owner, crawlPlanId=plan["Id"])
    }
    assert operation["EnumerationFile"] == f"{plan['Id']}/{operation['Id']}.json"
    await library.plans("DELETE", path, owner, status=204)
    for rest in ("", "/statistics", "/enumeration"):
        await library.plans("GET", path + rest, owner, status=404)
    assert len(await documents(library, owner, crawlPlanId=plan["Id"])) == 6


async def test_a_plan_of_a_name_and_a_type_is_made_but_not_started(library: House, owner: Key) -> None:
    plan = await library.plans("PUT", "/crawlplans", owner, status=201, json={"Name": "x", "RepositoryType": "Web"})
    assert list(plan) == PLAN
    assert (plan["MaxDrainTasks"], plan["RetentionDays"], plan["Filter"]) == (8, 7, {"MinimumSize": 0})
    assert plan["Schedule"] == {"IntervalType": "Hours", "IntervalValue": 24, "JitterSeconds": 0}
    assert plan["IngestionSettings"] == {"StoreInS3": True}
    assert {name: plan["RepositorySettings"][name] for name in ("RepositoryType", "MaxDepth", "CrawlDelayMs")} == {
        "RepositoryType": "Web", "MaxDepth": 5, "CrawlDelayMs": 100,
    }  # fmt: skip
    refused = await library.plans("POST", f"/crawlplans/{plan['Id']}/start", owner, status=400)
    assert refused == {
        "Error": "BadRequest",
        "Message": "StartUrl is needed to start the plan.",
        "StatusCode": 400,
        "Context": {"field": "RepositorySettings.StartUrl"},
    }
    checked = await library.plans("POST", f"/crawlplans/{plan['Id']}/connectivity", owner)
    assert checked == {"Success": False, "Message": "StartUrl is not set."}


def in_case(value: Any, fold: Any) -> Any:
    if isinstance(value, dict):
        return {fold(name): in_case(each, fold) for name, each in value.items()}
    return [in_case(each, fold) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("fold", [str.lower, str.upper, lambda name: name[:1].lower() + name[1:]])
async def test_members_and_enums_are_read_in_any_case(library: House, owner: Key, fold: Any) -> None:
    body = plan_body(
        "https://case.example/",
        web={"AuthenticationType": "bASIC", "Username": "Jay", "FollowLinks": False},
        RepositoryType="wEB",
        IngestionSettings={"StoreInS3": False, "S3BucketName": "Bucket"},
        Schedule={"IntervalType": "wEEKS", "IntervalValue": 2},
        Filter={"AllowedContentTypes": ["text/html"], "MinimumSize": 1, "MaximumSize": 2},
        Deletion={"MaxMissingShare": 1, "GraceRuns": 3},
        MaxDrainTasks=64,
    )
    plan = await library.plans("PUT", "/crawlplans", owner, status=201, json=in_case(body, fold))
    settings = plan["RepositorySettings"]
    assert (plan["RepositoryType"], settings["AuthenticationType"], settings["Username"]) == ("Web", "Basic", "Jay")
    assert settings["FollowLinks"] is False
    assert plan["IngestionSettings"] == {"StoreInS3": False, "S3BucketName": "Bucket"}
    assert (plan["Schedule"]["IntervalType"], plan["Schedule"]["IntervalValue"]) == ("Weeks", 2)
    assert plan["Filter"] == {"AllowedContentTypes": ["text/html"], "MinimumSize": 1, "MaximumSize": 2}
    assert plan["Deletion"] == {"MaxMissingShare": 1.0, "MinMissingItems": 20, "GraceRuns": 3}
    assert plan["MaxDrainTasks"] == 64


async def test_what_a_plan_says_can_be_sent_back_and_null_says_nothing(library: House, owner: Key) -> None:
    plan = await make_plan(library, owner, "https://back.example/", Filter={"ObjectPrefix": "https://back"})
    nulls = {"Schedule": None, "Filter": None, "MaxDrainTasks": None, "RepositoryType": None, "Surprise": {"a": None}}
    again = await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json=plan)
    moved = {name: plan[name] for name in ("LastUpdateUtc", "NextCrawlUtc")}  # as soon as it can, counted from now
    assert {**again, **moved} == plan
    assert again["LastUpdateUtc"] > plan["LastUpdateUtc"]
    reset = await library.plans("PUT", f"/crawlplans/{plan['Id']}", owner, json={**plan, **nulls})
    assert (reset["Filter"], reset["Schedule"]["IntervalType"]) == ({"MinimumSize": 0}, "Hours")


async def test_the_list_is_walked_by_tokens_in_either_order(library: House, owner: Key) -> None:
    made = [(await make_plan(library, owner, Name=f"Plan {number}"))["Id"] for number in range(5)]
    for ordering, expected in (("CreatedAscending", made), ("createddescending", made[::-1]), (None, made[::-1])):
        seen, token, remaining = [], None, []
        while True:
            params = {"maxResults": 2, "ordering": ordering, "continuationToken": token}
            sent = {name: value for name, value in params.items() if value is not None}
            page = await library.plans("GET", "/crawlplans", owner, params=sent)
            assert (page["Success"], page["MaxResults"], page["TotalRecords"]) == (True, 2, 5)
            assert page["TotalMs"] >= 0
            seen += [each["Id"] for each in page["Objects"]]
            remaining.append(page["RecordsRemaining"])
            token = page.get("ContinuationToken")
            assert (token is None) is page["EndOfResults"]
            if token is None:
                break
        assert (seen, remaining) == (expected, [3, 1, 0])


async def test_a_token_of_another_list_is_refused(library: House, owner: Key) -> None:
    for number in range(3):
        await make_plan(library, owner, Name=f"Plan {number}")
    page = await library.plans("GET", "/crawlplans?maxResults=1", owner)
    token = page["ContinuationToken"]
    for path, params in (
        ("/documents", {}),
        ("/ingestion-rules", {}),
        ("/crawlplans", {"ordering": "CreatedAscending"}),
        (f"/crawlplans/{page['Objects'][0]['Id']}/operations", {}),
    ):
        refused = await library.plans("GET", path, owner, status=400, params={**params, "continuationToken": token})
        assert refused["Error"] == "BadRequest"
        assert "continuationToken" in refused["Message"]


async def test_head_says_whether_a_plan_is_there(library: House, owner: Key) -> None:
    plan = await make_plan(library, owner)
    answer = await library.ask("HEAD", f"/v1.0/crawlplans/{plan['Id']}", owner)
    assert (answer.status_code, answer.content) == (200, b"")
    await library.plans("DELETE", f"/crawlplans/{plan['Id']}", owner, status=204)
    assert (await library.ask("HEAD", f"/v1.0/crawlplans/{plan['Id']}", owner)).status_code == 404


async def test_a_running_plan_is_not_started_again_and_can_be_stopped(library: House, owner: Key, site: Site) -> None:
    site.latency_seconds = 0.3
    plan = await make_plan(library, owner, site.url, web={"MaxParallelTasks": 1})
    path = f"/crawlplans/{plan['Id']}"
    started = await library.plans("POST", f"{path}/start", owner)
    assert (started["State"], "LastCrawlStartUtc" in started) == ("Running", True)
    assert (await library.plans("POST", f"{path}/start", owner, status=409))["Error"] == "Conflict"
    running = (await library.plans("GET", f"{path}/operations", owner))["Objects"][0]
    assert (await library.plans("DELETE", f"{path}/operations/{running['Id']}", owner, status=409))["StatusCode"] == 409
    await library.plans("GET", f"{path}/operations/{running['Id']}/enumeration", owner, status=404)

    stopped = await library.plans("POST", f"{path}/stop", owner)

    assert stopped["State"] == "Stopped"
    assert (await ended(library, owner, plan))["State"] == "Canceled"
    assert (await library.plans("POST", f"{path}/stop", owner))["State"] == "Stopped"
    await asyncio.sleep(1)
    assert (await library.plans("GET", f"{path}/operations", owner))["TotalRecords"] == 1


async def test_enumerate_is_a_bare_array_that_takes_nothing_in(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    path = f"/crawlplans/{plan['Id']}/enumerate"
    seen = await library.plans("GET", path, owner)
    assert {each["Key"].removeprefix(site.url) for each in seen} == {"/", *(f"/{name}" for name in NAMES)}
    assert {"Key", "ContentType", "ContentLength"} <= set(seen[0])
    assert len(await library.plans("GET", f"{path}?maxResults=2", owner)) == 2
    assert len(await library.plans("GET", f"{path}?maxResults=100&skip=4", owner)) == 2
    assert await library.plans("GET", f"{path}?skip=100", owner) == []
    assert await documents(library, owner) == []
    assert (await library.plans("GET", f"/crawlplans/{plan['Id']}/operations", owner))["TotalRecords"] == 0


async def test_connectivity_says_yes_or_why_not(library: House, owner: Key, site: Site) -> None:
    plan = await make_plan(library, owner, site.url)
    path = f"/crawlplans/{plan['Id']}"
    good = await library.plans("POST", f"{path}/connectivity", owner)
    assert (good["Success"], list(good)) == (True, ["Success", "Message"])
    for url in (f"{site.url}/nothing", "http://127.0.0.1:1/"):
        await library.plans("PUT", path, owner, json=plan_body(url))
        bad = await library.plans("POST", f"{path}/connectivity", owner)
        assert bad["Success"] is False
        assert bad["Message"]


async def test_withheld_deletions_are_confirmed_by_a_start(library: House, owner: Key, site: Site) -> None:
    guard = {"MaxMissingShare": 0.2, "MinMissingItems": 1}
    plans = [
        await make_plan(
            library, owner, site.url, ProcessDeletions=True, Deletion=guard,
            IngestionSettings={"CollectionId": await make_collection(library, owner, name)},
        )
        for name in ("withheld", "confirmed")
    ]  # fmt: skip
    for plan in plans:
        await run(library, owner, plan)
    set_pages(site, NAMES[2:])

    withheld = await run(library, owner, plans[0])
    confirmed = await run(library, owner, plans[1], confirmDeletions=True)

    assert (withheld["ObjectsDeleted"], withheld["ObjectsWithheld"]) == (0, 2)
    assert (confirmed["ObjectsDeleted"], confirmed["ObjectsWithheld"]) == (2, 0)
    left = [len(await documents(library, owner, crawlPlanId=plan["Id"])) for plan in plans]
    assert left == [6, 4]


async def test_a_plan_may_be_of_another_repository_type(library: House, owner: Key, shelf: Path) -> None:
    (shelf / "one.md").write_text("# One\n\nThe first of two files on the shelf.")
    (shelf / "two.md").write_text("# Two\n\nThe second of two files on the shelf.")
    body = {
        "Name": "Files",
        "RepositoryType": "file",
        "RepositorySettings": {"Path": str(shelf), "followSymlinks": False, "StartUrl": "https://ignored.example/"},
        "Schedule": {"IntervalType": "OneTime"},
        "IsActive": False,
    }
    plan = await library.plans("PUT", "/crawlplans", owner, status=201, json=body)
    assert plan["RepositoryType"] == "File"
    assert plan["RepositorySettings"] == {
        "RepositoryType": "File", "Path": str(shelf), "Recursive": True, "FollowSymlinks": False,
        "MaxBytes": 50 * 1024 * 1024,
    }  # fmt: skip
    operation = await run(library, owner, plan)
    assert (operation["State"], operation["ObjectsAdded"]) == ("Success", 2), operation
    assert {each["Name"] for each in await documents(library, owner, crawlPlanId=plan["Id"])} == {"One", "Two"}


async def test_a_plan_puts_documents_where_its_rule_says(library: House, owner: Key, site: Site) -> None:
    rule = await library.plans(
        "PUT", "/ingestion-rules", owner, status=201,
        json={"Name": "Short", "CollectionName": "Pages", "Labels": ["Crawled"],
              "Chunking": {"Strategy": "FixedTokenCount", "FixedTokenCount": 32}},
    )  # fmt: skip
    plan = await make_plan(library, owner, site.url, IngestionSettings={"IngestionRuleId": rule["Id"]})
    await run(library, owner, plan)
    found = await documents(library, owner, crawlPlanId=plan["Id"])
    assert {each["IngestionRuleId"] for each in found} == {rule["Id"]}
    assert {each["CollectionId"] for each in found} == {rule["CollectionId"]}
    assert {tuple(each["Labels"]) for each in found} == {("crawled",)}
    assert all(each["ChunkCount"] > 1 for each in found)
    refused = await library.plans("DELETE", f"/ingestion-rules/{rule['Id']}", owner, status=409)
    assert plan["Name"] in refused["Message"]


async def test_a_deleted_plan_leaves_its_documents_unless_asked_otherwise(
    library: House, owner: Key, site: Site
) -> None:
    for purge in (False, True):
        plan = await make_plan(library, owner, site.url)
        operation = await run(library, owner, plan)
        path = f"/crawlplans/{plan['Id']}"
        params = {"documents": "true"} if purge else {}
        await library.plans("DELETE", path, owner, status=204, params=params)
        for gone in (path, f"{path}/operations", f"{path}/operations/{operation['Id']}"):
            assert (await library.plans("GET", gone, owner, status=404))["Error"] == "NotFound"
        assert len(await documents(library, owner, crawlPlanId=plan["Id"])) == (0 if purge else 6)


async def test_a_page_that_repeats_the_json_of_its_plan_is_only_a_page(library: House, owner: Key, site: Site) -> None:
    """Text of a site that looks like members of ours changes nothing but the text of a document."""
    site.add("/", article("home", text=json.dumps({"State": "Running", "Id": "cplan_x"}) + " and more words. " * 20))
    plan = await make_plan(library, owner, site.url)
    operation = await run(library, owner, plan)
    assert (operation["State"], operation["ObjectsAdded"]) == ("Success", 1)
