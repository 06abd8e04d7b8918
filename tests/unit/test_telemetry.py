"""Logs: ids in every line, secrets in none, one format for us and for every library."""

import io
import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import SecretStr
from tests.logbook import keep_logbook

from scrubjay.services.access import new_key_text
from scrubjay.telemetry import REDACTED, configure_logging, get_logger, job_id, redact, registry, request_id

KEY = "sj_0123abcd_" + "Zr4Kqk-L8AZ1aZ0A4FTPtoc0M70xjYkXEMVlKhgHi6k"


class Courier:
    """Something whose text would tell a secret."""

    def __repr__(self) -> str:
        return "Courier(to='redis://:hunter2@cache')"


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2"},
        {"outer": {"inner": [{"client_secret": "hunter2"}]}},
        {"headers": {"Authorization": "hunter2", "Cookie": "hunter2", "X-Api-Key": "hunter2"}},
        [{"api_key": "hunter2"}, ("x", {"accessToken": "hunter2"})],
        {"private_key": b"hunter2", "credentials": {"user": "hunter2"}},
        "postgresql://jay:hunter2@db/x",
        "postgresql://jay:hunter2@hunter2@db/x",
        "https://hunter2@example.org/path",
        "redis://:hunter2@cache:6379/0 and s3://key:hunter2@bucket",
        "Authorization: Bearer hunter2hunter2",
        "authorization: basic hunter2hunter2==",
        RuntimeError("cannot reach postgresql://jay:hunter2@db/x"),
        b"Bearer hunter2hunter2",
        {"set": {"https://jay:hunter2@example.org"}},
        Courier(),
        {"deep": [Courier()]},
        {"wrapped": SecretStr("hunter2")},
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_secret_is_blanked_wherever_it_is(value: Any) -> None:
    assert "hunter2" not in repr(redact(value))


def test_a_key_is_blanked_in_any_text() -> None:
    for key in (KEY, new_key_text()):
        assert redact(f"asked with {key}, refused") == f"asked with {REDACTED}, refused"


def test_what_is_no_secret_stays_as_it_is() -> None:
    facts = {
        "url": "https://example.org/a?b=c#d",
        "mail": "jay@example.org",
        "key_id": "cred_001k7gs795gftcpjfqelihn1s35",
        "count": 3,
        "share": 0.5,
        "done": True,
        "nothing": None,
        "list": ["a", 1],
        "password": "",
    }
    assert redact(facts) == facts


def test_ids_of_request_and_job_are_in_every_line_of_theirs_and_no_other() -> None:
    log = get_logger("test")
    with keep_logbook() as book:
        tokens = request_id.set("req-1"), job_id.set("job_1")
        log.info("ours")
        logging.getLogger("some.library").warning("theirs: %s", "x")
        request_id.reset(tokens[0])
        job_id.reset(tokens[1])
        log.info("alone")
    ours, theirs, alone = book.lines
    assert (ours["request_id"], ours["job_id"]) == (theirs["request_id"], theirs["job_id"]) == ("req-1", "job_1")
    assert (theirs["event"], theirs["logger"], theirs["level"]) == ("theirs: x", "some.library", "warning")
    assert not {"request_id", "job_id"} & set(alone)
    assert datetime.fromisoformat(ours["timestamp"]).tzinfo == UTC


@pytest.mark.parametrize("log_format", ["json", "human"])
def test_no_secret_reaches_a_line(log_format: str) -> None:
    log = get_logger("test")
    with keep_logbook(log_format=log_format) as book:
        log.info("asked", password="hunter2", nested={"token": "hunter2"}, error=RuntimeError("x://a:hunter2@b"))
        log.info("asked with Bearer %s", "hunter2hunter2")
        logging.getLogger("some.library").error("connecting to %s", "redis://:hunter2@cache")
        log.info(f"made {KEY}")
    assert len(book.text.splitlines()) == 4
    assert "hunter2" not in book.text
    assert KEY not in book.text


def break_down() -> None:
    local = "-".join(("kept", "in", "a", "variable"))
    raise RuntimeError("x://jay:" + "hunter2@db", len(local))


@pytest.mark.parametrize("log_format", ["json", "human"])
@pytest.mark.parametrize("library", [False, True], ids=["ours", "a library's"])
def test_a_traceback_is_logged_without_local_variables_and_secrets(log_format: str, library: bool) -> None:
    log: Any = logging.getLogger("some.library") if library else get_logger("test")
    with keep_logbook(log_format=log_format) as book:
        try:
            break_down()
        except RuntimeError:
            log.exception("it broke")
    assert "it broke" in book.text
    assert "RuntimeError" in book.text
    assert "Traceback (most recent call last)" in book.text
    assert "kept-in-a-variable" not in book.text
    assert "jay:hunter2" not in book.text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("log_format", "stream", "is_json"),
    [("auto", io.StringIO, True), ("auto", Terminal, False), ("json", Terminal, True), ("human", io.StringIO, False)],
)
def test_lines_are_json_off_a_terminal_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, log_format: str, stream: type[io.StringIO], is_json: bool
) -> None:
    output = stream()
    with keep_logbook():  # puts back what is configured here
        monkeypatch.setattr(sys, "stderr", output)
        configure_logging("info", log_format)
        get_logger("test").info("hello", number=1)
    if is_json:
        assert json.loads(output.getvalue())["number"] == 1
    else:
        assert not output.getvalue().startswith("{")
        assert "hello" in output.getvalue()


def test_a_line_below_the_level_is_not_written() -> None:
    with keep_logbook(level="warning") as book:
        get_logger("test").info("quiet")
        get_logger("test").warning("loud")
        logging.getLogger("alembic.runtime").info("chatter")
    assert [line["event"] for line in book.lines] == ["loud"]


def test_every_metric_is_named_and_described_for_this_house() -> None:
    families = list(registry.collect())
    assert len(families) > 5
    for family in families:
        assert family.name.startswith(("scrubjay_", "crawler_", "scout_"))  # the last two are spec 003's
        assert family.documentation.endswith(".")
