"""The one public call: every strategy, every kind of bad input."""

import time

import pytest

from scrubjay.errors import ExtractionFailed, InvalidRequest
from scrubjay.extract import ExtractOptions, Verdict, extract

URL = "https://example.com/jays"
SENTENCE = "Scrub jays hide thousands of acorns each autumn and remember where most of them are buried. "
PAGE = f"""<html><head><title>Jays | Example</title></head><body><nav><a href="/menu">Menu</a></nav>
    <main><h1>Jays</h1><p>{SENTENCE * 8}</p><p>{SENTENCE * 12}</p></main></body></html>""".encode()


@pytest.mark.parametrize("strategy", ["markdown", "structured", "raw", "trafilatura"])
def test_every_strategy_gives_text_title_and_links_and_says_who_made_it(strategy: str) -> None:
    found = extract(PAGE, url=URL, content_type="text/html", options=ExtractOptions(strategy=strategy))
    assert "remember where most of them" in found.markdown
    assert found.title == "Jays"
    assert found.links == ["https://example.com/menu"]
    assert found.verdict is Verdict.CONTENT
    assert found.method == {"markdown": "scrubjay"}.get(strategy, strategy)


@pytest.mark.parametrize("strategy", ["browser", "llm", "", "telepathy"])
def test_a_strategy_that_needs_a_network_or_is_unknown_is_refused(strategy: str) -> None:
    with pytest.raises(InvalidRequest):
        extract(PAGE, url=URL, options=ExtractOptions(strategy=strategy))


@pytest.mark.parametrize("strategy", ["markdown", "raw", "structured", "trafilatura"])
def test_a_block_page_is_not_content_by_any_strategy(strategy: str) -> None:
    check = b"<html><title>Just a moment...</title><body><script>window._cf_chl_opt={}</script>Wait</body></html>"
    found = extract(check, url=URL, content_type="text/html", options=ExtractOptions(strategy=strategy), status=403)
    assert found.verdict is Verdict.BLOCKED
    assert "Cloudflare" in (found.verdict_reason or "")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"<html>\xff\xfe\xfd \xc3\x28</html>",
        b"<" * 10_000,
        b"<!doctype html>",
        b"<html><body>" + bytes(range(256)) * 20,
        "<p>\ud800</p>".encode("utf-8", "surrogatepass"),
        b"<a href='" + b"x" * 100_000 + b"'>x</a>",
        b"<html><head><base href='http://['></head><a href='//['>x</a></html>",
    ],
)
@pytest.mark.parametrize("strategy", ["markdown", "raw", "structured"])
def test_broken_pages_give_an_extraction_and_nothing_else(data: bytes, strategy: str) -> None:
    found = extract(data, url=URL, content_type="text/html", options=ExtractOptions(strategy=strategy))
    assert isinstance(found.markdown, str)
    assert found.links == []


def test_ten_megabytes_of_nested_tags_end_in_seconds() -> None:
    data = b"<html><body>" + b"<div><span>" * 500_000 + b"deep inside" + b"</span></div>" * 380_000
    assert len(data) > 10_000_000
    started = time.monotonic()
    with pytest.raises(ExtractionFailed) as refusal:
        extract(data, url=URL, content_type="text/html")
    assert refusal.value.error_type == "too_deep"
    assert time.monotonic() - started < 30
