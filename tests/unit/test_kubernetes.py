"""The manifests for Kubernetes: each object by its schema, and what the schemas cannot say of them together.

Core objects and pods are judged by Kubernetes' own schemas, those of operators by the schemas of these.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import kubernetes_validate
import pytest
import yaml

from livesvm.service.access.hosts import parse_hosts
from livesvm.service.lifecycle.parts import LEAST_BASE
from livesvm.service.ray.local import SETTINGS
from livesvm.service.resources.memory import model_bytes
from livesvm.service.settings import Settings, table
from tests.documents import ROOT, blocks, read

VERSION = "1.30"
PLACE = ROOT / "deploy/kubernetes"
DEPLOYMENTS = ("plain", "standby", "ray")
SCHEMAS = ROOT / "tests/support/crds"

Object = dict[str, Any]


def applied(name: str) -> list[Object]:
    """Return what `kubectl apply --kustomize` of a directory makes."""
    return list(_applied(PLACE / name))


def _applied(directory: Path) -> Iterator[Object]:
    kustomization = yaml.safe_load((directory / "kustomization.yaml").read_text())
    assert kustomization.keys() == {"apiVersion", "kind", "resources"}  # no more is understood here
    files = {path.name for path in directory.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {resource for resource in kustomization["resources"] if resource.endswith(".yaml")}
    for resource in kustomization["resources"]:
        if resource.endswith(".yaml"):
            yield from yaml.safe_load_all((directory / resource).read_text())
        else:
            yield from _applied(directory / resource)


def named(objects: list[Object]) -> dict[tuple[str, str], Object]:
    found = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(found) == len(objects)
    return found


def pods(objects: list[Object]) -> dict[str, Object]:
    """Return the templates of pods, by the name of what makes them; of a Ray cluster, by its groups."""
    found = {}
    for one in objects:
        if one["kind"] in ("Deployment", "StatefulSet"):
            found[one["metadata"]["name"]] = one["spec"]["template"]
        elif one["kind"] == "RayCluster":
            groups = [("head", one["spec"]["headGroupSpec"])]
            groups += [(group["groupName"], group) for group in one["spec"]["workerGroupSpecs"]]
            found |= {name: group["template"] for name, group in groups}
    return found


def containers(name: str) -> dict[tuple[str, str], Object]:
    return {
        (pod, container["name"]): container
        for pod, template in pods(applied(name)).items()
        for container in template["spec"]["containers"]
    }


def groups() -> dict[str, Object]:
    spec = named(applied("ray"))["RayCluster", "livesvm"]["spec"]
    return {"head": spec["headGroupSpec"]} | {group["groupName"]: group for group in spec["workerGroupSpecs"]}


def faults(one: Object) -> list[str]:
    """Return what a schema says against an object."""
    schema = SCHEMAS / f"{one['kind'].lower()}.json"
    if schema.exists():
        found = jsonschema.Draft7Validator(json.loads(schema.read_text())).iter_errors(one)
        return [f"{error.json_path}: {error.message}" for error in found]
    try:
        kubernetes_validate.validate(one, VERSION, strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


@pytest.mark.parametrize("name", [*DEPLOYMENTS, "monitoring"])
def test_all_objects_follow_their_schemas(name: str) -> None:
    objects = applied(name)
    for pod, template in pods(objects).items():
        metadata = {"name": pod} | template["metadata"]
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    for one in objects:
        assert faults(one) == [], one["metadata"]["name"]


def test_every_directory_is_one_that_is_applied() -> None:
    there = {path.name for path in PLACE.iterdir()}
    assert there == {*DEPLOYMENTS, "monitoring", "redis"}
    assert named(applied("redis")).keys() <= named(applied("standby")).keys() & named(applied("ray")).keys()


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("plain", "Deployment", "spec.template.spec.containers.0.nome"),
        ("plain", "Deployment", "spec.template.spec.containers.0.readinessProbe.httpGet.paht"),
        ("ray", "RayCluster", "spec.gcsFaultToleranceOptions.redisAdress"),
        ("ray", "RayCluster", "spec.headGroupSpec.rayStartParam"),
        ("ray", "RayCluster", "spec.workerGroupSpecs.0.replicas"),
        ("monitoring", "ServiceMonitor", "spec.endpoints.0.prot"),
        ("monitoring", "PrometheusRule", "spec.groups.0.rules.0.expression"),
    ],
)
def test_what_is_misspelt_is_seen(name: str, kind: str, path: str) -> None:
    one = next(one for one in applied(name) if one["kind"] == kind)
    assert faults(one) == []
    *way, last = path.split(".")
    place: Any = one
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = "x"
    assert faults(one) != []


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_pods_have_no_rights_and_every_container_is_bounded(name: str) -> None:
    objects = pods(applied(name))
    assert objects
    for pod, template in objects.items():
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"], pod
        assert (spec["automountServiceAccountToken"], spec["enableServiceLinks"]) == (False, False), pod
    for where, container in containers(name).items():
        assert {"requests", "limits"} <= container["resources"].keys(), where
        security = container["securityContext"]
        assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False), where
        assert {mount["mountPath"] for mount in container["volumeMounts"]} & {"/tmp", "/data"}, where


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_every_container_says_itself_how_it_is(name: str) -> None:
    """The operator would have Ray's ask an agent that is not part of it, and so never be ready."""
    for where, container in containers(name).items():
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), where


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_service_is_probed_and_gets_secrets_by_reference(name: str) -> None:
    known = {variable for variable, _default, _meaning in table()}
    served = {
        where: one for where, one in containers(name).items() if any(p["name"] == "http" for p in one.get("ports", []))
    }
    assert len(served) == 1
    for container in served.values():
        probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        paths = {kind: probe["path"].partition("?")[0] for kind, probe in probes.items()}
        assert paths == {"startup": "/health/live", "liveness": "/health/live", "readiness": "/health/serving"}
        given = {entry["name"]: entry for entry in container["env"]}
        assert {variable for variable in given if variable.startswith("LIVESVM_")} <= known
        secret = {variable for variable, entry in given.items() if "secretKeyRef" in entry.get("valueFrom", {})}
        assert secret == {"LIVESVM_REDIS_URL"} & given.keys()
        assert ("LIVESVM_REDIS_URL" in given) == (name != "plain")
        probed = {header["value"] for probe in probes.values() for header in probe["httpHeaders"]}
        names = {"livesvm", "livesvm.ml", "livesvm.ml.svc", "livesvm.ml.svc.cluster.local"}
        assert given["POD_NAMESPACE"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.namespace"}}
        assert [*given].index("POD_NAMESPACE") < [*given].index("LIVESVM_ALLOWED_HOSTS")  # or it is not expanded
        allowed = parse_hosts(given["LIVESVM_ALLOWED_HOSTS"]["value"].replace("$(POD_NAMESPACE)", "ml"))
        assert probed < names == allowed


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_pod_has_the_time_that_its_end_takes(name: str) -> None:
    """Before it is killed: what it does before SIGTERM, its drain, its requests, and some seconds to store models."""
    ends = []
    for template in pods(applied(name)).values():
        for container in template["spec"]["containers"]:
            given = {entry["name"]: entry.get("value") for entry in container.get("env", [])}
            if "LIVESVM_DRAIN_SECONDS" not in given:
                continue
            before = container.get("lifecycle", {}).get("preStop", {}).get("exec", {}).get("command", ["sleep", "0"])
            times = int(before[1]) + int(given["LIVESVM_DRAIN_SECONDS"]) + Settings().shutdown_seconds
            ends.append((times + 10, template["spec"]["terminationGracePeriodSeconds"]))
    assert len(ends) == 1  # of the container of the service
    assert all(wanted <= given for wanted, given in ends)


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_images_have_the_tag_of_this_version(name: str) -> None:
    version = tomllib.loads(read("pyproject.toml"))["project"]["version"]
    tag = f"livesvm:{version}" + "-ray" * (name == "ray")
    images = {container["image"] for (pod, _), container in containers(name).items() if pod != "livesvm-redis"}
    assert images == {tag}
    assert f"--tag {tag} ." in yaml_text(name)
    assert all(":" in container["image"] for container in containers(name).values())


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_keys_are_a_file_that_follows_the_secret(name: str) -> None:
    """A mount of the file alone, or a variable, would stay as it was."""
    for template in pods(applied(name)).values():
        volumes = {volume["name"]: volume for volume in template["spec"].get("volumes", ())}
        for container in template["spec"]["containers"]:
            given = {entry["name"]: entry.get("value") for entry in container.get("env", ())}
            mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
            assert ("LIVESVM_API_KEYS_FILE" in given) == (given.get("LIVESVM_ALLOWED_HOSTS") is not None)
            if (file := given.get("LIVESVM_API_KEYS_FILE")) is not None:
                directory, _, path = file.rpartition("/")
                assert mounts[directory].keys() == {"name", "mountPath", "readOnly"}
                assert volumes[mounts[directory]["name"]]["secret"]["items"] == [{"key": "api-keys", "path": path}]


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_the_comment_names_the_secret_as_the_objects_ask_for_it(name: str) -> None:
    (text,) = (path.read_text() for path in (PLACE / name).glob("*.yaml") if "kubectl create" in path.read_text())
    asked = set(re.findall(r"secretKeyRef: \{name: livesvm, key: ([a-z-]+)\}", yaml_text(name)))
    asked |= set(re.findall(r"secretName: livesvm, items: \[\{key: ([a-z-]+),", yaml_text(name)))
    assert set(re.findall(r"--from-literal=([a-z-]+)=", text)) == asked
    assert f"kubectl apply --kustomize deploy/kubernetes/{name}\n" in text


def yaml_text(name: str) -> str:
    """Return the files of a directory and of those that it names."""
    found = "".join(path.read_text() for path in (PLACE / name).glob("*.yaml"))
    return found + (PLACE / "redis/redis.yaml").read_text() * ("../redis" in found)


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (
            "plain",
            {
                ("Deployment", "livesvm"): {"livesvm"},
                ("Service", "livesvm"): {"livesvm"},
                ("NetworkPolicy", "livesvm"): {"livesvm"},
            },
        ),
        (
            "standby",
            {
                ("Deployment", "livesvm"): {"livesvm"},
                ("Service", "livesvm"): {"livesvm"},
                ("NetworkPolicy", "livesvm"): {"livesvm"},
            },
        ),
        (
            "ray",
            {
                ("Service", "livesvm"): {"front"},
                ("PodDisruptionBudget", "livesvm-front"): {"front"},
                ("PodDisruptionBudget", "livesvm-models"): {"models"},
                ("NetworkPolicy", "livesvm"): {"head", "models", "front"},
                ("NetworkPolicy", "livesvm-front"): {"front"},
            },
        ),
    ],
)
def test_selectors_find_the_pods_that_they_mean(name: str, wanted: dict[tuple[str, str], set[str]]) -> None:
    redis = {kind: {"livesvm-redis"} for kind in named(applied("redis"))}
    objects = applied(name)
    labels = {pod: template["metadata"]["labels"] for pod, template in pods(objects).items()}
    found = {}
    for one in objects:
        selector = one["spec"].get("podSelector") or one["spec"].get("selector")
        if selector is not None:
            chosen = selector.get("matchLabels", selector)
            mine = {pod for pod, label in labels.items() if chosen.items() <= label.items()}
            found[one["kind"], one["metadata"]["name"]] = mine
    assert found == wanted | (redis if name != "plain" else {})


