"""The story of a page: text to tree, tree to blocks, blocks to the chosen ones, those to Markdown (step 7)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scrubjay.extract.blocks import BlockTree, cut_blocks
from scrubjay.extract.classifier import Classifier, PageScores, load_classifier
from scrubjay.extract.features import PageHead
from scrubjay.extract.links import base_of, read_anchors
from scrubjay.extract.markdown import fingerprint, render_markdown
from scrubjay.extract.metadata import read_metadata
from scrubjay.extract.tree import parse_html
from scrubjay.model.extraction import Extraction, ExtractOptions, MarkdownBlock, PageType, Verdict, name_cuts

METHOD = "scrubjay"
_SPARSE_WORDS = 40  # a page whose body says less may say more in its structured data
_SMALL_PAGE_CHARACTERS = 2_000
_LIKELY = 0.05
_BODY_KEYS = ("articleBody", "text", "reviewBody")
_DEFAULT_OPTIONS = ExtractOptions()


@dataclass(frozen=True, slots=True)
class BlockReport:
    """Why a block is in the Markdown or not; for `extract explain`."""

    text: str
    path: str
    score: float
    kept: bool
    page_type: PageType


def extract_html(
    text: str, *, url: str, options: ExtractOptions = _DEFAULT_OPTIONS, classifier: Classifier | None = None
) -> Extraction:
    """A page's content as Markdown, with its metadata and links."""
    limits = options.limits
    page = parse_html(text, most=limits.characters)
    if page is None:
        reason = "The page has no elements."
        return Extraction(markdown="", method=METHOD, verdict=Verdict.EMPTY, verdict_reason=reason)
    title, metadata = read_metadata(page, url)
    anchors, more_links = read_anchors(page, url, contexts=options.contexts, most=limits.links)
    tree = cut_blocks(page, most=limits.blocks)
    cuts = name_cuts(links=more_links, blocks=tree.is_cut, characters=len(text) > limits.characters)
    blocks: tuple[MarkdownBlock, ...] = ()
    if tree.blocks:
        scores = _classify(tree, title, metadata, url, classifier)
        metadata["page_type"] = scores.page_type.value
        blocks = render_markdown(tree, _kept(scores, tree, text), base_of(page, url))
    blocks = _or_structured(blocks, metadata)
    markdown = "".join(block.gap + block.text for block in blocks)
    return Extraction(
        markdown=markdown, method=METHOD, title=title, metadata=metadata, anchors=anchors, blocks=blocks, cuts=cuts
    )


def explain_html(text: str, url: str) -> list[BlockReport]:
    """Every block of a page with its score, in document order."""
    page = parse_html(text)
    tree = cut_blocks(page) if page is not None else BlockTree()
    if page is None or not tree.blocks:
        return []
    title, metadata = read_metadata(page, url)
    scores = _classify(tree, title, metadata, url, None)
    kept = set(_kept(scores, tree, text))
    return [
        BlockReport(block.text, _path_of(tree, block.node), float(scores.scores[i]), i in kept, scores.page_type)
        for i, block in enumerate(tree.blocks)
    ]


def _kept(scores: PageScores, tree: BlockTree, text: str) -> list[int]:
    """The model's choice. A page written in a few lines is unlike all it has learned from, and has little to drop."""
    if len(text) > _SMALL_PAGE_CHARACTERS:
        return scores.kept
    saying = [number for number, block in enumerate(tree.blocks) if any(map(str.isalnum, block.text))]
    return [number for number in saying if scores.scores[number] >= _LIKELY] or saying


def read_head(title: str | None, metadata: Mapping[str, Any], url: str) -> PageHead:
    """What the classifier wants to know of a page's metadata."""
    kind = metadata.get("open_graph", {}).get("type") or ""
    types = frozenset(_ld_types(metadata.get("json_ld", ()), 4))
    return PageHead(url, title or "", metadata.get("description") or "", str(kind).lower(), types)


def _classify(
    tree: BlockTree, title: str | None, metadata: Mapping[str, Any], url: str, classifier: Classifier | None
) -> PageScores:
    return (classifier or load_classifier()).classify(tree, read_head(title, metadata, url))


def _ld_types(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        kind = value.get("@type")
        if isinstance(kind, str):
            yield kind
        elif isinstance(kind, list):
            yield from (name for name in kind if isinstance(name, str))
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    if depth:
        for inner in value:
            if isinstance(inner, Mapping | list):
                yield from _ld_types(inner, depth - 1)


def _or_structured(blocks: tuple[MarkdownBlock, ...], metadata: Mapping[str, Any]) -> tuple[MarkdownBlock, ...]:
    """A page that scripts would have filled often carries its text as JSON-LD: better that than a shell."""
    words = 0
    for block in blocks:
        words += block.text.count(" ") + 1
        if words >= _SPARSE_WORDS:
            return blocks
    bodies = [body for body in _ld_bodies(metadata.get("json_ld", ()), 6) if len(body.split()) >= _SPARSE_WORDS // 2]
    texts = [" ".join(line.split()) for body in dict.fromkeys(bodies) for line in body.split("\n")]
    texts = [line for line in texts if line]
    if sum(map(len, texts)) <= sum(len(block.text) for block in blocks):
        return blocks
    return tuple(MarkdownBlock(line, fingerprint(line), "\n\n" if number else "") for number, line in enumerate(texts))


def _ld_bodies(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from (value[key] for key in _BODY_KEYS if isinstance(value.get(key), str))
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    if depth:
        for inner in value:
            yield from _ld_bodies(inner, depth - 1)


def _path_of(tree: BlockTree, node: int) -> str:
    names = []
    while True:
        element = tree.elements[node]
        first = (element.attributes.get("class") or "").split()[:1]
        names.append(".".join([tree.tags[node], *first]))
        if node == 0:
            return " > ".join(reversed(names))
        node = tree.parents[node]
