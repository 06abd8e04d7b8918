"""A page's tree, parsed as browsers do (HTML 5, by lexbor), and the few ways in which the extractor reads it.

Elements are views: two of the same one are different objects and compare by their HTML, so that whoever must know one
again asks for its `mem_id`.
"""

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

from selectolax.lexbor import LexborHTMLParser, LexborNode

from scrubjay.errors import ExtractionFailed
from scrubjay.extract.decoding import encode_html
from scrubjay.model.extraction import DEFAULT_LIMITS

MAX_NESTING = 10_000  # the time that HTML 5 takes grows with the square of it: a tenth of a second here, minutes soon
_WITHOUT_EVENTS = 1  # nothing listens to a tree that is only read (LexborDocumentOptions.WO_EVENTS)
_TAGS = """
a abbr acronym address area article aside audio b base bdi bdo big blockquote body br button canvas caption
center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset figcaption figure
font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend li
link listing main map mark math menu meta meter mi mn mo nav nobr noscript object ol optgroup option
output p param picture pre progress q rb rp rt ruby s samp script search section select small source span strike strong
style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul var video wbr xmp
"""
# Elements that have nothing in them, or that the next of their kind ends.
_SHALLOW = """
area base br col embed frame hr img input link meta param source track wbr
p li dt dd option optgroup tr td th thead tbody tfoot colgroup rb rp rt
"""
_FRAMES = re.compile(r"</?(?:frameset|noframes)\b[^>]*>", re.IGNORECASE)  # what they have for browsers without
_NESTING = re.compile(rf"<(/?)(?!(?:{'|'.join(_SHALLOW.split())})\b)[a-z]", re.IGNORECASE)
# What has no elements in it, whatever it says: up to its end tag, or to the page's end.
_RAW = re.compile(
    r"<(script|style|textarea|title|xmp)\b[^<]*+(?:<(?!/\1)[^<]*+)*+|<!--[^-]*+(?:-(?!->)[^-]*+)*+", re.IGNORECASE
)
_TELLING = "a area base form h1 h2 h3 h4 h5 h6 input link meta noscript script time title"


def _number_tags() -> dict[str, int]:
    """The parser's numbers of the tags that it knows: to ask for one takes a fraction of what a name takes."""
    document = LexborHTMLParser("<p>text<!-- comment --></p>")
    others = (node for paragraph in document.css("p") for node in paragraph.iter(include_text=True))
    numbers = {name: document.create_node(name).tag_id for name in _TAGS.split()}
    return numbers | {node.tag or "": node.tag_id for node in others}


TAG_NUMBERS = _number_tags()
TAG_NAMES = {number: name for name, number in TAG_NUMBERS.items()}
_TELLING_NAMES = {TAG_NUMBERS[name]: name for name in _TELLING.split()}


class PageTree:
    """A parsed page."""

    def __init__(self, document: LexborHTMLParser, root: LexborNode) -> None:
        self.document = document
        self.root = root

    @property
    def body(self) -> LexborNode:
        """The body, or the whole page in the odd case that it has none."""
        return self.document.body or self.root

    @cached_property
    def telling(self) -> list[tuple[str, LexborNode]]:
        """The elements that metadata, links and verdicts are read from, in the page's order."""
        name_of = _TELLING_NAMES.get
        return [(name, element) for element in self.root.traverse() if (name := name_of(element.tag_id))]

    def find(self, *tags: str) -> Iterator[LexborNode]:
        """The elements with one of these tags, all of which must be telling ones."""
        return (element for tag, element in self.telling if tag in tags)


def parse_html(text: str, *, most: int = DEFAULT_LIMITS.characters) -> PageTree | None:
    """The tree of a page's first `most` characters, or None when there is nothing in it. Raises ExtractionFailed for
    elements nested so deeply that parsing would take minutes."""
    if not text or text.isspace():
        return None
    text = text[:most]
    if text.count("<") > MAX_NESTING and _measure_nesting(text) > MAX_NESTING:
        raise ExtractionFailed("The page's elements are nested too deeply.", error_type="too_deep")
    document = _parse(text)
    if document.body is None:
        document = _parse(_FRAMES.sub("", text))
    return PageTree(document, document.root) if document.root is not None else None


def _parse(text: str) -> LexborHTMLParser:
    return LexborHTMLParser(encode_html(text), options=_WITHOUT_EVENTS)


def _measure_nesting(text: str) -> int:
    """About how deep the page's elements are at most; what has no end tag counts as open to the end."""
    slashes = _NESTING.findall(_RAW.sub("", text))
    depths = accumulate((-1 if slash else 1 for slash in slashes), lambda depth, by: max(depth + by, 0))
    return max(depths, default=0)


def text_of(element: LexborNode) -> str:
    """All the text in an element; most have one piece of it and nothing else."""
    first = element.first_child
    if first is None:
        return ""
    if first.next is None:
        text = first.text_content
        if text is not None:
            return text
    return element.text_lexbor()


def collapse(text: str) -> str:
    return " ".join(text.split())
