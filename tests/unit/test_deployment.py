"""What lies around the code agrees with the code: metrics, settings, containers, documents."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from docker import make_keys
from docs.generate.source_map import first_line
from docs.generate.tables import TABLES, all_metrics
from livesvm.service.access.keys import Keys
from livesvm.service.cli.main import main
from livesvm.service.resources.environment import GONE, OTHERS
from livesvm.service.settings import table
from tests.documents import DOCUMENTS, ROOT, read

NAME = re.compile(r"\blivesvm_[a-z0-9_]+")


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(read("docker/compose.yaml"))
    return loaded


def metric_names() -> set[str]:
    """Return every name that a query can ask the service's metrics for."""
    names = set()
    for family in all_metrics().registry.collect():
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}.get(family.type, ("",))
        names |= {family.name + ending for ending in endings}
    return names


def dashboard_queries() -> list[str]:
    dashboards = [json.loads(read(f"deploy/grafana/dashboards/{name}.json")) for name in ("livesvm", "feeds")]
    panels = [panel for dashboard in dashboards for panel in dashboard["panels"]]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    variables = [variable for dashboard in dashboards for variable in dashboard["templating"]["list"]]
    return queries + [variable["definition"] for variable in variables if "definition" in variable]


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load(read("deploy/prometheus/alerts.yml"))
    return [rule for group in rules["groups"] for rule in group["rules"]]


def test_dashboard_asks_for_metrics_that_exist() -> None:
    asked = set(NAME.findall("\n".join(dashboard_queries())))
    assert len(asked) > 15
    assert asked <= metric_names()


def test_every_alert_asks_for_metrics_that_exist_and_not_of_the_first_models_alone() -> None:
    limited = tuple(f"livesvm_{word}_" for word in ("model", "feed"))
    of_all = ("livesvm_feed_calls_total", "livesvm_feed_events_total")
    for rule in alerts():
        asked = set(NAME.findall(f"{rule['expr']} {rule['annotations']}"))
        assert asked or "up{" in rule["expr"], rule["alert"]
        assert asked <= metric_names(), rule["alert"]
        assert not [name for name in asked if name.startswith(limited) and name not in of_all], rule["alert"]


def test_every_alert_has_a_test_in_which_it_fires() -> None:
    tests = yaml.safe_load(read("deploy/prometheus/alerts.test.yml"))["tests"]
    samples = [sample for test in tests for asked in test["promql_expr_test"] for sample in asked["exp_samples"]]
    fired = {name for sample in samples for name in re.findall(r'alertname="(\w+)"', sample["labels"])}
    assert fired == {rule["alert"] for rule in alerts()}


def test_containers_publish_on_loopback_alone_and_say_whether_they_are_well() -> None:
    image_checks_itself = "HEALTHCHECK" in read("docker/Dockerfile")
    for name, service in compose()["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"]), name
        assert "healthcheck" in service or (name == "livesvm" and image_checks_itself), name


def test_images_have_tags_and_the_base_a_digest() -> None:
    images = {name: service["image"] for name, service in compose()["services"].items()}
    assert images["livesvm"] == f"livesvm:{project()['version']}"
    assert all(re.search(r":v?\d+\.\d+", image) for image in images.values())
    assert re.search(
        r"^ARG PYTHON=python:3\.\d+-slim-\w+@sha256:[0-9a-f]{64}$", read("docker/Dockerfile"), re.MULTILINE
    )


def test_containers_set_only_settings_that_exist() -> None:
    known = {variable for variable, _default, _meaning in table()}
    image = set(re.findall(r"\bLIVESVM_[A-Z_]+", read("docker/Dockerfile"))) - set(OTHERS)
    assert image | set(compose()["services"]["livesvm"]["environment"]) <= known


