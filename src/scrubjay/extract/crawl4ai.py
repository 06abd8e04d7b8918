"""The method `crawl4ai`: its Markdown generator on HTML that we fetched; it never goes to the network itself."""

from importlib.util import find_spec

from scrubjay.errors import ExtractionFailed
from scrubjay.extract.links import read_anchors
from scrubjay.extract.metadata import read_metadata
from scrubjay.extract.tree import parse_html
from scrubjay.model.extraction import Extraction, ExtractOptions, Verdict, name_cuts

METHOD = "crawl4ai"


def is_installed() -> bool:
    return find_spec("crawl4ai") is not None


def extract_with_crawl4ai(text: str, url: str, options: ExtractOptions) -> Extraction:
    """crawl4ai's pruned Markdown; title, metadata and links are read as for every page."""
    if not is_installed():
        message = "The package crawl4ai is not installed (pip install 'scrubjay[ai]')."
        raise ExtractionFailed(message, error_type="strategy_unavailable", url=url)
    # Imported here: it is large, and few ask for it.
    from crawl4ai import content_filter_strategy as filters
    from crawl4ai.markdown_generation_strategy import DefaultMarkdownGenerator

    page = parse_html(text, most=options.limits.characters)
    if page is None:
        return Extraction(markdown="", method=METHOD, verdict=Verdict.EMPTY, verdict_reason="The page has no elements.")
    # Newer versions have a fast one beside the one that every version has.
    pruning = getattr(filters, "PruningContentFilterLXML", None) or filters.PruningContentFilter
    generator = DefaultMarkdownGenerator(content_filter=pruning())
    made = generator.generate_markdown(text, base_url=url, citations=False)
    markdown = str(made.fit_markdown or made.raw_markdown or "").strip()
    title, metadata = read_metadata(page, url)
    anchors, more_links = read_anchors(page, url, contexts=options.contexts, most=options.limits.links)
    cuts = name_cuts(links=more_links, characters=len(text) > options.limits.characters)
    return Extraction(markdown=markdown, method=METHOD, title=title, metadata=metadata, anchors=anchors, cuts=cuts)
