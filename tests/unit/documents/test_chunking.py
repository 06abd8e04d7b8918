"""Chunks are spans of the text along its structure, measured in the model's own tokens."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrubjay.documents.chunking import ChunkSpan, cut
from scrubjay.errors import InvalidRequest
from scrubjay.index.embedding import WordLlama
from scrubjay.model.chunking import ChunkingOptions, ChunkStrategy, read_chunking
from scrubjay.model.content import ChunkContentType

ROOT = Path(__file__).parents[3]
STRATEGIES = [strategy for strategy in ChunkStrategy if strategy is not ChunkStrategy.REGEX]
TABLE = "| city | jays |\n|---|---|\n" + "".join(f"| Town {number} | {number * 7} |\n" for number in range(60))
GUIDE = f"""# Jays

A scrub jay hides thousands of acorns. It remembers where, and what, and when.

## Counting

{TABLE}
## Code

```python
def remember(cache):
    # not a heading
    return sorted(cache)
```

## List

- first acorn
- second acorn
  with a note

1. one
2. two
"""


@cache
def shared_model() -> WordLlama:
    return WordLlama()


@pytest.fixture
def model() -> WordLlama:
    return shared_model()


def check(text: str, spans: list[ChunkSpan]) -> None:
    """What must hold of all chunks, however they were cut."""
    for span in spans:
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end].strip() == text[span.start : span.end]
        assert span.token_count >= 1
    assert [span.start for span in spans] == sorted(span.start for span in spans)
    covered = bytearray(len(text))
    for span in spans:
        covered[span.start : span.end] = b"\1" * (span.end - span.start)
    lost = [character for character, seen in zip(text, covered, strict=True) if not seen and not character.isspace()]
    assert not lost


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("path", [*sorted(ROOT.glob("docs/**/*.md")), ROOT / "README.md"], ids=lambda path: path.stem)
def test_every_document_is_cut_into_spans_that_lose_nothing(
    model: WordLlama, path: Path, strategy: ChunkStrategy
) -> None:
    text = path.read_text()
    check(text, cut(text, ChunkingOptions(strategy=strategy, chunk_size=100, overlap=20, min_size=20), model))


pieces = st.sampled_from(
    [
        "# Head\n", "## Sub\n", "Some words here. And more!\n", "\n", "| a | b |\n", "|---|---|\n", "```\n",
        "- item\n", "  nested\n", "x" * 300, "日本語の文章。次の文。", "مرحبا بالعالم ", "🐦" * 20, "\t", "\r\n",
        "\u2028", "a.b.c ", "…", "#", "> q\n",
    ]
)  # fmt: skip


@settings(deadline=None)  # the first example loads the model
@given(text=st.lists(pieces, max_size=40).map("".join), strategy=st.sampled_from(STRATEGIES))
def test_any_text_is_cut_into_spans_that_lose_nothing(text: str, strategy: ChunkStrategy) -> None:
    check(text, cut(text, ChunkingOptions(strategy=strategy, chunk_size=16, overlap=4, min_size=4), shared_model()))


@pytest.mark.parametrize("strategy", [ChunkStrategy.STRUCTURE, ChunkStrategy.FIXED, ChunkStrategy.SENTENCE])
def test_no_chunk_is_larger_than_asked_for(model: WordLlama, strategy: ChunkStrategy) -> None:
    text = (ROOT / "docs/crawling.md").read_text() * 3
    spans = cut(text, ChunkingOptions(strategy=strategy, chunk_size=120, overlap=20), model)
    exact = [len(starts) for starts in model.token_starts([text[span.start : span.end] for span in spans])]
    assert max(exact) <= 124  # cut out of its place, a text may tokenise a little differently
    assert all(abs(span.token_count - count) <= 4 for span, count in zip(spans, exact, strict=True))


def test_lines_of_tables_code_and_lists_stay_whole(model: WordLlama) -> None:
    lines = set(GUIDE.splitlines())
    for span in cut(GUIDE, ChunkingOptions(chunk_size=64, overlap=0), model):
        if span.kind is not ChunkContentType.PROSE:
            for line in GUIDE[span.start : span.end].splitlines():
                assert line in lines or not line.strip() or any(line == each.strip() for each in lines)


def test_chunks_know_their_section_and_what_they_are(model: WordLlama) -> None:
    spans = cut(GUIDE, ChunkingOptions(chunk_size=200, overlap=0, min_size=5), model)
    found = {(span.section, span.kind) for span in spans}
    assert ("Jays", ChunkContentType.PROSE) in found
    assert ("Jays > Counting", ChunkContentType.TABLE) in found
    assert ("Jays > Code", ChunkContentType.CODE) in found
    assert ("Jays > List", ChunkContentType.LIST) in found
    assert not any("not a heading" in (span.section or "") for span in spans)


def test_a_heading_never_ends_a_chunk(model: WordLlama) -> None:
    text = "".join(f"# Section {number}\n\n" + "Words about jays. " * 20 + "\n\n" for number in range(10))
    for span in cut(text, ChunkingOptions(chunk_size=80, overlap=0), model):
        assert not text[span.start : span.end].splitlines()[-1].startswith("#")


def test_a_chunk_repeats_the_end_of_the_one_before_within_a_section(model: WordLlama) -> None:
    text = " ".join(f"Sentence number {number} is about acorns." for number in range(60))
    spans = cut(text, ChunkingOptions(chunk_size=80, overlap=25), model)
    assert len(spans) > 3
    assert all(later.start < earlier.end for earlier, later in pairwise(spans))
    assert all(not text[span.start : span.end].startswith("ence") for span in spans)


def test_row_groups_have_the_header_of_their_table_as_context(model: WordLlama) -> None:
    options = ChunkingOptions(strategy=ChunkStrategy.TABLE_ROWS, row_group_size=20, chunk_size=2000)
    tables = [span for span in cut(GUIDE, options, model) if span.kind is ChunkContentType.TABLE]
    assert [span.context for span in tables] == [None, "city | jays", "city | jays"]
    assert GUIDE[tables[1].start : tables[1].end].count("\n") == 19


def test_a_whole_list_is_one_chunk(model: WordLlama) -> None:
    text = "Before.\n\n" + "".join(f"- acorn number {number}\n" for number in range(60)) + "\nAfter."
    spans = cut(text, ChunkingOptions(strategy=ChunkStrategy.WHOLE_LIST, chunk_size=150, overlap=0), model)
    [listed] = [span for span in spans if span.kind is ChunkContentType.LIST]
    assert text[listed.start : listed.end].count("- acorn") == 60


def test_a_pattern_separates_chunks_and_is_in_none(model: WordLlama) -> None:
    text = "alpha one\n=====\nbeta two\n=====\n\n=====\ngamma"
    options = ChunkingOptions(strategy=ChunkStrategy.REGEX, pattern="=+")
    assert [text[span.start : span.end] for span in cut(text, options, model)] == ["alpha one", "beta two", "gamma"]


def test_a_pattern_that_would_search_for_ever_does_not(model: WordLlama) -> None:
    options = ChunkingOptions(strategy=ChunkStrategy.REGEX, pattern="(a+)+$")
    assert cut("a" * 50_000 + "b", options, model)


def test_a_pattern_that_is_none_is_told(model: WordLlama) -> None:
    options = ChunkingOptions(strategy=ChunkStrategy.REGEX, pattern="(")
    with pytest.raises(InvalidRequest, match=r"chunking\.pattern"):
        cut("text", options, model)


def test_a_prefix_is_the_context_of_every_chunk(model: WordLlama) -> None:
    spans = cut(GUIDE, ChunkingOptions(context_prefix="From the jay guide"), model)
    assert all((span.context or "").startswith("From the jay guide") for span in spans)


@pytest.mark.parametrize("text", ["", "   \n\t \n", "\u2028", "\ufeff"[:0]])
def test_text_without_anything_to_read_has_no_chunks(model: WordLlama, text: str) -> None:
    assert cut(text, ChunkingOptions(), model) == []


def test_a_line_of_five_megabytes_is_cut_in_linear_time(model: WordLlama) -> None:
    text = "word " * 200_000
    spans = cut(text, ChunkingOptions(), model)
    check(text, spans)
    assert len(spans) > 300


@pytest.mark.parametrize("text", ["x7Qz" * 20_000, "日本語" * 9000, "🐦" * 9000], ids=["letters", "japanese", "emoji"])
def test_a_line_without_spaces_is_cut_between_tokens(model: WordLlama, text: str) -> None:
    spans = cut(text, ChunkingOptions(chunk_size=100, overlap=0), model)
    check(text, spans)
    exact = [len(starts) for starts in model.token_starts([text[span.start : span.end] for span in spans])]
    assert max(exact) <= 110


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"chunk_size": 5}, "chunking.chunk_size"),
        ({"strategy": "magic"}, "chunking.strategy"),
        ({"strategy": "regex"}, "chunking"),
        ({"chunk_size": 100, "overlap": 100}, "chunking"),
        ({"surprise": 1}, "chunking.surprise"),
    ],
)
def test_wrong_options_are_told_by_name(values: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read_chunking(values)
    assert raised.value.details["field"] == field
