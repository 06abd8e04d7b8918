"""What of a listing counts: system files are no content, and a plan's filter says what it wants (spec 000 §5.2.1–2)."""

from scrubjay.model.plan import FilterSettings
from scrubjay.model.source import SourceItem

SKIPPED_NAMES = frozenset(
    {
        ".", "..", ".ds_store", "desktop.ini", "thumbs.db", ".directory", ".gitignore", ".gitattributes", ".localized",
    }
)  # fmt: skip
SKIPPED_PREFIXES = ("~", ".dropbox")
SKIPPED_SUFFIXES = (".swp", ".tmp", ".bak")


def is_system_file(key: str) -> bool:
    name = key.rstrip("/").rpartition("/")[2].lower()
    return name in SKIPPED_NAMES or name.startswith(SKIPPED_PREFIXES) or name.endswith(SKIPPED_SUFFIXES)


def matches_filter(item: SourceItem, wanted: FilterSettings) -> bool:
    """Whether a plan wants an item. A size that the source does not tell is not held against it."""
    if item.is_folder or item.content_length == 0:
        return False
    key = item.key.casefold()
    if wanted.object_prefix and not key.startswith(wanted.object_prefix.casefold()):
        return False
    if wanted.object_suffix and not key.endswith(wanted.object_suffix.casefold()):
        return False
    if wanted.allowed_content_types and not _is_allowed(item.content_type, wanted.allowed_content_types):
        return False
    length = item.content_length
    if length is None:
        return True
    return length >= wanted.minimum_size and (wanted.maximum_size is None or length <= wanted.maximum_size)


def _is_allowed(content_type: str | None, allowed: tuple[str, ...]) -> bool:
    """`text/html; charset=utf-8` is `text/html`, and one of `text/*`."""
    kind = _bare(content_type or "")
    family = kind.partition("/")[0] + "/*"
    return any(_bare(each) in (kind, family, "*/*") for each in allowed) if kind else False


def _bare(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()
