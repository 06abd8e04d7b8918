"""Commands that start fast: forked from a process that has loaded the libraries, and real processes otherwise.

A new Python imports for a second or two before a command does anything, and the tests run a hundred commands. What is
loaded ahead depends on neither arguments nor environment; each command loads `scrubjay.cli` for itself.
"""

import asyncio
import atexit
import faulthandler
import functools
import importlib
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import types
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

_ROOT = Path(__file__).parents[1]
_NUMBER = struct.Struct("!i")
_LAST_WORDS_SECONDS = 1.0


def run_command(
    arguments: Sequence[str], *, cwd: Path, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` of `scrubjay` with these arguments, without input and with its output captured."""
    command = ["scrubjay", *arguments]
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile() as output,
        tempfile.TemporaryFile() as errors,
        socket.socket(socket.AF_UNIX) as connection,
    ):
        connection.connect(_start_server())
        request = json.dumps([command, str(cwd), environment]).encode()
        files = [file.fileno() for file in (nothing, output, errors)]
        socket.send_fds(connection, [_NUMBER.pack(len(request))], files)
        connection.sendall(request)
        process_id = _receive_number(connection)
        connection.settimeout(timeout)
        try:
            status = _receive_number(connection)
        except TimeoutError:
            told = _ask_where_it_is(process_id, errors)
            os.kill(process_id, signal.SIGKILL)
            error = subprocess.TimeoutExpired(command, timeout, stderr=told)
            error.add_note(told)
            raise error from None
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(command, status, output.read().decode(), errors.read().decode())


def _ask_where_it_is(process_id: int, errors: IO[bytes]) -> str:
    """What a command that takes too long is doing, by its own word, and what else is running."""
    os.kill(process_id, signal.SIGUSR1)
    time.sleep(_LAST_WORDS_SECONDS)
    errors.seek(0)
    listing = subprocess.run(["ps", "-eo", "pid,ppid,stat,etimes,args"], capture_output=True, text=True, check=False)
    return errors.read().decode(errors="replace") + listing.stdout


def _tell_where_i_am(*_: object) -> None:
    faulthandler.dump_traceback(all_threads=True)
    with suppress(RuntimeError):  # no event loop is running
        for task in asyncio.all_tasks():
            task.print_stack()


@functools.cache
def _start_server() -> str:
    """The address of the process that commands are forked from; it ends with this one."""
    folder = tempfile.TemporaryDirectory(prefix="sj-test-preloaded-")
    address = f"{folder.name}/socket"
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.preloaded", address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=_ROOT,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"

    def stop() -> None:
        process.communicate()
        folder.cleanup()

    atexit.register(stop)
    return address


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        if not piece:
            raise EOFError("The other side is gone.")
        received += piece
    return received


def _receive_number(connection: socket.socket) -> int:
    (number,) = _NUMBER.unpack(_receive(connection, _NUMBER.size))
    return int(number)


def _serve(address: str) -> NoReturn:
    _load()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is for pytest, which then closes our input
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [])
            if sys.stdin in ready:  # its end, as nothing is ever written
                os._exit(0)
            connection, _ = listener.accept()
            _bury_children()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    _look_after_command(connection)


def _bury_children() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _load() -> None:
    for name in ("rich.live", "rich.markdown", "scrubjay.api.app", "typer.rich_utils", "uvicorn", "uvloop"):
        importlib.import_module(name)
    assert threading.active_count() == 1, "a fork would lose the other threads"
    assert "scrubjay.cli.context" not in sys.modules, "its console depends on the environment"


def _look_after_command(connection: socket.socket) -> NoReturn:
    head, files, _, _ = socket.recv_fds(connection, _NUMBER.size, 3)
    request = json.loads(_receive(connection, *_NUMBER.unpack(head)))
    process_id = os.fork()
    if process_id == 0:
        connection.close()
        _become_command(files, *request)
    connection.sendall(_NUMBER.pack(process_id))
    _, status = os.waitpid(process_id, 0)
    connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become_command(files: Sequence[int], command: list[str], cwd: str, environment: dict[str, str]) -> NoReturn:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGUSR1, _tell_where_i_am)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = command
    sys.modules["__main__"] = types.ModuleType("__main__")  # where click looks for the name of the program

    from scrubjay.cli import main

    main()
    sys.exit()


if __name__ == "__main__":
    _serve(sys.argv[1])
