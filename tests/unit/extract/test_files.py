"""Files of every kind become Markdown; hostile ones become one failure with its kind."""

import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from tests.unit.extract import office_files

from scrubjay.errors import ExtractionFailed
from scrubjay.extract import Extraction, ExtractOptions, extract
from scrubjay.model.extraction import ExtractLimits

URL = "https://example.com/files/it"

RSS = b"""<?xml version="1.0"?><rss version="2.0"><channel><title>News</title><link>https://example.com/</link>
<description>All of it</description><item><title>One</title><link>/one</link>
<description>&lt;p&gt;Hello &lt;b&gt;there&lt;/b&gt;&lt;/p&gt;&lt;p&gt;Second&lt;/p&gt;</description>
<pubDate>Mon, 06 Sep 2021 00:01:00 +0000</pubDate></item></channel></rss>"""
BILLION_LAUGHS = (
    b'<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol0 "lol">'
    + b"".join(b'<!ENTITY lol%d "%s">' % (n, b"&lol%d;" % (n - 1) * 10) for n in range(1, 10))
    + b']><lolz a="&lol9;">&lol9;</lolz>'
)


def read(data: bytes, content_type: str | None = None, url: str = URL) -> Extraction:
    return extract(data, url=url, content_type=content_type)


def failure(data: bytes, content_type: str | None = None, url: str = URL) -> str:
    with pytest.raises(ExtractionFailed) as failed:
        read(data, content_type, url)
    return failed.value.error_type


@pytest.mark.parametrize(
    ("data", "title", "words"),
    [
        (office_files.docx(), "Quarterly report", "Hello from Word"),
        (office_files.xlsx(), "Prices", "| Apple | 3 |"),
        (office_files.pptx(), "Slide about jays", "Slide about jays"),
        (office_files.epub(), "A Book", "Words of the book."),
        (office_files.pdf(), "A PDF title", "Hello from PDF"),
    ],
)
def test_office_files_are_recognised_by_their_bytes_alone(data: bytes, title: str, words: str) -> None:
    found = read(data)
    assert (found.method, found.title) == ("kreuzberg", title)
    assert words in found.markdown


def test_the_metadata_of_a_pdf_is_told_in_our_words() -> None:
    metadata = read(office_files.pdf()).metadata
    assert metadata["author"] == "Jay"
    assert metadata["published_at"].startswith("2026-01-02T03:04:05")
    assert metadata["page_count"] == 1


def test_broken_and_encrypted_files_are_failures_of_their_kind() -> None:
    assert failure(b"%PDF-1.4 and nothing more") == "broken_file"
    assert failure(office_files.docx()[:300]) == "broken_file"
    assert failure(b"PK\x03\x04" + b"\0" * 100, url="https://example.com/x.xlsx") == "broken_file"
    assert failure(office_files.pdf(encrypted=True)) == "encrypted"


