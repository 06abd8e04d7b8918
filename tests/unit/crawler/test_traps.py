"""Traps: addresses that a site makes up for whoever follows its links."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrubjay.crawler.traps import TrapMemory, find_trap, shape_of, strip_session

SITE = "https://a.example"
HEX = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.mark.parametrize(
    ("address", "without"),
    [
        (f"/shop;jsessionid={HEX.upper()}", "/shop"),
        (f"/shop;jsessionid={HEX}?item=3", "/shop?item=3"),
        ("/shop;jsessionid=node01abc.worker1/cart", "/shop/cart"),
        (f"/page?PHPSESSID={HEX}", "/page"),
        (f"/page?a=1&PHPSESSID={HEX}&b=2", "/page?a=1&b=2"),
        (f"/page?sid={HEX}", "/page"),
        (f"/page?session_id={HEX}&x=1", "/page?x=1"),
        ("/page?CFID=12345678901234567890&CFTOKEN=12345", "/page"),
        ("/(S(lit3py55t21z5v55vlm25s55))/orders.aspx", "/orders.aspx"),
    ],
)
def test_a_session_id_is_taken_out_of_an_address(address: str, without: str) -> None:
    assert strip_session(SITE + address) == SITE + without


@pytest.mark.parametrize(
    "address",
    [
        "/page?sid=42",
        "/page?sid=about-us",
        "/sessions/2024/keynote?id=9",
        "/conference?session=opening",
        "/classes?session_id=summer",
        f"/commit/{HEX}",
        f"/image?id={HEX}",
        "/residential/side=north",
    ],
)
def test_what_only_resembles_a_session_id_stays(address: str) -> None:
    assert strip_session(SITE + address) == SITE + address
    assert find_trap(SITE + address) is None


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("/2031/05", "trap:calendar"),
        ("/archive/2031/05/12", "trap:calendar"),
        ("/events/1970/01", "trap:calendar"),
        ("/calendar/2009-04", "trap:calendar"),
        ("/cal/1990/05", "trap:calendar"),
        ("/cal?month=5&year=2031", "trap:calendar"),
        ("/cal?month=5&year=1971", "trap:calendar"),
        ("/events?date=2031-05-01", "trap:calendar"),
        ("/events?tribe-bar-date=1999-05", "trap:calendar"),
        ("/a/b/a/b/a/b", "trap:repetition"),
        ("/x/foo/foo/foo/y", "trap:repetition"),
        ("/a/b/c/a/b/c/a/b/c", "trap:repetition"),
        ("/en/x/en/y/en/z/en", "trap:repetition"),
        ("/search?" + "&".join(f"f{n}=1" for n in range(11)), "trap:parameters"),
        ("/" + "/".join(f"s{n}" for n in range(25)), "trap:growing"),
        ("/" + "x" * 1100, "trap:growing"),
        ("/login?return=%2Flogin%3Freturn%3D%252Flogin%253Freturn%253D%25252Flogin", "trap:growing"),
        (f"/sid-{HEX}/page", "trap:session"),
    ],
)
def test_a_trap_is_found_and_named(address: str, reason: str) -> None:
    assert find_trap(SITE + address, this_year=2026) == reason


@pytest.mark.parametrize(
    "address",
    [
        "/",
        "",
        "/blog/2024/05/12/title",
        "/2011/11/11/11-11-11",
        "/news/1921/04",
        "/docs/v2/api/v2",
        "/docs/v2/api/v2/users/v2",
        "/events/2015/05/concert",
        "/events/2026/12",
        "/calendar?month=12&year=2026",
        "/films?year=1954",
        "/cars?year=1965&model=3",
        "/list?page=200",
        "/forum/thread-2041?page=17",
        "/shop?colour=blue&size=m&sort=price",
        "/repo/blob/main/src/main/java/com/example/main.java",
        "/1/1/1",
        "/p/2031/12345",
        "/login?return=%2Faccount%3Ftab%3Dorders",
        "/products/9999/2031",
    ],
)
def test_an_ordinary_address_is_no_trap(address: str) -> None:
    assert find_trap(SITE + address, f"{SITE}/", this_year=2026) is None


def test_two_hundred_pages_of_a_list_are_no_trap() -> None:
    pages = [f"{SITE}/list?page={number}" for number in range(1, 201)]
    assert {find_trap(page, before) for before, page in pairwise(pages)} == {None}


def test_a_deep_path_is_a_trap_only_where_it_grew_out_of_its_parent() -> None:
    deep = "/" + "/".join(f"part{number}" for number in range(14))
    assert find_trap(SITE + deep, SITE + deep.rsplit("/", 1)[0]) == "trap:growing"
    assert find_trap(SITE + deep, f"{SITE}/sitemap") is None
    assert find_trap(SITE + deep) is None


def test_following_a_calendar_ends_after_a_bounded_number_of_months() -> None:
    year, month, followed = 2026, 1, 0
    while find_trap(f"{SITE}/cal?month={month}&year={year}", this_year=2026) is None:
        followed += 1
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
    assert followed <= 36


def test_a_shape_leaves_out_numbers_and_hexadecimal_parts() -> None:
    assert shape_of(f"{SITE}/p/12/{HEX}?page=3") == f"{SITE}/p/N/H?page=N"
    assert shape_of(f"{SITE}/decade/acorn") == f"{SITE}/decade/acorn", "words made of a to f are words"


def test_a_shape_that_brings_the_same_content_again_and_again_is_cut() -> None:
    memory = TrapMemory(enough=20)
    for number in range(20):
        assert memory.find_trap(f"{SITE}/view?id={number}") is None
        memory.learn(f"{SITE}/view?id={number}", "the same")
    assert memory.find_trap(f"{SITE}/view?id=999") == "trap:duplicates"
    assert memory.find_trap(f"{SITE}/other?id=999") is None
    assert memory.find_trap("https://b.example/view?id=999") is None, "another host is another site"


def test_a_shape_with_new_content_is_never_cut() -> None:
    memory = TrapMemory(enough=20)
    for number in range(5000):
        memory.learn(f"{SITE}/page/{number}", f"content {number // 2}")
    assert memory.find_trap(f"{SITE}/page/5001") is None


def test_a_shape_that_runs_dry_is_cut_although_it_was_good() -> None:
    memory = TrapMemory(enough=20)
    for number in range(1000):
        memory.learn(f"{SITE}/page/{number}", f"content {number}")
    for number in range(1000, 1400):
        memory.learn(f"{SITE}/page/{number}", "no such page")
    assert memory.find_trap(f"{SITE}/page/2000") == "trap:duplicates"


def test_the_memory_of_shapes_and_contents_is_bounded() -> None:
    memory = TrapMemory(max_shapes=100, max_contents=10)
    for number in range(1000):
        memory.learn(f"{SITE}/{'x' * (number % 300)}/{number}", f"content {number}")
    assert len(memory._shapes) <= 100
    assert all(len(shape.contents) <= 10 for shape in memory._shapes.values())


@given(st.text(max_size=300))
def test_any_text_is_judged_without_an_error(text: str) -> None:
    url = f"{SITE}/{text}"
    assert find_trap(strip_session(url), url) in {
        None,
        "trap:calendar",
        "trap:growing",
        "trap:parameters",
        "trap:repetition",
        "trap:session",
    }


@pytest.mark.parametrize("hostile", ["/" + "1" * 1900, "/" + "a1" * 950, "/sid=" + "a1-" * 600, "/a" * 1000])
def test_a_hostile_address_is_judged_quickly(hostile: str) -> None:
    before = time.perf_counter()
    find_trap(strip_session(SITE + hostile))
    shape_of(SITE + hostile)
    assert time.perf_counter() - before < 0.05
