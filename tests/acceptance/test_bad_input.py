"""Bad input at start: one clear sentence saying what to do, exit code 1, nothing changed, no secret shown."""

import sqlite3
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.acceptance.command_line import listing, run, serving, the_sentence

pytestmark = pytest.mark.slow  # processes of their own

SERVE, WORKER, MIGRATE, KEYS = ("serve",), ("worker",), ("migrate",), ("keys", "ls")
EVERY = (SERVE, WORKER, MIGRATE, KEYS)
PASSWORD = "hunter2"
FREE_PORT = {"SCRUBJAY_API_PORT": "0"}


@dataclass(frozen=True)
class Bad:
    """Something wrong, and the words that the sentence about it must have."""

    words: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)
    spoil: Callable[[Path], object] = lambda home: None
    commands: tuple[tuple[str, ...], ...] = EVERY


def write_toml(home: Path, content: bytes) -> None:
    (home.parent / "scrubjay.toml").write_bytes(content)


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    path.write_text(text)
    path.chmod(mode)


def make_newer(home: Path) -> None:
    connection = sqlite3.connect(home / "scrubjay.db")
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()


def spoil_file(name: str) -> Callable[[Path], object]:
    return lambda home: (home / name).write_bytes(b"this is no database, however long one looks at it" * 20)


DATABASE = "SCRUBJAY_DATABASE_URL"
LOGIN = f"jay:{PASSWORD}@"
CASES = {
    "a database URL that is none": Bad(
        ("'database_url'", "postgresql://user:password@host"), {DATABASE: "garbage"}, commands=(SERVE, KEYS)
    ),
    "a database port that is none": Bad(
        ("'database_url'", "postgresql://user:password@host"),
        {DATABASE: f"postgresql://{LOGIN}localhost:x/y"},
        commands=(WORKER,),
    ),
    "a database password with an @": Bad(
        ("'database_url'", "%40"), {DATABASE: f"postgresql://jay:x@{PASSWORD}@localhost/y"}, commands=(MIGRATE,)
    ),
    "an unknown kind of database": Bad(
        ("'oracle'", "sqlite, postgresql, mysql or mssql"),
        {DATABASE: f"oracle://{LOGIN}localhost/x"},
        commands=(WORKER, MIGRATE),
    ),
    "a driver that is not installed": Bad(
        ("mssql", "pip install 'scrubjay[mssql]'"), {DATABASE: f"mssql://{LOGIN}localhost/x"}, commands=(SERVE, KEYS)
    ),
    "a PostgreSQL that is not there": Bad(
        ("127.0.0.1:1", "refused", DATABASE), {DATABASE: f"postgresql://{LOGIN}127.0.0.1:1/x"}
    ),
    "a MySQL that is not there": Bad(
        ("127.0.0.1:1", "connect", DATABASE), {DATABASE: f"mysql://{LOGIN}127.0.0.1:1/x"}, commands=(KEYS,)
    ),
    "a database that is a folder": Bad(
        ("unable to open", DATABASE), {DATABASE: "sqlite:////proc"}, commands=(WORKER, MIGRATE)
    ),
    "a database file that is something else": Bad(
        ("not a database",), spoil=spoil_file("scrubjay.db"), commands=(KEYS,)
    ),
    "a cache URL that is none": Bad(
        ("'cache_url'", "redis://"), {"SCRUBJAY_CACHE_URL": f"http://:{PASSWORD}@localhost"}, commands=(WORKER,)
    ),
    "a blob folder that cannot be": Bad(("/proc/x",), {"SCRUBJAY_BLOB_URL": "/proc/x"}, commands=(WORKER,)),
    "an admin key that others can read": Bad(
        ("admin.key", "run: chmod 600"), spoil=lambda home: write_private(home / "admin.key", f"sj_{'x' * 40}", 0o644)
    ),
    "a secret key that others can read": Bad(
        ("secret.key", "run: chmod 600"),
        spoil=lambda home: write_private(home / "secret.key", "x" * 44, 0o640),
        commands=(MIGRATE, KEYS),
    ),
    "an admin key that is a folder": Bad(
        ("admin.key", "directory"), spoil=lambda home: (home / "admin.key").mkdir(), commands=(KEYS,)
    ),
    "an admin key that is empty": Bad(
        ("admin.key", "delete it"), spoil=lambda home: write_private(home / "admin.key", "\n"), commands=(SERVE,)
    ),
    # `migrate` seals and unseals nothing, so it does not need this key.
    "a secret key that is none": Bad(
        ("secret.key", "base64 of 32 bytes"),
        spoil=lambda home: write_private(home / "secret.key", PASSWORD),
        commands=(WORKER, KEYS),
    ),
    "a secret key setting that is none": Bad(
        ("SCRUBJAY_SECRET_KEY", "base64 of 32 bytes"), {"SCRUBJAY_SECRET_KEY": PASSWORD}, commands=(WORKER,)
    ),
    "a lock that is a folder": Bad(
        ("lock", "directory"), spoil=lambda home: (home / "lock").mkdir(), commands=(WORKER,)
    ),
    "a schema from the future": Bad(("9999", "upgrade Scrubjay"), spoil=make_newer),
    "a setting in the file that nobody knows": Bad(
        ("scrubjay.toml", "unknown setting 'databse_url'"), spoil=lambda home: write_toml(home, b'databse_url = "x"')
    ),
    "a file that is no TOML": Bad(
        ("scrubjay.toml", "not valid TOML"), spoil=lambda home: write_toml(home, b"api_port = "), commands=(KEYS,)
    ),
    "a file that is no text": Bad(
        ("scrubjay.toml", "UTF-8"), spoil=lambda home: write_toml(home, b"\xff\xfe\x00"), commands=(MIGRATE,)
    ),
    "a port that is no number": Bad(("SCRUBJAY_API_PORT", "integer"), {"SCRUBJAY_API_PORT": "abc"}),
    "a network that is none": Bad(
        ("'allowed_private_networks' (SCRUBJAY_ALLOWED_PRIVATE_NETWORKS)",),
        {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "nonsense"},
        commands=(SERVE, KEYS),
    ),
    "a log level that is none": Bad(
        ("SCRUBJAY_LOG_LEVEL", "'debug'"), {"SCRUBJAY_LOG_LEVEL": "loud"}, commands=(WORKER,)
    ),
}


