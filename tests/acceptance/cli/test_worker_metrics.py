"""`scrubjay worker` with a port for its metrics: they can be scraped with a key, and nothing else is there."""

import json
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import httpx
from tests.acceptance.command_line import PATIENCE_SECONDS, SCRUBJAY, environment, run


def test_a_worker_tells_its_metrics_to_whoever_has_a_key(home: Path) -> None:
    made = run("keys", "create", "prometheus", "--json", home=home)
    key = json.loads(made.stdout)["key"]
    worker = subprocess.Popen(
        [*SCRUBJAY, "--home", str(home), "worker"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home.parent,
        env=environment(SCRUBJAY_WORKER_METRICS_PORT="0", SCRUBJAY_JOB_POLL_SECONDS="0.1"),
    )
    try:
        assert worker.stdout is not None
        line = worker.stdout.readline()
        found = re.search(r"metrics on (\S+);", line)
        assert found is not None, line
        address = f"http://{found[1]}"
        run("jobs", "submit", "diagnostic.steps", "--payload", '{"steps": 1, "seconds": 0}', home=home)
        wanted = 'scrubjay_jobs_finished_total{kind="diagnostic.steps",outcome="completed"} 1.0'
        deadline = time.monotonic() + PATIENCE_SECONDS
        with httpx.Client(base_url=address, trust_env=False) as client:
            while wanted not in client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).text:
                assert time.monotonic() < deadline
                time.sleep(0.2)
            assert client.get("/metrics").status_code == 401
            for path in ("/", "/api/v1/jobs", "/openapi.json"):
                assert client.get(path, headers={"Authorization": f"Bearer {key}"}).status_code == 404
    finally:
        worker.send_signal(signal.SIGTERM)
        _, log = worker.communicate(timeout=PATIENCE_SECONDS)
    assert worker.returncode == 0
    assert [json.loads(line)["event"] for line in log.splitlines()] == ["worker started", "worker stopped"]


def test_a_port_that_is_taken_is_told_in_a_sentence(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = run("worker", home=home, SCRUBJAY_WORKER_METRICS_PORT=port)
    assert refused.returncode == 1
    assert port in refused.stderr
