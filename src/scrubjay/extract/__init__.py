"""Bytes become Markdown, a title, metadata and links: step 7 of a page's journey.

`extract()` is the one public call; it does no network access. What repeats across a site is dropped by
`boilerplate.py`, what needs a browser or a language model is in `browser.py` and `ai.py`, and crawls extract in
other processes, through `pool.py`.
"""

import gc
from dataclasses import replace
from typing import TYPE_CHECKING

from scrubjay.errors import ExtractionFailed, InvalidRequest
from scrubjay.extract.decoding import decode_html
from scrubjay.extract.media import sniff
from scrubjay.model.extraction import Anchor, Extraction, ExtractOptions, MarkdownBlock, PageType, Verdict, name_cuts

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Anchor",
    "ExtractOptions",
    "Extraction",
    "MarkdownBlock",
    "PageType",
    "Verdict",
    "extract",
]

# What `extract()` does by itself. The strategies browser and llm need a network and are in `ai.py`.
PURE_STRATEGIES = ("markdown", "structured", "raw", "trafilatura", "crawl4ai")
_DEFAULT_OPTIONS = ExtractOptions()


def extract(
    data: bytes,
    *,
    url: str,
    content_type: str | None = None,
    options: ExtractOptions = _DEFAULT_OPTIONS,
    status: int = 200,
) -> Extraction:
    """The content of a fetched page or file. Raises ExtractionFailed when there is no way to read it; a page that is
    not what was asked for (a bot check, a login wall, an empty shell) says so in its verdict."""
    if options.strategy not in PURE_STRATEGIES:
        known = ", ".join(PURE_STRATEGIES)
        raise InvalidRequest(f"The extraction strategy '{options.strategy}' is not one of {known}.", field="strategy")
    if not data.strip():
        return Extraction(markdown="", method="none", verdict=Verdict.EMPTY, verdict_reason="The body is empty.")
    media = sniff(data, content_type, url)
    # A page makes tens of thousands of objects and no cycles: looking for some in between costs a tenth of the time.
    collecting = gc.isenabled()
    gc.disable()
    try:
        if media.kind != "html":
            # Imported late: a crawl of web pages never needs the file library.
            from scrubjay.extract.files import extract_file

            return extract_file(data, media, url=url, content_type=content_type, options=options)
        return _extract_page(decode_html(data, content_type), url, options, status)
    except RecursionError:
        raise ExtractionFailed("The content is nested too deeply.", error_type="too_deep", url=url) from None
    finally:
        if collecting:
            gc.enable()


def _extract_page(text: str, url: str, options: ExtractOptions, status: int) -> Extraction:
    extraction = _strategy(options.strategy)(text, url, options)
    if extraction.verdict is not Verdict.CONTENT:
        return extraction
    from scrubjay.extract.tree import parse_html
    from scrubjay.extract.verdicts import judge, looks_like_content

    # Most pages are told apart by their length alone; only a suspect is read a second time.
    body = None if options.strategy == "raw" else extraction.markdown
    if body is not None and looks_like_content(status=status, text=body):
        return extraction
    verdict, reason = judge(
        status=status, text=body, title=extraction.title, page=parse_html(text, most=options.limits.characters), url=url
    )
    return replace(extraction, verdict=verdict, verdict_reason=reason) if verdict is not Verdict.CONTENT else extraction


def _strategy(name: str) -> "Callable[[str, str, ExtractOptions], Extraction]":
    if name == "structured":
        from scrubjay.extract.structured import extract_structured

        return extract_structured
    if name == "trafilatura":
        from scrubjay.extract.trafilatura import extract_with_trafilatura

        return extract_with_trafilatura
    if name == "crawl4ai":
        from scrubjay.extract.crawl4ai import extract_with_crawl4ai

        return extract_with_crawl4ai
    return _extract_raw if name == "raw" else _extract_markdown


def _extract_markdown(text: str, url: str, options: ExtractOptions) -> Extraction:
    from scrubjay.extract.html import extract_html

    return extract_html(text, url=url, options=options)


def _extract_raw(text: str, url: str, options: ExtractOptions) -> Extraction:
    """The page's own HTML, with metadata and links."""
    from scrubjay.extract.links import read_anchors
    from scrubjay.extract.metadata import read_metadata
    from scrubjay.extract.tree import parse_html

    page = parse_html(text, most=options.limits.characters)
    if page is None:
        return Extraction(markdown=text, method="raw")
    title, metadata = read_metadata(page, url)
    anchors, more_links = read_anchors(page, url, contexts=options.contexts, most=options.limits.links)
    cuts = name_cuts(links=more_links, characters=len(text) > options.limits.characters)
    return Extraction(markdown=text, method="raw", title=title, metadata=metadata, anchors=anchors, cuts=cuts)