@pytest.mark.parametrize(
    ("case", "command"),
    [(name, command) for name, bad in CASES.items() for command in bad.commands],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_bad_input_is_one_sentence_and_changes_nothing(home: Path, case: str, command: tuple[str, ...]) -> None:
    bad = CASES[case]
    bad.spoil(home)
    before = listing(home.parent)
    sentence = the_sentence(run(*command, home=home, **FREE_PORT | bad.settings), *bad.words)
    assert PASSWORD not in sentence
    after = listing(home.parent)
    # A first start makes the key and the folder for bodies before it can know what else is wrong.
    made = {name for name in after if name not in before}
    harmless = {"secret.key", "blobs", "spool"}
    assert made <= {f"home/{name}" for name in harmless}
    assert {name: after.get(name) for name in before} == before


@pytest.mark.parametrize("command", EVERY, ids=lambda command: command[0])
def test_a_home_that_cannot_be_used_is_one_sentence(tmp_path: Path, command: tuple[str, ...]) -> None:
    file = tmp_path / "file"
    file.write_text("a letter")
    # Root may write anywhere, so permissions prove nothing here; below /proc nobody can make a folder.
    for home in (file, Path("/proc/scrubjay")):
        the_sentence(run(*command, home=home, folder=tmp_path, **FREE_PORT), str(home), "SCRUBJAY_HOME")
    assert listing(tmp_path) == {"file": listing(tmp_path)["file"]}
    assert file.read_text() == "a letter"


def test_a_second_process_on_an_embedded_home_is_refused_and_the_first_goes_on(home: Path) -> None:
    with serving(home) as first:
        for command in (SERVE, WORKER):
            the_sentence(
                run(*command, home=home, **FREE_PORT), f"pid {first.process.pid}", str(home), "already uses", "--home"
            )
        # Looking, and bringing the schema up to date, need no place of their own.
        for command in (KEYS, MIGRATE):
            assert run(*command, home=home).returncode == 0
        assert first.get("/api/v1/health/ready").json()["status"] == "ready"
        assert first.stop() == 0


def test_a_home_is_free_again_after_its_owner_ended(home: Path) -> None:
    (home / "lock").write_text("99999999\n")
    with serving(home) as server:
        assert (home / "lock").read_text() == f"{server.process.pid}\n"
        assert stat.S_IMODE((home / "lock").stat().st_mode) & 0o022 == 0
        assert server.stop() == 0
