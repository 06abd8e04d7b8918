"""`/api/v1/documents`: what is given is found, kept in every version, compared, tagged, ended and brought back."""

import hashlib
from datetime import datetime
from typing import Any

import pytest
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, found, until
from tests.unit.extract import office_files

from scrubjay.model.clock import utc_now

pytestmark = pytest.mark.asyncio(loop_scope="module")

GUIDE = """# Keeping jays

Scrub jays hide acorns in autumn and remember thousands of places.

## Food

| season | food |
|---|---|
| autumn | acorns |
| spring | caterpillars |

## Code

```python
def hide(acorn):
    return place(acorn)
```

- peanuts
- sunflower seeds
"""


async def test_a_document_is_found_when_the_answer_comes(library: House, owner: Key) -> None:
    made = await add(library, owner, GUIDE, url="https://Jays.example:443/guide/#top", title="Jays")
    assert (made["status"], made["version"], made["error"], made["source"]) == ("Completed", 1, None, "api")
    assert (made["url"], made["domain"]) == ("https://jays.example/guide", "jays.example")
    assert made["chunk_count"] >= 1
    assert await found(library, owner, "where do jays hide acorns") == [made["id"]]
    read = await library.api("GET", f"/documents/{made['id']}", owner)
    assert read == made | {"content": read["content"]}
    assert "remember thousands of places" in read["content"]
    assert made["content_hash"] == hashlib.sha256(read["content"].encode()).hexdigest()


async def test_both_spellings_of_an_id_lead_to_the_document(library: House, owner: Key) -> None:
    made = await add(library, owner, "A document with two spellings of its id.")
    listed = (await library.jay.documents.page(await who(library, owner), query())).items[0]
    assert (await library.api("GET", f"/documents/{listed.id}", owner))["id"] == made["id"] != listed.id


async def who(library: House, key: Key) -> Any:
    return (await library.jay.access.authenticate(key.text))[0]


def query() -> Any:
    from scrubjay.services.documents import DocumentQuery

    return DocumentQuery()


async def test_what_is_said_about_a_document_is_kept(library: House, owner: Key) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "birds"})
    said = {
        "title": "Ein Häher",
        "language": "de",
        "tags": ["Birds", "birds", "blue-grey"],
        "metadata": {"author": "J. Häher", "keywords": ["häher"], "deep": {"n": 1.5}},
        "collection_id": collection["id"],
    }
    made = await add(library, owner, "Der Häher versteckt Eicheln im Herbst.", **said)
    assert (made["title"], made["language"], made["collection_id"]) == ("Ein Häher", "de", collection["id"])
    assert [tag["name"] for tag in made["tags"]] == ["birds", "blue-grey"]
    assert made["metadata"].items() >= said["metadata"].items()


async def test_an_address_given_again_is_a_new_version_of_the_same_document(library: House, owner: Key) -> None:
    url = "https://news.example/today?b=2&a=1"
    first = await add(library, owner, "The minister denied the report.\n\nNothing else happened.", url=url)
    between = utc_now().isoformat()
    second = await add(
        library,
        owner,
        "The minister confirmed the report.\n\nNothing else happened.",
        url="https://NEWS.example/today/?a=1&b=2",
    )
    assert (second["id"], second["version"], second["url"]) == (first["id"], 2, "https://news.example/today?a=1&b=2")
    assert second["created_at"] == first["created_at"]
    path = f"/documents/{first['id']}"

    versions = await library.api("GET", f"{path}/versions", owner)
    assert [(each["version"], each["ended_at"] is None) for each in versions] == [(2, True), (1, False)]
    assert versions[1]["content_hash"] == first["content_hash"]
    assert "denied" in (await library.api("GET", f"{path}?version=1", owner))["content"]
    assert "denied" in (await library.api("GET", path, owner, params={"as_of": between}))["content"]
    assert "confirmed" in (await library.api("GET", path, owner))["content"]
    assert "confirmed" in (await library.api("GET", path, owner, params={"as_of": utc_now().isoformat()}))["content"]
    for missing in ({"version": 3}, {"as_of": "2001-01-01T00:00:00Z"}):
        await library.api("GET", path, owner, status=404, params=missing)

    # What a document said before is not found by what is asked now, but by what is asked about then.
    assert await found(library, owner, '"denied the report"') == []
    assert await found(library, owner, '"confirmed the report"') == [first["id"]]
    assert await found(library, owner, '"denied the report"', as_of=between) == [first["id"]]

    diff = await library.api("GET", f"{path}/diff", owner)
    assert (diff["from_version"], diff["to_version"], diff["added_lines"], diff["removed_lines"]) == (1, 2, 1, 1)
    changed = [line for hunk in diff["hunks"] for line in hunk["lines"] if line["kind"] != "same"]
    assert changed == [
        {"kind": "removed", "text": "The minister denied the report."},
        {"kind": "added", "text": "The minister confirmed the report."},
    ]
    assert "-The minister denied the report." in diff["unified"].splitlines()
    backwards = await library.api("GET", f"{path}/diff?from_version=2&to_version=1", owner)
    assert "+The minister denied the report." in backwards["unified"].splitlines()
    await library.api("GET", f"{path}/diff?from_version=1&to_version=9", owner, status=404)