def test_redis_is_reached_by_those_that_need_it_and_is_where_they_look() -> None:
    for name in ("standby", "ray"):
        objects = named(applied(name))
        (rule,) = objects["NetworkPolicy", "livesvm-redis"]["spec"]["ingress"]
        (peer,) = rule["from"]
        allowed = peer["podSelector"]["matchLabels"].items()
        for pod, template in pods(list(objects.values())).items():
            assert (allowed <= template["metadata"]["labels"].items()) == (pod != "livesvm-redis"), pod
        ports = {
            port["port"]
            for rule in objects["NetworkPolicy", "livesvm"]["spec"]["egress"]
            for port in rule.get("ports", [])
        }
        assert ports >= {6379, 6380}  # wherever it is
        assert f"@{objects['Service', 'livesvm-redis']['metadata']['name']}:6379/" in yaml_text(name)
    server = containers("redis")["livesvm-redis", "redis"]
    assert {"yes", "always", "noeviction", "--requirepass"} <= set(server["args"])


def test_no_rollout_waits_for_a_pod_that_stands_by_or_for_a_volume() -> None:
    """The new pod of `standby` is not ready while the old one is active, and no two pods have one volume."""
    plain, standby = (named(applied(name))["Deployment", "livesvm"]["spec"] for name in ("plain", "standby"))
    assert (plain["replicas"], plain["strategy"]) == (1, {"type": "Recreate"})
    assert (standby["replicas"], standby["strategy"]["rollingUpdate"]["maxUnavailable"]) == (2, "100%")
    assert standby["progressDeadlineSeconds"] == 2**31 - 1  # which stands for none


