"""Originals become what is embedded."""

from pathlib import Path

import pytest

from scrubjay.domains.orders import CrawlScope
from scrubjay.domains.process import convert, list_to_markdown
from scrubjay.errors import ExtractionFailed


def test_a_list_is_a_heading_with_an_item_each_and_its_fields() -> None:
    text = 'Id,Title,Flavours,Owner,Empty\r\n1,Cone,Vanilla | Mint,Ann <ann@x.example>,\r\n2,,"two\nlines",,\r\n'
    assert list_to_markdown("Ice creams", text) == (
        "# Ice creams\n\n### Cone\n\n- Flavours: Vanilla | Mint\n- Owner: Ann <ann@x.example>\n\n"
        "### Item 2\n\n- Flavours: two lines\n"
    )


def test_an_empty_export_is_an_error_and_a_list_without_items_is_not() -> None:
    with pytest.raises(ExtractionFailed):
        list_to_markdown("x", "")
    assert list_to_markdown("x", "Id,Title\r\n") == "# x\n"


def test_a_site_page_is_its_canvas_without_chrome(tmp_path: Path) -> None:
    page = tmp_path / "Home.html"
    page.write_text(
        '<!-- title: Welcome & more -->\n[{"controlType": 4, "position": {"zoneIndex": 1}, "innerHTML": '
        "\"<p onclick='x()'>Hello</p><script>x</script>\"}]"
    )
    html = convert(CrawlScope.SITEPAGES, page)
    assert "<h1>Welcome &amp; more</h1>" in html
    assert "<p>Hello</p>" in html
    assert "script" not in html
    assert "onclick" not in html
    page.write_text("<!-- title: Empty -->\n[]")
    with pytest.raises(ExtractionFailed):
        convert(CrawlScope.SITEPAGES, page)
