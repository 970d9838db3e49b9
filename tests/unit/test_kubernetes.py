"""The manifests for Kubernetes: core objects by its own schemas, what KubeRay is told by what it needs.

The schema of a RayCluster is not at hand; its pod templates are pods, and are judged as such.
"""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
import yaml

from livesvm.service.ray.local import SETTINGS
from livesvm.service.settings import table
from tests.documents import ROOT, read

VERSION = "1.30"


def documents() -> list[dict[str, Any]]:
    paths = sorted((ROOT / "deploy/kubernetes").glob("*.yaml"))
    found = [document for path in paths for document in yaml.safe_load_all(path.read_text())]
    return [document for document in found if document["kind"] != "Kustomization"]


def cluster() -> dict[str, Any]:
    (found,) = (document for document in documents() if document["kind"] == "RayCluster")
    spec: dict[str, Any] = found["spec"]
    return spec


def groups() -> dict[str, dict[str, Any]]:
    return {"head": cluster()["headGroupSpec"]} | {group["groupName"]: group for group in cluster()["workerGroupSpecs"]}


def containers() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (name, container["name"]): container
        for name, group in groups().items()
        for container in group["template"]["spec"]["containers"]
    }


def test_core_objects_and_pods_follow_their_schemas() -> None:
    core = [document for document in documents() if document["kind"] != "RayCluster"]
    pods = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name} | group["template"]["metadata"]}
        | {"spec": group["template"]["spec"]}
        for name, group in groups().items()
    ]
    assert (len(core), len(pods)) == (5, 3)
    for document in core + pods:
        kubernetes_validate.validate(document, VERSION, strict=True)
    broken = pods[0] | {"spec": {"containers": [{"nome": "x"}]}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSION, strict=True)


def test_kustomize_takes_every_file() -> None:
    named = yaml.safe_load(read("deploy/kubernetes/kustomization.yaml"))["resources"]
    there = {path.name for path in (ROOT / "deploy/kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(named) == there


def test_models_live_on_their_own_nodes_alone() -> None:
    cpus = {name: group["rayStartParams"].get("num-cpus") for name, group in groups().items()}
    assert cpus == {"head": "0", "front": "0", "models": None}
    assert all(isinstance(value, str) for group in groups().values() for value in group["rayStartParams"].values())
    for group in cluster()["workerGroupSpecs"]:
        assert group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]
        assert group["replicas"] >= 2


def test_every_container_is_bounded_and_has_no_rights() -> None:
    for name, container in containers().items():
        assert {"requests", "limits"} <= container["resources"].keys(), name
        security = container["securityContext"]
        assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False), name
        assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {"/tmp", "/dev/shm"}, name
    assert all(group["template"]["spec"]["securityContext"]["runAsNonRoot"] for group in groups().values())


def test_ray_runs_as_it_was_tried_here() -> None:
    for (group, name), container in containers().items():
        if name.startswith("ray"):
            given = {entry["name"]: entry["value"] for entry in container["env"]}
            same = {key: value for key, value in SETTINGS.items() if "initial_delay" not in key}
            assert same.items() <= given.items(), group


def test_front_ends_are_probed_and_get_secrets_by_reference() -> None:
    front = containers()["front", "front"]
    paths = {kind: front[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {"startup": "/health/live", "liveness": "/health/live", "readiness": "/health/ready"}
    known = {variable for variable, _default, _meaning in table()}
    given = {entry["name"]: entry for entry in front["env"]}
    assert given.keys() <= known
    assert all("secretKeyRef" in given[name]["valueFrom"] for name in ("LIVESVM_REDIS_URL", "LIVESVM_API_KEYS"))
    hosts = {probe["value"] for kind in paths for probe in front[f"{kind}Probe"]["httpGet"]["httpHeaders"]}
    assert hosts == {given["LIVESVM_ALLOWED_HOSTS"]["value"]}


def test_selectors_find_the_pods_that_they_mean() -> None:
    labels = {name: group["template"]["metadata"]["labels"] for name, group in groups().items()}
    wanted = {
        ("Service", "livesvm"): {"front"},
        ("PodDisruptionBudget", "livesvm-front"): {"front"},
        ("PodDisruptionBudget", "livesvm-models"): {"models"},
        ("NetworkPolicy", "livesvm"): {"head", "models", "front"},
        ("NetworkPolicy", "livesvm-front"): {"front"},
    }
    found = {}
    for document in documents():
        spec = document["spec"]
        selector = spec.get("podSelector") or spec.get("selector")
        if selector is not None:
            chosen = selector.get("matchLabels", selector)
            mine = {name for name, label in labels.items() if chosen.items() <= label.items()}
            found[document["kind"], document["metadata"]["name"]] = mine
    assert found == wanted
