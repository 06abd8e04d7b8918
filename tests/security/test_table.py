"""`docs/security.md` says which test guards what: each of them exists, each guard too, and no class is left out."""

import ast
import re
from functools import lru_cache
from pathlib import Path

import scrubjay

ROOT = Path(__file__).parents[2]
SOURCE = Path(scrubjay.__file__).parent
PAGE = (ROOT / "docs" / "security.md").read_text()
CLASSES = (
    "SSRF by redirect", "DNS rebinding", "webhook SSRF", "browser path without the guard",
    "stream path without the guard", "proxy settings", "LLM and embedder base_url exfiltration", "IPv6 forms",
    "parser differentials", "`file:` variants", "template and eval injection", "unpickling", "Chromium flags",
    "download traversal", "default secrets", "unauthenticated sockets", "XSS from crawled content",
    "XPath and regex denial of service", "zip and decompression bombs", "CSRF", "scope bypass by another header",
    "cross-tenant reads by raw id", "stopping another tenant's job", "credentials leaking on redirects",
    "secrets in logs, errors and exports", "every route × role × tenant", "key rotation", "audit log",
)  # fmt: skip


def rows() -> list[list[str]]:
    table = PAGE.split("## What is tested")[1].split("\n## ")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| class")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


@lru_cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_class_has_a_row() -> None:
    assert tuple(row[0] for row in rows()) == CLASSES


def test_every_test_in_the_table_exists() -> None:
    for name, _, tests in rows():
        named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", tests)
        assert named, name
        assert len(named) == tests.count("::")
        for path, test in named:
            assert test in names_in(path), f"{name}: {path}::{test}"


def test_every_guard_in_the_table_exists() -> None:
    for name, guard, _ in rows():
        for path in re.findall(r"`([a-z_0-9/]+\.py)`", guard):
            assert (SOURCE / path).is_file(), f"{name}: {path}"


def test_every_file_of_the_suite_is_named() -> None:
    suite = {path.name for path in Path(__file__).parent.glob("test_*.py")}
    assert {name for name in suite if f"tests/security/{name}" not in PAGE} == set()