def test_the_keys_that_are_made_are_those_that_containers_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    service = compose()["services"]["livesvm"]
    (mount,) = (volume for volume in service["volumes"] if isinstance(volume, dict))
    kept = make_keys.KEYS.relative_to(make_keys.HERE)
    assert (make_keys.HERE / mount["source"] / kept.name).resolve() == make_keys.KEYS
    assert service["environment"]["LIVESVM_API_KEYS_FILE"] == f"{mount['target']}/{kept.name}"
    monkeypatch.setattr(make_keys, "SECRETS", tmp_path / "secrets")
    monkeypatch.setattr(make_keys, "KEYS", tmp_path / kept)
    monkeypatch.setattr(make_keys, "ENVIRONMENT", tmp_path / ".env")
    make_keys.main()
    made = Keys("", str(tmp_path / kept))
    assert [(key.label, key.scope) for key in made.known] == [("admin", "admin"), ("prometheus", "read")]
    assert made.find((tmp_path / "secrets/admin").read_text()) == made.known[0]
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    (tmp_path / kept).unlink()
    entries = ",".join(f"{key.label}:{key.scope}:{key.digest}" for key in made.known)
    (tmp_path / ".env").write_text(f"LIVESVM_API_KEYS={entries}\n")  # of an earlier version
    make_keys.main()
    assert Keys("", str(tmp_path / kept)).known == made.known
    assert "lsk_" not in capsys.readouterr().out


def test_mounted_files_exist() -> None:
    for service in compose()["services"].values():
        sources = [volume.split(":")[0] for volume in service["volumes"] if isinstance(volume, str)]
        assert all((ROOT / "docker" / source).is_dir() for source in sources if source.startswith("."))
    for rules in yaml.safe_load(read("deploy/prometheus/prometheus.yml"))["rule_files"]:
        assert (ROOT / "deploy/prometheus" / rules).is_file()


def test_the_table_of_settings_is_as_the_service_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--markdown"]) == 0
    assert capsys.readouterr().out.strip() == TABLES["settings"]()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_name_what_exists(document: str) -> None:
    text = read(document)
    settings = {variable for variable, _default, _meaning in table()} | {*OTHERS, *GONE}
    assert set(re.findall(r"\bLIVESVM_[A-Z_]+", text)) <= settings
    assert set(NAME.findall(text)) <= metric_names()
    assert set(re.findall(r"`(LiveSVM[A-Z]\w+)`", text)) <= {rule["alert"] for rule in alerts()}


@pytest.mark.parametrize("package", ["solvers", "service", "docs"])
def test_every_module_has_a_line_in_the_map(package: str) -> None:
    silent = [path for path in (ROOT / package).rglob("*.py") if path.name != "__init__.py" and not first_line(path)]
    assert silent == []


def faults_of(changelog: str, version: str) -> list[str]:
    """Return what is wrong with a changelog for the package's version."""
    heads = re.findall(r"^## \[(.*?)\](?: - (\d{4}-\d\d-\d\d))?$", changelog, re.MULTILINE)
    released = [(name, date) for name, date in heads if name != "Unreleased"]
    numbers = [tuple(map(int, name.split("."))) for name, _ in released]
    named = set(re.findall(r"^### (.*)$", changelog, re.MULTILINE))
    releases = [release.splitlines() for release in changelog.split("\n## ")[1:]]
    faults = {
        "not everything under `## ` is a version": len(heads) != len(re.findall(r"^## ", changelog, re.MULTILINE)),
        "what is not released is not first": "Unreleased" in [name for name, _ in heads[1:]],
        "a release has no date": not all(date for _, date in released),
        "releases are not newest first, each once": numbers != sorted(set(numbers), reverse=True),
        "the newest release is not this version": bool(released) and released[0][0] != version,
        "the first release is not told of": not released and not changelog.partition("## [Unreleased]")[2].strip(),
        "a section has no name of Keep a Changelog": not named <= SECTIONS,
        "a release has more than 60 lines": any(len(lines) > LONGEST_RELEASE for lines in releases),
        "a section stands twice in one release": any(
            len(sections_of(lines)) != len(set(sections_of(lines))) for lines in releases
        ),
        "an entry is more than one line": any(
            line and not line.startswith(("- ", "### ")) for lines in releases for line in lines[1:]
        ),
    }
    return [fault for fault, is_there in faults.items() if is_there]


LONGEST_RELEASE = 60


def sections_of(release: list[str]) -> list[str]:
    """Return the headings of the sections of one release."""
    return [line for line in release if line.startswith("### ")]


