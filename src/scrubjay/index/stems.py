"""One word to its stem: accents folded, and the Snowball stemmer of its language and script."""

import threading
import unicodedata

import Stemmer

# What a script is stemmed by when the text's language is unknown, has no stemmer, or is written in another script.
_SCRIPT_DEFAULTS = {
    "LATIN": "english",
    "CYRILLIC": "russian",
    "GREEK": "greek",
    "ARABIC": "arabic",
    "ARMENIAN": "armenian",
    "DEVANAGARI": "hindi",
    "TAMIL": "tamil",
}
_ALGORITHMS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "nb": "norwegian", "ne": "nepali", "nl": "dutch", "nn": "norwegian",
    "no": "norwegian", "pl": "polish", "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian",
    "sv": "swedish", "ta": "tamil", "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_SCRIPTS = {
    "arabic": "ARABIC",
    "armenian": "ARMENIAN",
    "greek": "GREEK",
    "hindi": "DEVANAGARI",
    "nepali": "DEVANAGARI",
    "persian": "ARABIC",
    "russian": "CYRILLIC",
    "tamil": "TAMIL",
    "yiddish": "HEBREW",
}
# Letters that Unicode does not take apart, as people type them without their keyboard.
_LETTERS = str.maketrans(
    {"đ": "d", "ð": "d", "ø": "o", "ł": "l", "æ": "ae", "œ": "oe", "ı": "i", "þ": "th", "ħ": "h", "ŋ": "n", "ё": "е"}
)
# Their marks are accents, stress or vowel points, which people leave out. Elsewhere (й, Hindi) marks are letters.
_FOLDED_SCRIPTS = frozenset({"LATIN", "GREEK", "ARABIC", "HEBREW"})

_available = frozenset(Stemmer.algorithms())
_stemmers: dict[str, Stemmer.Stemmer] = {}
# A stemmer must not be used by two threads at once. Words are remembered by the caller, so this is rarely asked.
_lock = threading.Lock()


def algorithm_for(language: str | None) -> str:
    """The Snowball algorithm of a language tag such as `en` or `de-CH`; English for what is not known."""
    code = (language or "").lower()
    name = _ALGORITHMS.get(code) or _ALGORITHMS.get(code.replace("_", "-").partition("-")[0], code)
    return name if name in _available else "english"


def stem_word(word: str, algorithm: str) -> str:
    """The term that stands for all forms of a word; nothing is left of a word that has only marks."""
    if word.isascii():
        script, folded = "LATIN", word.lower()
    else:
        script, folded = _fold(word)
    if _SCRIPTS.get(algorithm, "LATIN") != script:
        algorithm = _SCRIPT_DEFAULTS.get(script, "")
    if not folded or algorithm not in _available or folded.isdigit():
        return folded
    with _lock:
        stemmer = _stemmers.get(algorithm)
        if stemmer is None:
            stemmer = _stemmers[algorithm] = Stemmer.Stemmer(algorithm, 0)
        # Stemmers of accented languages put some accents back.
        return _without_marks(stemmer.stemWord(folded)) if script == "LATIN" else stemmer.stemWord(folded)


def _fold(word: str) -> tuple[str, str]:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", word).casefold()).translate(_LETTERS)
    folded = "".join(each for each in folded if unicodedata.category(each) not in ("Cf", "Cc", "Zs"))
    script = _script_of(folded)
    if script in _FOLDED_SCRIPTS:
        folded = _without_marks(folded)
    elif script == "CYRILLIC":
        folded = folded.replace("\u0301", "")
    return script, folded


def _script_of(word: str) -> str:
    for character in word:
        if character.isalpha():
            return unicodedata.name(character, "").partition(" ")[0]
    return ""


def _without_marks(word: str) -> str:
    if word.isascii():
        return word
    decomposed = unicodedata.normalize("NFD", word)
    return unicodedata.normalize("NFC", "".join(each for each in decomposed if not unicodedata.combining(each)))
