"""Bad documents and requests to `/api/v1`: a clear error or a Failed document that says why, and all else goes on."""

import asyncio
import io
import json
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.acceptance.house import House, Key
from tests.acceptance.rag.asking import add, found, search, until
from tests.logbook import Logbook
from tests.unit.extract import office_files

from scrubjay.api.middleware import MAX_BODY_BYTES, MAX_DOCUMENT_BODY_BYTES, MEGABYTE
from scrubjay.model.tenant import Scope

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def upload(library: House, key: Key, name: str, data: bytes, kind: str | None = None) -> dict[str, Any]:
    """What became of one file, with the document that it is now."""
    file = (name, data) if kind is None else (name, data, kind)
    answer = await library.api("POST", "/documents/upload", key, files=[("files", file)])
    (result,) = answer["results"]
    assert answer["failed_count"] == (result["error"] is not None)
    return dict(result)


async def still_works(library: House, key: Key) -> None:
    """Whatever came before, the next document is read, indexed and found."""
    made = await add(library, key, "Everything else goes on as before.", url="https://goes.example/on")
    assert made["status"] == "Completed"
    assert await found(library, key, '"goes on as before"') == [made["id"]]


def zip_bomb() -> bytes:
    """A Word file whose one part is half a gigabyte of the same letter."""
    packed = io.BytesIO()
    good = zipfile.ZipFile(io.BytesIO(office_files.docx()))
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in good.namelist():
            if name != "word/document.xml":
                archive.writestr(name, good.read(name))
        with archive.open("word/document.xml", "w", force_zip64=True) as part:
            part.write(good.read("word/document.xml")[:200])
            for _ in range(512):
                part.write(b"a" * MEGABYTE)
    return packed.getvalue()


FAILING: dict[str, tuple[str, bytes, str | None]] = {
    "nothing but spaces": ("spaces.txt", b" \n\t \r\n ", "text/plain"),
    "binary as text": ("noise.txt", bytes(range(256)) * 64, "text/plain"),
    "binary as Markdown": ("noise.md", b"\x00\x01\x02\xff\xfe" * 4000, "text/markdown"),
    "an encrypted PDF": ("locked.pdf", office_files.pdf(encrypted=True), "application/pdf"),
    "a PDF cut off": ("cut.pdf", office_files.pdf()[:120], "application/pdf"),
    "no PDF at all": ("lie.pdf", b"%PDF-1.7 and then nothing of the kind", "application/pdf"),
    "a Word file cut off": ("cut.docx", office_files.docx()[:300], None),
    "a Word file without a document": ("hollow.docx", b"PK\x05\x06" + b"\x00" * 18, None),
    "an Excel file that is noise": ("noise.xlsx", b"PK\x03\x04" + bytes(range(256)) * 8, None),
    "HTML without text": ("empty.html", b"<html><body><script>var a;</script></body></html>", "text/html"),
    "a picture as PowerPoint": ("cat.pptx", b"\x89PNG\r\n\x1a\n" + b"\x00" * 100, None),
}


@pytest.mark.parametrize("case", FAILING)
async def test_a_file_that_cannot_be_read_is_a_failed_document_that_says_why(
    library: House, owner: Key, case: str
) -> None:
    result = await upload(library, owner, *FAILING[case])
    assert result["status"] in ("Failed", "TypeDetectionFailed"), result
    assert result["error"]
    document = await library.api("GET", f"/documents/{result['document_id']}", owner)
    assert (document["error"], document["content"], document["version"]) == (result["error"], None, 0)
    log = await library.api("GET", f"/documents/{result['document_id']}/log", owner)
    assert any(line["level"] == "ERROR" and result["error"] in line["message"] for line in log)
    assert await library.api("GET", f"/documents/{result['document_id']}/chunks", owner) == []
    assert "Traceback" not in json.dumps([document, log])
    await still_works(library, owner)


async def test_a_zip_bomb_in_a_word_file_fails_without_taking_anything_with_it(library: House, owner: Key) -> None:
    bomb = await asyncio.to_thread(zip_bomb)
    assert len(bomb) < 2 * MEGABYTE
    result = await upload(library, owner, "bomb.docx", bomb)
    assert result["status"] in ("Failed", "TypeDetectionFailed"), result
    await still_works(library, owner)


