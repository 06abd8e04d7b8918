"""`scrubjay webhooks`, through real processes, beside a server that sends and a receiver that is told."""

import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import SCRUBJAY, environment, run, serving, the_sentence
from tests.receiver import ReceiverProcess, receiver_process

from scrubjay.model.ids import ID_LENGTH

pytestmark = pytest.mark.slow
LOOPBACK = {"SCRUBJAY_ALLOWED_PRIVATE_NETWORKS": "127.0.0.0/8", "SCRUBJAY_EXTRACT_PROCESSES": "1", "COLUMNS": "250"}
PATIENCE_SECONDS = 30.0


@pytest.fixture
def home(home: Path, migrated_databases: list[Path]) -> Path:
    for file in migrated_databases:
        shutil.copy(file, home)
    return home


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[ReceiverProcess]:
    with receiver_process(tmp_path) as running:
        yield running


def good(home: Path, *arguments: str) -> str:
    result = run("webhooks", *arguments, home=home, **LOOPBACK)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def listed(home: Path, *arguments: str) -> Any:
    return json.loads(good(home, *arguments, "--json"))


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.1)
    return answer


def test_a_webhook_is_made_shown_tested_rotated_and_removed(home: Path, receiver: ReceiverProcess) -> None:
    assert "No webhooks yet" in good(home, "ls")
    url = f"{receiver.url}/hook"
    said = good(home, "add", url, "-e", "completed", "-e", "document_created", "--header", "X-Api-Key: hunter22")
    found = re.fullmatch(rf"(whk_\w{{{ID_LENGTH - 4}}})\nSecret: (whsec_\S+)\nIt is shown this once.*\n", said)
    assert found, said
    webhook_id, secret = found[1], found[2]
    assert re.search(rf"{url} +on +completed, document_created +{webhook_id}", good(home, "ls"))
    shown = listed(home, "show", url)
    assert (shown["id"], shown["headers"], shown["has_secret"]) == (webhook_id, {"X-Api-Key": "[hidden]"}, True)
    assert secret not in good(home, "show", webhook_id[:20])

    assert good(home, "test", url) == "HTTP status 200. Delivered.\n"
    [ping] = receiver.told
    assert (ping.event, ping.headers["x-api-key"]) == ("ping", "hunter22")
    assert ping.is_signed_with(secret)

    rotated = listed(home, "rotate", url, "--grace-hours", "1")["secret"]
    good(home, "test", webhook_id)
    assert receiver.told[-1].is_signed_with(secret)
    assert receiver.told[-1].is_signed_with(rotated)
    assert [each["event"] for each in listed(home, "deliveries", url)["deliveries"]] == ["ping", "ping"]
    assert good(home, "rm", webhook_id) == "Removed.\n"
    the_sentence(run("webhooks", "show", url, home=home, **LOOPBACK), "There is no webhook", "scrubjay webhooks ls")


def test_a_secret_comes_from_standard_input_and_is_not_printed(home: Path, receiver: ReceiverProcess) -> None:
    command = [*SCRUBJAY, "--home", str(home), "webhooks", "add", f"{receiver.url}/a", "--secret-stdin"]
    made = subprocess.run(
        command, input="correct horse\n", capture_output=True, text=True, env=environment(**LOOPBACK), check=True
    )
    assert "horse" not in made.stdout
    good(home, "test", f"{receiver.url}/a")
    assert receiver.told[-1].is_signed_with("correct horse")


def test_what_is_wrong_is_said_in_a_sentence(home: Path, receiver: ReceiverProcess) -> None:
    for arguments, words in (
        (["add", "http://10.0.0.1/"], ["10.0.0.1", "not public"]),
        (["add", "ftp://example.org/"], ["http and https"]),
        (["add", "https://example.org/", "-e", "exploded"], ["events", "document_created"]),
        (["add", "https://example.org/", "--header", "nonsense"], ["Name: value"]),
        (["add", "https://example.org/", "--plan", "nobodys"], ["There is no plan"]),
        (["replay"], ["--failed"]),
        (["replay", "whd_nobodys"], ["not found"]),
    ):
        the_sentence(run("webhooks", *arguments, home=home, **LOOPBACK), *words)
    good(home, "add", f"{receiver.url}/a")
    receiver.kill()
    result = run("webhooks", "test", f"{receiver.url}/a", home=home, **LOOPBACK)
    assert result.returncode == 1
    assert "Not delivered: The connection failed" in result.stdout


def test_a_server_sends_what_commands_made_happen_and_replays_what_failed(
    home: Path, receiver: ReceiverProcess, tmp_path: Path
) -> None:
    url = f"{receiver.url}/hook"
    good(home, "add", url, "-e", "document_created")
    note = tmp_path / "note.md"
    note.write_text("# Jays\n\nA note about jays that hide acorns.\n")
    result = run("add", str(note), home=home, **LOOPBACK)
    assert result.returncode == 0, result
    assert [each["status"] for each in listed(home, "deliveries")["deliveries"]] == ["pending"]
    receiver.kill()
    with serving(home, **LOOPBACK):

        def given_up() -> bool:
            [delivery] = listed(home, "deliveries", url)["deliveries"]
            return bool(delivery["attempts"] >= 2)

        wait_for(given_up, "two attempts have failed")
        receiver.start()
        wait_for(lambda: receiver.told, "it is delivered after all")
        wait_for(lambda: listed(home, "deliveries", "--status", "delivered")["total"], "that is written down")
        assert "Nothing has failed there" in good(home, "replay", "--failed", url)
        [delivery] = listed(home, "deliveries", url)["deliveries"]
        again = good(home, "replay", delivery["id"]).strip()
        wait_for(lambda: len(receiver.told) == 2, "the replay is delivered")
    assert again != delivery["id"]
    assert receiver.told[0].body == receiver.told[1].body
