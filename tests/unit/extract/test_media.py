"""What bytes are, against what servers say they are."""

import pytest

from scrubjay.extract.media import sniff

pytestmark = pytest.mark.timeout(20)
HTML = b"<!doctype html><html><body>x</body></html>"
RSS = b'<?xml version="1.0"?><rss version="2.0"><channel/></rss>'


@pytest.mark.parametrize(
    ("data", "content_type", "url", "kind"),
    [
        (HTML, "text/html; charset=utf-8", "http://e.com/", "html"),
        (HTML, None, "http://e.com/", "html"),
        (HTML, "application/octet-stream", "http://e.com/download", "html"),
        (b"%PDF-1.7 ...", "text/html", "http://e.com/", "pdf"),
        (b"%PDF-1.7 ...", "application/octet-stream", "http://e.com/x", "pdf"),
        (HTML, "application/pdf", "http://e.com/x.pdf", "html"),
        (b"PK\x03\x04" + b"\0" * 26 + b"word/document.xml", None, "http://e.com/x", "docx"),
        (b"PK\x03\x04" + b"\0" * 26 + b"x", "application/octet-stream", "http://e.com/x.pptx", "pptx"),
        (b"PK\x03\x04" + b"\0" * 26 + b"x", "application/zip", "http://e.com/x.zip", "zip"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", None, "http://e.com/old.xls", "xls"),
        (RSS, "text/xml", "http://e.com/", "xml"),
        (RSS, "application/rss+xml", "http://e.com/", "feed"),
        (RSS, "text/html", "http://e.com/", "xml"),
        (b'<?xml version="1.0"?><!DOCTYPE html><html/>', "text/html", "http://e.com/", "html"),
        (b"a,b\n1,2", "text/plain", "http://e.com/x.csv", "csv"),
        (b"# Title", "text/plain", "http://e.com/README.md", "markdown"),
        (b"<p>not html</p>", "text/plain", "http://e.com/x.html", "text"),
        (b'{"a": 1}', "application/json", "http://e.com/", "json"),
        (b'{"a": 1}', "application/vnd.api+json", "http://e.com/", "json"),
        (b"\x89PNG\r\n", "text/html", "http://e.com/", "binary"),
        (b"\0\1\2\3", None, "http://e.com/", "binary"),
        (b"words", None, "http://e.com/", "text"),
    ],
)
def test_the_bytes_win_over_the_declared_type_and_that_over_the_suffix(
    data: bytes, content_type: str | None, url: str, kind: str
) -> None:
    assert sniff(data, content_type, url).kind == kind


def test_comments_in_a_row_are_read_in_one_way_only() -> None:
    assert sniff(b"<!---->" * 280 + b"zz", "application/x-unknown", "http://e.com/x").kind == "text"
    assert sniff(b"<!-- a --> <!-- b -->\n<html>", "application/x-unknown", "http://e.com/x").kind == "html"
