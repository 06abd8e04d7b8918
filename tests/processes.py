"""Real worker processes: `scrubjay worker`, killed or stopped by their process id, and none left behind."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrubjay.settings import Settings

SCRUBJAY = Path(sys.executable).parent / "scrubjay"
# Should the test process itself be killed, its workers go with it, where the system can do that.
SETPRIV = shutil.which("setpriv")
LEASH = [SETPRIV, "--pdeathsig", "KILL"] if SETPRIV else []
STOP_SECONDS = 30


def environment(settings: Settings) -> dict[str, str]:
    """The environment of a process that is to have these settings; the data folder is given as an option."""
    chosen = settings.model_dump(exclude_unset=True, exclude_none=True, exclude={"home"})
    texts = {
        name: ",".join(map(str, value)) if isinstance(value, tuple) else str(value) for name, value in chosen.items()
    }
    return os.environ | {f"SCRUBJAY_{name.upper()}": text for name, text in texts.items()}


class WorkerProcesses:
    """Starts workers with the given settings; what they log is in one file each, for when a test fails."""

    def __init__(self, settings: Settings, folder: Path, name: str = "worker") -> None:
        self._name = name
        self._command = [*LEASH, str(SCRUBJAY), "--home", str(settings.home)]
        self._environment = environment(settings)
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start one more: `scrubjay worker`, or another command that runs on."""
        log = self._folder / f"{self._name}-{len(self._processes) + 1}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*self._command, *(arguments or ("worker",))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
                cwd=self._folder,
            )
        self._processes.append(process)
        return process

    @property
    def alive(self) -> dict[int, subprocess.Popen[bytes]]:
        """The processes that still run, by process id."""
        return {process.pid: process for process in self._processes if process.poll() is None}

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """As `kill -9` does: it gets no chance to say goodbye."""
        assert process.poll() is None, f"the worker had ended by itself\n{self.logs()}"
        process.send_signal(signal.SIGKILL)
        process.wait(STOP_SECONDS)

    def kill_all(self) -> None:
        for process in self.alive.values():
            process.kill()
        for process in self._processes:
            process.wait(STOP_SECONDS)

    def logs(self) -> str:
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-4000:]}"
            for path in sorted(self._folder.glob(f"{self._name}-*.log"))
        )


@contextmanager
def worker_processes(settings: Settings, folder: Path, name: str = "worker") -> Iterator[WorkerProcesses]:
    workers = WorkerProcesses(settings, folder, name)
    try:
        yield workers
    except BaseException:
        print(workers.logs())
        raise
    finally:
        workers.kill_all()