def test_the_documented_policy_for_what_the_service_calls_is_one() -> None:
    (text,) = [block for block in blocks("docs/howto/kubernetes.md", "yaml") if "NetworkPolicy" in block]
    policy = yaml.safe_load(text)
    assert faults(policy) == []
    assert (
        policy["spec"]["podSelector"]["matchLabels"].items()
        <= pods(applied("plain"))["livesvm"]["metadata"]["labels"].items()
    )


def test_models_live_on_their_own_nodes_alone() -> None:
    cpus = {name: group["rayStartParams"].get("num-cpus") for name, group in groups().items()}
    assert cpus == {"head": "0", "front": "0", "models": None}
    assert all(isinstance(value, str) for group in groups().values() for value in group["rayStartParams"].values())
    for name, group in groups().items():
        if name != "head":
            assert 2 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_ray_runs_as_it_was_tried_here() -> None:
    for (group, name), container in containers("ray").items():
        if name.startswith("ray"):
            given = {entry["name"]: entry["value"] for entry in container["env"]}
            same = {key: value for key, value in SETTINGS.items() if "initial_delay" not in key}
            assert same.items() <= given.items(), group


def test_nodes_of_ray_are_probed_where_they_listen() -> None:
    """By the health service that both the head and the nodes have, as Ray itself asks it."""
    for (group, name), container in containers("ray").items():
        if name.startswith("ray"):
            ports = {container[f"{kind}Probe"]["grpc"]["port"] for kind in ("startup", "liveness", "readiness")}
            assert ports == {6379 if group == "head" else int(groups()[group]["rayStartParams"]["node-manager-port"])}


