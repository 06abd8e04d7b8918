"""What a process would log, caught as text: our own lines and those of every library, through the real formatter."""

import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import structlog

from scrubjay.telemetry import configure_logging


class Logbook:
    def __init__(self, stream: io.StringIO) -> None:
        self._stream = stream

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line, read as JSON."""
        return [json.loads(line) for line in self.text.splitlines()]


@contextmanager
def keep_logbook(level: str = "debug", log_format: str = "json") -> Iterator[Logbook]:
    stream, root = io.StringIO(), logging.getLogger()
    handlers, root_level, configure = root.handlers, root.level, structlog.configure

    def configure_without_memory(**options: Any) -> None:
        # A logger that remembers this configuration would keep it for the tests that follow.
        configure(**options | {"cache_logger_on_first_use": False})

    with mock.patch.object(sys, "stderr", stream), mock.patch.object(structlog, "configure", configure_without_memory):
        configure_logging(level, log_format)
    try:
        yield Logbook(stream)
    finally:
        root.handlers, root.level = handlers, root_level
        structlog.reset_defaults()
