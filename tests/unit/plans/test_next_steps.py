"""What a report advises: for every reason that the code can give, in options that exist."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click import unstyle
from typer.testing import CliRunner

import scrubjay
from scrubjay.cli.app import make_app
from scrubjay.crawler.fetcher import _FAILURES
from scrubjay.crawler.robots import RobotsReason
from scrubjay.dashboard.error_words import ERROR_WORDS
from scrubjay.model.extraction import TEXT_LIMITS
from scrubjay.model.plan import Change, OperationItem, WorkState
from scrubjay.plans.report import (
    _CUT,
    _DENIED,
    _NEXT_STEPS,
    _NEXT_STEPS_BY_STATUS,
    _SKIPPED,
    DEFAULT_NEXT_STEP,
    ItemOutcome,
    ReportItem,
    next_step,
)
from scrubjay.settings import Settings
from scrubjay.telemetry.crawls import ERROR_TYPES

ROOMS = ("crawler", "documents", "extract", "plans", "sources")
TABLES = ("_ERROR_TYPES", "_VERDICT_ERRORS")  # values are reasons
# Reasons that are written without a name beside them.
UNNAMED = {"missing", "ingest", "source_unreadable", "extraction_unavailable", "unreadable"}
STEPS = [*_NEXT_STEPS.values(), *_NEXT_STEPS_BY_STATUS.values(), DEFAULT_NEXT_STEP]


def _texts(node: ast.AST | None) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from (*_texts(node.body), *_texts(node.orelse))


def _reasons_in(tree: ast.AST) -> Iterator[str]:
    """Each text that is given as `error_type`, by name or by assignment, and the values of the tables of reasons."""
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg == "error_type":
            yield from _texts(node.value)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    said = getattr(name, "attr", getattr(name, "id", ""))
                    if said == "error_type":
                        yield from _texts(value)
                    elif said in TABLES and isinstance(value, ast.Dict):
                        for each in value.values:
                            yield from _texts(each)


def reasons() -> set[str]:
    """Every reason that an item of a report can have, except `http_404` and the like."""
    root = Path(scrubjay.__file__).parent
    files = [root / "errors.py", *(file for room in ROOMS for file in (root / room).rglob("*.py"))]
    found = {reason for file in files for reason in _reasons_in(ast.parse(file.read_text(encoding="utf-8")))}
    robots = {str(reason) for reason in (RobotsReason.DISALLOWED, RobotsReason.UNREACHABLE)}
    judged = {reason for reason in _DENIED | _SKIPPED | _CUT if not reason.startswith("http_")}
    fetching = {reason for _, reason, _ in _FAILURES}
    return (found | fetching | robots | judged | ERROR_TYPES | TEXT_LIMITS | UNNAMED) - {"other"}


def test_the_reasons_are_collected_from_where_the_code_gives_them() -> None:
    assert {"bad_redirect", "noindex", "internal", "login_wall", "locked", "not_a_folder", "proxy"} <= reasons()


@pytest.mark.parametrize("reason", sorted(reasons()))
def test_every_reason_has_a_next_step_of_its_own(reason: str) -> None:
    assert next_step(reason) != DEFAULT_NEXT_STEP


@pytest.mark.parametrize("reason", sorted(reasons()))
def test_every_reason_has_words_on_the_dashboard(reason: str) -> None:
    assert reason in ERROR_WORDS


def test_every_option_in_a_next_step_exists() -> None:
    offered: set[str] = set()
    for command in (["crawl"], ["plan", "add"]):
        shown = CliRunner().invoke(make_app(), [*command, "--help"], env={"COLUMNS": "200", "TERMINAL_WIDTH": "200"})
        assert shown.exit_code == 0, shown.output
        offered |= set(re.findall(r"--[a-z][a-z-]+", unstyle(shown.output)))
    named = {option for step in STEPS for option in re.findall(r"--[a-z][a-z-]*", step)}
    assert "--extract" in named
    assert named - offered == set()


def test_every_setting_in_a_next_step_exists() -> None:
    named = {name for step in STEPS for name in re.findall(r"SCRUBJAY_([A-Z_]+)", step)}
    assert {name.lower() for name in named} - set(Settings.model_fields) == set()


@pytest.mark.parametrize(("state", "has_step"), [(WorkState.DONE, False), (WorkState.SKIPPED, True)])
def test_only_a_deletion_that_waits_needs_a_next_step(state: WorkState, has_step: bool) -> None:
    item = OperationItem(
        operation_id="run", key_hash="k", tenant_id="t", key="/gone", change=Change.DELETED, state=state,
        reason="missing", error="The source no longer has it.",
    )  # fmt: skip
    line = ReportItem.of(item)
    assert line is not None
    assert line.outcome is (ItemOutcome.SKIPPED if has_step else ItemOutcome.REMOVED)
    assert (line.next_step is not None) is has_step
