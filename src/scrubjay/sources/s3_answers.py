"""What S3 answers in XML: pages of a listing, and errors. Entities are never expanded, nothing else is loaded."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote_plus

from lxml import etree

from scrubjay.crawler.sitemap_parsing import parse_lastmod
from scrubjay.errors import FetchFailed

_MD5 = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class S3Object:
    key: str
    size: int
    etag: str | None
    last_modified_at: datetime | None

    @property
    def md5(self) -> str | None:
        """The ETag of what was uploaded in one piece; that of several pieces has a dash."""
        return self.etag if self.etag is not None and _MD5.fullmatch(self.etag) else None

    @property
    def is_folder(self) -> bool:
        """Consoles make such objects where people want a folder."""
        return self.key.endswith("/") and self.size == 0


@dataclass(frozen=True, slots=True)
class ListingPage:
    objects: Sequence[S3Object]
    next_token: str | None
    is_last: bool


@dataclass(frozen=True, slots=True)
class S3Error:
    code: str | None
    message: str | None
    region: str | None


def read_listing(data: bytes) -> ListingPage:
    root = _parse(data)
    if root is None or _local_name(root) != "ListBucketResult":
        raise FetchFailed("The answer is not one of S3.", error_type="not_s3")
    encoded = root.findtext("{*}EncodingType") == "url"
    try:
        objects = [_read_object(node, encoded) for node in root.iterchildren("{*}Contents")]
    except ValueError as error:
        raise FetchFailed("The listing has an object without a key or size.", error_type="not_s3") from error
    is_last = (root.findtext("{*}IsTruncated") or "").strip().lower() != "true"
    return ListingPage(objects, root.findtext("{*}NextContinuationToken") or None, is_last)


def read_error(data: bytes) -> S3Error:
    """What S3 says went wrong; nothing where the answer is from something else."""
    root = _parse(data)
    if root is None or _local_name(root) != "Error":
        return S3Error(None, None, None)
    return S3Error(root.findtext("{*}Code"), root.findtext("{*}Message"), root.findtext("{*}Region"))


def _parse(data: bytes) -> etree._Element | None:
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None  # whoever asked says what that means


def _read_object(node: etree._Element, encoded: bool) -> S3Object:
    key = node.findtext("{*}Key")
    if not key:
        raise ValueError("no key")
    return S3Object(
        key=unquote_plus(key) if encoded else key,
        size=int(node.findtext("{*}Size") or ""),
        etag=(node.findtext("{*}ETag") or "").strip().strip('"') or None,
        last_modified_at=parse_lastmod((node.findtext("{*}LastModified") or "").strip()),
    )


def _local_name(element: etree._Element) -> str:
    return str(element.tag).rpartition("}")[2]
