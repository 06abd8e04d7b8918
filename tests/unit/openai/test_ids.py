"""Ids as OpenAI's clients see them, there and back."""

import pytest

from scrubjay.errors import NotFound
from scrubjay.model.ids import new_id
from scrubjay.openai.ids import (
    collection_id_of,
    file_id_of,
    is_document,
    own_file_id,
    require_foreign_id,
    require_id,
    store_id_of,
)

NOT_IDS = [
    "",
    "vs_",
    "file-",
    "\0",
    "vs_" + "0" * 28,
    "coll_" + "0" * 27,
    "file-x" + "0" * 26,
    "file_" + "0" * 27,
    "🦜",
]


def test_ids_are_one_to_one_and_cannot_be_mistaken_for_each_other() -> None:
    collection, file, document = new_id("coll"), new_id("file"), new_id("adoc")
    assert collection_id_of(store_id_of(collection)) == collection
    assert own_file_id(file_id_of(file)) == file
    assert own_file_id(file_id_of(document)) == document
    assert [is_document(own_file_id(file_id_of(each))) for each in (file, document)] == [False, True]
    assert store_id_of(collection).startswith("vs_")
    assert file_id_of(file).startswith("file-0")
    assert file_id_of(document).startswith("file-d")


@pytest.mark.parametrize("text", NOT_IDS)
def test_what_is_no_id_is_not_found(text: str) -> None:
    for read in (collection_id_of, own_file_id, lambda each: require_id(each, "asst", "Assistant")):
        with pytest.raises(NotFound):
            read(text)


@pytest.mark.parametrize("text", ["", "a b", "a/b", "\0", "x" * 129, "é"])
def test_a_foreign_id_is_plain(text: str) -> None:
    with pytest.raises(NotFound):
        require_foreign_id(text, "Response")
    assert require_foreign_id("resp_68a-b.C", "Response") == "resp_68a-b.C"