async def test_the_same_address_with_the_same_content_only_merges_the_tags(library: House, owner: Key) -> None:
    content, url = "Water boils at a hundred degrees at the sea.", "https://facts.example/water"
    first = await add(library, owner, content, url=url, tags=["physics"])
    log = await library.api("GET", f"/documents/{first['id']}/log", owner)
    again = await add(library, owner, content, url=url, tags=["water", "physics"])
    assert [tag["name"] for tag in again["tags"]] == ["physics", "water"]
    unchanged = {name: value for name, value in again.items() if name not in ("tags",)}
    assert unchanged == {name: value for name, value in first.items() if name not in ("tags",)}
    assert await library.api("GET", f"/documents/{first['id']}/log", owner) == log
    assert len(await library.api("GET", f"/documents/{first['id']}/versions", owner)) == 1


async def test_another_address_with_the_same_content_is_a_duplicate_that_stays(library: House, owner: Key) -> None:
    content = "The same words stand at two addresses of this world."
    first = await add(library, owner, content, url="https://one.example/a")
    second = await add(library, owner, content, url="https://two.example/b")
    assert (first["duplicate_of"], second["duplicate_of"]) == (None, first["id"])
    assert second["id"] != first["id"]
    assert second["status"] == "Completed"
    assert len((await library.api("GET", "/documents", owner))["items"]) == 2
    # Nothing is lost when the first one goes.
    await library.api("DELETE", f"/documents/{first['id']}", owner, status=204)
    await until(lambda: found(library, owner, "same words at two addresses"), [second["id"]])


async def test_every_chunk_is_what_the_content_has_at_its_offsets(library: House, owner: Key) -> None:
    text = GUIDE + "\n\n".join(
        f"Paragraph {n} about jays 🐦 and Eichelhäher, with café and 日本語." for n in range(120)
    )
    for chunking in (
        None,
        {"strategy": "fixed", "chunk_size": 40, "overlap": 10, "min_size": 5},
        {"strategy": "sentence", "chunk_size": 64, "overlap": 8, "min_size": 5},
        {"strategy": "regex", "pattern": r"Paragraph \d+", "chunk_size": 64, "overlap": 0, "min_size": 1},
        {"strategy": "table_rows", "row_group_size": 1, "chunk_size": 64, "overlap": 0, "min_size": 1},
        {"strategy": "whole_list", "chunk_size": 64, "overlap": 0, "min_size": 1},
    ):
        options = {} if chunking is None else {"chunking": chunking}
        made = await add(library, owner, text, url="https://jays.example/chunks", **options)
        content = (await library.api("GET", f"/documents/{made['id']}", owner))["content"]
        chunks = await library.api("GET", f"/documents/{made['id']}/chunks", owner)
        assert len(chunks) == made["chunk_count"] > 1
        for index, chunk in enumerate(chunks):
            assert content[chunk["start_char"] : chunk["end_char"]] == chunk["content"]
            assert (chunk["chunk_index"], chunk["document_id"]) == (index, made["id"])
            assert chunk["token_count"] >= 1
            assert chunk["embedding_model"]
        if chunking is None:
            assert {"prose", "table"} <= {chunk["content_type"] for chunk in chunks}
            headers = {chunk["section_header"] for chunk in chunks}
            assert "Keeping jays > Code" in headers, headers
    assert made["version"] == 1


