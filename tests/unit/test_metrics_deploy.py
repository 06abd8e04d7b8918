"""The dashboard and the alerts in `deploy/` ask only for what is exposed, by labels that it has."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.metrics import MetricWrapperBase

import scrubjay.telemetry.metrics as metrics_module
from scrubjay.telemetry import registry

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "deploy/grafana/scrubjay.json"
ALERTS = ROOT / "deploy/prometheus/alerts.yml"
GUIDE = ROOT / "docs/observability.md"
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_count", "_sum"),
    "info": ("_info",),
}
TARGET_LABELS = {"instance", "job"}  # Prometheus adds them to whatever it scrapes
KEYWORDS = {"by", "without", "on", "ignoring", "group_left", "group_right", "and", "or", "unless", "bool", "offset"}
_NAME = re.compile(r"[A-Za-z_:][\w:]*")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|\d[\w.]*|[A-Za-z_:][\w:]*|=~|!~|!=|==|<=|>=|\S')


def exposed() -> dict[str, set[str]]:
    """Every name that a query may ask for, and its labels."""
    names: dict[str, set[str]] = {}
    for metric in vars(metrics_module).values():
        if isinstance(metric, MetricWrapperBase):
            [family] = metric.describe()
            labels = set(metric._labelnames) | ({"version"} if family.type == "info" else set())
            for suffix in SUFFIXES[family.type]:
                names[family.name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return names


@dataclass
class Query:
    """What a PromQL expression asks for."""

    metrics: dict[str, set[str]] = field(default_factory=dict)  # name → labels that are matched
    grouped: set[str] = field(default_factory=set)  # labels of by (…) and the like

    @classmethod
    def read(cls, expression: str) -> "Query":
        query, tokens, at = cls(), _TOKEN.findall(expression), 0
        metric = ""
        while at < len(tokens):
            token, following = tokens[at], tokens[at + 1] if at + 1 < len(tokens) else ""
            if token in KEYWORDS and following == "(":
                end = tokens.index(")", at)
                query.grouped |= {label for label in tokens[at + 2 : end] if label != ","}
                at = end
            elif token == "{":
                end = tokens.index("}", at)
                inside = tokens[at + 1 : end]
                query.metrics[metric] |= {name for name, sign in pairwise(inside) if sign in ("=", "!=", "=~", "!~")}
                at = end
            elif _NAME.fullmatch(token) and token not in KEYWORDS and following not in ("(", "by", "without"):
                metric = token
                query.metrics.setdefault(metric, set())
            at += 1
        return query


def panels() -> Iterator[dict[str, Any]]:
    yield from json.loads(DASHBOARD.read_text())["panels"]


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def dashboard_queries() -> list[tuple[str, str]]:
    return [(panel["title"], target["expr"]) for panel in panels() for target in panel.get("targets", ())]


QUERIES = [*dashboard_queries(), *((rule["alert"], rule["expr"]) for rule in rules())]


@pytest.mark.parametrize(("where", "expression"), QUERIES, ids=[where for where, _ in QUERIES])
def test_a_query_asks_for_names_and_labels_that_are_exposed(where: str, expression: str) -> None:
    known, query = exposed(), Query.read(expression)
    assert query.metrics, expression
    for name, labels in query.metrics.items():
        assert name in known, f"{where}: {name}"
        assert labels <= known[name] | TARGET_LABELS, f"{where}: {name}"
    of_some = set.union(*(known[name] for name in query.metrics))
    assert query.grouped <= of_some | TARGET_LABELS, where


@pytest.mark.parametrize(
    ("expression", "wrong"),
    [
        ("sum(rate(crawler_articles_total[5m]))", "crawler_articles_total"),
        ('sum by (le) (rate(scrubjay_search_seconds_bucket{kind="x"}[5m]))', "kind"),
        ("sum by (host) (rate(crawler_extract_errors_total[5m]))", "host"),
        ("histogram_quantile(0.9, sum by (le) (rate(scrubjay_fetch_seconds[5m])))", "scrubjay_fetch_seconds"),
        ('scrubjay_jobs_running and on (nothing) absent(scrubjay_build_info{version!="1"})', "nothing"),
    ],
)
def test_this_test_notices_what_is_wrong(expression: str, wrong: str) -> None:
    with pytest.raises(AssertionError):
        test_a_query_asks_for_names_and_labels_that_are_exposed("here", expression)
    query = Query.read(expression)
    assert wrong in {*query.metrics, *query.grouped, *(label for each in query.metrics.values() for label in each)}


def test_what_is_known_here_is_what_the_exposition_declares() -> None:
    declared = set(re.findall(r"^# TYPE (\S+)", generate_latest(registry).decode(), re.MULTILINE))
    assert declared == {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed()}


def test_every_metric_of_the_specification_is_on_the_dashboard() -> None:
    shown = {name for _, expression in dashboard_queries() for name in Query.read(expression).metrics}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown}
    wanted = {re.sub(r"_(bucket|count|sum)$", "", name) for name in exposed()}
    assert {name for name in wanted if name.startswith(("crawler_", "scout_"))} <= families
    # Only what is told better elsewhere is left out.
    assert wanted - families <= {"scrubjay_build_info", "scrubjay_metrics_failures_total"}


def test_the_dashboard_can_be_imported() -> None:
    board = json.loads(DASHBOARD.read_text())
    assert (board["title"], board["uid"]) == ("Scrubjay", "scrubjay")
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids)) > 30
    taken: set[tuple[int, int]] = set()
    for panel in panels():
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            for target in panel["targets"]:
                known = set.union(*(exposed()[name] for name in Query.read(target["expr"]).metrics)) | TARGET_LABELS
                assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known


def test_alerts_are_named_once_weighed_and_said_with_labels_that_are_there() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names)) > 10
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        query = Query.read(rule["expr"])
        said = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        assert said <= query.grouped - {"le"}, rule["alert"]
        assert rule["annotations"]["summary"]


def test_the_guide_explains_every_metric_and_every_alert() -> None:
    guide = GUIDE.read_text()
    rows = {}
    tables = guide.partition("## Dashboard")[0]
    for name, labels in re.findall(r"^\| `([a-z_]+)(?:\{([a-z_,]*)\})?` \|", tables, re.MULTILINE):
        rows[name] = set(filter(None, labels.split(",")))
    known = {re.sub(r"_(count|sum)$", "_bucket", name): labels - {"le"} for name, labels in exposed().items()}
    assert rows == known
    for rule in rules():
        assert f"`{rule['alert']}`" in guide, rule["alert"]


def test_the_example_scrapes_where_the_server_answers() -> None:
    [job] = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert (job["metrics_path"], job["authorization"]["type"]) == ("/metrics", "Bearer")
    assert job["static_configs"][0]["targets"] == ["scrubjay:8642"]
