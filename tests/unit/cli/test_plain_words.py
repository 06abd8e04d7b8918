"""The help of commands is written in words that an engineer searches for."""

import re
from pathlib import Path

COMMANDS = Path(__file__).parents[3] / "docs" / "reference" / "commands.md"  # generated from the help; a test compares
OLD_WORDS = re.compile(r"\bso many\b|\bgo(?:es|ing)? on\b|\banew\b|\bany more\b|\b(?:who|some|no)(?:ever|body)\b", re.I)


def test_the_help_of_commands_uses_plain_words() -> None:
    lines = COMMANDS.read_text(encoding="utf-8").splitlines()
    assert len(lines) > 500
    assert [line for line in lines if OLD_WORDS.search(line)] == []
