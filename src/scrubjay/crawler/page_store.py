"""Outcomes as rows: what a crawl keeps of each page, packed small, and read back for the next crawl."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import zstandard

from scrubjay.model.crawl_spec import CrawlSpec
from scrubjay.model.crawling import CrawledPage, KnownPage
from scrubjay.model.extraction import DEFAULT_LIMITS, Anchor, Extraction, ExtractLimits

FORMAT = b"\x01"  # change it when pages must be extracted anew although they did not change
MIN_DUPLICATE_CHARACTERS = 200  # shorter texts are often the same without the pages being so
_MAX_UNPACKED_BYTES = 256 * 1024 * 1024
_LEVEL = 1
_KEPT_HEADERS_BYTES = 16_384

_FIXED_BY_BYTES = frozenset({"markdown", "structured", "raw", "trafilatura"})

_compressor = zstandard.ZstdCompressor(level=_LEVEL)
_decompressor = zstandard.ZstdDecompressor()


def pack_text(text: str) -> bytes:
    return _compressor.compress(text.encode("utf-8", "replace"))


def unpack_text(data: bytes) -> str:
    return _decompressor.decompress(data, max_output_size=_MAX_UNPACKED_BYTES).decode()


def _prefix(strategy: str, cut_by: ExtractLimits | None = None) -> bytes:
    """How a page was extracted; a page that was cut also names the limits, so that other limits read it again."""
    limits = "" if cut_by is None else ":" + ",".join(map(str, cut_by))
    return FORMAT + strategy.encode() + limits.encode() + b"\0"


def extraction_label(spec: CrawlSpec) -> str:
    """The name of how a crawl extracts pages; a page that was extracted under another name is extracted again."""
    return spec.extraction if spec.learn_boilerplate else f"{spec.extraction}+boilerplate"


def is_fixed_by_bytes(spec: CrawlSpec) -> bool:
    """Whether the same bytes always give the same page: not after scripts ran, a model wrote, or fields changed."""
    return spec.extraction in _FIXED_BY_BYTES and not spec.fields


def pack_details(
    extraction: Extraction,
    headers: Mapping[str, str],
    target: str,
    strategy: str,
    limits: ExtractLimits = DEFAULT_LIMITS,
) -> bytes:
    facts: dict[str, Any] = {
        "links": [[anchor.url, anchor.text, anchor.context, anchor.nofollow] for anchor in extraction.anchors],
        "metadata": extraction.metadata,
        "fields": extraction.fields,
        "headers": headers,
        "fetched_url": target,
    }
    if extraction.cuts:
        facts["cuts"] = extraction.cuts
    text = json.dumps(facts, ensure_ascii=False, default=str)
    prefix = _prefix(strategy, limits if extraction.cuts else None)
    return prefix + _compressor.compress(text.encode("utf-8", "replace"))


def unpack_details(data: bytes | None) -> Mapping[str, Any]:
    """What `pack_details` packed; nothing of what another version packed."""
    if data is None or not data.startswith(FORMAT):
        return {}
    facts: Mapping[str, Any] = json.loads(
        _decompressor.decompress(data[data.index(b"\0") + 1 :], max_output_size=_MAX_UNPACKED_BYTES)
    )
    return facts


def stored_extraction(page: CrawledPage) -> Extraction:
    """What `pack_details` and `pack_text` stored, as the extraction it was; without its blocks."""
    details = unpack_details(page.details)
    return Extraction(
        markdown=markdown_of(page),
        method=page.method or "",
        title=page.title,
        metadata=details.get("metadata") or {},
        anchors=tuple(map(Anchor._make, details.get("links") or ())),
        fields=details.get("fields"),
        cuts=tuple(details.get("cuts") or ()),
    )


def is_reusable(known: KnownPage, strategy: str, limits: ExtractLimits = DEFAULT_LIMITS) -> bool:
    """Whether a page that did not change need not be extracted again: by this strategy, it would be the same."""
    if known.details is None or known.content_sha256 is None:
        return False
    return known.details.startswith((_prefix(strategy), _prefix(strategy, limits)))


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
