"""What sources have: the items that a listing names, and the content behind them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, sha256
from typing import Any


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """Why an item could not be read: a reason code, a sentence, and what HTTP said."""

    reason: str
    message: str
    http_status: int | None = None
    attempts: int = 1
    is_gone: bool = False  # the source says that it does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceItem:
    """One thing that a source has, with whatever its listing says about its state; never its bytes."""

    key: str  # as people know it: an address, a path, the key of an object
    key_hash: str  # what the ledger calls it
    content_type: str | None = None
    content_length: int | None = None
    etag: str | None = None
    sha256: str | None = None  # of the bytes, like the other two
    sha1: str | None = None
    md5: str | None = None
    last_modified_at: datetime | None = None
    text_sha256: str | None = None  # of what it says, where the listing already knows that
    is_folder: bool = False
    problem: "ItemProblem | None" = None  # why it could not be read this time, although it is listed

    @property
    def fingerprint(self) -> str:
        """Everything that tells whether it changed, as one word: the same word means that nothing did."""
        if self.text_sha256 is not None:
            return self.text_sha256
        modified = self.last_modified_at
        told = (
            f"{self.content_length}|{self.etag}|{self.sha256}|{self.sha1}|{self.md5}|"
            f"{None if modified is None else modified.timestamp()}"
        )
        return blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContent:
    """What an item is: bytes that are yet to be extracted, or text that is ready."""

    url: str  # the document's address
    data: bytes | None = field(default=None, repr=False)
    markdown: str | None = field(default=None, repr=False)
    title: str | None = None
    filename: str | None = None
    content_type: str | None = None
    language: str | None = None
    parent_url: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    size_bytes: int = 0
    original_sha256: str | None = None  # where the bytes are kept already
    crawled_at: datetime | None = None
    cuts: tuple[str, ...] = ()  # limits per page that cut the text


@dataclass(frozen=True, slots=True)
class Connectivity:
    """Whether a source can be reached, and in one sentence why not."""

    works: bool
    message: str


def hash_key(key: str) -> str:
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def reason_of(error_type: str | None, http_status: int | None) -> str:
    """A reason code; an HTTP error is named by its status (`http_404`)."""
    if error_type in (None, "http_error") and http_status is not None and http_status >= 400:
        return f"http_{http_status}"
    return error_type or "unknown"
