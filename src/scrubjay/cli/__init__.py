"""The command line: one file per command. `scrubjay --help` lists them."""

import gc
import os
import sys
from typing import NoReturn

from scrubjay.errors import InvalidRequest, ScrubjayError
from scrubjay.telemetry import redact


def main() -> NoReturn:
    """Run the command and end the process."""
    code: object = 0
    try:
        _run()
    except SystemExit as ending:
        code = ending.code
    _leave(code)


def _leave(code: object) -> NoReturn:
    """At once: whatever was open has been closed, and to free every single object first takes a tenth of a second.

    Who asks for warnings wants to hear of what was not closed, though.
    """
    if sys.warnoptions:
        raise SystemExit(code)
    if code is not None and not isinstance(code, int):
        print(code, file=sys.stderr)  # noqa: T201 - as `sys.exit` does it
        code = 1
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or 0  # whoever read it has seen enough
    except OSError as error:
        print(f"scrubjay: The output could not be written: {error}", file=sys.stderr)  # noqa: T201 - as `_fail`
        code = code or 1
    sys.stderr.flush()
    os._exit(code or 0)


def _run() -> None:
    """What goes wrong is one sentence on standard error and an exit code other than 0."""
    # What is imported stays: to look for garbage among it again and again takes a sixth of the time to start.
    gc.set_threshold(50_000, 20, 20)
    from scrubjay.cli.app import find_names, make_app

    try:
        _require_text(sys.argv)
        make_app(find_names(sys.argv[1:]))()
    except ScrubjayError as error:
        _fail(error.message)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:  # noqa: BLE001 - the last net: a traceback says nothing to whoever typed the command
        reason = redact(" ".join(f"{type(error).__name__}: {error}".split()))
        _fail(f"Something went wrong that should not ({reason[:300]}); please report it.")


def _require_text(arguments: list[str]) -> None:
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        raise InvalidRequest("The arguments must be UTF-8 text.") from None


def _fail(message: str) -> NoReturn:
    # A message may quote what a server said.
    shown = "".join(character if character.isprintable() else " " for character in message)
    print(f"scrubjay: {shown}", file=sys.stderr)  # noqa: T201 - this is the command line
    sys.exit(1)
