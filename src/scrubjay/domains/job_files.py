"""Job files: what each job said, for people and for processes that only see the folder; and control files left for us.

`<tenant>/jobs/<resource>/2025-11-26_14-20-30_[crawl]_[jb_42]_[TEST01].running`
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scrubjay.domains.job_stream import StreamState
from scrubjay.domains.names import label_of
from scrubjay.model.job import JobRequest
from scrubjay.model.numbered_job import NumberedJob

JOBS_FOLDER = "jobs"
ENDINGS = tuple(dict.fromkeys(state.file_ending for state in StreamState))
_STATES = "|".join(ENDINGS)
_REQUESTS = "|".join(f"{request}_requested" for request in (JobRequest.PAUSE, JobRequest.RESUME, JobRequest.CANCEL))
_FILE = re.compile(rf"[^\[\]]*_\[[^\[\]]+\]_\[jb_([1-9][0-9]{{0,17}})\](?:_\[[^\[\]]*\])?\.({_STATES}|{_REQUESTS})")


@dataclass(frozen=True, slots=True)
class ControlFile:
    """Somebody wants something of a job."""

    path: Path
    tenant_id: str
    number: int
    request: JobRequest


@dataclass(frozen=True, slots=True)
class JobFile:
    path: Path
    number: int


class JobFiles:
    """Plain file work; whoever calls it from the event loop does so in a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path_of(self, numbered: NumberedJob, state: StreamState) -> Path:
        return self._path(numbered, state.file_ending)

    def find(self, numbered: NumberedJob) -> Path | None:
        """The job's file, in any state."""
        paths = (self._path(numbered, ending) for ending in ENDINGS)
        return next((path for path in paths if path.exists()), None)

    def write(self, numbered: NumberedJob, state: StreamState, content: bytes, *, anew: bool) -> bool:
        """Put the file into a state and append to it, or write it anew; False when there was none to append to."""
        wanted = self.path_of(numbered, state)
        wanted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        current = self.find(numbered)
        if anew:
            draft = wanted.with_name(f".{_stem(numbered)}.draft")
            draft.write_bytes(content)
            draft.replace(wanted)
        elif current is None:
            return False
        else:
            if content:
                with current.open("ab") as file:
                    file.write(content)
            if current != wanted:
                current.rename(wanted)
        for other in ENDINGS:
            if other != state.file_ending:
                self._path(numbered, other).unlink(missing_ok=True)
        return True

    def remove(self, numbered: NumberedJob) -> None:
        for ending in ENDINGS:
            self._path(numbered, ending).unlink(missing_ok=True)

    def controls(self) -> list[ControlFile]:
        """Every request that lies in a folder, the oldest first."""
        found = []
        for tenant_id, path, number, ending in self._files():
            if ending.endswith("_requested"):
                request = JobRequest(ending.removesuffix("_requested"))
                found.append(ControlFile(path, tenant_id, number, request))
        return sorted(found, key=lambda control: _modified(control.path))

    def finished(self, before: float) -> list[JobFile]:
        """Files of jobs that ended, last touched before a moment."""
        ended = (StreamState.COMPLETED.file_ending, StreamState.CANCELLED.file_ending)
        return [
            JobFile(path, number)
            for _, path, number, ending in self._files()
            if ending in ended and _modified(path) < before
        ]

    def _path(self, numbered: NumberedJob, ending: str) -> Path:
        return self._folder(numbered) / f"{_stem(numbered)}.{ending}"

    def _folder(self, numbered: NumberedJob) -> Path:
        return self.root / numbered.tenant_id / JOBS_FOLDER / numbered.folder

    def _files(self) -> Iterator[tuple[str, Path, int, str]]:
        if not self.root.is_dir():
            return
        for tenant in self.root.iterdir():
            for folder, _, names in os.walk(tenant / JOBS_FOLDER):
                for name in names:
                    found = _FILE.fullmatch(name)
                    if found:
                        yield tenant.name, Path(folder) / name, int(found[1]), found[2]


def _stem(numbered: NumberedJob) -> str:
    moment = numbered.created_at.strftime("%Y-%m-%d_%H-%M-%S")
    label = label_of(numbered.object_id or "")
    return f"{moment}_[{numbered.action}]_[{numbered.id}]" + (f"_[{label}]" if label else "")


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0  # it went away meanwhile
