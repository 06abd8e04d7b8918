"""`scrubjay serve` as a real process: it starts fast, signs a browser in, and ends quietly."""

import json
import socket
import stat
import time
from pathlib import Path

import httpx
import pytest
from tests.acceptance.command_line import PATIENCE_SECONDS, listing, run, serving, the_sentence

pytestmark = pytest.mark.slow  # processes of their own

START_SECONDS = 10  # three on a quiet machine; the measured time is printed
GRACE_SECONDS = 5


def test_serve_starts_fast_signs_in_once_and_stops_when_told(home: Path) -> None:
    with serving(home, SCRUBJAY_SHUTDOWN_GRACE_SECONDS=str(GRACE_SECONDS)) as server:
        answer = server.get("/api/v1/health")
        seconds = time.monotonic() - server.started_at
        print(f"the first answer came after {seconds:.2f} seconds")
        assert answer.json() == {"status": "healthy"}
        assert seconds < START_SECONDS
        assert server.get("/api/v1/health/ready").json()["status"] == "ready"
        assert "server" not in answer.headers

        with httpx.Client(base_url=server.address, trust_env=False) as browser:
            assert browser.get(server.link).status_code == 303
            assert browser.get("/api/v1/jobs").json()["items"] == []
        assert server.get(server.link.removeprefix(server.address)).status_code == 401

        key = (home / "admin.key").read_text().strip()
        keys = server.get("/api/v1/api-keys", headers={"Authorization": f"Bearer {key}"}).json()
        assert [item["scopes"] for item in keys["items"]] == [["admin"]]

        told_at = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - told_at < GRACE_SECONDS + START_SECONDS
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        assert {line["level"] for line in lines} == {"info"}, lines
        assert [line["event"] for line in lines] == ["worker started", "worker stopped"]
        assert key not in server.log.read_text()
        assert server.link.partition("token=")[2] not in server.log.read_text()

    for name in ("admin.key", "secret.key"):
        assert stat.S_IMODE((home / name).stat().st_mode) == 0o600


def test_a_home_that_serve_makes_is_for_its_owner_only(tmp_path: Path) -> None:
    home = tmp_path / "deep" / "new"
    home.parent.mkdir()
    with serving(home, "--no-work") as server:
        assert server.get("/api/v1/health").status_code == 200
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert stat.S_IMODE((home / "admin.key").stat().st_mode) == 0o600
        assert server.stop() == 0


def test_serve_runs_the_jobs_that_others_submit(home: Path) -> None:
    with serving(home, SCRUBJAY_JOB_POLL_SECONDS="0.1") as server:
        job = run("jobs", "submit", "diagnostic.steps", "--payload", '{"steps": 2, "seconds": 0}', home=home)
        followed = run("jobs", "events", job.stdout.strip(), "--follow", "--json", home=home)
        assert json.loads(followed.stdout.splitlines()[-1])["type"] == "job.completed"
        assert server.stop() == 0


def test_a_port_in_use_is_one_sentence_and_changes_nothing(home: Path) -> None:
    before = listing(home)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        the_sentence(run("serve", "--port", port, home=home), f"127.0.0.1:{port}", "in use", "--port")
    assert listing(home) == before


def test_a_host_that_does_not_exist_is_one_sentence(home: Path) -> None:
    for host in ("x" * 300, "192.0.2.1"):
        the_sentence(run("serve", "--host", host, "--port", "0", home=home), "Cannot serve on", "--host")


def test_serve_answers_at_once_after_a_crash(home: Path) -> None:
    with serving(home) as server:
        server.process.kill()
        server.process.wait(PATIENCE_SECONDS)
    with serving(home) as server:
        assert server.get("/api/v1/health/ready").json()["status"] == "ready"
        assert server.stop() == 0
