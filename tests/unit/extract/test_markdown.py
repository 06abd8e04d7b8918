"""Markdown from blocks: every structure that a page can have, written so that it reads the same."""

import re

import pytest

from scrubjay.extract.blocks import cut_blocks
from scrubjay.extract.markdown import fingerprint, render_markdown
from scrubjay.extract.tree import parse_html

BASE = "https://example.org/docs/"


def write(html: str) -> str:
    page = parse_html(f"<html><body>{html}</body></html>")
    assert page is not None
    tree = cut_blocks(page)
    blocks = render_markdown(tree, range(len(tree.blocks)), BASE)
    return "".join(block.gap + block.text for block in blocks)


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>One</h1><h3>Three</h3><p>Text</p>", "# One\n\n### Three\n\nText"),
        ("<p>a <b>bold </b>and <em>soft</em> <del>gone</del></p>", "a **bold** and *soft* ~~gone~~"),
        ("<p>see <a href='../x'>the <code>x()</code> call</a>.</p>", "see [the `x()` call](https://example.org/x)."),
        ("<p>one<br>two<br><br>three</p>", "one\ntwo\n\nthree"),
        ("<h2>Usage <a href='#usage'>¶</a></h2>", "## Usage"),
        ("<a href='/c'><div><h3>Card</h3><p>More</p></div></a>", "### [Card](https://example.org/c)\n\nMore"),
        ("<p>look <img src='/a.png' alt='A jay'> here</p>", "look ![A jay](https://example.org/a.png) here"),
        ("<p>no <img src='/a.png'> words</p>", "no words"),
        ("<dl><dt>Term</dt><dd>Meaning</dd></dl>", "Term\n: Meaning"),
        ("<blockquote><p>One</p><p>Two</p></blockquote><p>x</p>", "> One\n>\n> Two\n\nx"),
    ],
)
def test_marks_follow_the_page(html: str, markdown: str) -> None:
    assert write(html) == markdown


def test_nested_lists_are_indented_under_their_item() -> None:
    html = (
        "<ul><li>One<ol start=3><li>a</li><li><p>b</p><p>more</p></li></ol></li><li>Two</li></ul><ul><li>New</li></ul>"
    )
    assert write(html) == "- One\n  3. a\n  4. b\n\n     more\n- Two\n\n- New"


def test_a_simple_table_becomes_a_pipe_table_and_keeps_empty_cells() -> None:
    html = "<table><tr><th>A</th><th>B</th></tr><tr><td>1 | 2</td><td></td></tr><tr><td>3</td><td>4</td></tr></table>"
    assert write(html) == "| A | B |\n| --- | --- |\n| 1 \\| 2 |  |\n| 3 | 4 |"


@pytest.mark.parametrize(("columns", "rows"), [(100, 3), (400, 300)], ids=["wide", "too large for a pipe table"])
def test_a_wide_table_keeps_every_cell(columns: int, rows: int) -> None:
    html = "".join(
        "<tr>" + "".join(f"<td>r{row}c{column}</td>" for column in range(columns)) + "</tr>" for row in range(rows)
    )
    found = set(re.findall(r"r[0-9]+c[0-9]+", write(f"<table>{html}</table>")))
    assert len(found) == columns * rows


def test_a_tables_caption_stands_before_it() -> None:
    rows = "<tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr>"
    html = f"<table><caption>Table 1: <b>jays</b></caption>{rows}</table>"
    assert write(html) == "Table 1: **jays**\n\n| A | B |\n| --- | --- |\n| 1 | 2 |"


def test_a_table_inside_of_a_cell_is_a_table_of_its_own() -> None:
    inner = "<table><tr><td>1</td><td>2</td></tr><tr><td>3</td><td>4</td></tr></table>"
    assert (
        write(f"<table><tr><td>Left</td><td>{inner}</td></tr></table>") == "Left\n\n| 1 | 2 |\n| --- | --- |\n| 3 | 4 |"
    )


def test_a_table_used_for_layout_stays_text() -> None:
    long = "word " * 120
    html = f"<table><tr><td><h2>Title</h2><p>{long}</p></td><td>Side</td></tr><tr><td>{long}</td></tr></table>"
    text = write(html)
    assert text.startswith("## Title\n\nword word")
    assert "|" not in text


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<pre><code class='hljs language-python'>x = 1\n</code></pre>", "python"),
        ("<div class='highlight highlight-source-rust'><pre>x = 1</pre></div>", "rust"),
        ("<pre class='brush: php'>x = 1</pre>", "php"),
        ("<pre data-lang='go'>x = 1</pre>", "go"),
        ("<pre>x = 1</pre>", ""),
    ],
)
def test_code_is_fenced_with_the_language_its_class_names(html: str, language: str) -> None:
    assert write(html) == f"```{language}\nx = 1\n```"


def test_code_keeps_its_lines_and_a_fence_longer_than_its_own() -> None:
    assert write("<pre>a\n  b<br>```\n\n</pre>") == "````\na\n  b\n```\n````"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("1. no list", "1\\. no list"),
        ("# no heading", "\\# no heading"),
        ("- no item", "\\- no item"),
        ("2 * 3 and a_b_c", "2 * 3 and a_b_c"),
        ("a *star* and _line_", "a \\*star\\* and \\_line\\_"),
        ("&lt;div&gt; 1 &lt; 2", "\\<div> 1 < 2"),
    ],
)
def test_only_what_markdown_would_read_as_a_mark_is_escaped(text: str, escaped: str) -> None:
    assert write(f"<p>{text}</p>") == escaped


def test_no_line_ends_in_blanks_and_no_two_blank_lines_follow() -> None:
    text = write("<p> a&nbsp;</p><p> </p><div><br><br></div><ul><li> b </li></ul><pre>c  \n\n\nd</pre><p>e <br> f</p>")
    assert not [line for line in text.split("\n") if line != line.rstrip()]
    assert text.startswith("a\n\n- b\n\n```")


def test_a_fingerprint_is_of_the_words_alone() -> None:
    assert fingerprint("**Read** more!") == fingerprint("read   MORE")
    assert fingerprint("read more") != fingerprint("read less")
    assert 0 <= fingerprint("anything") < 1 << 64