async def test_a_document_is_deleted_softly_and_restored(library: House, owner: Key) -> None:
    made = await add(library, owner, "An owl turns its head further than you think.", tags=["owls"])
    path = f"/documents/{made['id']}"
    await library.api("DELETE", path, owner, status=204)
    await library.api("DELETE", path, owner, status=204)
    await until(lambda: found(library, owner, "owl turns its head"), [])
    gone = await library.api("GET", path, owner)
    assert gone["deleted_at"] is not None
    assert "further than you think" in gone["content"]
    assert (await library.api("GET", "/documents", owner))["total"] == 0
    assert [each["id"] for each in (await library.api("GET", "/documents?deleted=true", owner))["items"]] == [
        made["id"]
    ]

    back = await library.api("POST", f"{path}/restore", owner)
    assert (back["deleted_at"], back["version"], back["tags"]) == (None, 1, made["tags"])
    await until(lambda: found(library, owner, "owl turns its head"), [made["id"]])
    answer = await library.ask("POST", f"/api/v1{path}/restore", owner)
    assert (answer.status_code, answer.json()["code"]) == (409, "CONFLICT")


async def test_adding_a_deleted_document_again_brings_it_back(library: House, owner: Key) -> None:
    url, content = "https://owls.example/", "Barn owls hear mice under the snow."
    made = await add(library, owner, content, url=url)
    await library.api("DELETE", f"/documents/{made['id']}", owner, status=204)
    again = await add(library, owner, content, url=url)
    assert (again["id"], again["deleted_at"]) == (made["id"], None)
    await until(lambda: found(library, owner, "owls hear mice"), [made["id"]])


async def test_a_purged_document_leaves_nothing_and_its_address_is_free_at_once(library: House, owner: Key) -> None:
    url, content = "https://secrets.example/plan", "The secret plan is to plant ten thousand oaks."
    made = await add(library, owner, content, url=url, tags=["secret"])
    path = f"/documents/{made['id']}"
    await library.api("DELETE", f"{path}?purge=true", owner, status=204)
    for suffix in ("", "/chunks", "/versions", "/log", "/original", "/diff"):
        await library.api("GET", path + suffix, owner, status=404)
    assert (await library.api("GET", "/documents?deleted=true", owner))["total"] == 0
    assert await found(library, owner, "secret plan to plant oaks") == []
    again = await add(library, owner, content, url=url)
    assert (again["id"] != made["id"], again["version"], again["tags"]) == (True, 1, [])
    stats = await library.api("GET", "/stats", owner)
    assert (stats["documents"], stats["deleted_documents"], stats["chunks"]) == (1, 0, 1)


async def test_a_document_is_cut_anew_by_a_job(library: House, owner: Key) -> None:
    made = await add(library, owner, GUIDE, chunking={"chunk_size": 16, "overlap": 0, "min_size": 1})
    before = await library.api("GET", f"/documents/{made['id']}/chunks", owner)
    started = await library.api("POST", f"/documents/{made['id']}/reindex", owner)
    assert set(started) == {"job_id", "status", "message"}

    async def state() -> str:
        return str((await library.api("GET", f"/jobs/{started['job_id']}", owner))["status"])

    await until(state, "completed")
    after = await library.api("GET", f"/documents/{made['id']}/chunks", owner)
    assert [chunk["content"] for chunk in after] == [chunk["content"] for chunk in before]
    await until(lambda: found(library, owner, "hide acorns in autumn"), [made["id"]])


async def test_the_log_tells_what_happened_to_a_document(library: House, owner: Key) -> None:
    made = await add(library, owner, "A log is kept of this one.")
    lines = await library.api("GET", f"/documents/{made['id']}/log", owner)
    assert len(lines) >= 2
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert {line["level"] for line in lines} == {"INFO"}
    assert lines[0]["message"] == "Uploaded; waits to be read."


async def test_the_original_comes_back_as_bytes_to_save(library: House, owner: Key) -> None:
    html = "<html><body><h1>Title</h1><script>alert(1)</script><p>Read me as I was sent, every byte.</p></body></html>"
    made = await add(library, owner, html, content_type="text/html")
    answer = await library.ask("GET", f"/api/v1/documents/{made['id']}/original", owner)
    assert (answer.status_code, answer.content) == (200, html.encode())
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == "attachment"
    assert "alert" not in (await library.api("GET", f"/documents/{made['id']}", owner))["content"]


async def test_an_original_that_was_lost_is_404_and_not_half_an_answer(library: House, owner: Key) -> None:
    made = await add(library, owner, "Soon the store will have lost me.")
    digest = hashlib.sha256(b"Soon the store will have lost me.").hexdigest()
    assert await library.jay.blobs.delete(digest)
    await library.api("GET", f"/documents/{made['id']}/original", owner, status=404)


