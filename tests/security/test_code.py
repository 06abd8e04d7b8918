"""What the code must not do, read off it: evaluate text, unpickle, use a shell, trust markup, weaken a browser."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

import scrubjay
from scrubjay.crawler import browser
from scrubjay.dashboard import rendering

SOURCE = Path(scrubjay.__file__).parent
# Who may, and why. Everything here is read by people in a review: keep it short.
ALLOWED = {
    "plans/listing.py": {"marshal.load", "marshal.loads"},  # a file without a name, which this process wrote
    "index/edge_process.py": {"pickle.loads"},  # both ends are our own processes, over a pipe that nobody else has
    "index/edge_worker.py": {"pickle.loads"},
    "extract/messages.py": {"marshal.loads"},  # as above; marshal runs no code
    "storage/database.py": {"__import__"},  # a driver's name, from a table of ours
}
# Markup of our own, in templates.
SAFE = {'"&nbsp;"|safe', "(' aria-invalid=\"true\"' if bad else '')|safe"}
FORBIDDEN_CALLS = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load", "yaml.unsafe_load", "marshal.load",
    "marshal.loads",
    "shelve.open", "joblib.load", "torch.load", "dill.loads", "jsonpickle.decode", "subprocess.getoutput",
    "tarfile.TarFile.extractall", "shutil.unpack_archive", "tempfile.mktemp",
}  # fmt: skip
FORBIDDEN_METHODS = {"extractall", "from_string"}


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield str(path.relative_to(SOURCE)), ast.parse(path.read_text())


def offences(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        keywords = {keyword.arg: keyword.value for keyword in node.keywords}
        if name in FORBIDDEN_CALLS or (isinstance(node.func, ast.Attribute) and node.func.attr in FORBIDDEN_METHODS):
            found.append(name)
        for switch, wrong in (("shell", True), ("allow_pickle", True), ("autoescape", False), ("verify", False)):
            value = keywords.get(switch)
            if isinstance(value, ast.Constant) and value.value is wrong:
                found.append(f"{name}({switch}={wrong})")
        if name == "np.load" and "allow_pickle" not in keywords:
            found.append("np.load without allow_pickle")
        if name.startswith("pickle.load"):
            found.append(name)
    return found


def test_no_text_is_ever_evaluated_unpickled_or_given_to_a_shell() -> None:
    guilty = {name: found for name, tree in modules() if (found := offences(tree))}
    assert {name: set(found) for name, found in guilty.items()} == ALLOWED


@pytest.mark.parametrize(
    "code",
    [
        "eval(text)", "pickle.loads(body)", "subprocess.run(line, shell=True)", "np.load(path)", "archive.extractall()",
        "environment.from_string(text)", "Environment(autoescape=False)", "yaml.load(text)",
    ],
)  # fmt: skip
def test_the_check_notices(code: str) -> None:
    assert offences(ast.parse(code))


def test_templates_escape_everything_and_none_is_made_of_text() -> None:
    environment = rendering.templates()
    assert environment.autoescape is True or callable(environment.autoescape)
    assert environment.undefined is jinja2.StrictUndefined
    for path in (SOURCE / "dashboard" / "templates").rglob("*.html"):
        text = path.read_text()
        for own in SAFE:
            text = text.replace(own, "")
        assert not re.search(r"\|\s*safe\b|autoescape\s+false|<script>|\son[a-z]+=", text), path.name


DANGEROUS_FLAGS = (
    "--no-sandbox", "--disable-web-security", "--allow-file-access", "--remote-debugging", "--ignore-certificate",
    "--disable-site-isolation", "--disable-setuid-sandbox", "--single-process", "--load-extension", "--user-data-dir",
)  # fmt: skip


def test_the_browser_has_no_dangerous_flag_and_those_that_close_ways_around_the_proxy() -> None:
    flags = " ".join(browser._ARGUMENTS)
    assert not [flag for flag in DANGEROUS_FLAGS if flag in flags]
    for needed in ("--proxy-bypass-list=<-loopback>", "--disable-quic", "MAP * ~NOTFOUND", "disable_non_proxied_udp"):
        assert needed in flags


def test_only_the_operator_chooses_the_browser_and_it_is_started_in_its_sandbox() -> None:
    source = Path(browser.__file__).read_text()
    assert "sandbox = os.geteuid() != 0" in source
    assert "chromium_sandbox=sandbox" in source
    assert 'not name.startswith("SCRUBJAY_")' in source
    assert os.geteuid() == 0 or "--no-sandbox" not in source


def test_nobody_can_give_a_crawl_flags_for_the_browser() -> None:
    from scrubjay.model.crawl_spec import CrawlSpec
    from scrubjay.model.plan import WebSettings

    for model in (CrawlSpec, WebSettings):
        assert not {name for name in model.model_fields if re.search(r"arg|flag|chrom|executable|script", name)}
