"""Documents and ingestion rules over `/v1.0`: uploads, what is said about them, and where rules put them."""

import base64
import re

import pytest
from tests.acceptance.crawlplans.asking import documents, make_collection, make_plan, run, upload
from tests.acceptance.house import House, Key
from tests.site import Reply, Site
from tests.unit.extract import office_files

from scrubjay.api.middleware import MAX_BODY_BYTES, MAX_DOCUMENT_BODY_BYTES
from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINE = re.compile(r"\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\] \[(INFO|ERROR)\] .+")


async def test_an_upload_is_read_and_described(library: House, owner: Key) -> None:
    made = await upload(library, owner, "# Jays\n\nA note about jays.", "Jays.md", contentType="text/markdown")
    assert (made["Status"], made["OriginalFilename"], made["ContentType"]) == ("Completed", "Jays.md", "text/markdown")
    assert (made["Name"], made["SizeBytes"], made["ChunkCount"], made["Version"]) == ("Jays", 26, 1, 1)
    assert not {"SourceUrl", "CrawlPlanId", "ErrorMessage", "BucketName", "S3Key"} & set(made)
    assert made["CreatedUtc"].endswith("Z")
    assert await library.plans("GET", f"/documents/{made['Id']}", owner) == made
    assert (await library.ask("HEAD", f"/v1.0/documents/{made['Id']}", owner)).status_code == 200
    assert await documents(library, owner, status="COMPLETED") == [made]
    assert await documents(library, owner, status="Failed") == []


async def test_the_same_file_name_again_is_a_new_version_of_the_one_document(library: House, owner: Key) -> None:
    first = await upload(library, owner, "The first of two.", "same.txt", Name="Titled")
    second = await upload(library, owner, "The second of two.", "folder/same.txt", Name="Titled")
    assert (second["Id"], second["Version"], second["Name"]) == (first["Id"], 2, "Titled")
    assert len(await documents(library, owner)) == 1


async def test_the_processing_log_has_a_line_for_each_step(library: House, owner: Key) -> None:
    made = await upload(library, owner, "A note that is logged.")
    log = await library.plans("GET", f"/documents/{made['Id']}/processing-log", owner)
    assert (set(log), log["DocumentId"]) == ({"DocumentId", "Log"}, made["Id"])
    lines = log["Log"].split("\n")
    assert len(lines) > 1
    assert all(LINE.fullmatch(line) for line in lines), lines
    assert re.search(r"\[INFO\] Step completed in \d+\.\d\dms — ", log["Log"])


async def test_what_cannot_be_read_is_a_failed_document_that_says_why(library: House, owner: Key) -> None:
    made = await upload(library, owner, office_files.pdf(encrypted=True), "locked.pdf", ContentType="application/pdf")
    assert (made["Status"], bool(made["ErrorMessage"])) == ("Failed", True)
    assert [each["Id"] for each in await documents(library, owner, status="failed")] == [made["Id"]]
    log = await library.plans("GET", f"/documents/{made['Id']}/processing-log", owner)
    assert f"[ERROR] {made['ErrorMessage']}" in log["Log"]


async def test_the_bytes_are_downloaded_as_they_came(library: House, owner: Key) -> None:
    data = "<h1>Größe</h1><script>alert(1)</script><p>Words in a page.</p>".encode()
    made = await upload(library, owner, data, 'Größe "x".html', ContentType="text/html; charset=utf-8")
    answer = await library.ask("GET", f"/v1.0/documents/{made['Id']}/download", owner)
    assert (answer.status_code, answer.content) == (200, data)
    assert answer.headers["content-type"].startswith("text/html")
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''Gr%C3%B6%C3%9Fe%20%22x%22.html"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_content_type_that_is_none_is_never_sent_as_a_header(library: House, owner: Key) -> None:
    made = await upload(library, owner, "Words.", "odd.txt", ContentType="text/plain\r\nSet-Cookie: stolen=1")
    answer = await library.ask("GET", f"/v1.0/documents/{made['Id']}/download", owner)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/octet-stream")
    assert "set-cookie" not in answer.headers


async def test_originals_that_a_plan_does_not_keep_are_404(library: House, owner: Key, site: Site) -> None:
    for kept, status in ((True, 200), (False, 404)):
        collection_id = await make_collection(library, owner, f"originals {kept}")
        settings = {"StoreInS3": kept, "CollectionId": collection_id}
        plan = await make_plan(library, owner, site.url, IngestionSettings=settings)
        await run(library, owner, plan)
        (page,) = [
            each
            for each in await documents(library, owner, crawlPlanId=plan["Id"])
            if each["SourceUrl"].endswith("/page1")
        ]
        answer = await library.ask("GET", f"/v1.0/documents/{page['Id']}/download", owner)
        assert answer.status_code == status, answer.text
        if kept:
            assert isinstance(reply := site.pages["/page1"], Reply)
            assert answer.content == reply.data