async def test_a_failed_new_version_leaves_what_was_there(library: House, owner: Key) -> None:
    good = await upload(library, owner, "report.docx", office_files.docx("Profits rose in spring"))
    bad = await upload(library, owner, "report.docx", office_files.docx("Profits fell")[:200])
    assert (bad["document_id"], bad["status"]) == (good["document_id"], "Failed")
    document = await library.api("GET", f"/documents/{good['document_id']}", owner)
    assert (document["version"], "rose in spring" in document["content"]) == (1, True)
    assert await found(library, owner, "profits rose") == [good["document_id"]]
    mended = await upload(library, owner, "report.docx", office_files.docx("Profits rose in spring"))
    assert (mended["status"], mended["error"]) == ("Completed", None)
    assert (await library.api("GET", f"/documents/{good['document_id']}", owner))["error"] is None


async def test_an_empty_file_is_named_and_the_others_are_taken(library: House, owner: Key) -> None:
    files = [("files", ("empty.txt", b"", "text/plain")), ("files", ("full.txt", b"A full file.", "text/plain"))]
    answer = await library.api("POST", "/documents/upload", owner, files=files)
    assert [result["status"] for result in answer["results"]] == ["Failed", "Completed"]
    assert (answer["results"][0]["document_id"], answer["results"][0]["error"]) == (None, "content is empty.")


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "a\\b\\c.txt", "💣.txt", "x" * 900 + ".txt", "%00.txt", " ", "a\u202egpj.txt"]
)
async def test_an_odd_file_name_is_only_a_name(library: House, owner: Key, name: str) -> None:
    result = await upload(library, owner, name, b"The words of an odd file.", "text/plain")
    assert result["error"] is None, result
    document = await library.api("GET", f"/documents/{result['document_id']}", owner)
    assert len(document["filename"]) <= 255
    assert not set("/\\\x00") & set(document["filename"])


async def test_an_odd_media_type_is_only_a_hint(library: House, owner: Key) -> None:
    for kind in ("x" * 3000, "text/plain; charset=klingon", "application/pdf", "💣"):
        body = (
            b'--b\r\nContent-Disposition: form-data; name="files"; filename="f.txt"\r\nContent-Type: '
            + kind.encode()
            + b"\r\n\r\nJust some words to read.\r\n--b--\r\n"
        )
        headers = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = await library.ask("POST", "/api/v1/documents/upload", owner, content=body, headers=headers)
        assert answer.status_code in (200, 400), (kind[:20], answer.text)


@pytest.mark.parametrize(
    ("content", "query"),
    [
        ("مرحبا بكم في مكتبة الطيور الزرقاء", "الطيور"),
        ("ברוכים הבאים לספריית העורבנים", "העורבנים"),
        ("日本語の文書も見つかります。カケスはどんぐりを隠す。", "どんぐり"),
        ("e\u0301tude cafe\u0301 nai\u0308ve", "étude"),
        ("a\u200bb zero width \ufeff words", "width"),
        ("\u202eright to left override words\u202c", "override"),
        ("ﬁnancial ﬂows", "flows"),
    ],
)
async def test_text_in_any_script_is_kept_exactly_and_found(
    library: House, owner: Key, content: str, query: str
) -> None:
    made = await add(library, owner, content)
    assert made["status"] == "Completed", made
    document = await library.api("GET", f"/documents/{made['id']}", owner)
    for chunk in await library.api("GET", f"/documents/{made['id']}/chunks", owner):
        assert document["content"][chunk["start_char"] : chunk["end_char"]] == chunk["content"]
    result = (await search(library, owner, query))["results"][0]
    assert result["document_id"] == made["id"]
    assert all(0 <= start < end <= len(result["content"]) for start, end in result["highlights"])


async def test_only_emoji_is_taken_or_refused_but_never_in_between(library: House, owner: Key) -> None:
    made = await add(library, owner, "🐦🐦🐦 🌰🌰 🎉" * 40)
    assert made["status"] in ("Completed", "Failed")
    assert (made["error"] is None) == (made["status"] == "Completed")
    await still_works(library, owner)


