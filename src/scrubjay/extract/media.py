"""What kind of content some bytes are: by their first bytes, then by the declared type, then by the address."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePosixPath
from urllib.parse import urlsplit

_HEAD_BYTES = 2048

# kind → how the file library calls it. Kinds that are not here are read by ourselves.
OFFICE_TYPES = {
    "pdf": "application/pdf",
    "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "odt": "application/vnd.oasis.opendocument.text",
    "ods": "application/vnd.oasis.opendocument.spreadsheet",
    "epub": "application/epub+zip",
    "doc": "application/msword",
    "xls": "application/vnd.ms-excel",
    "ppt": "application/vnd.ms-powerpoint",
    "rtf": "application/rtf",
    "eml": "message/rfc822",
}
ZIP_KINDS = frozenset({"docx", "xlsx", "pptx", "odt", "ods", "epub"})

_BY_TYPE = {mime: kind for kind, mime in OFFICE_TYPES.items()} | {
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/x-pdf": "pdf",
    "text/rtf": "rtf",
    "text/csv": "csv",
    "application/csv": "csv",
    "text/tab-separated-values": "tsv",
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "application/json": "json",
    "text/json": "json",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "application/rss+xml": "feed",
    "application/atom+xml": "feed",
    "application/rdf+xml": "feed",
    "application/feed+json": "json",
    "text/xml": "xml",
    "application/xml": "xml",
}
_BY_SUFFIX = {f".{kind}": kind for kind in OFFICE_TYPES} | {
    ".htm": "html",
    ".html": "html",
    ".xhtml": "html",
    ".md": "markdown",
    ".markdown": "markdown",
    ".txt": "text",
    ".log": "text",
    ".rst": "text",
    ".csv": "csv",
    ".tsv": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xml": "xml",
    ".rss": "feed",
    ".atom": "feed",
}
# Types that servers send for anything; the address says more.
_VAGUE_TYPES = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/zip", "text/plain"})
_BINARY_MAGIC = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf", "application/x-7z-compressed"),
    (b"Rar!", "application/vnd.rar"),
    (b"\x7fELF", "application/x-executable"),
    (b"ID3", "audio/mpeg"),
    (b"OggS", "audio/ogg"),
    (b"wOF", "font/woff"),
)
_OLE_MAGIC = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Comments are read in one way only: many of them in a row would otherwise take forever.
_HTML_START = re.compile(
    rb"\s*+(?:<!--(?>.{0,500}?-->)\s*+)*+<(!doctype\s+html|html|head|body|title|meta|script|div|p|h1|table|a|br)\b",
    re.IGNORECASE | re.DOTALL,
)
_FEED_START = re.compile(rb"<(rss|feed|rdf:RDF)[\s>]")


@dataclass(frozen=True, slots=True)
class Media:
    """A kind (html, pdf, docx, csv, feed …, or `binary` for what has no text) and the media type behind it."""

    kind: str
    mime: str


def sniff(data: bytes, content_type: str | None, url: str) -> Media:
    """What the bytes say wins over what the server says, which wins over the suffix of the address."""
    head = data[:_HEAD_BYTES]
    declared = _declared(content_type or "")
    if declared in ("text/html", "application/xhtml+xml") and head.lstrip()[:1] == b"<":
        return Media("xml" if _is_xml_document(head) else "html", declared)
    return (
        _by_magic(head, declared, url)
        or _by_name(declared, url)
        or _by_looks(head, declared)
        or Media("text" if _is_text(head) else "binary", declared or "application/octet-stream")
    )


@lru_cache(maxsize=256)
def _declared(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _by_magic(head: bytes, declared: str, url: str) -> Media | None:
    if b"%PDF-" in head[:1024]:
        return Media("pdf", OFFICE_TYPES["pdf"])
    if head.startswith(b"{\\rtf"):
        return Media("rtf", OFFICE_TYPES["rtf"])
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zip_kind(head, declared, url)
    if head.startswith(_OLE_MAGIC):
        kind = _named_kind(declared, url)
        return Media(kind, OFFICE_TYPES[kind]) if kind in ("doc", "xls", "ppt") else Media("doc", OFFICE_TYPES["doc"])
    for magic, mime in _BINARY_MAGIC:
        if head.startswith(magic):
            return Media("binary", mime)
    return None


def _zip_kind(head: bytes, declared: str, url: str) -> Media:
    kind = _named_kind(declared, url)
    if kind not in ZIP_KINDS:
        marks = ((b"word/", "docx"), (b"xl/", "xlsx"), (b"ppt/", "pptx"), (b"epub+zip", "epub"))
        kind = next((each for mark, each in marks if mark in head), None)
    # Which Office file an undeclared archive is, its names tell when it is opened.
    return Media(kind, OFFICE_TYPES[kind]) if kind else Media("zip", "application/zip")


def _named_kind(declared: str, url: str) -> str | None:
    return _BY_TYPE.get(declared) or _BY_SUFFIX.get(_suffix(url))


def _suffix(url: str) -> str:
    return PurePosixPath(urlsplit(url).path).suffix.lower()


def _by_name(declared: str, url: str) -> Media | None:
    if declared not in _VAGUE_TYPES:
        kind = _BY_TYPE.get(declared)
        if kind is None and declared.endswith(("+json", "+xml")):
            kind = declared[-4:].lstrip("+")
        # A magic number would have shown an Office file; without it the declared type is wrong.
        if kind and kind not in OFFICE_TYPES:
            return Media(kind, declared)
        if kind is None and declared.startswith(("image/", "video/", "audio/", "font/")):
            return Media("binary", declared)
        return None
    kind = _BY_SUFFIX.get(_suffix(url))
    if kind == "html" and declared == "text/plain":
        return Media("text", declared)
    return Media(kind, declared or "text/plain") if kind and kind not in OFFICE_TYPES else None


def _by_looks(head: bytes, declared: str) -> Media | None:
    if declared == "text/plain":
        return None
    if _is_xml_document(head):
        return Media("feed" if _FEED_START.search(head) else "xml", declared or "application/xml")
    if _HTML_START.match(head.removeprefix(b"\xef\xbb\xbf")):
        return Media("html", "text/html")
    if head.lstrip()[:1] in (b"{", b"[") and declared == "":
        return Media("json", "application/json")
    return None


def _is_xml_document(head: bytes) -> bool:
    """XML that is not XHTML, also when a server calls it HTML."""
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1024]
    return (
        start.startswith(b"<?xml") and b"<html" not in start.lower() and b"<!doctype html" not in start.lower()
    ) or (start.startswith((b"<rss", b"<feed")))


def _is_text(head: bytes) -> bool:
    return b"\0" not in head or head.startswith((b"\xff\xfe", b"\xfe\xff"))
