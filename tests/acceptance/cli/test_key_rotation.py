"""Other keys: for who calls, and for what is sealed, which still opens and does not need the old key any more."""

import base64
import json
import secrets
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest
from tests.acceptance.command_line import run, serving, the_sentence

from scrubjay.settings import Settings
from scrubjay.storage.secrets import open_secret_box

pytestmark = pytest.mark.slow


def good(*arguments: str, home: Path, **settings: str) -> str:
    result = run(*arguments, home=home, **settings)
    assert (result.returncode, result.stderr) == (0, ""), result
    return result.stdout


def sealed(home: Path) -> tuple[str, str]:
    with closing(sqlite3.connect(home / "scrubjay.db")) as connection:
        (row,) = connection.execute("SELECT id, sealed_secret FROM webhooks").fetchall()
    return row


def test_a_rotated_key_works_and_the_one_before_does_not(home: Path) -> None:
    record = json.loads(good("keys", "create", "reader", "--json", home=home))
    with serving(home, "--no-work") as server:
        good_before = server.get("/api/v1/stats", headers={"X-API-Key": record["key"]})
        assert good_before.status_code == 200
        rotated = json.loads(good("keys", "rotate", record["id"], "--json", home=home))
        assert rotated["id"] == record["id"]
        assert rotated["key"] != record["key"]
        assert server.get("/api/v1/stats", headers={"X-API-Key": record["key"]}).status_code == 401
        assert server.get("/api/v1/stats", headers={"X-API-Key": rotated["key"]}).status_code == 200
        assert server.stop() == 0


def test_the_command_lines_own_key_is_exchanged_in_its_file(home: Path) -> None:
    good("keys", "ls", home=home)
    before = (home / "admin.key").read_text()
    assert "another admin key" in good("keys", "rotate", home=home)
    after = (home / "admin.key").read_text()
    assert after != before
    assert stat.S_IMODE((home / "admin.key").stat().st_mode) == 0o600
    assert len(json.loads(good("keys", "ls", "--json", home=home))) == 1


def test_what_is_sealed_gets_another_key_and_the_old_one_is_gone(home: Path) -> None:
    secret = json.loads(good("webhooks", "add", "https://example.com/hook", "--json", home=home))["secret"]
    old = (home / "secret.key").read_text()
    assert good("keys", "rotate-secret", home=home) == "Sealed 1 secret anew.\n"
    new = (home / "secret.key").read_text()
    assert len(new.split()) == 1
    assert new != old
    assert stat.S_IMODE((home / "secret.key").stat().st_mode) == 0o600
    webhook_id, text = sealed(home)
    box = open_secret_box(Settings(home=home))
    assert box.unseal(text, context=f"webhook:{webhook_id}:secret") == secret
    assert good("keys", "rotate-secret", home=home) == "Sealed 1 secret anew.\n"


def test_a_running_server_keeps_the_key_from_being_exchanged_under_it(home: Path) -> None:
    with serving(home) as server:
        before = (home / "secret.key").read_text()
        the_sentence(run("keys", "rotate-secret", home=home), "already uses the data folder")
        assert (home / "secret.key").read_text() == before
        assert server.stop() == 0


def test_keys_of_the_environment_are_exchanged_in_two_steps(home: Path) -> None:
    old, new = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
    made = good("webhooks", "add", "https://example.com/hook", "--json", home=home, SCRUBJAY_SECRET_KEY=old)
    secret = json.loads(made)["secret"]
    both = {"SCRUBJAY_SECRET_KEY": new, "SCRUBJAY_OLD_SECRET_KEYS": old}
    assert "Sealed 1 secret anew." in good("keys", "rotate-secret", home=home, **both)
    webhook_id, text = sealed(home)
    box = open_secret_box(Settings(home=home, secret_key=new))
    assert box.unseal(text, context=f"webhook:{webhook_id}:secret") == secret
    assert not (home / "secret.key").exists()


def test_a_secret_that_no_key_opens_is_left_alone_and_told(home: Path) -> None:
    one, another = (base64.b64encode(secrets.token_bytes(32)).decode() for _ in range(2))
    good("webhooks", "add", "https://example.com/hook", home=home, SCRUBJAY_SECRET_KEY=one)
    before = sealed(home)
    result = run("keys", "rotate-secret", home=home, SCRUBJAY_SECRET_KEY=another)
    assert result.returncode == 1
    assert "could not be opened" in result.stdout
    assert sealed(home) == before