async def test_nul_and_what_else_no_database_keeps_is_refused_by_name(library: House, owner: Key) -> None:
    deep: Any = "bottom"
    for _ in range(100):
        deep = [deep]
    for field, body in (
        ("content", {"content": "a\x00b"}),
        ("title", {"content": "x", "title": "a\x00b"}),
        ("url", {"content": "x", "url": "https://a.example/\x00"}),
        ("tags", {"content": "x", "tags": ["a\x00b"]}),
        ("metadata", {"content": "x", "metadata": {"a": ["\x00"]}}),
        ("metadata", {"content": "x", "metadata": {"\x00": 1}}),
        ("metadata", {"content": "x", "metadata": {"a": deep}}),
    ):
        answer = await library.ask("POST", "/api/v1/documents", owner, json=body)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (field, answer.text)
        assert answer.json()["details"]["fields"][0]["field"].partition(".")[0] == field
    for raw in (
        b'{"content": "x", "metadata": {"a": NaN}}',
        b'{"content": "x", "metadata": {"a": -Infinity}}',
        rb'{"content": "x", "metadata": {"a": "\ud800"}}',
        rb'{"content": "\ud800"}',
        b'{"content": "\xff\xfe"}',
        b'{"content": "x", "metadata": {"a": ' + b"[" * 2000 + b"]" * 2000 + b"}}",
    ):
        headers = {"Content-Type": "application/json"}
        answer = await library.ask("POST", "/api/v1/documents", owner, content=raw, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (raw[:60], answer.text)
    assert (await library.api("GET", "/documents", owner))["total"] == 0


async def test_nul_bytes_in_a_file_lose_no_words(library: House, owner: Key) -> None:
    result = await upload(library, owner, "nul.txt", b"Before the NUL \x00 and after it there are words.", "text/plain")
    if result["error"] is None:
        content = (await library.api("GET", f"/documents/{result['document_id']}", owner))["content"]
        assert "\x00" not in content
        assert "after it there are words" in content
    await still_works(library, owner)


@pytest.mark.parametrize(
    ("field", "body"),
    [
        ("content", {}),
        ("content", {"content": ""}),
        ("content", {"content": "  \n "}),
        ("content", {"content": None}),
        ("content", {"content": 7}),
        ("content_type", {"content": "x", "content_type": "application/pdf"}),
        ("collection_id", {"content": "x", "collection_id": "nonsense"}),
        ("language", {"content": "x", "language": "not a language"}),
        ("url", {"content": "x", "url": ""}),
        ("url", {"content": "x", "url": "x" * 2049}),
        ("tags", {"content": "x", "tags": ["t"] * 101}),
        ("chunking", {"content": "x", "chunking": {"chunk_size": 1}}),
        ("chunking", {"content": "x", "chunking": {"strategy": "regex"}}),
        ("surprise", {"content": "x", "surprise": True}),
    ],
    ids=lambda value: str(value)[:50],
)
async def test_a_document_that_makes_no_sense_is_400_and_names_the_field(
    library: House, owner: Key, field: str, body: dict[str, Any]
) -> None:
    answer = await library.ask("POST", "/api/v1/documents", owner, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), answer.text
    assert answer.json()["details"]["fields"][0]["field"].partition(".")[0] == field
    assert set(answer.json()) == {"error", "code", "details", "request_id"}


async def test_an_address_that_is_none_and_a_pattern_that_is_none_are_400(library: House, owner: Key) -> None:
    for body in (
        {"content": "x", "url": "http://"},
        {"content": "x", "url": "https://exa mple/"},
        {"content": "Some words.", "chunking": {"strategy": "regex", "pattern": "("}},
    ):
        answer = await library.ask("POST", "/api/v1/documents", owner, json=body)
        assert answer.status_code == 400, (body, answer.text)
    assert (await library.api("GET", "/documents", owner))["total"] == 0


@pytest.mark.slow
async def test_one_line_of_five_megabytes_is_cut_where_it_must_be(library: House, owner: Key) -> None:
    line = "".join(f"word{n % 997}{'x' * (n % 5)} " for n in range(600_000))[: 5 * MEGABYTE]
    body = {"content": "unseparated" + line.replace(" ", "-"), "url": "https://long.example/line"}
    answer = await library.ask("POST", "/api/v1/documents", owner, json=body, timeout=100)
    made = answer.json()
    assert answer.status_code == 201, answer.text[:300]
    await until(lambda: status(library, owner, made["id"]), "Completed")
    document = await library.api("GET", f"/documents/{made['id']}", owner)
    chunks = await library.api("GET", f"/documents/{made['id']}/chunks", owner)
    assert len(chunks) > 1000
    assert all(document["content"][each["start_char"] : each["end_char"]] == each["content"] for each in chunks)
    assert max(len(each["content"]) for each in chunks) < 10_000


async def status(library: House, key: Key, document_id: str) -> str:
    return str((await library.api("GET", f"/documents/{document_id}", key))["status"])


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_document_of_fifty_megabytes_is_taken_in_while_others_are_served(library: House, owner: Key) -> None:
    paragraph = "The quick brown fox jumps over the lazy dog while the jay looks on. " * 20
    text = "\n\n".join(f"Paragraph {n}. {paragraph}" for n in range(36_000))[: 49 * MEGABYTE]
    answer = await library.ask(
        "POST",
        "/api/v1/documents/upload",
        owner,
        files=[("files", ("huge.txt", text.encode(), "text/plain"))],
        timeout=100,
    )
    assert answer.status_code == 200, answer.text[:300]
    (result,) = answer.json()["results"]
    assert result["error"] is None or result["status"] == "Failed"
    await still_works(library, await library.key(tenant="beside the huge one"))


# --- The size of bodies


async def pieces(total: int, piece: bytes = b" " * 65_536) -> AsyncIterator[bytes]:
    for _ in range(0, total, len(piece)):
        yield piece


@pytest.mark.parametrize(
    ("path", "limit"),
    [
        ("/search", MAX_BODY_BYTES),
        ("/crawl/batch", MAX_BODY_BYTES),
        ("/documents", MAX_DOCUMENT_BODY_BYTES),
        ("/documents/batch", MAX_DOCUMENT_BODY_BYTES),
        ("/documents/upload", MAX_DOCUMENT_BODY_BYTES),
    ],
)
async def test_a_body_beyond_the_limit_is_413_announced_or_not(
    library: House, owner: Key, path: str, limit: int
) -> None:
    kind = "multipart/form-data; boundary=b" if path.endswith("upload") else "application/json"
    head = b'--b\r\nContent-Disposition: form-data; name="files"; filename="f"\r\n\r\n' if "multi" in kind else b""

    async def streamed() -> AsyncIterator[bytes]:
        yield head
        async for piece in pieces(limit + 65_536):
            yield piece

    announced = {"Content-Type": kind, "Content-Length": str(limit + 1)}
    for content, headers in ((b"", announced), (streamed(), {"Content-Type": kind})):
        answer = await library.ask("POST", f"/api/v1{path}", owner, content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (413, "PAYLOAD_TOO_LARGE"), answer.text
        assert f"{limit // MEGABYTE} MB" in answer.json()["error"]
        assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_a_large_body_is_not_read_before_its_key_was_seen(library: House) -> None:
    reader = await library.key(Scope.READ, tenant="only readers")
    taken = 0

    async def streamed() -> AsyncIterator[bytes]:
        nonlocal taken
        async for piece in pieces(MAX_DOCUMENT_BODY_BYTES):
            taken += len(piece)
            yield piece

    for headers, wanted in (
        ({}, (401, "UNAUTHORIZED")),
        ({"X-Api-Key": "sj_unknown"}, (401, "UNAUTHORIZED")),
        ({"X-Api-Key": reader.text}, (403, "FORBIDDEN")),
    ):
        for path in ("", "/batch", "/upload"):
            answer = await library.ask("POST", f"/api/v1/documents{path}", headers=headers, content=streamed())
            assert (answer.status_code, answer.json()["code"]) == wanted
            assert answer.headers["connection"] == "close"
    assert taken <= 10 * 65_536, "the transport of these tests reads one piece ahead, and nobody asks for more"


async def test_a_file_beyond_fifty_megabytes_fails_by_itself(library: House, owner: Key) -> None:
    files = [
        ("files", ("huge.txt", b"a" * (50 * MEGABYTE + 1), "text/plain")),
        ("files", ("small.txt", b"A small file beside a huge one.", "text/plain")),
    ]
    answer = await library.api("POST", "/documents/upload", owner, files=files)
    assert [result["status"] for result in answer["results"]] == ["Failed", "Completed"]
    assert "50 MB" in answer["results"][0]["error"]


async def test_a_form_that_is_none_is_400(library: House, owner: Key) -> None:
    for content, kind in (
        (b"", "multipart/form-data; boundary=b"),
        (b"--b\r\nnonsense", "multipart/form-data; boundary=b"),
        (b"--b--\r\n", "multipart/form-data"),
        (b'{"files": []}', "application/json"),
        (b"files=x", "application/x-www-form-urlencoded"),
        (
            b'--b\r\nContent-Disposition: form-data; name="files"\r\n\r\nx\r\n--b--\r\n',
            "multipart/form-data; boundary=b",
        ),
    ):
        headers = {"Content-Type": kind}
        answer = await library.ask("POST", "/api/v1/documents/upload", owner, content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR"), (content, answer.text)
    many = [("files", (f"{n}.txt", b"x", "text/plain")) for n in range(51)]
    answer = await library.ask("POST", "/api/v1/documents/upload", owner, files=many)
    assert answer.status_code == 400


async def test_secrets_in_bad_requests_stay_out_of_answers_and_logs(
    library: House, owner: Key, logbook: Logbook
) -> None:
    servers = [{"url": "http://jay:hunter2@[bad", "password": "hunter2"}]
    answer = await library.ask("POST", "/api/v1/proxies", owner, json={"name": "x", "servers": servers})
    assert answer.status_code == 400
    assert "hunter2" not in answer.text + logbook.text