# --- Lists and tags


async def test_documents_are_listed_by_everything_they_can_be_asked_for(library: House, owner: Key) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "listed"})
    one = await add(
        library, owner, "One is in a collection.", url="https://a.example/1", collection_id=collection["id"]
    )
    two = await add(library, owner, "Two has a tag.", url="https://sub.wikipedia.org/2", tags=["two"])
    three = await add(library, owner, "Three is plain.", url="https://c.example/3")

    async def listed(**params: Any) -> list[str]:
        return [each["id"] for each in (await library.api("GET", "/documents", owner, params=params))["items"]]

    assert await listed() == [three["id"], two["id"], one["id"]]
    assert await listed(collection_id=collection["id"]) == [one["id"]]
    assert await listed(tag_id=two["tags"][0]["id"]) == [two["id"]]
    assert await listed(domain="wikipedia.org") == await listed(domain="SUB.wikipedia.org") == [two["id"]]
    assert await listed(url="https://C.example:443/3#x") == [three["id"]]
    assert await listed(source="api", status="Completed") == [three["id"], two["id"], one["id"]]
    assert await listed(source="crawl") == await listed(status="Failed") == []
    page = await library.api("GET", "/documents?limit=2&offset=2", owner)
    assert ([each["id"] for each in page["items"]], page["total"], page["has_more"]) == ([one["id"]], 3, False)
    assert (await library.api("GET", "/documents?limit=2", owner))["has_more"] is True


async def test_tags_are_added_and_taken_away_and_searches_know_at_once(library: House, owner: Key) -> None:
    made = await add(library, owner, "Magpies like shiny things.")
    path = f"/documents/{made['id']}/tags"
    tags = await library.api("POST", path, owner, json={"tags": ["Shiny", "birds"]})
    assert [tag["name"] for tag in tags] == ["birds", "shiny"]
    shiny = tags[1]["id"]
    await until(lambda: found(library, owner, "magpies", tag_ids=[shiny]), [made["id"]])
    await library.api("DELETE", f"{path}/{shiny}", owner, status=204)
    await until(lambda: found(library, owner, "magpies", tag_ids=[shiny]), [])
    await library.api("DELETE", f"{path}/{shiny}", owner, status=404)
    answer = await library.ask("POST", f"/api/v1{path}", owner, json={"tags": ["no/slashes"]})
    assert (answer.status_code, answer.json()["details"]) == (400, {"field": "tags"})


# --- Several at once


async def test_in_a_batch_what_is_wrong_with_one_keeps_none_of_the_others_out(library: House, owner: Key) -> None:
    documents = [
        {"content": "The first of a batch is fine."},
        {"content": "The second has a tag that is none.", "tags": ["a/b"]},
        {"content": "The third has an address that is none.", "url": "http://"},
        {"content": "<p> </p>", "content_type": "text/html"},
        {"content": "The fifth is fine too."},
    ]
    answer = await library.api("POST", "/documents/batch", owner, json={"documents": documents})
    assert (answer["total_submitted"], answer["successful_count"], answer["failed_count"]) == (5, 2, 3)
    assert [result["status"] for result in answer["results"]] == [
        "Completed",
        "Failed",
        "Failed",
        "Failed",
        "Completed",
    ]
    errors = [result["error"] for result in answer["results"]]
    assert (errors[0], errors[4]) == (None, None)
    assert "tags" in errors[1]
    assert errors[2]
    assert errors[3]
    assert answer["results"][1]["document_id"] is None
    # What could not be read is a document that says why.
    failed = await library.api("GET", f"/documents/{answer['results'][3]['document_id']}", owner)
    assert (failed["status"], failed["error"], failed["content"]) == ("Failed", errors[3], None)
    assert errors[3] in (await library.api("GET", f"/documents/{failed['id']}/log", owner))[-1]["message"]
    assert await found(library, owner, '"batch is fine"') == [answer["results"][0]["document_id"]]


