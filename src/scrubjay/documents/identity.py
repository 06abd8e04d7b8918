"""Which document content belongs to: one per tenant, collection and canonical URL, whichever plan or upload brings it.

A crawled page may declare another URL as its canonical one. It is then an alias: it shares that URL's document as long
as both say the same. Where they differ, the document belongs to the page at the URL itself, and the alias has a
document at its own URL, so that two pages never overwrite each other's text from crawl to crawl.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scrubjay.documents.chunking import ChunkSpan
from scrubjay.documents.texts import hash_text, storable_text
from scrubjay.model.content import Content, Document, DocumentSource, IncomingDocument
from scrubjay.model.urls import canonical_form, host_of, normalize_url, registrable_domain

ALSO_FROM = "also_from"  # in a document's details: where documents came from that were merged into it
CRAWLED_URL = "crawled_url"  # in a document's details: the URL that its text was read from, if that is not its own


def natural_key(collection_id: str | None, url: str) -> str:
    """What makes a document the same one the next time, within its tenant. `url` is canonical."""
    return hashlib.sha256(f"{collection_id or ''}\n{url}".encode()).hexdigest()


def document_address(url: str) -> tuple[str, str, str]:
    """A document's URL in normal form, its host and its registrable domain; only http URLs have the last two."""
    if not url.startswith(("http://", "https://")):
        return url, "", ""
    address = normalize_url(url)
    host = host_of(address)
    return address, host, registrable_domain(host)


@dataclass(frozen=True, slots=True)
class Prepared:
    """Content that was looked at, outside of any transaction."""

    incoming: IncomingDocument
    key: str
    url: str  # of the document
    host: str
    domain: str
    text: str
    digest: str
    own_url: str  # the normal form of the URL that the content was read from
    content: Content | None = None
    spans: tuple[ChunkSpan, ...] = ()
    milliseconds: float = 0.0
    error: str | None = None

    @property
    def is_alias(self) -> bool:
        """Whether the content goes to the document at its canonical URL, not to one at its own."""
        return self.url != self.own_url

    @property
    def details(self) -> Mapping[str, Any]:
        found = self.incoming.details
        if self.incoming.source is DocumentSource.CRAWL and self.is_alias:
            return {**found, CRAWLED_URL: self.incoming.url}
        return found


def look_at(incoming: IncomingDocument) -> Prepared:
    """The content under its own URL; `settle_identities` decides whether it goes to its canonical one."""
    url, host, domain = document_address(incoming.url)
    text = storable_text(incoming.markdown)
    key = natural_key(incoming.collection_id, url)
    return Prepared(incoming, key, url, host, domain, text, hash_text(text), url)


def as_alias(item: Prepared) -> Prepared | None:
    """The same content under the canonical URL that its page declares; None where that is its own."""
    canonical = item.incoming.details.get("canonical_url")
    if item.incoming.source is not DocumentSource.CRAWL or not item.host or not isinstance(canonical, str):
        return None
    url = canonical_form(item.own_url, canonical)
    if url == item.own_url:
        return None
    host = host_of(url)
    key = natural_key(item.incoming.collection_id, url)
    return replace(item, key=key, url=url, host=host, domain=registrable_domain(host))


def settle_identities(items: Sequence[Prepared], known: Mapping[str, Document]) -> list[Prepared]:
    """Decide for each item of a batch whether it goes to its own URL or to its canonical one.

    `known` has the documents at both. A page that has a document of its own keeps it, so that the answer is the same
    in every crawl; otherwise an alias is accepted where nothing else is at the canonical URL, or where that says the
    same, or where this page wrote it.
    """
    taken = {item.key: item for item in items}
    settled: dict[int, Prepared] = {}
    for number, item in sorted(enumerate(items), key=lambda each: each[1].own_url):
        alias, own = as_alias(item), known.get(item.key)
        if alias is not None and (own is None or own.is_purging):
            other, document = taken.get(alias.key), known.get(alias.key)
            if other is not None:
                accepted = other.digest == item.digest
            else:
                accepted = document is None or document.content_sha256 == item.digest or wrote(alias, document)
            if accepted:
                taken.setdefault(alias.key, alias)
                settled[number] = alias
                continue
        settled[number] = item
    return [settled[number] for number in range(len(items))]


def one_per_key(items: Sequence[Prepared]) -> dict[str, Prepared]:
    """What is written at each key: the last item of the batch, but no alias in place of the page itself."""
    chosen: dict[str, Prepared] = {}
    for item in items:
        before = chosen.get(item.key)
        if before is None or before.is_alias or not item.is_alias:
            chosen[item.key] = item
    return chosen


def is_from_alias(document: Document) -> bool:
    """Whether the text of a crawled document was read from another URL than its own."""
    return _writer(document) != document.url


def wrote(item: Prepared, document: Document) -> bool:
    """Whether the text of a document was read from this item's URL."""
    return _writer(document) == item.own_url


def is_usurped(item: Prepared, document: Document) -> bool:
    """Whether an alias wrote the document of this page, which says something else."""
    return not item.is_alias and is_from_alias(document) and document.content_sha256 != item.digest


def _writer(document: Document) -> str:
    source = document.details.get(CRAWLED_URL)
    return document_address(source)[0] if isinstance(source, str) else document.url
