"""Ids: of one length, in the order of their making, and UUIDs inside."""

import re
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from uuid import UUID, uuid4

import pytest

from scrubjay.errors import InvalidRequest
from scrubjay.model import ids
from scrubjay.model.ids import ID_LENGTH, PREFIXES, id_from_uuid, new_id, new_uuid, uuid_from_id
from scrubjay.model.tenant import DEFAULT_TENANT_ID

MANY = 10_000


@pytest.mark.parametrize("prefix", PREFIXES)
def test_every_id_has_32_characters(prefix: str) -> None:
    for identifier in (
        new_id(prefix),
        id_from_uuid(prefix, UUID(int=0)),
        id_from_uuid(prefix, UUID(int=2**128 - 1)),
    ):
        assert len(identifier) == ID_LENGTH == 32
        assert re.fullmatch(rf"{prefix}_[0-9a-v]+", identifier)


def test_prefixes_tell_things_apart() -> None:
    assert len(set(PREFIXES.values())) == len(PREFIXES)
    assert all(re.fullmatch("[a-z]{2,5}", prefix) for prefix in PREFIXES)


def test_ids_sort_in_the_order_of_their_making() -> None:
    made = [new_id("job") for _ in range(MANY)]
    assert all(earlier < later for earlier, later in pairwise(made))


def test_uuids_made_by_several_threads_never_go_back_and_never_repeat() -> None:
    made: list[list[UUID]] = [[] for _ in range(8)]
    barrier = threading.Barrier(len(made))

    def make(mine: list[UUID]) -> None:
        barrier.wait()
        mine.extend(new_uuid() for _ in range(MANY // len(made)))

    threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for mine in made:
        assert all(earlier < later for earlier, later in pairwise(mine))
    assert len({uuid for mine in made for uuid in mine}) == MANY


def test_a_clock_that_goes_back_does_not_bring_the_order_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_uuid()
    now_ns = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns - 3_600_000_000_000)
    made = [before, *(new_uuid() for _ in range(100))]
    assert all(earlier < later for earlier, later in pairwise(made))
    assert {uuid.version for uuid in made} == {7}


def test_the_time_of_making_is_inside() -> None:
    before = time.time_ns() // 1_000_000
    made = new_uuid().int >> 80
    # Others may have been made faster than the clock ticks, but not seconds ahead of it.
    assert before - 1 <= made <= time.time_ns() // 1_000_000 + 1


def test_every_uuid_is_of_version_7() -> None:
    for _ in range(MANY):
        uuid = new_uuid()
        assert (uuid.version, uuid.variant) == (7, "specified in RFC 4122")


@pytest.mark.parametrize("low", [0, 1, 2**61, 2**62 - 2, 2**62 - 1])
@pytest.mark.parametrize("middle", [0, 1, 0xFFE])
def test_the_following_uuid_is_later_and_still_of_version_7(low: int, middle: int) -> None:
    uuid = UUID(int=(1_700_000_000_000 << 80) | (0x7 << 76) | (middle << 64) | (0b10 << 62) | low)
    following = UUID(int=ids._next_after(uuid.int))
    assert following > uuid
    assert (following.version, following.variant) == (7, "specified in RFC 4122")


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("make", [new_uuid, uuid4, lambda: UUID(int=0), lambda: UUID(int=2**128 - 1)])
def test_the_uuid_can_be_had_back(prefix: str, make: Callable[[], UUID]) -> None:
    uuid = make()
    assert uuid_from_id(id_from_uuid(prefix, uuid)) == uuid


def test_ids_sort_as_their_uuids_do() -> None:
    uuids = sorted(uuid4() for _ in range(1000))
    assert [id_from_uuid("adoc", uuid) for uuid in uuids] == sorted(id_from_uuid("adoc", uuid) for uuid in uuids)


def test_the_default_tenant_has_an_id_like_any_other() -> None:
    assert uuid_from_id(DEFAULT_TENANT_ID) == UUID(int=0)
    assert id_from_uuid("ten", UUID(int=0)) == DEFAULT_TENANT_ID


GOOD = "job_" + "0" * 28


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "_",
        "job",
        "job_",
        "job_1",
        "🦜",
        "null",
        GOOD.replace("_", ""),
        GOOD.replace("_", "-"),
        GOOD[:-1],
        GOOD + "0",
        GOOD + "\n",
        " " + GOOD,
        GOOD[:-1] + "w",  # not in the alphabet
        GOOD[:-1] + "A",
        GOOD[:-1] + "٣",  # a digit elsewhere
        GOOD[:-1] + "🦜",
        "job_1" + "0" * 27,  # padding that is not zero
        "job_00v" + "v" * 25,  # more than 128 bits
        "_" + "0" * 31,
        "nothing_" + "0" * 24,
        "what_" + "0" * 27,  # of our length, but of no kind that we have
        "x" * 10_000,
        "0190163d-8694-739b-aea5-966c26f8ad91",  # a UUID itself
        "../../etc/passwd",
        "'; DROP TABLE jobs; --",
    ],
)
def test_text_that_is_no_id_is_an_invalid_request(garbage: str) -> None:
    assert len(GOOD) == 32
    assert uuid_from_id(GOOD) == UUID(int=0)
    with pytest.raises(InvalidRequest, match="is not an id") as refusal:
        uuid_from_id(garbage)
    assert len(refusal.value.message) < 100