def test_the_head_keeps_what_it_knows_in_redis() -> None:
    options = named(applied("ray"))["RayCluster", "livesvm"]["spec"]["gcsFaultToleranceOptions"]
    service = named(applied("redis"))["Service", "livesvm-redis"]
    assert options["redisAddress"] == f"redis://{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert options["redisPassword"]["valueFrom"]["secretKeyRef"] == {"name": "livesvm", "key": "redis-password"}


def test_the_operator_of_prometheus_has_the_same_alerts_and_finds_the_service() -> None:
    objects = named(applied("monitoring"))
    alerts = yaml.safe_load(read("deploy/prometheus/alerts.yml"))
    assert objects["PrometheusRule", "livesvm"]["spec"] == alerts
    monitor = objects["ServiceMonitor", "livesvm"]["spec"]
    wanted = monitor["selector"]["matchLabels"].items()
    for name in DEPLOYMENTS:
        services = {one["metadata"]["name"]: one for one in applied(name) if one["kind"] == "Service"}
        chosen = {n: one for n, one in services.items() if wanted <= one["metadata"]["labels"].items()}
        assert chosen.keys() == {"livesvm"}
        assert chosen["livesvm"]["metadata"]["labels"][monitor["jobLabel"]] == "livesvm"  # as the alerts name it
        assert {endpoint["port"] for endpoint in monitor["endpoints"]} == {
            port["name"] for port in chosen["livesvm"]["spec"]["ports"]
        }


def test_the_memory_that_is_advised_holds_the_models() -> None:
    page = read("docs/howto/kubernetes.md")
    rows = re.findall(r"^\| (\d+) \| ([\d,]+) \| (\d+) \| (\d+)Gi \| \d+ \|$", page, re.MULTILINE)
    assert len(rows) == 3
    for models, examples, features, memory in rows:
        n = int(examples.replace(",", ""))
        held = int(models) * model_bytes(n, int(features), n, Settings.model_fields["cache_mb"].default)
        limit = 0.75 * int(memory) * 2**30  # as LIVESVM_MEMORY_MB has it
        assert LEAST_BASE + held < 0.9 * limit  # a tenth is kept for requests
    advised = containers("plain")["livesvm", "livesvm"]["resources"]["limits"]["memory"]
    assert advised == f"{rows[0][3]}Gi"