SECTIONS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
GOOD = "## [Unreleased]\n\n### Added\n\n- x\n\n## [0.2.0] - 2026-02-03\n\n### Fixed\n\n- y\n\n## [0.1.0] - 2026-01-02\n"


def project() -> dict[str, Any]:
    """Return what the package says of itself."""
    found: dict[str, Any] = tomllib.loads(read("pyproject.toml"))["project"]
    return found


def test_changelog_knows_this_version() -> None:
    assert faults_of(read("CHANGELOG.md"), project()["version"]) == []


def test_the_citation_is_of_this_version_and_names_the_five_papers() -> None:
    citation = yaml.safe_load(read("CITATION.cff"))
    (released,) = re.findall(rf"^## \[{citation['version']}\] - (\S+)$", read("CHANGELOG.md"), re.MULTILINE)
    assert (citation["version"], str(citation["date-released"])) == (project()["version"], released)
    first = [paper["authors"][0]["family-names"] for paper in citation["references"]]
    assert first == ["Karasuyama", "Ong", "Suzumura", "Sansone", "Frandi"]


def test_licences_of_all_that_is_installed_are_among_the_licence_files() -> None:
    vendored = {path.relative_to(ROOT).as_posix() for path in (ROOT / "service").rglob("*.LICENSE")}
    assert vendored
    assert set(project()["license-files"]) == {"LICENSE", *vendored}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[0.2.0]", "[0.3.0]"),
        ("[0.1.0]", "[0.2.0]"),
        (" - 2026-01-02", ""),
        ("### Fixed", "### Mended"),
        ("[0.2.0] - 2026-02-03", "[Unreleased]"),
        ("## [0.1.0] - 2026-01-02", "## 0.1.0"),
        ("- y\n", "- y\n  that goes on\n"),
        ("- y\n", "- y\n\n### Fixed\n\n- z\n"),
        ("- y\n", "- y\n" * 60),
    ],
)
def test_a_changelog_that_does_not_is_seen(before: str, after: str) -> None:
    assert faults_of(GOOD, "0.2.0") == []
    assert faults_of(GOOD.replace(before, after), "0.2.0") != []


def test_redis_is_reached_by_the_service_alone() -> None:
    """The networks of two containers that can reach each other have one in common."""
    services = compose()["services"]
    beside = {
        name for name, service in services.items() if set(service["networks"]) & set(services["redis"]["networks"])
    }
    assert beside == {"redis", "livesvm"}
    assert all(compose()["networks"][network]["internal"] for network in services["redis"]["networks"])
    assert all(service["networks"] for service in services.values())


def test_every_container_has_limits() -> None:
    for name, service in compose()["services"].items():
        assert {"mem_limit", "cpus", "pids_limit"} <= service.keys(), name


def test_redis_refuses_long_before_it_is_killed_for_memory() -> None:
    """What is left of its limit is for what a rewriting of the append-only file copies, as the documents say."""
    in_compose = compose()["services"]["redis"]
    in_kubernetes, *_ = yaml.safe_load_all(read("deploy/kubernetes/redis/redis.yaml"))
    (container,) = in_kubernetes["spec"]["template"]["spec"]["containers"]
    for arguments, limit in (
        (in_compose["command"], in_compose["mem_limit"]),
        (container["args"], container["resources"]["limits"]["memory"]),
    ):
        given = dict(pairwise(arguments))
        assert (given["--maxmemory"], given["--maxmemory-policy"]) == ("768mb", "noeviction")
        assert limit in ("2g", "2Gi")


def test_the_health_check_of_redis_notices_errors(tmp_path: Path) -> None:
    """As it is in a container: a server that is there and well, one that answers with errors, none."""
    kind, *command = compose()["services"]["redis"]["healthcheck"]["test"]
    assert kind == "CMD-SHELL"
    for answer, status in (("PONG", 0), ("MISCONF Errors writing to the AOF file", 1), ("LOADING", 1), ("", 1)):
        client = tmp_path / "redis-cli"
        client.write_text(f"#!/bin/sh\necho '{answer}'\n")
        client.chmod(0o755)
        environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
        done = subprocess.run(["/bin/sh", "-c", *command], env=environment, capture_output=True, check=False)
        assert min(done.returncode, 1) == status, answer
