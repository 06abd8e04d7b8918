"""What an article says, as one hash that stays the same while only the surroundings change.

Case, spaces, punctuation, markup, dates, times and counters ("5 min ago", "12 comments") do not count.
"""

import hashlib
import html
import re
import unicodedata

FINGERPRINT_CHARACTERS = 4096
TELLING_CHARACTERS = 200  # fewer may be the same by chance: "Please enable JavaScript."
_READ_CHARACTERS = 4 * FINGERPRINT_CHARACTERS  # what is left out must not shift the end of what is compared

_TAG = re.compile(r"<[^<>]*>")
_LINK_LINE = re.compile(r"[\s>*+-]*(?:\d{1,3}\.\s)?!?\[[^\[\]]*\]\([^()\s]*\)[\s.,|·]*")
_LINK_TARGET = re.compile(r"\]\([^()\s]*(?:\s[^()]*)?\)|https?://\S+")
_UNIT = (
    r"(?:s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?|months?|years?"
    r"|sekunden?|minuten?|stunden?|tage?n?|wochen?|monate?n?|secondes?|heures?|jours?|semaines?|mois"
    r"|segundos?|minutos?|horas?|d[ií]as?|semanas?|mes(?:es)?)"
)
_AMOUNT = r"(?:\d{1,4}|an?|one|einer?|une?|una?)"
_ZONE = r"(?:\s?(?:a\.?m\.?|p\.?m\.?|uhr|utc|gmt|[cew]e?s?t|[ecmp][sd]t)\b)?"
_MONTH = (
    r"(?:jan(?:uary|uar|vier)?|feb(?:ruary|ruar)?|f[ée]vr?(?:ier)?|mar(?:ch|s)?|m[äa]rz|apr(?:il)?|avril|may|mai|june?|"
    r"juni|juin|july?|juli|juillet|aug(?:ust)?|ao[uû]t|sept?(?:ember|embre)?|okt(?:ober)?|oct(?:ober|obre)?|"
    r"nov(?:ember|embre)?|dec(?:ember)?|dez(?:ember)?|d[ée]c(?:embre)?)"
)
# Each stands for something that pages change by themselves.
_VOLATILE = re.compile(
    "|".join(
        (
            rf"\b{_AMOUNT}\s?{_UNIT}\s+ago\b",
            rf"\b(?:vor|il\s+y\s+a|hace)\s+{_AMOUNT}\s{_UNIT}\b",
            r"\bjust\s+now\b",
            r"\b\d{1,3}[\s-]?min(?:ute)?s?[\s-](?:read|lesezeit|de\s+lecture|de\s+lectura)\b",
            r"\b\d[\d.,]{0,12}\s?[km]?\s(?:comments?|shares?|views?|likes?|reads?|followers?|kommentare?|aufrufe"
            r"|commentaires?|vues?|comentarios?|visitas?)\b",
            r"\b(?:last\s+)?(?:updated|modified|posted|published|aktualisiert|ver[öo]ffentlicht|mis\s+[àa]\s+jour"
            r"|publi[ée]|actualizado|publicado)\b",
            rf"\b\d{{4}}-\d\d-\d\d(?:[t\s]\d\d:\d\d(?::\d\d(?:\.\d{{1,9}})?)?(?:z|[+-]\d\d:?\d\d)?)?{_ZONE}",
            r"\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b",
            rf"\b\d{{1,2}}(?:st|nd|rd|th)?\.?\s(?:of\s)?{_MONTH}\.?(?:,?\s\d{{4}})?\b",
            rf"\b{_MONTH}\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b",
            rf"\b\d{{1,2}}:\d\d(?::\d\d)?{_ZONE}",
        )
    )
)
_WORD = re.compile(r"\w+")


def plain_text(text: str) -> str:
    """What a feed says, without its markup, on one line."""
    if "<" in text:
        text = _TAG.sub(" ", text)
    if "&" in text:
        text = html.unescape(text)
    return " ".join(text.split())


def article_text(markdown: str) -> str:
    """An article without the lines that are nothing but links: advertisements and "read more" come and go.

    Where hardly anything else is left, the links are what the page is about, and stay.
    """
    kept = "\n".join(line for line in markdown.splitlines() if not _LINK_LINE.fullmatch(line))
    return kept if len(kept) >= TELLING_CHARACTERS else markdown


def normal_text(text: str) -> str:
    """The words of a text in order, without what changes by itself."""
    start = unicodedata.normalize("NFKC", text[:_READ_CHARACTERS]).casefold()
    told = _VOLATILE.sub(" ", _LINK_TARGET.sub(" ", start))
    return " ".join(_WORD.findall(told))[:FINGERPRINT_CHARACTERS]


def fingerprint(text: str) -> str | None:
    """The hash of the first 4 KB of what an article says; nothing for what says nothing."""
    normal = normal_text(text)
    return hashlib.sha256(normal.encode()).hexdigest() if normal else None


def telling_fingerprint(text: str) -> str | None:
    """The same, only for texts that are long enough that two of them are not the same by chance."""
    normal = normal_text(text)
    return hashlib.sha256(normal.encode()).hexdigest() if len(normal) >= TELLING_CHARACTERS else None


def hash_entry(title: str | None, text: str) -> str | None:
    """What a listing says of an entry."""
    parts = normal_text(title or ""), normal_text(text)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if any(parts) else None