async def test_a_rule_says_where_an_upload_goes_and_how_it_is_cut(library: House, owner: Key) -> None:
    rule = await library.plans(
        "PUT", "/ingestion-rules", owner, status=201,
        json={
            "name": "Notes", "collectionname": "Notes", "LABELS": ["Noted"], "tags": {"Team": "Birds"},
            "chunking": {"strategy": "fixedtokencount", "FIXEDtokencount": 16, "overlapPercentage": 0.25},
        },
    )  # fmt: skip
    text = " ".join(f"Sentence number {number} is about jays." for number in range(30))
    made = await upload(library, owner, text, IngestionRuleId=rule["Id"], Labels=["Own"], Tags={"By": "Jay"})
    assert (made["IngestionRuleId"], made["CollectionId"]) == (rule["Id"], rule["CollectionId"])
    assert (sorted(made["Labels"]), made["Tags"]) == (["noted", "own"], {"Team": "Birds", "By": "Jay"})
    assert made["ChunkCount"] > 10
    assert await documents(library, owner) == [made]


async def test_rules_are_made_listed_changed_and_removed(library: House, owner: Key) -> None:
    body = {
        "Name": "Rule", "Description": "What it is for", "Bucket": "docs", "CollectionName": "Ruled",
        "Labels": ["One", "Two"], "Tags": {"A": "b"}, "Summarization": {"Order": "TopDown", "Nested": {"Deep": None}},
        "Chunking": {
            "Strategy": "RegexBased", "FixedTokenCount": 128, "OverlapCount": 8, "OverlapStrategy": "SlidingWindow",
            "RowGroupSize": 7, "ContextPrefix": "Jays: ", "RegexPattern": "\n\n",
        },
        "Embedding": {"EmbeddingEndpointId": "eep_1", "L2Normalization": True},
    }  # fmt: skip
    made = await library.plans("PUT", "/ingestion-rules", owner, status=201, json=body)
    assert {name: made[name] for name in body} == {**body, "Labels": ["one", "two"]}
    path = f"/ingestion-rules/{made['Id']}"
    assert await library.plans("GET", path, owner) == made
    listed = await library.plans("GET", "/ingestion-rules", owner)
    assert (listed["Objects"], listed["TotalRecords"], listed["EndOfResults"]) == ([made], 1, True)
    assert (await library.plans("PUT", "/ingestion-rules", owner, status=409, json=body))["Error"] == "Conflict"

    changed = await library.plans("PUT", path, owner, json={"Name": "Renamed", "Id": "x", "CreatedUtc": "x"})

    assert (changed["Id"], changed["Name"], changed["CreatedUtc"]) == (made["Id"], "Renamed", made["CreatedUtc"])
    assert not {"Chunking", "Embedding", "Summarization", "CollectionId", "Description"} & set(changed)
    await library.plans("DELETE", path, owner, status=204)
    assert (await library.ask("HEAD", f"/v1.0{path}", owner)).status_code == 404
    assert (await library.plans("GET", path, owner, status=404))["Error"] == "NotFound"


async def test_a_chunking_of_which_little_is_said_has_the_contracts_defaults(library: House, owner: Key) -> None:
    body = {"Name": "Little", "Chunking": {"OverlapCount": 4}}
    made = await library.plans("PUT", "/ingestion-rules", owner, status=201, json=body)
    assert made["Chunking"] == {"Strategy": "FixedTokenCount", "FixedTokenCount": 256, "OverlapCount": 4}


async def test_documents_are_listed_in_either_order(library: House, owner: Key) -> None:
    ids = [(await upload(library, owner, f"Note {number}.", f"{number}.txt"))["Id"] for number in range(3)]
    oldest_first = await documents(library, owner, ordering="CreatedAscending", maxResults=2)
    assert [each["Id"] for each in oldest_first] == ids
    assert [each["Id"] for each in await documents(library, owner)] == ids[::-1]


async def test_a_large_upload_is_taken_and_a_larger_one_is_413(library: House, owner: Key) -> None:
    text = "The same words again. " * (MAX_BODY_BYTES // 15)
    made = await upload(library, owner, text, "large.txt")
    assert made["SizeBytes"] == len(text)
    headers = {"Content-Type": "application/json", "Content-Length": str(MAX_DOCUMENT_BODY_BYTES + 1)}
    answer = await library.ask("PUT", "/v1.0/documents", owner, content=b"", headers=headers)
    assert (answer.status_code, answer.json()["Error"], answer.json()["StatusCode"]) == (413, "BadRequest", 413)


async def test_a_large_body_is_not_read_before_its_key_was_seen(library: House) -> None:
    reader = await library.key(Scope.READ, tenant="only readers of plans")
    body = base64.b64encode(b"x" * 2 * MAX_BODY_BYTES)
    for headers, status, error in (
        ({}, 401, "AuthenticationFailed"),
        ({"X-Api-Key": reader.text}, 403, "AuthorizationFailed"),
    ):
        answer = await library.ask("PUT", "/v1.0/documents", headers=headers, content=body)
        assert (answer.status_code, answer.json()["Error"]) == (status, error)
        assert answer.headers["connection"] == "close"
