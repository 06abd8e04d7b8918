"""What crosses the border between the pool and its workers, also when a worker lost its mind."""

import marshal
from datetime import date
from pathlib import Path

import pytest

from scrubjay.errors import ExtractionFailed, InvalidRequest
from scrubjay.extract import messages
from scrubjay.model.extraction import (
    Anchor,
    Extraction,
    ExtractLimits,
    ExtractOptions,
    MarkdownBlock,
    PageType,
    Verdict,
)

URL = "https://example.com/"


def crossed(extraction: Extraction) -> Extraction:
    frame = messages.encode_done(extraction)
    size = messages.ANSWER_HEADER.size
    assert messages.ANSWER_HEADER.unpack(frame[:size]) == (len(frame) - size,)
    return messages.read_answer(messages.decode_answer(frame[size:]), URL)


def test_an_extraction_arrives_as_it_was() -> None:
    extraction = Extraction(
        markdown="# T\n\n\ud800 ok",
        method="m",
        title="T",
        metadata={"headings": [(1, "T")], "n": 1.5, "none": None, "page_type": "article"},
        anchors=(Anchor(URL, "x", "y", True),),
        blocks=(MarkdownBlock("# T", 2**64 - 1, ""), MarkdownBlock("ok", 3, "\n")),
        fields={"a": ["b"]},
        verdict=Verdict.LOGIN,
        verdict_reason="why",
        cuts=("links", "blocks"),
    )
    arrived = crossed(extraction)
    assert arrived == extraction
    assert isinstance(arrived.anchors[0], Anchor)
    assert isinstance(arrived.blocks[0], MarkdownBlock)
    assert arrived.verdict is Verdict.LOGIN


def test_values_that_are_not_plain_arrive_as_plain_ones() -> None:
    odd = {"page_type": PageType.FORUM, "date": date(2026, 1, 2), "set": {1}, "path": Path("/x"), "deep": [{"k": True}]}
    metadata = crossed(Extraction(markdown="", method="m", metadata=odd)).metadata
    assert metadata == {"page_type": "forum", "date": "2026-01-02", "set": [1], "path": "/x", "deep": [{"k": True}]}
    assert type(metadata["page_type"]) is str


def test_a_request_arrives_with_its_body_or_its_path() -> None:
    options = ExtractOptions(strategy="structured", fields={"a": "b"}, contexts=True, limits=ExtractLimits(1, 2, 3))
    head, body = messages.encode_request(b"data", URL, "text/html", 403, options)
    size = messages.REQUEST_HEADER.size
    assert messages.REQUEST_HEADER.unpack(head[:size]) == (len(head) - size, 4)
    expected = (URL, "text/html", 403, "structured", {"a": "b"}, True, (1, 2, 3))
    assert messages.decode_request(head[size:]) == (*expected, None)
    assert body == b"data"
    head, body = messages.encode_request(Path("/tmp/x"), URL, "text/html", 403, options)
    assert messages.decode_request(head[size:]) == (*expected, "/tmp/x")
    assert body == b""


def test_errors_arrive_as_errors() -> None:
    with pytest.raises(ExtractionFailed) as failed:
        messages.read_answer((messages.FAILED, "because", "broken_file"), URL)
    assert (failed.value.message, failed.value.error_type) == ("because", "broken_file")
    with pytest.raises(InvalidRequest, match="no such"):
        messages.read_answer((messages.INVALID, "no such strategy", ""), URL)


@pytest.mark.parametrize(
    "answer", [b"", b"\xff", b"nonsense", marshal.dumps(5), marshal.dumps(()), marshal.dumps((1, 2))]
)
def test_what_is_not_an_answer_is_noticed(answer: bytes) -> None:
    with pytest.raises(messages.MALFORMED):
        messages.decode_answer(answer)


def test_an_answer_of_nonsense_fails_its_page_only() -> None:
    nonsense = (messages.DONE, "markdown", "method", None, {}, None, "no such verdict", None, [], [])
    with pytest.raises(ExtractionFailed) as failed:
        messages.read_answer(nonsense, URL)
    assert failed.value.error_type == "extraction_crashed"
