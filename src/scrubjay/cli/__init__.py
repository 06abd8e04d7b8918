"""The command line: one file per command. `scrubjay --help` lists them."""

import sys

from scrubjay.errors import ScrubjayError


def main() -> None:
    """Run the command; what went wrong is one sentence on standard error and an exit code other than 0."""
    from scrubjay.cli.app import app

    try:
        app()
    except ScrubjayError as error:
        print(f"scrubjay: {error.message}", file=sys.stderr)  # noqa: T201 - this is the command line
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
