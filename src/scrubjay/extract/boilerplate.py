"""What repeats across the pages of a host is learned from the crawl itself and dropped: menus, banners, footers."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from scrubjay.errors import InvalidRequest
from scrubjay.model.extraction import Extraction, MarkdownBlock

MAX_FINGERPRINTS = 20_000
MIN_PAGES = 5
MIN_SHARE = 0.4
# A page keeps at least this share of its text: what repeats so much is then what the host's pages are about.
_MIN_KEPT_SHARE = 0.1
_MAX_BLOCKS_A_PAGE = 2_000
_RECENT_PAGES = 2_048
_FORMAT = 1
_HEADER = struct.Struct("<BII")  # format, pages, entries
_ENTRY = struct.Struct("<QII")  # fingerprint, page at which it was first seen, pages that have it
_PAGE = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class RepeatedBlock:
    """A block that would be dropped, and why."""

    text: str
    pages: int
    share: float


class SiteBoilerplate:
    """Which blocks of one host repeat. Bounded: what was seen once is forgotten first, the oldest of it."""

    def __init__(self) -> None:
        self.pages = 0
        # fingerprint → [number of pages learned when it was first seen, pages that have it]
        self._repeating: dict[int, list[int]] = {}
        # What was seen on one page only, fingerprint → that number. When the young are many, the old are forgotten:
        # looking for the least useful entries one by one would cost more than all the rest.
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}
        # Copies of a page (by their blocks) would make all of it look like boilerplate.
        self._recent: dict[int, None] = {}

    def learn(self, extraction: Extraction) -> bool:
        """Count the blocks of a page; False for a copy of one that was counted, which changes nothing."""
        fingerprints = {block.fingerprint for block in extraction.blocks[:_MAX_BLOCKS_A_PAGE]}
        if not fingerprints:
            return False
        whole = _combine(fingerprints)
        if whole in self._recent:
            return False
        self._recent[whole] = None
        if len(self._recent) > _RECENT_PAGES:
            del self._recent[next(iter(self._recent))]
        self._count(fingerprints)
        self.pages += 1
        if len(self._young) > MAX_FINGERPRINTS // 4:
            self._old, self._young = self._young, {}
        if len(self._repeating) > MAX_FINGERPRINTS // 2:
            self._forget()
        return True

    def _count(self, fingerprints: set[int]) -> None:
        repeating, young, old, page = self._repeating, self._young, self._old, self.pages
        for fingerprint in fingerprints:
            known = repeating.get(fingerprint)
            if known is not None:
                known[1] += 1
                continue
            first = young.pop(fingerprint, None)
            if first is None:
                first = old.pop(fingerprint, None)
            if first is None:
                young[fingerprint] = page
            else:
                repeating[fingerprint] = [first, 2]

    def clean(self, extraction: Extraction) -> Extraction:
        """The extraction without the blocks that repeat; the very same one when there are none."""
        repeated = self._repeated_in(extraction)
        if not repeated:
            return extraction
        kept = tuple(_kept_blocks(extraction.blocks, repeated))
        metadata = {**extraction.metadata, "repeated_blocks_dropped": len(repeated)}
        return replace(extraction, markdown=join_blocks(kept), blocks=kept, metadata=metadata)

    def explain(self, extraction: Extraction) -> list[RepeatedBlock]:
        """What `clean` would drop from this page, in order."""
        blocks = [extraction.blocks[number] for number in sorted(self._repeated_in(extraction))]
        return [
            RepeatedBlock(block.text, self._repeating[block.fingerprint][1], round(self._share(block.fingerprint), 3))
            for block in blocks
        ]

    def _repeated_in(self, extraction: Extraction) -> set[int]:
        """The positions of blocks to drop."""
        if self.pages < MIN_PAGES:
            return set()
        blocks = extraction.blocks
        known = self._repeating
        suspects = [number for number, block in enumerate(blocks) if block.fingerprint in known]
        repeated = {number for number in suspects if self._repeats(blocks[number].fingerprint)}
        if not repeated:
            return repeated
        repeated -= {number for number in repeated if _is_title(blocks[number].text, extraction.title)}
        total = sum([len(block.text) for block in blocks])
        kept = total - sum([len(blocks[number].text) for number in repeated])
        if kept < _MIN_KEPT_SHARE * total:
            return set()
        return repeated - _parents_of_kept(blocks, repeated)

    def _repeats(self, fingerprint: int) -> bool:
        return self._repeating[fingerprint][1] >= MIN_PAGES and self._share(fingerprint) >= MIN_SHARE

    def _share(self, fingerprint: int) -> float:
        first, count = self._repeating[fingerprint]
        return count / max(1, self.pages - first)

    def _forget(self) -> None:
        """Keep what is most likely to go on repeating: seen often, and lately."""
        ranked = sorted(self._repeating.items(), key=lambda entry: entry[1][0] + 8 * entry[1][1])
        self._repeating = dict(ranked[-MAX_FINGERPRINTS // 4 :])

    def to_bytes(self) -> bytes:
        singles = [*self._old.items(), *self._young.items()]
        parts = [_HEADER.pack(_FORMAT, self.pages, len(self._repeating) + len(singles))]
        parts += [_ENTRY.pack(fingerprint, first, count) for fingerprint, (first, count) in self._repeating.items()]
        parts += [_ENTRY.pack(fingerprint, first, 1) for fingerprint, first in singles]
        parts += [_PAGE.pack(page) for page in self._recent]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "SiteBoilerplate":
        memory = cls()
        if len(data) < _HEADER.size:
            raise InvalidRequest("This is not a site memory.", field="data")
        version, memory.pages, entries = _HEADER.unpack_from(data)
        end = _HEADER.size + entries * _ENTRY.size
        if version != _FORMAT or len(data) < end or (len(data) - end) % _PAGE.size:
            raise InvalidRequest("This is not a site memory of this version.", field="data")
        for fingerprint, first, count in _ENTRY.iter_unpack(data[_HEADER.size : end]):
            if count > 1:
                memory._repeating[fingerprint] = [first, count]
            else:
                memory._young[fingerprint] = first
        memory._recent = {page: None for (page,) in _PAGE.iter_unpack(data[end:])}
        return memory


def join_blocks(blocks: Sequence[MarkdownBlock]) -> str:
    """The Markdown that some blocks make; what separates the first from nothing is left out."""
    if not blocks:
        return ""
    return blocks[0].text + "".join(block.gap + block.text for block in blocks[1:])


def _kept_blocks(blocks: Sequence[MarkdownBlock], repeated: set[int]) -> Iterator[MarkdownBlock]:
    """What stays, each as far from the one before as the blocks between them were."""
    gap = ""
    for number, block in enumerate(blocks):
        gap = max(gap, block.gap, key=len)
        if number not in repeated:
            yield block if gap == block.gap else MarkdownBlock(block.text, block.fingerprint, gap)
            gap = ""


def _combine(fingerprints: set[int]) -> int:
    whole = 0
    for fingerprint in fingerprints:
        whole = (whole + fingerprint * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return whole


def _is_title(text: str, title: str | None) -> bool:
    bare = text.strip().lstrip("#").strip().casefold()
    return text.lstrip().startswith("#") and title is not None and bare == title.strip().casefold()


def _heading_level(text: str) -> int:
    marks = len(text) - len(text.lstrip("#"))
    return marks if 0 < marks <= 6 and text[marks : marks + 1] == " " and "\n" not in text.strip() else 0


def _parents_of_kept(blocks: Sequence[MarkdownBlock], repeated: set[int]) -> set[int]:
    """Headings over text that stays: “Parameters” repeats on every page of a reference, and still belongs there."""
    parents = set()
    for number in repeated:
        level = _heading_level(blocks[number].text)
        if not level:
            continue
        for following in range(number + 1, len(blocks)):
            other = _heading_level(blocks[following].text)
            if other and other <= level:
                break
            if following not in repeated:
                parents.add(number)
                break
    return parents
