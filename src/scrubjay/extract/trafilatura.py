"""The method `trafilatura`: slower than ours and made for articles; for who wants to compare, or trusts it more."""

from scrubjay.extract.links import read_anchors
from scrubjay.extract.metadata import read_metadata
from scrubjay.extract.tree import parse_html
from scrubjay.model.extraction import Extraction, ExtractOptions, Verdict, name_cuts


def extract_with_trafilatura(text: str, url: str, options: ExtractOptions) -> Extraction:
    """trafilatura's Markdown; title, metadata and links are read as for every page."""
    # Imported here: it takes a third of a second.
    from trafilatura import extract as find_content

    page = parse_html(text, most=options.limits.characters)
    if page is None:
        return Extraction(
            markdown="", method="trafilatura", verdict=Verdict.EMPTY, verdict_reason="The page has no elements."
        )
    markdown = find_content(
        text,
        url=url,
        output_format="markdown",
        include_tables=True,
        include_links=True,
        include_formatting=True,
        with_metadata=False,
    )
    title, metadata = read_metadata(page, url)
    anchors, more_links = read_anchors(page, url, contexts=options.contexts, most=options.limits.links)
    cuts = name_cuts(links=more_links, characters=len(text) > options.limits.characters)
    return Extraction(
        markdown=markdown or "", method="trafilatura", title=title, metadata=metadata, anchors=anchors, cuts=cuts
    )
