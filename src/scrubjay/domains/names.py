"""Names that become folders and files: what is allowed, on every system that may share the folder."""

import re

from scrubjay.errors import InvalidRequest

MAX_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_. -]*[A-Za-z0-9_-])?")
# Windows takes these for devices, whatever follows their first dot; a shared folder may be looked at from there.
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?", re.IGNORECASE)
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")


def is_safe_name(text: str) -> bool:
    return len(text) <= MAX_NAME and bool(_NAME.fullmatch(text)) and ".." not in text and not _DEVICE.fullmatch(text)


def check_name(text: str, field: str) -> str:
    """The name as it is, or InvalidRequest that says what a name may have."""
    if not is_safe_name(text):
        raise InvalidRequest(
            f"Parameter '{field}' must have 1 to {MAX_NAME} letters, digits, '-', '_', '.' or spaces, begin with a "
            "letter, a digit or '_', not end with '.' or a space, and be no name that Windows keeps for itself.",
            field=field,
        )
    return text


def label_of(text: str) -> str:
    """Any text as a part of a file's name; for people, not for finding things again."""
    return _UNSAFE.sub("_", text).strip("._")[:MAX_NAME]
