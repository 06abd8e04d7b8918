"""The command line, through real processes: what it prints, how it exits, and that it never shows a traceback."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.acceptance.command_line import PATIENCE_SECONDS, SCRUBJAY, environment, run, the_sentence
from typer.testing import CliRunner

from scrubjay import __version__
from scrubjay.cli.app import COMMANDS as NAMES
from scrubjay.cli.app import find_names, make_app
from scrubjay.model.ids import ID_LENGTH


def walk(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that lead to it."""
    yield path, command
    for name, below in getattr(command, "commands", {}).items():
        yield from walk(below, (*path, name))


COMMANDS = dict(walk(typer.main.get_command(make_app())))


def ok(home: Path, *arguments: str) -> str:
    result = run(*arguments, home=home)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def as_json(home: Path, *arguments: str) -> Any:
    return json.loads(ok(home, *arguments))


# --- Help


def test_every_command_and_option_has_a_help_text() -> None:
    assert len(COMMANDS) > 15
    for path, command in COMMANDS.items():
        assert (command.help or "").strip().endswith((".", ")")), f"`scrubjay {' '.join(path)}` needs a sentence"
        for parameter in command.params:
            assert (parameter.help or "").strip(), f"`scrubjay {' '.join(path)}`: {parameter.name} needs a help text"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["crawl", "https://example.org/"], ["crawl"]),
        (["--home", "crawl", "search", "x"], ["search"]),
        (["--home=crawl", "plan", "run"], ["plan"]),
        (["--home"], list(NAMES)),
        (["--help"], list(NAMES)),
        (["--help", "crawl"], list(NAMES)),
        (["--home", "x", "-h", "crawl"], list(NAMES)),
        (["crowl"], list(NAMES)),
        ([], list(NAMES)),
    ],
)
def test_a_call_imports_the_command_that_it_names_and_otherwise_all(arguments: list[str], names: list[str]) -> None:
    assert list(find_names(arguments)) == names


@pytest.mark.parametrize(("arguments", "code"), [(["--help"], 0), (["crowl"], 2), (["show", "nothing"], 1)])
def test_a_command_that_ends_at_once_has_said_everything(home: Path, arguments: list[str], code: int) -> None:
    command = [*SCRUBJAY, "--home", str(home), *arguments]
    patient = subprocess.run(command, env=environment(), capture_output=True, check=False)
    hasty = {name: value for name, value in environment().items() if name != "PYTHONWARNINGS"}
    quick = subprocess.run(command, env=hasty, capture_output=True, check=False)

    assert (quick.returncode, patient.returncode) == (code, code)
    assert (quick.stdout, quick.stderr) == (patient.stdout, patient.stderr)
    assert quick.stdout or quick.stderr


