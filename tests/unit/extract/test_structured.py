"""Named fields by CSS selectors, JSON-LD and microdata."""

import json

import pytest

from scrubjay.errors import InvalidRequest
from scrubjay.extract import Extraction, ExtractOptions, extract
from scrubjay.extract.structured import MAX_MICRODATA_CHARACTERS

URL = "https://example.com/shop/jay"
PRODUCT = b"""<html><head><title>A wooden jay</title>
  <script type="application/ld+json">{"@type": "Product", "sku": "J-1"}</script></head><body>
  <div itemscope itemtype="https://schema.org/Product"><h1 itemprop="name">A wooden jay</h1>
    <img itemprop="image" src="/jay.png"><span itemprop="color">blue</span><span itemprop="color">white</span>
    <div itemprop="offers" itemscope itemtype="http://schema.org/Offer">
      <meta itemprop="price" content="12.50"><link itemprop="availability" href="https://schema.org/InStock"></div>
    <p class="note">First  note</p><p class="note">Second</p>
    <a class="more" href="../more">More</a></div></body></html>"""


def read(data: bytes = PRODUCT, **fields: str) -> Extraction:
    return extract(
        data, url=URL, content_type="text/html", options=ExtractOptions(strategy="structured", fields=fields)
    )


def test_fields_are_found_by_selector_attribute_and_for_every_match() -> None:
    found = read(
        name="h1", note="p.note", **{"notes[]": "p.note", "none[]": "article"}, link="a.more@href", missing=".x"
    )
    assert found.method == "structured"
    assert found.fields == {
        "name": "A wooden jay",
        "note": "First note",
        "notes": ["First note", "Second"],
        "none": [],
        "link": "https://example.com/more",
        "missing": None,
    }


def test_without_fields_json_ld_and_microdata_are_given() -> None:
    fields = read().fields
    assert fields is not None
    assert fields["json_ld"] == [{"@type": "Product", "sku": "J-1"}]
    assert fields["microdata"] == [
        {
            "@type": "Product",
            "name": "A wooden jay",
            "image": "https://example.com/jay.png",
            "color": ["blue", "white"],
            "offers": {"@type": "Offer", "price": "12.50", "availability": "https://schema.org/InStock"},
        }
    ]


@pytest.mark.parametrize("selector", ["p[", "p:no-such()", "@@", "::x", "p\ud800"])
def test_a_selector_that_cannot_be_read_is_the_callers_mistake(selector: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(price=selector)
    assert refused.value.details["field"] == "fields.price"


def test_deeply_nested_items_end() -> None:
    nested = b"<div itemscope itemprop=x>" * 3000
    assert read(b"<html><body><div itemscope>" + nested).fields is not None


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "inside",
    [
        ("<b itemprop=a>" * 200 + "x " * 5000 + "</b>" * 200) * 20,
        "<div itemprop='a b c d e f' itemscope>" * 19 + "<b itemprop=a>x</b>" + "</div>" * 19,
        f"<b itemprop='{' '.join(f'n{number}' for number in range(100_000))}'>{'x' * 9000}</b>",
    ],
)
def test_microdata_does_not_grow_beyond_its_limit(inside: str) -> None:
    found = read(f"<html><body><div itemscope><i itemprop=first>1</i>{inside}</div></body></html>".encode())

    assert found.fields is not None
    assert found.fields["microdata"][0]["first"] == "1"
    assert len(json.dumps(found.fields)) < 2 * MAX_MICRODATA_CHARACTERS
