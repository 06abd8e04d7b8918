"""Bytes of a page become text: by its BOM, its declared charset, or what its bytes look like. Never raises."""

import codecs
import re
from functools import lru_cache

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_HEAD_BYTES = 4096
_SAMPLE_BYTES = 16_384
_HEADER_CHARSET = re.compile(r"charset\s*+=\s*+[\"']?\s*+([\w.:+-]+)", re.IGNORECASE)
_META_CHARSET = re.compile(rb"<meta[^>]{0,500}?charset\s*+=\s*+[\"']?\s*+([\w.:+-]+)", re.IGNORECASE)
_XML_ENCODING = re.compile(rb"^\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:+-]+)[\"']", re.IGNORECASE)

# Browsers read these labels as the larger set that pages with them really use (WHATWG Encoding).
_READ_AS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
# Python knows many codecs that no page may choose (unicode_escape, punycode, utf-7).
_ALLOWED = re.compile(
    r"utf-8|utf-16(-[lb]e)?|utf-32(-[lb]e)?|cp(125\d|437|85\d|866|874|932|949)|iso8859-\d+|koi8-[rut]"
    r"|mac-(roman|cyrillic)|gb18030|big5hkscs|euc_jp|iso2022_jp|johab"
)
# What undeclared pages are really in. Others fit many bytes by chance.
_GUESSED = [
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "iso8859_2", "iso8859_5", "iso8859_7"),
    *("koi8_r", "koi8_u", "cp932", "euc_jp", "gb18030", "big5hkscs", "cp949", "cp874"),
]


_latest: tuple[str, bytes] = ("", b"")  # a text that was bytes of UTF-8, and those


def encode_html(text: str) -> bytes:
    """The text in UTF-8, for the parser. A page that `decode_html` has just read is that already."""
    global _latest
    latest, data = _latest
    if text is latest:
        _latest = ("", b"")
        return data
    return text.encode("utf-8", "replace")


def decode_html(data: bytes, content_type: str | None = None) -> str:
    """The text of a page. Bytes that its charset does not have become U+FFFD."""
    global _latest
    for mark, charset in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(charset, "replace")
    # Text that is valid UTF-8 is UTF-8, whatever a header says; escape-based charsets and UTF-16 are not tried so.
    if b"\x1b" not in data and b"\0" not in data[:_HEAD_BYTES]:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            _latest = (text, data)
            return text
    charset = _declared_charset(data, content_type) or _guessed_charset(data)
    return data.decode(charset, "replace")


def _declared_charset(data: bytes, content_type: str | None) -> str | None:
    head = data[:_HEAD_BYTES]
    labels = [match.group(1) for match in [_HEADER_CHARSET.search(content_type or "")] if match]
    for pattern in (_META_CHARSET, _XML_ENCODING):
        found = pattern.search(head)
        if found:
            # A page whose ASCII letters could be read is not in UTF-16, whatever its letters say.
            label = found.group(1).decode("ascii", "replace")
            labels.append("utf-8" if label.lower().startswith("utf-16") else label)
    return next((charset for charset in map(codec_of, labels) if charset), None)


@lru_cache(maxsize=256)
def codec_of(label: str) -> str | None:
    """The codec for a charset label of the web, or None for one that no page may choose."""
    try:
        name = codecs.lookup(label.strip()).name
    except (LookupError, ValueError):
        return None
    name = _READ_AS.get(name, name)
    return name if _ALLOWED.fullmatch(name) else None


def _guessed_charset(data: bytes) -> str:
    if b"\0" in data[:_HEAD_BYTES]:
        wide = _wide_charset(data[:_HEAD_BYTES])
        if wide:
            return wide
    # One bad byte in a page of UTF-8 is more likely than a page of something else with many valid sequences.
    sample = data[:_SAMPLE_BYTES]
    broken = sample.decode("utf-8", "replace").count("\ufffd")
    multibyte = len(sample) - len(sample.decode("utf-8", "ignore"))
    if multibyte > 8 * broken:
        return "utf-8"
    from charset_normalizer import from_bytes  # here, because few pages need it

    best = from_bytes(sample, cp_isolation=_GUESSED).best()
    return (best and codec_of(best.encoding)) or "cp1252"


def _wide_charset(head: bytes) -> str | None:
    """UTF-16 without a mark: Latin letters have their zero byte on one side."""
    even, odd = head[0::2].count(0), head[1::2].count(0)
    if odd > len(head) // 5 and even < odd // 10:
        return "utf-16-le"
    if even > len(head) // 5 and odd < even // 10:
        return "utf-16-be"
    return None