def zip_bomb(parts: int, megabytes: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for number in range(parts):
            archive.writestr(f"word/part{number}.xml", bytes(megabytes * 1024 * 1024))
    return packed.getvalue()


def test_an_archive_that_unpacks_to_too_much_is_not_opened() -> None:
    assert failure(zip_bomb(1, 64)) == "archive_bomb"
    assert failure(zip_bomb(11, 60)) == "archive_bomb"


def test_an_archive_that_lies_about_its_sizes_is_found_out() -> None:
    true_size = 64 * 1024 * 1024
    honest = zip_bomb(1, 64)
    lying = honest.replace(struct.pack("<I", true_size), struct.pack("<I", 100))
    assert lying != honest
    assert failure(lying) == "archive_bomb"


def test_an_archive_with_an_encrypted_part_says_so() -> None:
    data = bytearray(office_files.docx())
    directory = data.rindex(b"PK\x01\x02")
    data[directory + 8] |= 1
    assert failure(bytes(data)) == "encrypted"


def test_an_ordinary_archive_is_not_text() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert failure(packed.getvalue()) == "unsupported_type"


def test_a_feed_lists_its_entries_with_dates_and_links() -> None:
    found = read(RSS, "application/rss+xml")
    assert found.method == "feedparser"
    assert found.title == "News"
    assert found.links == ["https://example.com/one"]
    assert "## [One](https://example.com/one)" in found.markdown
    assert "2021-09-06T00:01:00Z" in found.markdown
    assert "Hello there\n\nSecond" in found.markdown
    assert read(RSS, "text/html").method == "feedparser"


def test_a_feed_tells_when_it_was_updated_only_if_it_says_so() -> None:
    dated = RSS.replace(b"<item>", b"<pubDate>Tue, 07 Sep 2021 00:01:00 +0000</pubDate><item>")
    assert "modified_at" not in read(dated, "application/rss+xml").metadata
    atom = b'<feed xmlns="http://www.w3.org/2005/Atom"><title>A</title><updated>2021-09-08T00:00:00Z</updated></feed>'
    assert read(atom, "application/atom+xml").metadata["modified_at"] == "2021-09-08T00:00:00Z"


def test_a_file_that_fails_inside_the_library_is_broken() -> None:
    data = bytearray(office_files.docx())
    checksum = data.rindex(b"PK\x01\x02") + 16
    data[checksum] ^= 0xFF
    assert failure(bytes(data)) == "broken_file"


def test_xml_with_names_that_are_not_allowed_is_still_read() -> None:
    assert read(b"<?xml version='1.0'?><r:s><a:b>words</a:b></r:s>", "text/xml").markdown == "- a:b: words"


def test_a_feed_that_trips_its_parser_is_broken() -> None:
    assert failure(b"<rss><channel><item><link></item></link>", "application/rss+xml") == "broken_file"


def test_a_feed_that_is_the_name_of_a_file_does_not_open_it(tmp_path: Path) -> None:
    secret = tmp_path / "feed.xml"
    secret.write_bytes(RSS)
    assert failure(str(secret).encode(), "application/rss+xml") == "broken_file"


def test_entities_are_neither_expanded_nor_fetched() -> None:
    assert failure(BILLION_LAUGHS, "text/xml") == "broken_file"
    assert failure(BILLION_LAUGHS, "application/rss+xml") == "broken_file"
    passwords = b'<?xml version="1.0"?><!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r><a>in</a>&x;</r>'
    assert read(passwords, "text/xml").markdown == "- a: in"


def test_xml_becomes_lines_and_its_addresses_links() -> None:
    sitemap = b"<urlset xmlns='http://x.org/s'><url><loc>https://example.com/1</loc></url></urlset>"
    found = read(sitemap, "application/xml")
    assert found.markdown == "- loc: https://example.com/1"
    assert found.links == ["https://example.com/1"]


def test_csv_becomes_a_table_whatever_separates_its_cells() -> None:
    assert read(b'a;b\n"1|x";2\n', "text/csv").markdown == "| a | b |\n| --- | --- |\n| 1\\|x | 2 |"
    assert read(b"a\tb\n1\t2\n", None, "https://example.com/x.tsv").markdown.startswith("| a | b |")


def test_a_huge_csv_is_cut_off_and_says_so() -> None:
    limits = ExtractLimits(blocks=100)
    found = extract(b"a,b\n" + b"1,2\n" * 500, url=URL, content_type="text/csv", options=ExtractOptions(limits=limits))
    assert found.metadata["truncated"] is True
    assert found.cuts == ("blocks",)
    assert found.metadata["row_count"] == 501
    assert found.markdown.count("\n") == 100
    assert read(b"a,b\n" + b"1,2\n" * 500, "text/csv").cuts == ()


@pytest.mark.parametrize(
    ("data", "content_type", "cuts"),
    [
        (b"word " * 100, "text/plain", ("characters",)),
        (b"https://example.org/1 https://example.org/2 https://example.org/3", "text/plain", ("links",)),
        (b"<list>" + b"<item>text</item>" * 5 + b"</list>", "application/xml", ("blocks",)),
        (
            b"<rss><channel><title>T</title>" + b"<item><title>t</title></item>" * 5 + b"</channel></rss>",
            "application/rss+xml",
            ("blocks",),
        ),
    ],
)
def test_a_file_beyond_a_limit_says_which(data: bytes, content_type: str, cuts: tuple[str, ...]) -> None:
    options = ExtractOptions(limits=ExtractLimits(links=2, blocks=4, characters=300))
    assert extract(data, url=URL, content_type=content_type, options=options).cuts == cuts
    assert extract(data, url=URL, content_type=content_type).cuts == ()


def test_one_endless_cell_does_not_raise() -> None:
    assert failure(b'"' + b"x" * 200_000, "text/csv") == "broken_file"


def test_json_is_shown_as_code_with_its_links() -> None:
    found = read(b'{"title": "Thing", "see": "https://example.org/a", "code": "```"}', "application/json")
    assert found.title == "Thing"
    assert found.links == ["https://example.org/a"]
    assert found.markdown.startswith("````json\n{")


def test_broken_and_deeply_nested_json_is_a_failure() -> None:
    assert failure(b'{"a', "application/json") == "broken_file"
    assert failure(b"[" * 200_000, "application/json") == "broken_file"


def test_markdown_keeps_its_text_and_gives_title_headings_and_links() -> None:
    found = read(
        b"---\ntitle: 'From above'\n---\n# Top\n\nSee [this](/there) and https://example.org/x.\n", "text/markdown"
    )
    assert found.title == "From above"
    assert found.markdown.startswith("# Top")
    assert found.metadata["headings"] == [(1, "Top")]
    assert found.links == ["https://example.com/there", "https://example.org/x"]


def test_plain_text_stays_as_it_is() -> None:
    found = read("Größe\n\n  eins <b>zwei".encode("cp1252"), "text/plain; charset=iso-8859-1")
    assert (found.title, found.markdown) == ("Größe", "Größe\n\n  eins <b>zwei")


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0", b"\0\1\2" * 50, zlib.compress(b"x" * 99), b"\x1f\x8b\x08\0"])
def test_what_has_no_text_is_an_unsupported_type(data: bytes) -> None:
    assert failure(data) == "unsupported_type"


def test_an_empty_body_is_an_empty_page() -> None:
    assert read(b" \n").verdict == "empty"


def test_an_archive_packed_in_a_way_that_is_not_counted_is_not_opened() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("word/document.xml", bytes(1024))
    assert failure(packed.getvalue()) == "broken_file"


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text", ["# a" + " " * 200_000 + "b", "---" + "\n" * 200_000, "#" + " " * 200_000, "# a" + "# " * 100_000 + "b"]
)
def test_markdown_of_blanks_is_read_at_once(text: str) -> None:
    assert read(text.encode(), "text/markdown").method == "markdown"


def test_a_heading_is_told_without_its_closing_signs() -> None:
    found = read(b"# One ##  \n\n##  Two\t\n\n### #\n\n#no\n\n#\n\nnot a heading", "text/markdown")
    assert found.metadata["headings"] == [(1, "One"), (2, "Two"), (3, "#")]


@pytest.mark.timeout(20)
def test_a_fence_is_longer_than_every_run_of_backticks() -> None:
    text = json.dumps(["`" * 500_000, "a ```` b"])
    assert read(text.encode(), "application/json").markdown.startswith("`" * 500_001 + "json\n")
    assert read(b'"`` a"', "application/json").markdown.startswith("```json\n")


def test_json_does_not_grow_by_its_indents() -> None:
    text = "[" * 400 + ",".join("1" * 20_000) + "]" * 400
    assert read(text.encode(), "application/json").markdown == f"```json\n{text}\n```"
