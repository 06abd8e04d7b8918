"""`scrubjay version`."""

from scrubjay import __version__
from scrubjay.cli.context import console


def show_version() -> None:
    """Print the version."""
    console.print(f"scrubjay {__version__}", highlight=False)
