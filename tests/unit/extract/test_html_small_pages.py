"""Pages that say little, or leave out what HTML 5 lets them leave out, keep what they say."""

import pytest

from scrubjay.extract import extract

WORDS = "The jay number one found an acorn behind the old tree in the garden. " * 3


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        (f"<title>Jay</title><main><h1>Jay</h1><p>{WORDS}</p></main>", "found an acorn"),
        (f"<!doctype html><meta charset=utf-8><title>Jay</title><article><p>{WORDS}</p></article>", "found an acorn"),
        (
            f"<title>Jay</title><section><p>{WORDS}</p></section><div><p>And there is more to say.</p></div>",
            "more to say",
        ),
        (f"<title>Jay</title><section><p>{WORDS}</p></section><div><p>And there is more to say.</p></div>", "an acorn"),
        ("<html><body><h1>Hello</h1><p>Short text here.</p></body></html>", "Short text here."),
        ("<p>Just one paragraph with a few words.</p>", "a few words"),
        ("<title>Früchte</title><p>Äpfel und Eicheln</p>", "Äpfel und Eicheln"),
        ("just text, no tags at all", "no tags at all"),
    ],
)
def test_a_small_page_keeps_its_text(html: str, wanted: str) -> None:
    assert wanted in extract(html.encode(), url="http://example.org/page", content_type="text/html").markdown


def test_a_page_with_its_content_left_in_the_head_has_links_too() -> None:
    html = "<title>Jay</title><nav><a href='/a'>A</a></nav><main><a href='b'>B</a></main>"

    found = extract(html.encode(), url="http://example.org/x/", content_type="text/html")

    assert found.links == ["http://example.org/a", "http://example.org/x/b"]
