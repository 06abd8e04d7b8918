"""`scrubjay workers` lists the processes that run jobs and what they hold; a worker can be for some kinds alone."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.acceptance.command_line import PATIENCE_SECONDS, SCRUBJAY, environment, run, the_sentence

from scrubjay import __version__


def wait_for(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return answer


def list_workers(home: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(run("workers", "--json", home=home).stdout)
    return listed


def submit_steps(home: Path) -> str:
    payload = '{"steps": 1000, "seconds": 0.1}'
    return run("jobs", "submit", "diagnostic.steps", "--payload", payload, home=home).stdout.strip()


def test_workers_are_listed_with_the_jobs_they_hold(home: Path) -> None:
    run("migrate", home=home)
    assert list_workers(home) == []
    worker = subprocess.Popen(
        [*SCRUBJAY, "--home", str(home), "worker", "--concurrency", "1", "--queues", "diagnostic.steps,crawl"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home.parent,
        env=environment(SCRUBJAY_JOB_POLL_SECONDS="0.1"),
    )
    try:
        wait_for(lambda: list_workers(home))
        jobs = [submit_steps(home), submit_steps(home)]
        (listed,) = wait_for(lambda: [each for each in list_workers(home) if each["jobs"]])
        assert (listed["pid"], listed["version"], listed["concurrency"]) == (worker.pid, __version__, 1)
        assert listed["host"] == os.uname().nodename
        (held,) = listed["jobs"]
        assert (held["kind"], held["run"]) == ("diagnostic.steps", 1)
        assert held["id"] in jobs
        table = run("workers", home=home, COLUMNS="200").stdout
        assert held["id"] in table
        assert __version__ in table
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE_SECONDS)
    assert worker.returncode == 0
    assert list_workers(home) == []


def test_a_kind_of_job_that_does_not_exist_is_named(home: Path) -> None:
    the_sentence(run("worker", "--queues", "crawls", home=home), "There is no kind of job called 'crawls'")
