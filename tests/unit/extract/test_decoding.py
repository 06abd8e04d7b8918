"""Text out of bytes: marks, declarations, guesses, and bytes that fit nothing."""

import codecs

import pytest

from scrubjay.extract.decoding import codec_of, decode_html

JAPANESE = "<html><body><p>これは日本語のページです。文字化けしてはいけません。</p></body></html>"
RUSSIAN = "<p>Съешь же ещё этих мягких французских булок, да выпей чаю. " * 20


@pytest.mark.parametrize(
    ("data", "content_type", "expected"),
    [
        (codecs.BOM_UTF8 + "<p>é</p>".encode(), "text/html; charset=iso-8859-1", "<p>é</p>"),
        (codecs.BOM_UTF16_LE + "<p>é</p>".encode("utf-16-le"), None, "<p>é</p>"),
        (codecs.BOM_UTF16_BE + "<p>é</p>".encode("utf-16-be"), "text/html; charset=utf-8", "<p>é</p>"),
        ("<p>€ – “x”</p>".encode("cp1252"), "text/html; charset=ISO-8859-1", "<p>€ – “x”</p>"),
        (b'<meta charset="windows-1251">' + "Привет".encode("cp1251"), None, '<meta charset="windows-1251">Привет'),
        (
            b'<meta http-equiv=Content-Type content="text/html; charset=euc-jp">' + "日本".encode("euc-jp"),
            None,
            '<meta http-equiv=Content-Type content="text/html; charset=euc-jp">日本',
        ),
        (
            b"<?xml version='1.0' encoding='koi8-r'?>" + "Да".encode("koi8-r"),
            None,
            "<?xml version='1.0' encoding='koi8-r'?>Да",
        ),
        (JAPANESE.encode("iso2022_jp"), "text/html; charset=iso-2022-jp", JAPANESE),
    ],
)
def test_the_declared_charset_is_used_in_the_order_of_browsers(
    data: bytes, content_type: str | None, expected: str
) -> None:
    assert decode_html(data, content_type) == expected


def test_valid_utf8_is_utf8_whatever_the_header_says() -> None:
    assert decode_html("naïve café".encode(), "text/html; charset=iso-8859-1") == "naïve café"


def test_a_charset_is_guessed_when_nothing_declares_it() -> None:
    assert "мягких французских" in decode_html(RUSSIAN.encode("cp1251"), "text/html")


def test_utf16_without_a_mark_is_recognised() -> None:
    assert "<p>Hello there</p>" in decode_html("<p>Hello there</p>".encode("utf-16-le"), None)


def test_one_bad_byte_in_utf8_does_not_change_the_charset() -> None:
    text = decode_html("日本語のページ".encode() * 50 + b"\xff" + "終わり".encode())
    assert text.startswith("日本語")
    assert text.endswith("終わり")
    assert text.count("\ufffd") == 1


@pytest.mark.parametrize("label", ["unicode_escape", "utf-7", "idna", "rot13", "base64", "punycode", "no-such", "\0"])
def test_a_page_cannot_choose_a_codec_that_is_not_a_charset_of_the_web(label: str) -> None:
    assert codec_of(label) is None
    assert decode_html(b"\xe9t\xe9 \\u0041", f"text/html; charset={label}").endswith("\\u0041")


def test_bytes_of_no_charset_are_replaced_and_never_raise() -> None:
    assert isinstance(decode_html(bytes(range(256)) * 40, "text/html; charset=utf-16"), str)
    assert "\ufffd" in decode_html(b"ok \xff\xfe\xfa", "text/html; charset=utf-8")


@pytest.mark.timeout(10)
def test_a_declaration_of_blanks_takes_no_time() -> None:
    assert decode_html(b"caf\xe9", "text/html; charset=" + " " * 60_000 + "!") == "café"
