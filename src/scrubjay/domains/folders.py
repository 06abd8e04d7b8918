"""Where a source has its files, and how map files write their paths: from the storage root, with backslashes."""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from scrubjay.domains.orders import CrawlScope

FOLDER_OF = {
    CrawlScope.FILES: "01_files",
    CrawlScope.LISTS: "02_lists",
    CrawlScope.SITEPAGES: "03_sitepages",
    CrawlScope.WEB: "04_web",
}
SOURCE_TYPE_OF = {
    CrawlScope.FILES: "file_sources",
    CrawlScope.LISTS: "list_sources",
    CrawlScope.SITEPAGES: "sitepage_sources",
    CrawlScope.WEB: "web_sources",
}
ORIGINALS, EMBEDDED, FAILED = "01_originals", "02_embedded", "03_failed"
# What an original and what is made of it end with; a library's files are embedded as they are.
ORIGINAL_SUFFIX = {CrawlScope.LISTS: ".csv", CrawlScope.SITEPAGES: ".html", CrawlScope.WEB: ".md"}
PROCESSED_SUFFIX = {CrawlScope.LISTS: ".md", CrawlScope.SITEPAGES: ".html", CrawlScope.WEB: ".md"}
_MAX_PART_BYTES = 150
_UNSAFE = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*\ud800-\udfff]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(?:\..*)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SourceFolder:
    root: Path  # the tenant's folder of crawls
    domain_id: str
    kind: CrawlScope
    source_id: str

    @property
    def path(self) -> Path:
        return self.root / self.domain_id / FOLDER_OF[self.kind] / self.source_id

    @property
    def has_originals(self) -> bool:
        return self.kind in ORIGINAL_SUFFIX

    def stage(self, stage: str) -> Path:
        return self.path / stage

    def written(self, stage: str, local: str) -> str:
        """A file as map files name it."""
        parts = (self.domain_id, FOLDER_OF[self.kind], self.source_id, stage, *PurePosixPath(local).parts)
        return "\\".join(parts)

    def find(self, written: str) -> tuple[str, str] | None:
        """The stage and the local path of what a map file names; nothing for what is not in this folder."""
        parts = written.split("\\")
        own = [self.domain_id, FOLDER_OF[self.kind], self.source_id]
        inside = parts[:3] == own and len(parts) > 4 and parts[3] in (ORIGINALS, EMBEDDED, FAILED)
        if not inside or any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
            return None
        return parts[3], "/".join(parts[4:])

    def file(self, written: str) -> Path | None:
        found = self.find(written)
        return None if found is None else self.stage(found[0]) / found[1]

    def original_of(self, local: str) -> str:
        """The local path of the original that a processed file was made of."""
        return str(PurePosixPath(local).with_suffix(ORIGINAL_SUFFIX[self.kind]))

    def processed_of(self, local: str) -> str:
        return str(PurePosixPath(local).with_suffix(PROCESSED_SUFFIX[self.kind]))

    def local_of(self, written: str) -> str | None:
        """The local path under which a file that a map file names was downloaded."""
        found = self.find(written)
        if found is None:
            return None
        return self.original_of(found[1]) if self.has_originals else found[1]

    def sweep(self, keep: Iterable[Path]) -> int:
        """Remove every file that is not to be kept, and folders that are empty then; how many files that were."""
        wanted, removed = set(keep), 0
        for stage in (ORIGINALS, EMBEDDED, FAILED):
            for folder, _, names in os.walk(self.stage(stage), topdown=False):
                for name in names:
                    path = Path(folder) / name
                    if path not in wanted:
                        path.unlink(missing_ok=True)
                        removed += 1
                if folder != str(self.stage(stage)) and not any(Path(folder).iterdir()):
                    Path(folder).rmdir()
        return removed


def safe_local_path(text: str) -> str:
    """A path from elsewhere as one below a folder of ours. Names that had to be changed get a mark of their own, so
    that two of them never become one."""
    parts = [part for part in text.replace("\\", "/").split("/") if part not in ("", ".")]
    return "/".join(_safe_part(part) for part in parts) or _safe_part("_")


def _safe_part(part: str) -> str:
    cleaned = _UNSAFE.sub("_", part).rstrip(". ").lstrip(" ")
    if cleaned.startswith(".") or _DEVICE.fullmatch(cleaned) or not cleaned:
        cleaned = f"_{cleaned}"
    if cleaned == part and len(part.encode()) <= _MAX_PART_BYTES:
        return part
    stem, dot, suffix = cleaned.rpartition(".")
    if not dot or len(suffix.encode()) > 16:
        stem, suffix = cleaned, ""
    mark = hashlib.sha256(part.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    shortened = stem.encode("utf-8", "replace")[: _MAX_PART_BYTES - 30].decode("utf-8", "ignore")
    return f"{shortened}~{mark}{'.' + suffix if suffix else ''}"
