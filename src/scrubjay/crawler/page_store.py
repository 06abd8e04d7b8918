"""Outcomes as rows: what a crawl keeps of each page, packed small, and read back for the next crawl."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import zstandard

from scrubjay.model.crawling import CrawledPage, KnownPage
from scrubjay.model.extraction import Extraction

FORMAT = b"\x01"  # change it when pages must be extracted anew although they did not change
MIN_DUPLICATE_CHARACTERS = 200  # shorter texts are often the same without the pages being so
_MAX_UNPACKED_BYTES = 256 * 1024 * 1024
_LEVEL = 1
_KEPT_HEADERS_BYTES = 16_384

_compressor = zstandard.ZstdCompressor(level=_LEVEL)
_decompressor = zstandard.ZstdDecompressor()


def pack_text(text: str) -> bytes:
    return _compressor.compress(text.encode("utf-8", "replace"))


def unpack_text(data: bytes) -> str:
    return _decompressor.decompress(data, max_output_size=_MAX_UNPACKED_BYTES).decode()


def _prefix(strategy: str) -> bytes:
    return FORMAT + strategy.encode() + b"\0"


def pack_details(extraction: Extraction, headers: Mapping[str, str], target: str, strategy: str) -> bytes:
    facts = {
        "links": [[anchor.url, anchor.text, anchor.context, anchor.nofollow] for anchor in extraction.anchors],
        "metadata": extraction.metadata,
        "fields": extraction.fields,
        "headers": headers,
        "fetched_url": target,
    }
    text = json.dumps(facts, ensure_ascii=False, default=str)
    return _prefix(strategy) + _compressor.compress(text.encode("utf-8", "replace"))


def unpack_details(data: bytes | None) -> Mapping[str, Any]:
    """What `pack_details` packed; nothing of what another version packed."""
    if data is None or not data.startswith(FORMAT):
        return {}
    facts: Mapping[str, Any] = json.loads(
        _decompressor.decompress(data[data.index(b"\0") + 1 :], max_output_size=_MAX_UNPACKED_BYTES)
    )
    return facts


def is_reusable(known: KnownPage, strategy: str) -> bool:
    """Whether a page that did not change need not be extracted again: by this strategy, it would be the same."""
    reads = known.details is not None and known.details.startswith(_prefix(strategy))
    return reads and known.content_sha256 is not None


def hash_content(markdown: str) -> str:
    return hashlib.sha256(markdown.encode("utf-8", "replace")).hexdigest()


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Response headers worth keeping: all but those that carry sessions, up to a limit."""
    kept: dict[str, str] = {}
    size = 0
    for name, value in headers.items():
        size += len(name) + len(value)
        if size > _KEPT_HEADERS_BYTES:
            break
        if name.lower() not in ("set-cookie", "set-cookie2", "www-authenticate", "proxy-authenticate"):
            kept[name] = f"{kept[name]}, {value}" if name in kept else value
    return kept


def robots_directives(metadata: Mapping[str, Any], headers: Iterable[tuple[str, str]]) -> set[str]:
    """What a page and its headers tell robots: noindex, nofollow, none."""
    said = [str(part) for part in metadata.get("robots") or ()]
    for name, value in headers:
        if name.lower() == "x-robots-tag":
            # "otherbot: noindex" is not meant for us.
            said += [part.strip().lower() for part in value.split(",") if ":" not in part]
    return {"noindex", "nofollow", *said} if "none" in said else set(said)


def changed_at(known: KnownPage | None, content_sha256: str | None, now: datetime) -> datetime:
    """When the content last became what it is."""
    return known.changed_at if known is not None and known.content_sha256 == content_sha256 else now


def markdown_of(page: CrawledPage) -> str:
    return "" if page.content is None else unpack_text(page.content)
