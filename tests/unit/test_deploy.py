"""What deploy/ says is true: settings, commands and paths exist, nothing is root, no secret has a default."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.routing import iter_route_contexts
from typer.main import get_command

from scrubjay.api.app import create_app
from scrubjay.cli.app import make_app
from scrubjay.settings import Settings

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = ["Dockerfile", "compose.yml", "example.env", "kubernetes/scrubjay.yaml"]


def compose() -> dict[str, Any]:
    return dict(yaml.safe_load((DEPLOY / "compose.yml").read_text()))


def manifests(kind: str) -> list[dict[str, Any]]:
    found = yaml.safe_load_all((DEPLOY / "kubernetes" / "scrubjay.yaml").read_text())
    return [each for each in found if each["kind"] == kind]


def pods() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for kind in ("Deployment", "Job") for each in manifests(kind)]


@pytest.mark.parametrize("name", FILES)
def test_every_setting_that_is_named_exists(name: str) -> None:
    named = set(re.findall(r"\bSCRUBJAY_([A-Z0-9_]+)", (DEPLOY / name).read_text()))
    assert named
    assert {each.lower() for each in named} <= set(Settings.model_fields)


def test_every_command_that_is_run_exists() -> None:
    known = get_command(make_app()).commands  # type: ignore[attr-defined]
    own = [each["command"] for each in compose()["services"].values() if each.get("image") == "scrubjay"]
    own += [pod["containers"][0]["args"] for pod in pods()]
    assert len(own) == 6
    for command, *options in own:
        assert command in known
        taken = {
            option for parameter in known[command].params for option in (*parameter.opts, *parameter.secondary_opts)
        }
        assert set(options) <= taken


def test_every_probe_asks_for_a_path_that_is_there(tmp_path: Path) -> None:
    paths = {route.path for route in iter_route_contexts(create_app(Settings(home=tmp_path)).routes)}
    text = "".join((DEPLOY / name).read_text() for name in FILES)
    asked = set(re.findall(r"/api/v1/[a-z/]+", text))
    assert asked == {"/api/v1/health", "/api/v1/health/ready"}
    assert asked <= paths


def test_no_container_is_root_or_can_write_to_its_root() -> None:
    assert re.search(r"^USER 10001:10001$", (DEPLOY / "Dockerfile").read_text(), re.M)
    for service in compose()["services"].values():
        if service["image"] in ("scrubjay", "nginxinc/nginx-unprivileged:1.27-alpine"):
            assert service["read_only"] is True
            assert service["cap_drop"] == ["ALL"]
    for pod in pods():
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["allowPrivilegeEscalation"] is False
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]


def test_no_secret_has_a_default() -> None:
    text = (DEPLOY / "compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "REDIS_PASSWORD", "SCRUBJAY_SECRET_KEY"):
        assert re.search(rf"\$\{{{name}:\?", text)
        assert not re.search(rf"\$\{{{name}:?-", text)
        assert re.search(rf"^{name}=$", (DEPLOY / "example.env").read_text(), re.M)
    assert manifests("Secret") == []


def test_only_the_proxy_can_be_reached_and_only_from_this_machine() -> None:
    published = {name: each["ports"] for name, each in compose()["services"].items() if "ports" in each}
    assert published == {"nginx": ["127.0.0.1:8642:8080"]}
