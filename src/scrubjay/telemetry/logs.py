"""Log lines: structured, with request and job ids, secrets blanked."""

import functools
import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextvars import ContextVar
from typing import Any

import structlog

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
job_id: ContextVar[str | None] = ContextVar("job_id", default=None)

SECRET_NAMES = re.compile(
    r"(password|passwd|secret|token|api[_-]?key|authorization|cookie|credential|private[_-]?key|access[_-]?key)",
    re.IGNORECASE,
)
_KEY_TEXT = re.compile(r"\bsj_[A-Za-z0-9]{4,}_[A-Za-z0-9_-]{8,}")
# Up to the last @ before the path: a password with an @ in it must not be shown by half.
_URL_USERINFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s]+@", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
REDACTED = "[redacted]"


@functools.lru_cache(maxsize=1024)  # the same few names again and again
def names_secret(name: str) -> bool:
    """Whether what goes by this name is secret."""
    return SECRET_NAMES.search(name) is not None


def redact(value: Any) -> Any:
    """Blank secrets in text, and whole values under names that hold secrets."""
    if isinstance(value, str):
        # Every page that is crawled comes by here: to look for a letter takes a fraction of what a pattern takes.
        if "sj_" in value:
            value = _KEY_TEXT.sub(REDACTED, value)
        if "@" in value:
            value = _URL_USERINFO.sub(rf"\g<scheme>{REDACTED}@", value)
        return _BEARER.sub(rf"\1 {REDACTED}", value)
    if isinstance(value, Mapping):
        return {
            key: REDACTED if isinstance(key, str) and names_secret(key) and item else redact(item)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple | set | frozenset):
        return [redact(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    # Whatever else it is (an exception, bytes, an object), its text is what would be written.
    return redact(repr(value))


def _add_context(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for name, variable in (("request_id", request_id), ("job_id", job_id)):
        value = variable.get()
        if value is not None:
            event.setdefault(name, value)
    return event


def _redact_event(_: Any, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return {key: REDACTED if names_secret(key) and value else redact(value) for key, value in event.items()}


def configure_logging(level: str = "info", log_format: str = "auto") -> None:
    """Route our own and every library's log lines through one formatter to standard error."""
    human = log_format == "human" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_context,
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    # Plain tracebacks: the pretty ones print local variables, and with them whatever secret is in one.
    renderer: Any = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback)
        if human
        else structlog.processors.JSONRenderer()
    )
    # Tracebacks become text before secrets are blanked: the message of an exception may hold one.
    finish: list[Any] = [
        structlog.stdlib.ProcessorFormatter.remove_processors_meta,
        structlog.processors.format_exc_info,
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=[*finish, _redact_event, renderer])
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    for noisy in (
        "mcp",
        "uvicorn.access",
        "uvicorn.error",
        "alembic",
        "aiosqlite",
        "asyncio",
        "procrastinate",
        "psycopg.pool",
    ):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(name)
    return logger
