"""The data folder: made private at first start, and owned by one process at a time where SQLite is used."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scrubjay.errors import ConfigurationError, HomeInUse, HomeUnusable
from scrubjay.storage.secrets import KEY_FILE, read_private_file

ADMIN_KEY_FILE = "admin.key"
KEY_LENGTHS = range(32, 257)
SPOOL_FOLDER = "spool"
SPOOL_SECONDS = 24 * 60 * 60
LOCK_FILE = "lock"
SERVER_FILE = "server"


def prepare_home(home: Path) -> None:
    """Make the folder, readable by its owner only, and see that it can be written and its keys are private."""
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise HomeUnusable(f"The data folder {home} cannot be made ({error.strerror}); set SCRUBJAY_HOME.") from error
    if not home.is_dir():
        raise HomeUnusable(f"The data folder {home} is not a folder; set SCRUBJAY_HOME.")
    if not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        raise HomeUnusable(
            f"The data folder {home} cannot be read and written by this user; change its owner or set SCRUBJAY_HOME."
        )
    _read_key_file(home / KEY_FILE)
    admin_key = _read_key_file(home / ADMIN_KEY_FILE)
    if admin_key is not None and len(admin_key.strip()) not in KEY_LENGTHS:
        raise ConfigurationError(
            f"The key file {home / ADMIN_KEY_FILE} does not hold a key; delete it, and a new one is made."
        )


def _read_key_file(path: Path) -> str | None:
    try:
        return read_private_file(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HomeUnusable(f"The key file {path} cannot be read: {error.strerror}.") from error


def open_spool(home: Path) -> Path | None:
    """Where large bodies wait while they are read; without a data folder, the system's own place for such files.

    What a killed process left there is removed after a day: nobody waits for a page that long.
    """
    if not home.is_dir():
        return None
    folder = home / SPOOL_FOLDER
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        for leftover in folder.iterdir():
            if time.time() - leftover.stat().st_mtime > SPOOL_SECONDS:
                leftover.unlink(missing_ok=True)
    except OSError as error:
        raise HomeUnusable(f"The folder {folder} cannot be used: {error.strerror}.") from error
    return folder


def remove_old_job_records(home: Path) -> None:
    """Delete the records of job runs that versions with DBOS kept beside the database."""
    for name in ("jobs.db", "jobs.db-wal", "jobs.db-shm"):
        (home / name).unlink(missing_ok=True)


@contextmanager
def note_server(home: Path, url: str = "") -> Iterator[None]:
    """Leave word that this owner of the folder stays, and where it answers: commands leave work and searches to it."""
    if _owner(home) != str(os.getpid()):
        yield
        return
    path = home / SERVER_FILE
    path.write_text(f"{os.getpid()} {url}\n")
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def find_server(home: Path) -> str | None:
    """Where the process answers that has this folder, "" if it only works, None if it does not stay.

    A killed server leaves its word behind, and its port may be anybody's: only the folder's owner is believed.
    """
    try:
        process, _, url = (home / SERVER_FILE).read_text().strip().partition(" ")
    except OSError:
        return None
    return url if process == _owner(home) else None


def _owner(home: Path) -> str | None:
    try:
        return (home / LOCK_FILE).read_text().strip()
    except OSError:
        return None


@contextmanager
def own_home(home: Path) -> Iterator[None]:
    """Hold the folder's lock; it ends with the process, however the process ends."""
    path = home / LOCK_FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise HomeUnusable(f"The lock {path} cannot be opened: {error.strerror}.") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(descriptor, 64).decode(errors="replace").strip() or "unknown"
            raise HomeInUse(
                f"Another Scrubjay (pid {owner}) already uses the data folder {home}; "
                "stop it, or give this one another folder with --home."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
