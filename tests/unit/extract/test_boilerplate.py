"""What repeats across a host's pages is learned and dropped, and nothing else."""

import zlib
from collections.abc import Sequence

import pytest

from scrubjay.errors import InvalidRequest
from scrubjay.extract.boilerplate import MAX_FINGERPRINTS, MIN_PAGES, SiteBoilerplate, join_blocks
from scrubjay.model.extraction import Extraction, MarkdownBlock

MENU, FOOTER = "- [Home](/) - [About](/about)", "© Example. All rights reserved."


def page(*texts: str, title: str | None = None) -> Extraction:
    blocks = tuple(MarkdownBlock(text, zlib.crc32(text.encode()) << 16 | len(text)) for text in texts)
    return Extraction(markdown=join_blocks(blocks), method="test", title=title, blocks=blocks)


def story(number: int) -> Extraction:
    return page(MENU, f"# Story {number}", f"What happened on day {number} is told here at some length.", FOOTER)


def taught(pages: Sequence[Extraction]) -> SiteBoilerplate:
    memory = SiteBoilerplate()
    for each in pages:
        memory.learn(each)
    return memory


def test_blocks_on_every_page_are_dropped_once_enough_pages_were_seen() -> None:
    memory = taught([story(n) for n in range(MIN_PAGES - 1)])
    assert memory.clean(story(99)) == story(99)
    memory.learn(story(50))
    cleaned = memory.clean(story(99))
    assert cleaned.markdown == "# Story 99\n\nWhat happened on day 99 is told here at some length."
    assert cleaned.metadata["repeated_blocks_dropped"] == 2
    assert [block.text for block in cleaned.blocks] == list(cleaned.markdown.split("\n\n"))


def test_what_would_be_dropped_is_explained() -> None:
    explained = taught([story(n) for n in range(10)]).explain(story(3))
    assert [(block.text, block.pages, block.share) for block in explained] == [(MENU, 10, 1.0), (FOOTER, 10, 1.0)]


def test_copies_of_one_page_do_not_count() -> None:
    memory = SiteBoilerplate()
    assert memory.learn(story(1)) is True
    assert [memory.learn(story(1)) for _ in range(20)] == [False] * 20
    assert memory.pages == 1
    assert memory.clean(story(1)) == story(1)


def test_what_is_on_fewer_pages_than_the_share_stays() -> None:
    rare = "A box that every fifth page has."
    pages = [page(MENU, f"Text {n} that is longer than the menu.", *([rare] if n % 5 == 0 else [])) for n in range(50)]
    memory = taught(pages)
    assert rare in memory.clean(pages[0]).markdown
    assert MENU not in memory.clean(pages[0]).markdown


def test_a_banner_that_appears_in_the_middle_of_a_crawl_is_still_learned() -> None:
    banner = "Our offices are closed this week."
    memory = taught([page(f"Old text number {n} with its own words.") for n in range(200)])
    for n in range(MIN_PAGES):
        memory.learn(page(banner, f"New text number {n} with its own words."))
    assert (
        memory.clean(page(banner, "Something else entirely that is new.")).markdown
        == "Something else entirely that is new."
    )


def test_a_page_of_nothing_but_repeated_blocks_keeps_them() -> None:
    memory = taught([story(n) for n in range(10)])
    assert memory.clean(page(MENU, FOOTER)) == page(MENU, FOOTER)


def test_the_heading_that_is_the_pages_title_stays() -> None:
    pages = [page("# The Example", MENU, f"Words of part {n} that are its own.", title="The Example") for n in range(9)]
    assert taught(pages).clean(pages[0]).markdown == "# The Example\n\nWords of part 0 that are its own."


def test_a_repeated_heading_over_text_of_its_own_stays() -> None:
    pages = [page(f"# f{n}", "## Parameters", f"Takes {n} numbers.", "## Related", MENU) for n in range(9)]
    assert taught(pages).clean(pages[4]).markdown == "# f4\n\n## Parameters\n\nTakes 4 numbers."


def test_what_stays_keeps_the_distance_of_what_was_between() -> None:
    def listing(n: int) -> Extraction:
        blocks = (
            MarkdownBlock(f"Paragraph {n} of its own.", 1000 + n),
            MarkdownBlock("- a repeated item", 1, "\n\n"),
            MarkdownBlock(f"- item {n}", 2000 + n, "\n"),
        )
        return Extraction(markdown=join_blocks(blocks), method="test", blocks=blocks)

    assert taught([listing(n) for n in range(9)]).clean(listing(3)).markdown == "Paragraph 3 of its own.\n\n- item 3"


def test_memory_is_bounded_and_keeps_what_repeats() -> None:
    memory = SiteBoilerplate()
    for number in range(700):
        memory.learn(page(MENU, *(f"Sentence {number}.{part}" for part in range(50))))
    assert len(memory.to_bytes()) <= 16 * MAX_FINGERPRINTS
    assert MENU not in memory.clean(page(MENU, "Sentence of a page that nobody has seen.")).markdown
    assert len(memory.to_bytes()) < MAX_FINGERPRINTS * 20


def test_a_memory_written_and_read_goes_on_where_it_was() -> None:
    memory = taught([story(n) for n in range(MIN_PAGES - 1)])
    again = SiteBoilerplate.from_bytes(memory.to_bytes())
    assert again.to_bytes() == memory.to_bytes()
    assert again.learn(story(0)) is False
    assert again.learn(story(7)) is True
    assert again.clean(story(8)).markdown.startswith("# Story 8")


@pytest.mark.parametrize(
    "data", [b"", b"x", b"\x09" + bytes(8), b"\x01" + b"\xff" * 8, SiteBoilerplate().to_bytes() + b"x"]
)
def test_bytes_that_are_no_memory_are_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        SiteBoilerplate.from_bytes(data)


def test_a_page_without_blocks_teaches_nothing() -> None:
    memory = SiteBoilerplate()
    assert memory.learn(Extraction(markdown="x", method="text")) is False
    assert memory.pages == 0
