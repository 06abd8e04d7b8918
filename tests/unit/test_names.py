"""Every class of the package has a name of its own, so that searching for a name finds one definition."""

import ast
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
MIGRATIONS = SOURCE / "scrubjay" / "storage" / "migrations" / "versions"


def find_duplicate_classes(sources: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """Class name → every `path:line` that defines it, for names that are defined more than once."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path}:{node.lineno}")
    return {name: found for name, found in sorted(places.items()) if len(found) > 1}


def test_every_class_name_is_defined_once() -> None:
    sources = {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in sorted(SOURCE.rglob("*.py"))
        if MIGRATIONS not in path.parents
    }
    assert len(sources) > 100
    assert find_duplicate_classes(sources) == {}


def test_duplicate_class_names_are_found_across_files_and_nested() -> None:
    sources = {
        "one.py": "class Span: ...\nclass _Page: ...\nclass Alone: ...\n",
        "two.py": "class Outer:\n    class Span: ...\n\ndef work():\n    class _Page: ...\n",
    }
    assert find_duplicate_classes(sources) == {"Span": ["one.py:1", "two.py:2"], "_Page": ["one.py:2", "two.py:5"]}
