"""Folders and files by their descriptors: nothing here follows a link, so nobody can lead it out of a folder.

A path is opened one name at a time, each relative to the folder before it. Whatever is swapped for a link between a
look and an opening fails to open.
"""

import errno
import os
import re
import stat
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MAX_DEPTH = 100  # each level takes two descriptors
MAX_PROBLEMS = 1000  # told one by one
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without waiting: opening a pipe would otherwise last until somebody writes to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
_MARK = "\N{REPLACEMENT CHARACTER}"
_MARKED = re.compile(_MARK.encode() + rb"([0-9A-F]{2})")


class OutOfBounds(OSError):
    """A path leads to where it must not."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.EACCES, "It may not be read", path)


@dataclass(frozen=True, slots=True)
class Seen:
    """A file that a walk came by."""

    parts: tuple[str, ...]  # from the folder that is walked
    size: int
    modified_ns: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """A folder of the operator's, and within it the one that is read; one other is never entered."""

    root: Path  # resolved
    folder: Path  # resolved, inside of root
    forbidden: Path

    @contextmanager
    def open_folder(self) -> Iterator[int]:
        """A descriptor of the folder."""
        descriptor = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._require_allowed(descriptor, str(self.root))
            above, descriptor = descriptor, self._descend(descriptor, self.folder.relative_to(self.root).parts)
            os.close(above)
            yield descriptor
        finally:
            os.close(descriptor)

    def open_file(self, folder: int, parts: Sequence[str]) -> int:
        """A descriptor of a regular file below a folder of ours."""
        parent = self._descend(folder, parts[:-1])
        try:
            descriptor = os.open(_one_name(parts[-1]), _FILE, dir_fd=parent)
        finally:
            os.close(parent)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OutOfBounds("/".join(parts))
        return descriptor

    def open_child(self, folder: int, name: str) -> int:
        descriptor = os.open(_one_name(name), _FOLDER, dir_fd=folder)
        try:
            self._require_allowed(descriptor, name)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def look_at(self, folder: int, parts: Sequence[str]) -> os.stat_result:
        parent = self._descend(folder, parts[:-1])
        try:
            return os.stat(_one_name(parts[-1]), dir_fd=parent, follow_symlinks=False)
        finally:
            os.close(parent)

    def _descend(self, folder: int, parts: Sequence[str]) -> int:
        descriptor = os.dup(folder)
        for part in parts:
            above = descriptor
            try:
                descriptor = self.open_child(above, part)
            finally:
                os.close(above)
        return descriptor

    def _require_allowed(self, descriptor: int, name: str) -> None:
        try:
            forbidden = self.forbidden.stat()
        except FileNotFoundError:
            return
        if os.path.samestat(os.fstat(descriptor), forbidden):
            raise OutOfBounds(name)

    def resolve_link(self, parts: Sequence[str]) -> tuple[str, ...]:
        """Where a path inside the folder leads; OutOfBounds when that is outside of it, or in a circle."""
        try:
            target = self.folder.joinpath(*parts).resolve(strict=True)
        except RuntimeError as error:  # so Python tells of a circle, until 3.13
            raise OutOfBounds("/".join(parts)) from error
        if not target.is_relative_to(self.folder):
            raise OutOfBounds("/".join(parts))
        return target.relative_to(self.folder).parts


def _one_name(name: str) -> str:
    if name in ("", ".", "..") or "/" in name:
        raise OutOfBounds(name)
    return name


@dataclass(slots=True)
class Walk:
    """A folder's files, some at a time, without ever holding all of them. Used from threads, one at a time."""

    bounds: Bounds
    recursive: bool
    follow_symlinks: bool
    problems: list[str] = field(default_factory=list)
    links_left_out: int = 0
    _steps: Generator[Seen | None, None, None] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, count: int, seconds: float) -> tuple[list[Seen], bool]:
        """The next files after at most so many steps or so much time, and whether there may be more."""
        with self._lock:
            if self._steps is None:
                self._steps = self._walk()
            deadline = time.monotonic() + seconds
            found: list[Seen] = []
            for _ in range(count):
                try:
                    seen = next(self._steps)
                except StopIteration:
                    return found, False
                if seen is not None:
                    found.append(seen)
                if time.monotonic() > deadline:
                    break
            return found, True

    def close(self) -> None:
        """Close every folder that is open, after the `take` that may still be under way in another thread."""
        with self._lock:
            if self._steps is not None:
                self._steps.close()

    def _walk(self) -> Generator[Seen | None, None, None]:
        with self.bounds.open_folder() as top:
            yield from self._walk_folder(top, top, ())

    def _walk_folder(self, top: int, folder: int, parts: tuple[str, ...]) -> Generator[Seen | None, None, None]:
        with os.scandir(folder) as entries:
            while (entry := self._next(entries, parts)) is not None:
                where = (*parts, entry.name)
                child = None
                try:
                    if entry.is_dir(follow_symlinks=False):
                        child = self._enter(folder, where)
                        yield None
                        if child is not None:
                            yield from self._walk_folder(top, child, where)
                    else:
                        yield self._look_at(top, entry, where)
                except FileNotFoundError:
                    continue  # it was removed in this moment
                except OSError as error:
                    self._note(where, error.strerror or str(error))
                finally:
                    if child is not None:
                        os.close(child)

    def _next(self, entries: Iterator["os.DirEntry[str]"], parts: tuple[str, ...]) -> "os.DirEntry[str] | None":
        try:
            return next(entries, None)
        except OSError as error:
            if not parts:
                raise
            self._note(parts, error.strerror or str(error))
            return None

    def _enter(self, folder: int, where: tuple[str, ...]) -> int | None:
        if not self.recursive:
            return None
        if len(where) > MAX_DEPTH:
            self._note(where, f"it is more than {MAX_DEPTH} folders deep")
            return None
        try:
            return self.bounds.open_child(folder, where[-1])
        except OutOfBounds:
            return None  # Scrubjay's own data: no content, and no reason to doubt the rest

    def _look_at(self, top: int, entry: "os.DirEntry[str]", where: tuple[str, ...]) -> Seen | None:
        found = self._look_at_link(top, where) if entry.is_symlink() else entry.stat(follow_symlinks=False)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        return Seen(where, found.st_size, found.st_mtime_ns)

    def _look_at_link(self, top: int, where: tuple[str, ...]) -> os.stat_result | None:
        """A link to a file has a name of its own; what is behind one to a folder is listed where it is."""
        try:
            if self.follow_symlinks and (target := self.bounds.resolve_link(where)):
                return self.bounds.look_at(top, target)
        except OSError as error:
            if not isinstance(error, OutOfBounds) and error.errno not in _LEADS_NOWHERE:
                raise
        self.links_left_out += 1
        return None

    def _note(self, where: tuple[str, ...], reason: str) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(f"'{key_of(where)}' cannot be read: {reason}.")


def key_of(parts: Sequence[str]) -> str:
    """The path as text; a byte that is not UTF-8 becomes `\N{REPLACEMENT CHARACTER}` and its two digits."""
    return "/".join("".join(map(_readable, part)) for part in parts)


def parts_of(key: str) -> tuple[str, ...]:
    """The names that `key_of` made a key of."""
    data = _MARKED.sub(lambda found: bytes.fromhex(found[1].decode()), key.encode("utf-8", "surrogateescape"))
    return tuple(os.fsdecode(data).split("/"))


def _readable(character: str) -> str:
    if "\udc80" <= character <= "\udcff" or character == _MARK:
        return "".join(f"{_MARK}{byte:02X}" for byte in os.fsencode(character))
    return character
