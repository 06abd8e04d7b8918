"""The learned extractor on whole pages: what stays, what goes, and that nothing a page does can break it."""

import json
import time

import pytest

from scrubjay.errors import ExtractionFailed
from scrubjay.extract.classifier import MODEL_PATH, load_classifier
from scrubjay.extract.html import explain_html, extract_html
from scrubjay.extract.markdown import fingerprint
from scrubjay.extract.tree import MAX_NESTING, parse_html
from scrubjay.model.extraction import ExtractLimits, ExtractOptions, PageType, Verdict

URL = "https://example.org/blog/2024/scrub-jays-remember"
SENTENCES = (
    "Scrub jays hide thousands of acorns every autumn, and they remember where most of them are.",
    "In a well-known experiment, the birds returned first to the worms, because worms spoil and acorns do not.",
    "The researchers concluded that the jays recall what they cached, where they put it, and how long ago that was.",
    "Other corvids, such as ravens and nutcrackers, show similar skills, although their memory works differently.",
    "When another bird was watching, the jays came back later and moved their food to a place that nobody had seen.",
)
ARTICLE = """<!DOCTYPE html><html lang="en"><head><title>Scrub jays remember - Bird News</title>
<meta property="og:type" content="article"></head><body>
<header class="site-header"><nav class="main-menu"><ul>{menu}</ul></nav></header>
<div class="cookie-banner">We use cookies to improve your experience. <button>Accept all</button></div>
<main><article class="post"><h1 class="entry-title">Scrub jays remember</h1>
<div class="entry-content">{paragraphs}<h2>What they hide</h2><ul><li>Acorns, which keep for months in the ground</li>
<li>Worms, which spoil within days when it is warm</li></ul>{paragraphs2}</div></article>
<aside class="related-posts"><h3>Related posts</h3><ul><li><a href="/a">Ten birds to see in spring</a></li>
<li><a href="/b">How to build a nest box</a></li></ul></aside></main>
<footer class="site-footer"><p>Copyright 2024 Bird News. All rights reserved.</p>
<a href="/privacy">Privacy policy</a> <a href="/terms">Terms</a></footer></body></html>"""


def article() -> str:
    menu = "".join(f"<li><a href='/{name}'>{name}</a></li>" for name in ("Home", "Birds", "Shop", "About", "Login"))
    first = "".join(f"<p>{sentence} {sentence.lower()}</p>" for sentence in SENTENCES)
    return ARTICLE.format(menu=menu, paragraphs=first, paragraphs2=f"<p>{' '.join(reversed(SENTENCES))}</p>")


def test_an_article_is_kept_and_what_stands_around_it_is_not() -> None:
    extraction = extract_html(article(), url=URL)
    for sentence in SENTENCES:
        assert sentence in extraction.markdown
    assert "- Acorns, which keep for months" in extraction.markdown
    assert "## What they hide" in extraction.markdown
    for boilerplate in ("cookies", "Copyright", "Privacy policy", "nest box", "Login"):
        assert boilerplate not in extraction.markdown
    assert extraction.metadata["page_type"] == PageType.ARTICLE
    assert extraction.title == "Scrub jays remember"
    assert "https://example.org/privacy" in extraction.links


def sections(count: int) -> str:
    """A page of many sections, each with its heading, a link and a sentence of its own."""
    return "<html><body><main>" + "".join(
        f"<section><h2>Section {n}</h2><p>{SENTENCES[n % 5]} See <a href='/{n}'>number {n}</a>.</p></section>"
        for n in range(count)
    )


def test_a_page_of_ten_thousand_sections_keeps_every_one() -> None:
    extraction = extract_html(sections(10_000), url=URL)
    assert extraction.markdown.count("## Section ") == len(extraction.anchors) == 10_000
    assert extraction.cuts == ()


@pytest.mark.parametrize(
    ("limits", "cuts"),
    [
        (ExtractLimits(links=99), ("links",)),
        (ExtractLimits(links=100, blocks=200), ()),
        (ExtractLimits(blocks=199), ("blocks",)),
        (ExtractLimits(characters=5_000), ("characters",)),
        (ExtractLimits(links=10, blocks=20, characters=15_000), ("links", "blocks", "characters")),
    ],
)
def test_a_page_beyond_a_limit_says_which(limits: ExtractLimits, cuts: tuple[str, ...]) -> None:
    assert extract_html(sections(100), url=URL, options=ExtractOptions(limits=limits)).cuts == cuts


def test_the_blocks_make_up_the_markdown_and_know_their_words() -> None:
    extraction = extract_html(article(), url=URL)
    assert len(extraction.blocks) > 5
    assert "".join(block.gap + block.text for block in extraction.blocks) == extraction.markdown
    assert all(block.fingerprint == fingerprint(block.text) for block in extraction.blocks)
    assert extraction.markdown == extraction.markdown.strip()


def test_text_that_a_page_has_twice_is_taken_once() -> None:
    twice = article().replace("<h2>What", "".join(f"<p>{s} {s.lower()}</p>" for s in SENTENCES) + "<h2>What")
    assert extract_html(twice, url=URL).markdown.count(f"{SENTENCES[0]} {SENTENCES[0].lower()}") == 1


def test_explain_tells_of_every_block_why_it_is_kept() -> None:
    reports = explain_html(article(), URL)
    by_text = {report.text: report for report in reports}
    related = by_text["How to build a nest box"]
    prose = by_text[f"{SENTENCES[0]} {SENTENCES[0].lower()}"]
    assert prose.kept
    assert not related.kept
    assert prose.score > 0.7 > 0.3 > related.score
    assert related.path.endswith("aside.related-posts > ul > li")
    assert {report.page_type for report in reports} == {PageType.ARTICLE}