def test_output_that_cannot_be_written_is_a_failure() -> None:
    unwanted = {"PYTHONWARNINGS", "PYTHONUNBUFFERED"}  # the latter would have it fail before the end
    hasty = {name: value for name, value in environment().items() if name not in unwanted}
    script = "from scrubjay import cli; cli._run = lambda: print('kept until the end'); cli.main()"
    with Path("/dev/full").open("w") as full:
        told = subprocess.run(
            [sys.executable, "-c", script], env=hasty, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert (told.returncode, told.stderr.count("\n")) == (1, 1)
    assert "No space left" in told.stderr


def is_help_of(path: tuple[str, ...], shown: str) -> bool:
    first = " ".join((COMMANDS[path].help or "").replace("`", "").split("\n\n")[0].split())
    return "Usage:" in shown and first[:40] in " ".join(shown.split())


# In this process, because twenty new ones take as long as all the rest.
@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: " ".join(path) or "scrubjay")
def test_help_is_shown(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(make_app(), [*path, "--help"])
    assert result.exit_code == 0
    assert is_help_of(path, result.stdout)


@pytest.mark.parametrize("path", [(), ("serve",), ("keys", "create")], ids=" ".join)
def test_help_is_shown_without_a_home(path: tuple[str, ...], tmp_path: Path) -> None:
    assert is_help_of(path, ok(tmp_path / "nowhere", *path, "--help"))
    assert list(tmp_path.iterdir()) == []


def test_the_version_is_printed(home: Path) -> None:
    assert ok(home, "version") == f"scrubjay {__version__}\n"


def test_a_mistyped_command_exits_with_2_and_says_so(home: Path) -> None:
    result = run("surf", home=home)
    assert (result.returncode, result.stdout) == (2, "")
    assert "No such command 'surf'" in result.stderr


# --- Keys


def test_a_key_lives_from_create_to_rm(home: Path) -> None:
    made = as_json(home, "keys", "create", "reader", "--scope", "write", "--scope", "read", "--rate", "5",
                   "--days", "3", "--json")  # fmt: skip
    assert made["key"].startswith("sj_")
    assert (made["name"], made["scopes"], made["rate_limit_rpm"]) == ("reader", ["read", "write"], 5)
    assert made["expires_at"] is not None

    def listed() -> Any:
        return next((key for key in as_json(home, "keys", "ls", "--json") if key["id"] == made["id"]), None)

    assert listed() == {name: value for name, value in made.items() if name != "key"}
    assert ok(home, "keys", "disable", made["id"]) == "Disabled.\n"
    assert listed()["is_active"] is False
    assert ok(home, "keys", "enable", made["id"]) == "Enabled.\n"
    assert listed()["is_active"] is True
    assert ok(home, "keys", "rm", made["id"]) == "Deleted.\n"
    assert listed() is None
    the_sentence(run("keys", "rm", made["id"], home=home), made["id"], "not found")


def test_a_table_shows_names_as_they_are_and_ids_in_full(home: Path) -> None:
    names = ["[bold]not[/bold] markup", "[/b]"]
    for name in names:
        # The key stands alone on its line, so that it can be piped.
        assert re.fullmatch(r"sj_\S+\n", ok(home, "keys", "create", name))
    table = run("keys", "ls", home=home, COLUMNS="200")
    assert (table.returncode, table.stderr) == (0, "")
    assert all(name in table.stdout for name in names)
    ids = re.findall(r"cred_\w+", table.stdout)
    assert [len(identifier) for identifier in ids] == [ID_LENGTH] * 3
    assert re.findall(r"cred_\w+", run("keys", "ls", home=home, COLUMNS="60").stdout) == ids


def test_a_key_of_another_tenant_is_not_in_our_list(home: Path) -> None:
    made = as_json(home, "keys", "create", "x", "--tenant", "strangers", "--json")
    assert made["id"] not in {key["id"] for key in as_json(home, "keys", "ls", "--json")}


def test_a_sign_in_link_is_a_path_for_the_server(home: Path) -> None:
    assert ok(home, "keys", "link").startswith("/signin?token=")


def test_the_key_of_the_command_line_cannot_remove_itself(home: Path) -> None:
    (own,) = as_json(home, "keys", "ls", "--json")
    the_sentence(run("keys", "rm", own["id"], home=home), "cannot delete itself")
    the_sentence(run("keys", "disable", own["id"], home=home), "cannot disable itself")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("keys", "create", "x" * 101), "name must have"),
        (("keys", "create", "\x1b[2J"), "control characters"),
        (("keys", "create", os.fsdecode(b"\xff")), "UTF-8"),
        (("keys", "disable", "cred_nothing"), "not found"),
        (("jobs", "show", os.fsdecode(b"\xff")), "UTF-8"),
        (("jobs", "submit", "nonsense"), "no kind of job called 'nonsense'"),
        (("jobs", "submit", "diagnostic.steps", "--payload", "{"), "--payload is not JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_what_makes_no_sense_is_one_sentence(home: Path, arguments: tuple[str, ...], word: str) -> None:
    the_sentence(run(*arguments, home=home), word)


@pytest.mark.parametrize(
    "arguments",
    [("keys", "create", "x", "--days", "9" * 20), ("keys", "create", "x", "--rate", "0"),
     ("jobs", "events", "job_x", "--after", "9" * 30), ("jobs", "ls", "--state", "asleep")],
    ids=lambda arguments: arguments[-2],
)  # fmt: skip
def test_an_option_out_of_range_is_explained_and_exits_with_2(home: Path, arguments: tuple[str, ...]) -> None:
    result = run(*arguments, home=home)
    assert (result.returncode, result.stdout) == (2, "")
    assert arguments[-2] in result.stderr
    assert "Traceback" not in result.stderr


# --- Jobs


def test_a_job_is_submitted_looked_at_and_steered(home: Path) -> None:
    job = ok(home, "jobs", "submit", "diagnostic.steps", "--payload", '{"steps": 2}', "--priority", "high").strip()
    assert job.startswith("job_")
    assert as_json(home, "jobs", "show", job)["state"] == "pending"
    (listed,) = as_json(home, "jobs", "ls", "--json")
    assert (listed["id"], listed["kind"], listed["priority"]) == (job, "diagnostic.steps", "high")
    for command, state in (
        ("pause", "paused"),
        ("resume", "pending"),
        ("cancel", "cancelled"),
        ("retry", "pending"),
    ):
        assert ok(home, "jobs", command, job) == f"{state}.\n"
    the_sentence(run("jobs", "resume", job, home=home), "Cannot resume pending job")
    events = [json.loads(line) for line in ok(home, "jobs", "events", job, "--json", "--after", "1").splitlines()]
    assert [event["sequence"] for event in events] == [2, 3, 4, 5]
    assert events[-1]["type"] == "job.retry_requested"
    assert job in ok(home, "jobs", "ls", "--state", "pending")


@pytest.mark.parametrize("command", ["show", "cancel"])
def test_an_unknown_job_is_one_sentence(home: Path, command: str) -> None:
    the_sentence(run("jobs", command, "job_nothing", home=home), "Job 'job_nothing' does not exist.")


# --- Looking after it


def test_migrate_can_be_repeated(home: Path, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    assert ok(fresh, "migrate").startswith("Upgraded the schema from revision none to ")
    before = (fresh / "scrubjay.db").read_bytes()
    assert ok(fresh, "migrate").startswith("The schema is up to date (revision ")
    assert (fresh / "scrubjay.db").read_bytes() == before
    assert stat.S_IMODE(fresh.stat().st_mode) == 0o700


def test_doctor_finds_a_healthy_home_healthy(home: Path) -> None:
    findings = {finding["name"]: finding for finding in as_json(home, "doctor", "--json")}
    assert list(findings) == ["home", "database", "schema", "blobs", "cache", "workers", "index"]
    assert all(finding["is_well"] for finding in findings.values())
    assert findings["home"]["detail"] == str(home)
    table = run("doctor", home=home, COLUMNS="200").stdout
    assert all(name in table for name in findings)
    assert "✗" not in table


def test_doctor_says_what_to_do_about_an_exposed_key(home: Path) -> None:
    ok(home, "keys", "ls")
    (home / "admin.key").chmod(0o644)
    the_sentence(run("doctor", home=home), "admin.key", "run: chmod 600")


def test_doctor_exits_with_1_when_a_part_is_down(home: Path) -> None:
    result = run("doctor", "--json", home=home, SCRUBJAY_CACHE_URL="redis://:hunter2@127.0.0.1:1/0")
    assert (result.returncode, result.stderr) == (1, "")
    (sick,) = [finding for finding in json.loads(result.stdout) if not finding["is_well"]]
    assert (sick["name"], bool(sick["advice"])) == ("cache", True)
    assert "hunter2" not in result.stdout


def test_the_first_of_two_that_start_at_once_makes_the_key_and_both_go_on(home: Path) -> None:
    processes = [
        subprocess.Popen(
            [*SCRUBJAY, "--home", str(home), "keys", "ls", "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=home.parent,
            env=environment(),
        )
        for _ in range(2)
    ]
    answers = [process.communicate(timeout=PATIENCE_SECONDS) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], answers
    assert {key["id"] for out, _ in answers for key in json.loads(out)} == {
        key["id"] for key in as_json(home, "keys", "ls", "--json")
    }
    assert len(as_json(home, "keys", "ls", "--json")) == 1
