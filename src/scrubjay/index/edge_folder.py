"""The embedded index's folder: which shard is the current one, and how another takes its place."""

import json
import os
import shutil
from pathlib import Path

from scrubjay.errors import IndexCorrupt

_POINTER = "current.json"
_PREFIX = "shard-"


class EdgeFolder:
    """A shard is optimized as a copy, which then becomes the current one. What is not current is a leftover."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.number = 0
        self.optimized_points = 0

    def open(self) -> None:
        try:
            facts = json.loads((self._folder / _POINTER).read_text())
            self.number, self.optimized_points = int(facts["shard"]), int(facts["optimized_points"])
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise IndexCorrupt(
                f"The search index in {self._folder} cannot be read ({_POINTER}: {error}); "
                "move it away and run 'scrubjay reindex'."
            ) from error
        for path in self._folder.glob(f"{_PREFIX}*"):
            if path != self.current:
                shutil.rmtree(path, ignore_errors=True)

    @property
    def current(self) -> Path:
        return self._folder / f"{_PREFIX}{self.number}"

    @property
    def next(self) -> Path:
        return self._folder / f"{_PREFIX}{self.number + 1}"

    def switch(self, optimized_points: int) -> Path:
        """Make the next shard the current one, in one step; the path of the old one, which nobody needs then."""
        old = self.current
        pointer = self._folder / f"{_POINTER}.new"
        with pointer.open("w") as file:
            json.dump({"shard": self.number + 1, "optimized_points": optimized_points}, file)
            file.flush()
            os.fsync(file.fileno())
        pointer.rename(self._folder / _POINTER)
        self.number += 1
        self.optimized_points = optimized_points
        return old