def test_a_thread_that_only_stands_in_noscript_is_read() -> None:
    posts = "".join(f"<div class='topic-body'><p>{sentence}</p></div>" for sentence in SENTENCES)
    page = f"<html><body><noscript><div id='main-outlet'><h1>Jays?</h1>{posts}</div></noscript></body></html>"
    assert SENTENCES[2] in extract_html(page, url="https://forum.example.org/t/jays/1").markdown


def test_a_shell_gives_the_text_of_its_structured_data() -> None:
    data = json.dumps({"@type": "NewsArticle", "articleBody": " ".join(SENTENCES)})
    page = (
        f"<html><head><script type='application/ld+json'>{data}</script></head><body><div id='app'></div></body></html>"
    )
    extraction = extract_html(page, url=URL)
    assert extraction.markdown == " ".join(SENTENCES)
    assert extraction.blocks[0].text == extraction.markdown


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "<!-- only a comment -->"])
def test_a_page_without_elements_is_empty(text: str) -> None:
    extraction = extract_html(text, url=URL)
    assert extraction.markdown == ""
    assert extraction.verdict is Verdict.EMPTY or parse_html(text) is not None


@pytest.mark.parametrize(
    "page",
    [
        "".join(f"<p>{s} {s}</p>" for s in SENTENCES),
        f"<?xml version='1.0' encoding='utf-8'?><html xmlns='http://www.w3.org/1999/xhtml'><body><p>{'</p><p>'.join(SENTENCES)}</p></body></html>",
        f"<html><frameset><noframes><p>{'</p><p>'.join(SENTENCES)}</p></noframes></frameset></html>",
        "\ud800" + "".join(f"<p>{s}\ufffd</p>" for s in SENTENCES),
    ],
    ids=["no body", "xhtml", "frameset", "lone surrogate"],
)
def test_an_odd_page_still_gives_its_text(page: str) -> None:
    assert "the birds returned first to the worms" in extract_html(page, url=URL).markdown


@pytest.mark.parametrize("tag", ["<tr><td>", "<p>a", "<li>a", "<br>", "<b>a</b>"])
def test_the_time_for_tags_side_by_side_grows_with_their_number(tag: str) -> None:
    """Measured against a smaller page in the same process, because a busy machine slows down both alike."""
    small, large = (_seconds_to_extract(tag * (size // len(tag))) for size in (500_000, 4_000_000))
    assert large < 8 * 3 * small + 0.5


def _seconds_to_extract(text: str) -> float:
    started = time.process_time()
    extract_html(text, url=URL)
    return time.process_time() - started


@pytest.mark.parametrize("tag", ["<div>", "<b>", "<ul><li>a", "<table><tr><td>", "<a href=x>b", "<x-y>", "<DIV\n>"])
def test_megabytes_of_nested_tags_are_refused_in_time(tag: str) -> None:
    started = time.process_time()
    with pytest.raises(ExtractionFailed) as refusal:
        extract_html(tag * (4_000_000 // len(tag)), url=URL)
    assert refusal.value.error_type == "too_deep"
    assert time.process_time() - started < 10


@pytest.mark.parametrize("raw", ["<script>{}</script>", "<style>{}</style>", "<!--{}-->", "<SCRIPT>{}"])
def test_tags_that_are_no_elements_are_not_nested(raw: str) -> None:
    said = raw.format(r'{"html": "<div>text<\/div>"}' * 2 * MAX_NESTING)
    before, after = (said, "") if "</" in raw or "-->" in raw else ("", said)
    assert SENTENCES[0] in extract_html(f"{before}{article()}{after}", url=URL).markdown


@pytest.mark.parametrize("start", ["<script>", "<!--", "<!-- -", "<script><", "<title>"])
def test_megabytes_of_what_never_ends_are_measured_in_time(start: str) -> None:
    started = time.process_time()
    extract_html(article() + start * (4_000_000 // len(start)), url=URL)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("tag", ["div", "b", "a", "ul"])
def test_tags_nested_as_deep_as_is_allowed_are_read_in_time(tag: str) -> None:
    started = time.process_time()
    page = f"<{tag}>" * (MAX_NESTING - 10) + SENTENCES[0] + f"</{tag}>" * (MAX_NESTING - 10) + "<p>x" * 20_000
    assert SENTENCES[0] in extract_html(page, url=URL).markdown
    assert time.process_time() - started < 10


def test_links_and_images_start_from_the_base_that_the_page_names() -> None:
    body = f"<p>{SENTENCES[0]} <a href='x'>more</a> <img alt='A jay' src='jay.png'></p><p>{SENTENCES[1]}</p>"
    page = f"<html><head><base href='/birds/'><link rel=canonical href='jays'></head><body>{body}</body></html>"
    extraction = extract_html(page, url=URL)
    assert "[more](https://example.org/birds/x)" in extraction.markdown
    assert "![A jay](https://example.org/birds/jay.png)" in extraction.markdown
    assert extraction.links == ["https://example.org/birds/x"]
    assert extraction.metadata["canonical_url"] == "https://example.org/birds/jays"


def test_addresses_of_any_shape_are_accepted() -> None:
    for url in ("", "not a url", "https://example.org", "https://example.org/?q=1#x"):
        assert SENTENCES[0] in extract_html(article(), url=url, options=ExtractOptions(contexts=True)).markdown


def test_the_model_is_small_and_needs_no_pickle() -> None:
    assert MODEL_PATH.stat().st_size < 3_000_000
    classifier = load_classifier()
    assert len(classifier.lexicon.words) > 1_000
    assert classifier is load_classifier()
