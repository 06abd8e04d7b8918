"""What extraction gives: Markdown in blocks, metadata, links, and how it came about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple


class PageType(StrEnum):
    ARTICLE = "article"
    DOCUMENTATION = "documentation"
    FORUM = "forum"
    PRODUCT = "product"
    LISTING = "listing"
    COLLECTION = "collection"
    SERVICE = "service"


class Verdict(StrEnum):
    """Whether what was fetched is the content that was asked for."""

    CONTENT = "content"
    BLOCKED = "blocked"  # a bot check or an "access denied" page
    LOGIN = "login"  # a login or consent wall in place of the content
    EMPTY = "empty"  # a shell that scripts would have filled, or nothing at all
    SOFT_404 = "soft_404"  # an error page that came with status 200


# A page has hundreds of these two, and they cross a process border: tuples are made three times as fast.
class Anchor(NamedTuple):
    """A link of a page: its address as it would be fetched, its words, and the words around it."""

    url: str
    text: str = ""
    context: str = ""
    nofollow: bool = False


class MarkdownBlock(NamedTuple):
    """A piece of a page's Markdown that stands by itself; `gap` is what separates it from the piece before."""

    text: str
    fingerprint: int  # of the block's words, 64 bits: what repeats across a site is recognised by it
    gap: str = "\n\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """`metadata` has, where the page tells: description, author, published_at, modified_at, language, keywords,
    canonical_url, site_name, image, open_graph, json_ld, headings, page_type and robots."""

    markdown: str
    method: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    anchors: tuple[Anchor, ...] = ()
    blocks: tuple[MarkdownBlock, ...] = ()
    fields: Mapping[str, Any] | None = None  # what the `structured` strategy found
    verdict: Verdict = Verdict.CONTENT
    verdict_reason: str | None = None
    cuts: tuple[str, ...] = ()  # the limits that cut this page: links, blocks, characters

    @property
    def links(self) -> list[str]:
        """Every address that the page links to, once, in order."""
        return list(dict.fromkeys(anchor.url for anchor in self.anchors))


class ExtractLimits(NamedTuple):
    """How much of one page is kept. What goes beyond a limit is left out, and `Extraction.cuts` names the limit."""

    links: int = 50_000
    blocks: int = 200_000  # paragraphs, headings, list items; also rows of a table and entries of a feed
    characters: int = 12_000_000  # of a web page's HTML, or of a file's text


DEFAULT_LIMITS = ExtractLimits()


TEXT_LIMITS = frozenset(f"{name}_per_page" for name in ExtractLimits._fields)


def text_limits(cuts: Iterable[str]) -> tuple[str, ...]:
    """`Extraction.cuts` as reports name these limits."""
    return tuple(f"{name}_per_page" for name in cuts)


def name_cuts(*, links: bool = False, blocks: bool = False, characters: bool = False) -> tuple[str, ...]:
    """`Extraction.cuts` for the limits that a page exceeds."""
    exceeded = zip(ExtractLimits._fields, (links, blocks, characters), strict=True)
    return tuple(name for name, is_exceeded in exceeded if is_exceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractOptions:
    """How to extract: a strategy of spec 001, or the name of a method."""

    strategy: str = "markdown"  # markdown, structured, raw, browser, trafilatura, crawl4ai, llm
    fields: Mapping[str, str] = field(default_factory=dict)  # structured: name → CSS selector
    contexts: bool = False  # collect the words around each link, for best-first crawls
    limits: ExtractLimits = DEFAULT_LIMITS
