"""A small disk that can be filled: a tmpfs in a mount namespace of its own, which goes when its last process does."""

import os
import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.processes import LEASH

FILLER = "filler"
STEP_BYTES = 256 * 1024


def why_not() -> str | None:
    """Why no disk can be made here, if so."""
    if os.geteuid() != 0:
        return "only root may mount a disk that can be filled"
    missing = [name for name in ("unshare", "nsenter", "setpriv") if shutil.which(name) is None]
    if missing:
        return f"there is no {missing[0]} program"
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", tempfile.gettempdir()], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else "mounting a disk is not allowed here"


class Disk:
    """`path` is where processes started with `inside` find it, `seen` where everybody else does."""

    def __init__(self, name: str, megabytes: int) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"sj-chaos-{name}-"))
        script = f"mount -t tmpfs -o size={megabytes}m,mode=755 tmpfs {self.path} && echo there && exec sleep infinity"
        self._holder = subprocess.Popen(
            [*LEASH, "unshare", "--mount", "--propagation", "private", "sh", "-c", script], stdout=subprocess.PIPE
        )
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"there\n":
            self.remove()
            raise OSError("the disk could not be mounted")
        self.seen = Path(f"/proc/{self._holder.pid}/root{self.path}")
        self.inside = ["nsenter", f"--mount=/proc/{self._holder.pid}/ns/mnt", "--"]

    def fill(self) -> None:
        """Leave no room at all."""
        with (self.seen / FILLER).open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"\0" * STEP_BYTES)

    def free(self) -> None:
        (self.seen / FILLER).unlink(missing_ok=True)

    def remove(self) -> None:
        self._holder.kill()
        self._holder.wait()
        if self._holder.stdout is not None:
            self._holder.stdout.close()
        shutil.rmtree(self.path, ignore_errors=True)
