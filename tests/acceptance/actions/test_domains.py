"""`/v2/domains`: the files on disk are the truth, whoever wrote them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.actions.asking import call, check_stream, job_files, read_events, start_steps, until
from tests.acceptance.house import House, Key

pytestmark = pytest.mark.asyncio(loop_scope="module")
SITE = "https://contoso.sharepoint.com/sites/demo"
SOURCES: dict[str, Any] = {
    "file_sources": [
        {"source_id": "s1", "site_url": SITE, "sharepoint_url_part": "/Shared Documents", "filter": "FSObjType eq 0"}
    ],
    "list_sources": [{"source_id": "s1", "site_url": SITE, "list_name": "Tasks", "filter": ""}],
    "sitepage_sources": [{"source_id": "p", "site_url": SITE, "sharepoint_url_part": "/SitePages", "filter": ""}],
    "web_sources": [{"source_id": "w", "start_url": "https://example.org/", "max_pages": 5}],
}
ODD_IDS = [
    "..",
    ".",
    "../x",
    "a/b",
    "a\\b",
    "CON",
    "con.txt",
    "LPT1",
    "x" * 300,
    "🦜",
    "a\nb",
    " a",
    "a.",
    "-a",
    "a..b",
    ".a",
]


def domain_folder(house: House, key: Key, domain_id: str) -> Path:
    return house.jay.settings.resolved_storage_folder / key.record.tenant_id / "domains" / domain_id


def on_disk(house: House, key: Key, domain_id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((domain_folder(house, key, domain_id) / "domain.json").read_text())
    return found


async def create(house: House, key: Key, domain_id: str = "TEST01", **values: Any) -> dict[str, Any]:
    body = {"domain_id": domain_id, "name": "Test", **values}
    return dict(await call(house, "POST", "domains/create", key, json=body))


async def test_a_domain_is_made_on_disk_with_a_vector_store(library: House, owner: Key) -> None:
    made = await create(library, owner, description="ümlaut 🦜", **SOURCES)
    assert made["domain_id"] == "TEST01"
    assert list(made)[1:9] == [
        "vector_store_name", "vector_store_id", "name", "description", "file_sources", "list_sources",
        "sitepage_sources", "web_sources",
    ]  # fmt: skip
    assert {name: made[name] for name in SOURCES} == SOURCES
    assert {**on_disk(library, owner, "TEST01"), "domain_id": "TEST01"} == made
    store = await call(library, "GET", f"inventory/vector_stores/get?vector_store_id={made['vector_store_id']}", owner)
    assert store["name"] == made["vector_store_name"] == "Test"
    assert await call(library, "GET", "domains/get?domain_id=TEST01", owner) == made
    assert await call(library, "GET", "domains?format=json", owner) == [made]


async def test_sources_may_come_in_one_string_and_by_a_form(library: House, owner: Key) -> None:
    form = {"domain_id": "FORM", "name": "", "sources_json": json.dumps(SOURCES)}
    made = await call(library, "POST", "domains/create", owner, data=form)
    assert {name: made[name] for name in SOURCES} == SOURCES
    assert made["name"] == "FORM"
    lists = {"domain_id": "LISTS", "file_sources": json.dumps(SOURCES["file_sources"])}
    assert (await call(library, "POST", "domains/create", owner, data=lists))["file_sources"] == SOURCES["file_sources"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "'sources_json' is not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"other_sources": []}', "takes lists named file_sources"),
        ('{"file_sources": {}}', "takes lists named file_sources"),
        ('{"file_sources": [{}]}', "file_sources.0.source_id"),
        (
            '{"file_sources": [{"source_id": "..", "site_url": "https://x"}]}',
            "file_sources.0.source_id: must be usable",
        ),
        ('{"file_sources": [{"source_id": "a", "site_url": "file:///etc/passwd"}]}', "file_sources.0.site_url"),
        (
            '{"web_sources": [{"source_id": "a", "start_url": "x.org"}]}',
            "web_sources.0.start_url: must be an address that begins with http:// or https://.",
        ),
        ('{"web_sources": [{"source_id": "a", "start_url": "https://x", "max_pages": 0}]}', "max_pages"),
        (
            '{"list_sources": [{"source_id": "a", "site_url": "https://x", "list_name": ""}]}',
            "list_sources.0.list_name",
        ),
        (
            '{"file_sources": [{"source_id": "a", "site_url": "https://x"}, {"source_id": "A", "site_url": "https://x"}]}',
            "file_sources has the source_id 'A' twice",
        ),
        ("[" * 50_000, "'sources_json' is not valid JSON"),
    ],
)
async def test_wrong_sources_are_refused_by_name(library: House, owner: Key, text: str, words: str) -> None:
    form = {"domain_id": "WRONG", "sources_json": text}
    assert words in await call(library, "POST", "domains/create", owner, status=400, data=form)
    assert not domain_folder(library, owner, "WRONG").exists()


@pytest.mark.parametrize(
    "source",
    [
        {"start_url": "https://jay:hunter2@x/"},
        {"start_url": "https://x/", "auth": {"type": "basic", "name": "jay", "secret": "hunter2"}},
    ],
)
async def test_secrets_in_sources_are_refused_because_every_reader_would_see_them(
    library: House, owner: Key, source: dict[str, Any]
) -> None:
    body = {"domain_id": "LEAK", "web_sources": [{"source_id": "a", **source}]}
    for format_ in ("json", "stream"):
        error = await call(library, "POST", f"domains/create?format={format_}", owner, status=400, json=body)
        assert error.startswith("web_sources.0")
        assert "hunter2" not in error
    body = {"domain_id": "LEAK", "file_sources": [{"source_id": "a", "site_url": "https://jay:hunter2@x/sites/y"}]}
    error = await call(library, "POST", "domains/create", owner, status=400, json=body)
    assert error.startswith("file_sources.0.site_url: must not have a name or password")
    assert not domain_folder(library, owner, "LEAK").exists()
    assert await call(library, "GET", "jobs?format=json", owner) == []


@pytest.mark.parametrize("odd", ODD_IDS)
async def test_odd_ids_are_refused_and_never_found(library: House, owner: Key, odd: str) -> None:
    error = await call(library, "POST", "domains/create", owner, status=400, json={"domain_id": odd})
    assert "Parameter 'domain_id'" in error
    for path in ("get", "delete"):
        error = await call(library, "GET", f"domains/{path}", owner, status=404, params={"domain_id": odd})
        assert error == f"Domain '{odd}' not found."
    error = await call(
        library, "PUT", "domains/update", owner, status=404, params={"domain_id": odd}, json={"name": "x"}
    )
    assert error == f"Domain '{odd}' not found."
    assert await call(library, "GET", "domains?format=json", owner) == []


async def test_a_nul_in_an_id_is_a_bad_request(library: House, owner: Key) -> None:
    error = await call(library, "GET", "domains/get?domain_id=%00", owner, status=400)
    assert error == "Parameter 'domain_id' has a character that cannot be stored."


async def test_an_id_is_taken_once_whatever_its_case(library: House, owner: Key) -> None:
    await create(library, owner, "Taken")
    for again in ("Taken", "taken", "TAKEN"):
        error = await call(library, "POST", "domains/create", owner, status=400, json={"domain_id": again})
        assert error == "Domain 'Taken' already exists."
    assert await call(library, "GET", "domains/get?domain_id=taken", owner, status=404) == "Domain 'taken' not found."


async def test_an_update_changes_what_is_given_and_keeps_what_was_there(library: House, owner: Key) -> None:
    before = await create(library, owner, **SOURCES)
    path = domain_folder(library, owner, "TEST01") / "domain.json"
    path.write_text(json.dumps({**on_disk(library, owner, "TEST01"), "owner": "somebody's own key"}))
    after = await call(library, "PUT", "domains/update?domain_id=TEST01", owner, json={"description": "new"})
    assert after == {**before, "description": "new", "owner": "somebody's own key"}
    assert json.loads((path.parent / "domain.json.bak").read_text())["description"] == ""
    body = {"domain_id": "TEST01", "list_sources": []}
    assert (await call(library, "PUT", "domains/update", owner, json=body))["list_sources"] == []


async def test_another_id_in_the_body_renames(library: House, owner: Key) -> None:
    made = await create(library, owner, **SOURCES)
    crawled = library.jay.settings.resolved_storage_folder / owner.record.tenant_id / "crawler" / "TEST01/01_files/s1"
    crawled.mkdir(parents=True)
    (crawled / "files_map.csv").write_text(
        'file_relative_path,file_size\n"TEST01\\01_files\\s1\\02_embedded\\a,b.docx",5\n'
    )
    (domain_folder(library, owner, "TEST01") / "files_metadata.json").write_text(
        json.dumps([{"file_relative_path": "TEST01\\01_files\\s1\\02_embedded\\a.docx", "mine": 1}])
    )
    renamed = await call(
        library, "PUT", "domains/update?domain_id=TEST01", owner, json={"domain_id": "NEW", "name": "N"}
    )
    assert renamed == {**made, "domain_id": "NEW", "name": "N"}
    assert await call(library, "GET", "domains/get?domain_id=TEST01", owner, status=404) == "Domain 'TEST01' not found."
    moved = crawled.parents[2] / "NEW" / "01_files/s1/files_map.csv"
    assert '"NEW\\01_files\\s1\\02_embedded\\a,b.docx",5' in moved.read_text()
    entries = json.loads((domain_folder(library, owner, "NEW") / "files_metadata.json").read_text())
    assert entries == [{"file_relative_path": "NEW\\01_files\\s1\\02_embedded\\a.docx", "mine": 1}]
    assert not crawled.exists()
    await create(library, owner, "OTHER")
    error = await call(library, "PUT", "domains/update?domain_id=NEW", owner, status=400, json={"domain_id": "other"})
    assert error == "Domain 'OTHER' already exists."


async def test_a_renaming_that_was_cut_off_is_finished_at_the_next_look(library: House, owner: Key) -> None:
    await create(library, owner, "OLD")
    storage = library.jay.settings.resolved_storage_folder / owner.record.tenant_id
    (storage / "crawler/OLD/02_lists/l").mkdir(parents=True)
    (storage / "domains/OLD/.renamed_from").write_text("OLD")
    (storage / "domains/OLD").rename(storage / "domains/NEW")  # and here the process was killed
    assert [domain["domain_id"] for domain in await call(library, "GET", "domains?format=json", owner)] == ["NEW"]
    assert (storage / "crawler/NEW/02_lists/l").is_dir()
    assert not (storage / "crawler/OLD").exists()
    assert not (storage / "domains/NEW/.renamed_from").exists()


async def test_dry_runs_change_nothing(library: House, owner: Key) -> None:
    planned = await call(library, "POST", "domains/create?dry_run=true", owner, json={"domain_id": "PLAN", "name": "P"})
    assert (planned["domain_id"], planned["vector_store_id"]) == ("PLAN", "")
    assert not domain_folder(library, owner, "PLAN").exists()
    made = await create(library, owner)
    stores = await call(library, "GET", "inventory/vector_stores?format=json", owner)
    body = {"domain_id": "NEW", "name": "other"}
    changed = await call(library, "PUT", "domains/update?domain_id=TEST01&dry_run=true", owner, json=body)
    assert changed == {**made, "domain_id": "NEW", "name": "other"}
    assert await call(library, "GET", "domains/delete?domain_id=TEST01&dry_run=true", owner) == made
    assert await call(library, "GET", "domains?format=json", owner) == [made]
    assert len(stores) == 1


async def test_a_deleted_domain_is_gone_with_its_files_but_not_its_vector_store(library: House, owner: Key) -> None:
    made = await create(library, owner)
    crawled = library.jay.settings.resolved_storage_folder / owner.record.tenant_id / "crawler" / "TEST01"
    crawled.mkdir(parents=True)
    assert await call(library, "DELETE", "domains/delete?domain_id=TEST01", owner) == made
    assert not domain_folder(library, owner, "TEST01").exists()
    assert not crawled.exists()
    await call(library, "GET", f"inventory/vector_stores/get?vector_store_id={made['vector_store_id']}", owner)
    assert (
        await call(library, "GET", "domains/delete?domain_id=TEST01", owner, status=404) == "Domain 'TEST01' not found."
    )


async def test_a_domain_with_a_running_crawl_is_not_deleted_or_renamed(library: House, owner: Key) -> None:
    await create(library, owner)
    job_id = await start_steps(library, owner, steps=500, seconds=0.05)
    error = await call(library, "DELETE", "domains/delete?domain_id=TEST01", owner, status=400)
    assert error == f"'TEST01' is in use by running job '{job_id}'; cancel it first."
    await call(library, "PUT", "domains/update?domain_id=TEST01", owner, status=400, json={"domain_id": "NEW"})
    await call(library, "GET", f"jobs/control?job_id={job_id}&action=cancel&force=true", owner)
    await call(library, "DELETE", "domains/delete?domain_id=TEST01", owner)


BROKEN = {
    "not JSON": (b'{"name": "x",\n  broken', "domain.json is not valid JSON: line 2, column 3"),
    "not UTF-8": (b'{"name": "\xff"}', "domain.json is not UTF-8 text"),
    "not an object": (b"[]", "domain.json must be a JSON object."),
    "a wrong type": (b'{"name": 5}', "domain.json: name"),
    "a wrong source": (b'{"web_sources": [{"source_id": "a"}]}', "domain.json: web_sources.0.start_url"),
    "nested too deeply": (b'{"x":' + b"[" * 100_000, "domain.json"),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_a_hand_broken_file_is_reported_and_the_rest_works(library: House, owner: Key, case: str) -> None:
    content, words = BROKEN[case]
    whole = await create(library, owner, "WHOLE")
    await create(library, owner, "BROKEN")
    path = domain_folder(library, owner, "BROKEN") / "domain.json"
    path.write_bytes(content)
    listed = await call(library, "GET", "domains?format=json", owner)
    assert [domain["domain_id"] for domain in listed] == ["BROKEN", "WHOLE"]
    assert words in listed[0]["error"]
    assert listed[1] == whole
    answer = await library.ask("GET", "/v2/domains/get?domain_id=BROKEN", owner)
    assert (answer.status_code, answer.json()["data"]) == (400, {"domain_id": "BROKEN"})
    assert answer.json()["error"].startswith("Domain 'BROKEN' cannot be read: ")
    assert "BROKEN" in (await library.ask("GET", "/v2/domains?format=ui", owner)).text
    error = await call(library, "PUT", "domains/update?domain_id=BROKEN", owner, status=400, json={"name": "x"})
    assert "Repair the file, or give all sources anew." in error
    assert path.read_bytes() == content
    await call(library, "PUT", "domains/update?domain_id=BROKEN", owner, json={"name": "x", **SOURCES})
    (kept,) = path.parent.glob("domain.json.broken-*")
    assert kept.read_bytes() == content
    assert (await call(library, "GET", "domains/get?domain_id=BROKEN", owner))["web_sources"] == SOURCES["web_sources"]


async def test_what_people_do_in_the_folder_is_seen_at_once(library: House, owner: Key) -> None:
    folder = domain_folder(library, owner, "BY_HAND")
    folder.mkdir(parents=True)
    listed = await call(library, "GET", "domains?format=json", owner)
    assert listed == [{"domain_id": "BY_HAND", "error": "There is no domain.json in its folder."}]
    (folder / "domain.json").write_text("\ufeff" + json.dumps({"name": "mine"}))
    assert (await call(library, "GET", "domains/get?domain_id=BY_HAND", owner))["name"] == "mine"
    folder.rename(folder.with_name("Ünusual"))
    (listed,) = await call(library, "GET", "domains?format=json", owner)
    assert listed["error"] == "The folder's name cannot be the id of a domain; rename it."
    (folder.parent / "notes.txt").write_text("not a domain")
    assert len(await call(library, "GET", "domains?format=json", owner)) == 1


async def test_an_unknown_vector_store_is_404_and_makes_nothing(library: House, owner: Key) -> None:
    body = {"domain_id": "TEST01", "vector_store_id": "vs_nothing"}
    error = await call(library, "POST", "domains/create", owner, status=404, json=body)
    assert error == "Vector store 'vs_nothing' not found."
    assert not domain_folder(library, owner, "TEST01").exists()


async def test_another_tenants_domains_do_not_exist(library: House, owner: Key) -> None:
    made = await create(library, owner)
    stranger = await library.key(tenant="a stranger to domains")
    assert await call(library, "GET", "domains?format=json", stranger) == []
    for path in ("get", "delete"):
        error = await call(library, "GET", f"domains/{path}?domain_id=TEST01", stranger, status=404)
        assert error == "Domain 'TEST01' not found."
    theirs = await create(library, stranger)
    assert theirs["vector_store_id"] != made["vector_store_id"]
    body = {"domain_id": "THEFT", "vector_store_id": made["vector_store_id"]}
    await call(library, "POST", "domains/create", stranger, status=404, json=body)
    await call(library, "DELETE", "domains/delete?domain_id=TEST01", stranger)
    assert await call(library, "GET", "domains/get?domain_id=TEST01", owner) == made


async def test_changes_can_be_streamed_and_leave_a_job_file(library: House, owner: Key) -> None:
    answer = await library.ask(
        "POST", "/v2/domains/create?format=stream", owner, json={"domain_id": "TEST01", **SOURCES}
    )
    end = check_stream(events := read_events(answer.text))
    made = await call(library, "GET", "domains/get?domain_id=TEST01", owner)
    assert end["result"] == {"ok": True, "error": "", "data": made}
    assert "Creating domain 'TEST01'..." in [event.data for event in events]
    (path,) = await until(
        lambda: [path for path in job_files(library, owner, end["job_id"]) if path.suffix == ".completed"]
    )
    assert path.parent.name == "domains"
    assert f"_[create]_[{end['job_id']}]_[TEST01].completed" in path.name
    body = {"domain_id": "NEW"}
    answer = await library.ask("PUT", "/v2/domains/update?domain_id=TEST01&format=stream", owner, json=body)
    assert check_stream(read_events(answer.text))["result"]["data"]["domain_id"] == "NEW"
    answer = await library.ask("GET", "/v2/domains/delete?domain_id=NEW&format=stream", owner)
    assert check_stream(read_events(answer.text))["result"]["ok"]
    assert await call(library, "GET", "domains?format=json", owner) == []


async def test_what_is_wrong_with_a_streamed_change_is_said_before_there_is_a_job(library: House, owner: Key) -> None:
    error = await call(library, "GET", "domains/delete?domain_id=NONE&format=stream", owner, status=404)
    assert error == "Domain 'NONE' not found."
    error = await call(library, "POST", "domains/create?format=stream", owner, status=400, json={"domain_id": ".."})
    assert "Parameter 'domain_id'" in error
    assert await call(library, "GET", "jobs?format=json", owner) == []


async def test_a_dry_run_can_be_streamed(library: House, owner: Key) -> None:
    made = await create(library, owner)
    answer = await library.ask("GET", "/v2/domains/delete?domain_id=TEST01&dry_run=true&format=stream", owner)
    assert check_stream(read_events(answer.text))["result"]["data"] == made
    assert await call(library, "GET", "domains/get?domain_id=TEST01", owner) == made


async def test_the_page_escapes_what_people_write(library: House, owner: Key) -> None:
    await create(library, owner, description="<script>alert(1)</script>", name='" onclick="x')
    for path in ("domains?format=ui", "domains?format=html", "domains/get?domain_id=TEST01&format=html"):
        page = await library.ask("GET", f"/v2/{path}", owner)
        assert page.status_code == 200
        assert "<script>" not in page.text
        assert '" onclick="x' not in page.text
        assert "&lt;script&gt;" in page.text