async def test_a_batch_has_one_to_fifty_documents(library: House, owner: Key) -> None:
    for count in (0, 51):
        body = {"documents": [{"content": f"Number {n}."} for n in range(count)]}
        answer = await library.ask("POST", "/api/v1/documents/batch", owner, json=body)
        assert (answer.status_code, answer.json()["details"]["fields"][0]["field"]) == (400, "documents")
    body = {"documents": [{"content": f"Number {n} of fifty birds."} for n in range(50)]}
    answer = await library.api("POST", "/documents/batch", owner, json=body)
    assert (answer["total_submitted"], answer["successful_count"]) == (50, 50)
    assert len({result["document_id"] for result in answer["results"]}) == 50
    assert (await library.api("GET", "/documents", owner))["total"] == 50


async def test_twice_the_same_address_in_one_batch_is_one_document(library: House, owner: Key) -> None:
    body = {"documents": [{"content": f"Said {n} times.", "url": "https://twice.example/"} for n in (1, 2)]}
    answer = await library.api("POST", "/documents/batch", owner, json=body)
    assert len({result["document_id"] for result in answer["results"]}) == 1
    (only,) = (await library.api("GET", "/documents", owner))["items"]
    assert "2 times" in (await library.api("GET", f"/documents/{only['id']}", owner))["content"]


# --- Files


FILES: dict[str, tuple[str, bytes, str | None, str]] = {
    "text": ("notes.txt", b"Hello from plain text, which is long enough.", "text/plain", "Hello from plain text"),
    "Markdown": (
        "notes.md",
        b"# Hello\n\nHello from Markdown, with a heading.",
        "text/markdown",
        "Hello from Markdown",
    ),
    "HTML": (
        "page.html",
        b"<html><body><article><h1>T</h1><p>Hello from HTML, an article of its own.</p></article></body></html>",
        "text/html",
        "Hello from HTML",
    ),
    "PDF": ("paper.pdf", office_files.pdf(), "application/pdf", "Hello from PDF"),
    "Word": ("report.docx", office_files.docx(), "application/octet-stream", "Hello from Word"),
    "Excel": ("prices.xlsx", office_files.xlsx(), None, "Apple"),
    "PowerPoint": ("slides.pptx", office_files.pptx(), "application/octet-stream", "Slide about jays"),
}


@pytest.mark.parametrize("kind", FILES)
async def test_a_file_becomes_a_document(library: House, owner: Key, kind: str) -> None:
    name, data, media_type, words = FILES[kind]
    file = (name, data) if media_type is None else (name, data, media_type)
    answer = await library.api(
        "POST", "/documents/upload", owner, files=[("files", file)], data={"tags": "files, Word"}
    )
    (result,) = answer["results"]
    assert (answer["successful_count"], result["status"], result["error"]) == (1, "Completed", None), result
    made = await library.api("GET", f"/documents/{result['document_id']}", owner)
    assert words in made["content"]
    assert (made["filename"], made["source"], made["size_bytes"]) == (name, "upload", len(data))
    assert [tag["name"] for tag in made["tags"]] == ["files", "word"]
    assert made["url"] == f"upload://{name}"
    assert await found(library, owner, words) == [made["id"]]
    original = await library.ask("GET", f"/api/v1/documents/{made['id']}/original", owner)
    assert original.content == data
    for chunk in await library.api("GET", f"/documents/{made['id']}/chunks", owner):
        assert made["content"][chunk["start_char"] : chunk["end_char"]] == chunk["content"]


async def test_several_files_come_in_together_and_a_name_again_is_a_new_version(library: House, owner: Key) -> None:
    collection = await library.api("POST", "/collections", owner, status=201, json={"name": "files"})

    async def upload(*texts: str) -> list[dict[str, Any]]:
        files = [("files", (f"folder\\{n}.txt", text.encode(), "text/plain")) for n, text in enumerate(texts)]
        answer = await library.api(
            "POST", "/documents/upload", owner, files=files, data={"collection_id": collection["id"]}
        )
        return [await library.api("GET", f"/documents/{each['document_id']}", owner) for each in answer["results"]]

    first = await upload("File zero talks about finches.", "File one talks about sparrows.")
    assert [(each["filename"], each["collection_id"]) for each in first] == [
        ("0.txt", collection["id"]),
        ("1.txt", collection["id"]),
    ]
    second = await upload("File zero now talks about herons.")
    assert (second[0]["id"], second[0]["version"]) == (first[0]["id"], 2)


async def test_times_are_of_this_world_and_have_a_zone(library: House, owner: Key) -> None:
    made = await add(library, owner, "When was I made?")
    for name in ("created_at", "updated_at", "crawled_at"):
        assert datetime.fromisoformat(made[name]).tzinfo is not None, name
