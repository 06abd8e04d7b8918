"""Whoever writes a service method that needs an admin also writes what it leaves in the audit log."""

import ast
from collections.abc import Iterator
from pathlib import Path

import scrubjay.services
from scrubjay.model.audit import ACTIONS

FOLDER = Path(scrubjay.services.__file__).parent
# What only looks.
READING = {"access.list_keys", "access.get_key", "audit.page", "jobs.workers"}
# What anybody who may write can do, and is noted all the same.
NOTED = {
    "access.create_sign_in_link", "access.sign_in", "access.open_session", "access.open_as_admin",
    "crawl_settings.create_config", "crawl_settings.change_config", "crawl_settings.delete_config",
    "crawl_settings.set_host", "crawl_settings.forget_host", "crawl_settings.create_proxy",
    "crawl_settings.change_proxy", "crawl_settings.delete_proxy", "plans.delete_source", "webhooks.create",
    "webhooks.change", "webhooks.delete", "webhooks.rotate", "inventory.pass_on",
}  # fmt: skip

Function = ast.AsyncFunctionDef | ast.FunctionDef


def functions(tree: ast.AST) -> dict[str, Function]:
    return {node.name: node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef)}


def calls(function: Function) -> Iterator[ast.Call]:
    return (node for node in ast.walk(function) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def needs_admin(function: Function) -> bool:
    return any(
        name_of(call) == "require" and any(ast.unparse(argument).startswith("Scope.ADMIN") for argument in call.args)
        for call in calls(function)
    )


def notes(function: Function, known: dict[str, Function], depth: int = 3) -> bool:
    """Directly, or in a function of the same file that it calls."""
    names = {name_of(call) for call in calls(function)}
    if "note_act" in names:
        return True
    own = (known[name] for name in names if name.startswith("_") and name in known)
    return depth > 0 and any(notes(each, known, depth - 1) for each in own)


def modules() -> Iterator[tuple[str, dict[str, Function]]]:
    for path in sorted(FOLDER.glob("*.py")):
        yield path.stem, functions(ast.parse(path.read_text()))


def test_every_method_that_needs_an_admin_leaves_an_entry() -> None:
    needing = {
        f"{module}.{name}": notes(function, known)
        for module, known in modules()
        for name, function in known.items()
        if needs_admin(function)
    }
    assert len(needing) >= 20
    assert {name for name, noted in needing.items() if not noted} == READING


def test_what_others_do_is_noted_too() -> None:
    noting = {
        f"{module}.{name}"
        for module, known in modules()
        for name, function in known.items()
        if not name.startswith("_") and notes(function, known)
    }
    assert noting >= NOTED


def test_every_verb_that_needs_an_admin_calls_a_method_that_does() -> None:
    for module, line in (
        (path.stem, line) for path in FOLDER.glob("*.py") for line in path.read_text().splitlines() if "Verb(" in line
    ):
        if "Scope.ADMIN" in line:
            assert (module, line.split('"')[1]) in {
                ("domains", "domains.delete"),
                ("inventory_verbs", "vector_stores.delete"),
            }, "is the method that it calls among those that need an admin?"


def test_every_action_is_described_and_every_description_is_of_one_that_happens() -> None:
    written = set()
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and name_of(node) in ("note_act", "_note"):
                written |= {arg.value for arg in node.args if isinstance(arg, ast.Constant) and "." in str(arg.value)}
    assert written == set(ACTIONS)


def test_the_check_notices_a_method_that_leaves_nothing() -> None:
    source = "async def f(self, principal):\n    require(principal, Scope.ADMIN)\n    await self._g()\n"
    known = functions(ast.parse(source + "async def _g(self):\n    pass\n"))
    assert needs_admin(known["f"])
    assert not notes(known["f"], known)
    known = functions(ast.parse(source + "async def _g(self):\n    await note_act(c, p, 'a.b')\n"))
    assert notes(known["f"], known)
