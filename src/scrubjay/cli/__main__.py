"""`python -m scrubjay.cli` is `scrubjay`."""

from scrubjay.cli import main

main()
