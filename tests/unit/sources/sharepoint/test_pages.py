"""Site pages: the text of canvases, wiki and publishing pages in reading order, cleaned, without the page chrome."""

import json

import pytest
from tests.sharepoint_content import canvas, text_box, web_part
from tests.sharepoint_server import SharePointServer, StoredSite

from scrubjay.errors import ExtractionFailed, FetchFailed
from scrubjay.sources.sharepoint import SharePointSite, SitePage
from scrubjay.sources.sharepoint.canvas import canvas_to_html, clean_html

QUICK_LINKS = {
    "searchablePlainTexts": {"title": "Useful", "items[0].title": "Handbook", "items[1].title": "Menu"},
    "links": {
        "items[0].sourceItem.url": "/sites/demo/handbook.pdf",
        "items[1].sourceItem.url": "https://food.example.org/",
    },
    "imageSources": {},
}


async def pages_of(site: SharePointSite, filter_: str | None = None) -> dict[str, SitePage]:
    return {page.item.filename: page async for page in site.site_pages("/SitePages", filter_)}


async def test_a_modern_page_is_its_boxes_in_reading_order(site: SharePointSite, stored: StoredSite) -> None:
    boxes = canvas(
        text_box("<p>The end.</p>", zone=3),
        text_box("<h2>Nests</h2><p>Built of <strong>twigs</strong> &amp; <a href='/sites/demo/moss'>moss</a>.</p>"),
        web_part(QUICK_LINKS, zone=2),
        web_part({"htmlStrings": {"html": "<ul><li>acorn</li><li>beetle</li></ul>"}}, zone=2, control=2),
        web_part({"searchablePlainTexts": {"captionText": "A jay"}}, zone=2, control=3, altText="A blue bird"),
    )
    stored.pages.put("Home.aspx", b"x" * 400, Title="Welcome & hello", CanvasContent1=boxes, WikiField=None)

    page = (await pages_of(site))["Home.aspx"]

    origin = site.address.origin
    assert page.title == "Welcome & hello"
    assert page.markdown == (
        "# Welcome & hello\n\n## Nests\n\n"
        f"Built of **twigs** & [moss]({origin}/sites/demo/moss).\n\n### Useful\n\n"
        f"[Handbook]({origin}/sites/demo/handbook.pdf)\n\n[Menu](https://food.example.org/)\n\n"
        "- acorn\n- beetle\n\nA jay\n\nA blue bird\n\nThe end.\n"
    )
    assert "<h1>Welcome &amp; hello</h1>" in page.html
    assert "data-sp" not in page.html
    assert page.original_html == boxes


async def test_a_canvas_in_json_says_the_same(site: SharePointSite, stored: StoredSite) -> None:
    content = json.dumps(
        [
            {"controlType": 4, "innerHTML": "<p>Second.</p>", "position": {"zoneIndex": 2}},
            {"controlType": 3, "position": {"zoneIndex": 1}, "webPartData": {
                "serverProcessedContent": {"searchablePlainTexts": [{"Key": "title", "Value": "First"}]}}},
            {"controlType": 0, "pageSettingsSlice": {"isDefaultDescription": True}},
        ]
    )  # fmt: skip
    stored.pages.put("News.aspx", b"x", Title="News", CanvasContent1=content)

    assert (await pages_of(site))["News.aspx"].markdown == "# News\n\n### First\n\nSecond.\n"


async def test_wiki_and_publishing_pages_have_their_own_fields(site: SharePointSite, stored: StoredSite) -> None:
    stored.pages.put("Wiki.aspx", b"x", Title=None, WikiField="<div class='ms-rte'><p>Old but good.</p></div>")
    stored.pages.put("Press.aspx", b"x", Title="Press", PublishingPageContent="<p>Told to all.</p>")
    stored.pages.put("Empty.aspx", b"x", Title="Empty", CanvasContent1=None)

    pages = await pages_of(site)

    assert pages["Wiki.aspx"].markdown == "# Wiki\n\nOld but good.\n"
    assert pages["Press.aspx"].markdown == "# Press\n\nTold to all.\n"
    assert pages["Empty.aspx"].markdown == "# Empty\n"


async def test_only_pages_are_listed_and_filtered(site: SharePointSite, stored: StoredSite) -> None:
    stored.pages.put("A.aspx", b"x", Title="A", CanvasContent1=canvas(text_box("<p>a</p>")))
    stored.pages.put("B.aspx", b"x", Title="B", CanvasContent1=canvas(text_box("<p>b</p>")))
    stored.pages.put("picture.png", b"x", Title=None)

    assert set(await pages_of(site)) == {"A.aspx", "B.aspx"}
    assert set(await pages_of(site, "Title eq 'B'")) == {"B.aspx"}


async def test_a_page_that_cannot_be_read_fails_for_itself(
    site: SharePointSite, stored: StoredSite, server: SharePointServer
) -> None:
    for name in ("fine", "secret", "broken"):
        stored.pages.put(f"{name}.aspx", b"x", Title=name, CanvasContent1=canvas(text_box("<p>text</p>")))
    stored.pages.at("broken.aspx").columns["CanvasContent1"] = "[{"
    items = {item.filename: item async for item in site.page_items()}
    server.unreadable.add(items["secret.aspx"].server_relative_url)

    with pytest.raises(FetchFailed):
        await site.read_page(items["secret.aspx"])
    with pytest.raises(ExtractionFailed):
        await site.read_page(items["broken.aspx"])
    assert "text" in (await site.read_page(items["fine.aspx"])).markdown


def test_what_is_no_text_is_cleaned_away() -> None:
    dirty = (
        "<script>alert(1)</script><style>p{}</style><p onclick='x()' style='color:red' class='c'>Acorns</p>"
        "<iframe src='https://e.org'></iframe><a href='javascript:x()'>oaks</a><!-- note --><form><input></form>"
    )

    assert clean_html(dirty) == '<p>Acorns</p><a href="">oaks</a>'


@pytest.mark.parametrize(
    "content",
    ["", "   ", "<div></div>", "plain", "\0\x01", "<div data-sp-canvascontrol='' data-sp-controldata='{'></div>",
     "<div data-sp-canvascontrol=''><div data-sp-webpartdata='[1]'></div></div>", "[null, 1, {}]", "<" * 5000],
)  # fmt: skip
def test_odd_canvases_have_no_text_and_do_no_harm(content: str) -> None:
    assert clean_html(canvas_to_html(content)) == ""
