"""What lies around the code agrees with the code: metrics, settings, containers, documents."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
import yaml

from livesvm.service.cli.main import main
from livesvm.service.monitoring.metrics import Metrics, ModelSample
from livesvm.service.resources.memory import Budget
from livesvm.service.settings import table
from tests.documents import DOCUMENTS, ROOT, read

NAME = re.compile(r"\blivesvm_[a-z0-9_]+")


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("docker/compose.yaml"))
    return loaded


def metric_names() -> set[str]:
    """Every name that a query can ask the service's metrics for."""
    metrics = Metrics()
    metrics.watch(lambda: [ModelSample("river", updated_at=0.0)], 1)
    metrics.watch_jobs(lambda: {"done": 1})
    metrics.watch_solves(lambda: {"running": 1})
    metrics.watch_memory(Budget())
    names = set()
    for family in metrics.registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + ending for ending in endings}
    return names


def dashboard_queries() -> list[str]:
    dashboard = json.loads(read("deploy/grafana/dashboards/livesvm.json"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
    variables = [variable["definition"] for variable in dashboard["templating"]["list"] if "definition" in variable]
    return queries + variables


def alert_queries() -> list[str]:
    rules = yaml.safe_load(read("deploy/prometheus/alerts.yml"))
    return [rule["expr"] for group in rules["groups"] for rule in group["rules"]]


def test_dashboard_asks_for_metrics_that_exist() -> None:
    asked = set(NAME.findall("\n".join(dashboard_queries())))
    assert len(asked) > 15
    assert asked <= metric_names()


def test_alerts_ask_for_metrics_that_exist() -> None:
    asked = set(NAME.findall("\n".join(alert_queries())))
    assert len(asked) > 5
    assert asked <= metric_names()


def test_containers_publish_on_loopback_alone_and_say_whether_they_are_well() -> None:
    image_checks_itself = "HEALTHCHECK" in read("docker/Dockerfile")
    for name, service in compose()["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert "healthcheck" in service or (name == "livesvm" and image_checks_itself), name


def test_containers_set_only_settings_that_exist() -> None:
    known = {variable for variable, _default, _meaning in table()}
    image = set(re.findall(r"\bLIVESVM_[A-Z_]+", read("docker/Dockerfile")))
    assert image | set(compose()["services"]["livesvm"]["environment"]) <= known


def test_mounted_files_exist() -> None:
    for service in compose()["services"].values():
        sources = [volume.split(":")[0] for volume in service["volumes"]]
        assert all((ROOT / "docker" / source).is_dir() for source in sources if source.startswith("."))
    for rules in yaml.safe_load(read("deploy/prometheus/prometheus.yml"))["rule_files"]:
        assert (ROOT / "deploy/prometheus" / rules).is_file()


def test_the_table_of_settings_is_as_the_service_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--markdown"]) == 0
    assert capsys.readouterr().out in read("service/README.md")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_what_exists(document: str) -> None:
    text = read(document)
    settings = {variable for variable, _default, _meaning in table()} | {"LIVESVM_URL", "LIVESVM_KEY"}
    groups = yaml.safe_load(read("deploy/prometheus/alerts.yml"))["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    assert set(re.findall(r"\bLIVESVM_[A-Z_]+", text)) <= settings
    assert set(NAME.findall(text)) <= metric_names()
    assert set(re.findall(r"`(LiveSVM[A-Z]\w+)`", text)) <= alerts


@pytest.mark.parametrize("package", ["solvers", "service"])
def test_the_map_names_every_module(package: str) -> None:
    section = read("CONTRIBUTING.md").split(f"### `{package}/`")[1].split("### ")[0]
    for path in (ROOT / package).rglob("*.py"):
        room = path.relative_to(ROOT / package).parent.as_posix()
        row = section if room == "." else next(row for row in section.splitlines() if row.startswith(f"| `{room}/`"))
        assert path.name == "__init__.py" or f"`{path.name}`" in row, path


def test_changelog_knows_this_version() -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    changelog = read("CHANGELOG.md")
    newest = re.findall(r"^## \[(.*)\]", changelog, re.MULTILINE)[0]
    assert newest in (version, "Unreleased")
