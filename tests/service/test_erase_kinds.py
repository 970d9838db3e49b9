"""Nothing of an example remains, whatever is learnt: words, scaled, sparse, dated or weighed rows; robust models."""

from __future__ import annotations

import csv
import io
import json
import re
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.models.commands import Command
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import PART, ModelState
from livesvm.solvers import IncrementalOneClassSVM, IncrementalSVC, IncrementalSVR
from livesvm.solvers.models.change import Batch, Edits
from livesvm.solvers.robust.settings import Robustness
from tests.service.process import ServiceProcess
from tests.support.erasing import KEYS, Kept, keeping, traces
from tests.support.jobs_over_rest import awaited

N = len(KEYS)
GAMMA = 0.4
GONE = [1, 29]
"""Places of the erased examples."""
LEFT = 0
"""The place of an example erased after it left the window; the rest of the first part stays."""
HIS = "the-illness-of-one-man"
"""A class with one example."""


@dataclass
class Kind:
    """A model of one kind, and 40 examples of its own.

    Parameters
    ----------
    more : its parameters
    features : (40, d); a feature that is 0 is no trace
    add : other values of each example, by their names in an update, (40,)
    is_sparse : whether the rows are sent as sparse ones
    jobs : that it is asked for, with their requests
    """

    more: dict[str, Any]
    features: np.ndarray
    add: dict[str, list[Any]] = field(default_factory=dict)
    is_sparse: bool = False
    jobs: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    @property
    def keys(self) -> list[Any]:
        """Of the examples."""
        return self.add["keys"]

    def part(self, which: slice) -> dict[str, Any]:
        """Return an update that brings some of them."""
        X = self.features[which]
        rows: Any = X.tolist()
        if self.is_sparse:
            indices = [np.flatnonzero(x).tolist() for x in X]
            values = [x[x != 0].tolist() for x in X]
            rows = {"indices": indices, "values": values, "n_features": X.shape[1]}
        return {"add": {"X": rows} | {name: values[which] for name, values in self.add.items()}}

    def traces(self, chosen: int) -> dict[str, bytes]:
        """Return the traces of one example: features, dense and sparse, key, times and weight as written."""
        x = self.features[chosen]
        found = traces(str(self.keys[chosen]), x[x != 0].tolist())
        for name in ("times", "weights"):
            if name in self.add:
                value = self.add[name][chosen]
                found |= {name: struct.pack("<d", value), f"{name} as JSON": json.dumps(value).encode()}
        if isinstance(self.keys[chosen], int):
            found |= {"key <q": struct.pack("<q", self.keys[chosen]), "key >q": struct.pack(">q", self.keys[chosen])}
            found["key >i"] = struct.pack(">i", self.keys[chosen])
        else:
            found["key as UTF-32"] = self.keys[chosen].encode("utf-32-le")
        if self.add.get("y", [""] * N)[chosen] == HIS:
            found |= {"label": HIS.encode(), "label as UTF-32": HIS.encode("utf-32-le")}
        return found


def kinds(*, retrained: bool = False) -> dict[str, Kind]:
    """Return one model each; features of each are its own, so that a trace tells of which it is."""
    rng = np.random.default_rng(28)
    signs = np.resize([-1, 1], N)

    def drawn() -> Any:
        return rng.normal(size=(N, 3)) + signs[:, None]

    words = np.array(["ape", "bee", "cat"])[np.arange(N) % 3].tolist()
    only = [HIS if chosen in (GONE[1], LEFT) else word for chosen, word in enumerate(words)]
    two = {"y": signs.tolist(), "keys": KEYS}
    sparse = np.where(rng.random((N, 30)) < 0.2, rng.normal(size=(N, 30)), 0.0)
    times = (1.7e9 + np.arange(N) + rng.random(N)).round(6).tolist()
    dated = two | {"times": times, "weights": rng.uniform(1, 2, N).tolist()}
    fold, path = {"method": "k-fold", "folds": 2}, {"minimum": 0.5, "maximum": 2.0}
    ranking: tuple[str, dict[str, Any]] = ("suspected-labels", {})
    retrain: list[tuple[str, dict[str, Any]]] = [("retrain", {})] if retrained else []
    two_jobs: list[tuple[str, dict[str, Any]]] = [ranking, ("regularization-path", path)]
    X = drawn()
    own_gamma = {"kernel": {"name": "rbf", "gamma": "scale"}}
    far = drawn()
    far[[LEFT, *GONE]] *= 30
    sums = {"y": X.sum(1).tolist(), "keys": KEYS}
    return {
        "words": Kind({"probability": True}, drawn(), {"y": only, "keys": KEYS}, jobs=[("assessment", fold), ranking]),
        "standard": Kind({"scale": "standard"}, drawn() * [1, 50, 0.02], two, jobs=two_jobs),
        "minmax": Kind({"scale": "minmax"}, drawn(), {"y": words, "keys": KEYS}),
        "medians": Kind({"task": "svr", "scale": "robust"}, X, sums),
        "scaled-oneclass": Kind({"task": "oneclass", "nu": 0.3, "scale": "minmax"}, drawn(), {"keys": KEYS}),
        "spread": Kind({"kernel": {"name": "laplacian", "gamma": "scale"}}, far, two),
        "sparse": Kind(own_gamma, sparse, {"y": words, "keys": KEYS}, is_sparse=True, jobs=retrain),
        "dated": Kind({"window": {"max_examples": N - 1}}, drawn(), dated),
        "numbered": Kind({}, drawn(), two | {"keys": rng.choice(2**31, N, replace=False).tolist()}),
        "robust": Kind({}, drawn(), two, jobs=[("outlier-path", {"parameter": "theta"})]),
        "pu": Kind({"task": "pu", "prior": 0.5}, drawn(), {"y": [max(0, s) for s in signs.tolist()], "keys": KEYS}),
        "l2svc": Kind({"task": "l2svc"}, drawn(), {"y": only, "keys": KEYS}, jobs=retrain),
    }  # fmt: skip


def lived(http: httpx.Client, name: str, kind: Kind) -> None:
    """Make updates with names, checkpoints, jobs with applied results, a restore, and a removed example."""
    spec = {"id": name, "C": 2.0, "kernel": {"name": "rbf", "gamma": GAMMA}, **kind.more}
    if spec.get("task") in ("oneclass", "pu"):
        del spec["C"]
    http.post("/models", json=spec).raise_for_status()
    for part in (slice(0, 20), slice(20, N)):
        answer = http.post(f"/models/{name}/update", json=kind.part(part), headers={"idempotency-key": f"{part.start}"})
        assert answer.status_code == 200, (name, answer.text)
    http.post(f"/models/{name}/checkpoint").raise_for_status()
    for call, body in kind.jobs:
        job = awaited(http, http.post(f"/models/{name}/{call}", json=body).json()["id"])
        assert job["state"] == "done", job
        http.get(f"/jobs/{job['id']}/plot.svg")
        if call == "retrain":
            http.post(f"/jobs/{job['id']}/apply", json={}).raise_for_status()
        elif call == "outlier-path":
            http.post(f"/jobs/{job['id']}/apply", json={"choice": {"value": 0.3}}).raise_for_status()
    if "times" not in kind.add:
        http.post(f"/models/{name}/update", json={"remove": {"keys": [kind.keys[LEFT]]}}).raise_for_status()
        return
    again = {"add": kind.part(slice(1))["add"] | {"on_repeat": "replace"}}
    late = http.post(f"/models/{name}/update", json=again, headers={"idempotency-key": "late"})
    assert late.json()["dropped"] == [kind.keys[LEFT]]  # it has left already, and is too old to come in again


@pytest.mark.alone(reason="looks into the files of the one process; tests/service/test_ray.py does over Ray")
@pytest.mark.parametrize("store", ["sqlite", pytest.param("redis", marks=pytest.mark.slow)])
def test_nothing_remains_of_any_kind(store: str, tmp_path: Path) -> None:
    known = kinds(retrained=store == "redis")
    with keeping(store, tmp_path, snapshot_updates=2, solution_seconds=1e-9) as kept:
        live_and_erase(kept, known, [LEFT, *GONE])


def live_and_erase(kept: Kept, known: dict[str, Kind], gone: list[int]) -> None:
    """Search before, after, and after a kill."""
    process, everything = kept
    with process as service, service.http(60.0) as http:
        for name, kind in known.items():
            lived(http, name, kind)
            check_examples(http, name, kind)
        before = everything()
        for name, kind in known.items():
            for chosen in gone:
                found = {
                    what
                    for what, trace in kind.traces(chosen).items()
                    if any(trace in data for data in before.values())
                }
                assert {"key", "x0"} & found, (name, chosen)
        for name, kind in known.items():
            keys = [kind.keys[chosen] for chosen in gone]
            answer = http.post(f"/models/{name}/erase", json={"keys": keys})
            assert answer.status_code == 200, (name, answer.text)
            assert answer.json()["removed"] == len(GONE)
        check_nothing(everything() | reported(service, http, known), known, gone)
        for name in known:
            check_optimum(http, name, known[name], gone)
        service.kill()
    with process as service, service.http(60.0) as http:
        for name in known:
            check_optimum(http, name, known[name], gone)
        check_nothing(everything() | reported(service, http, known), known, gone)


def reported(service: ServiceProcess, http: httpx.Client, known: dict[str, Kind]) -> dict[str, bytes]:
    """Return what a service says of itself and its models, its log, and what its process was started with."""
    paths = ["/metrics", "/jobs", "/receipts", "/models", "/datasets", "/health/ready"]
    paths += [f"/models/{name}{what}" for name in known for what in ("", "/recent", "/versions", "/examples?limit=50")]
    found = {path: http.get(path).content for path in paths}
    arguments = {name: Path(f"/proc/{service.pid}/{name}").read_bytes() for name in ("cmdline", "environ")}
    return found | arguments | {"log": service.errors.encode()}


def check_examples(http: httpx.Client, name: str, kind: Kind) -> None:
    """Check the window as it was given: in pages, by key, as arrays, as a table where rows are dense."""
    places = {key: place for place, key in enumerate(kind.keys) if place != LEFT}
    path, found = f"/models/{name}/examples", []
    page: dict[str, Any] = {"next": 0}
    while page["next"] is not None:
        page = http.get(path, params={"offset": page["next"], "limit": 16}).raise_for_status().json()
        found += page["examples"]
    assert [one["key"] for one in found] == list(places)
    assert http.get(path, params={"keys": str(kind.keys[1])}).json()["examples"] == [found[0]]
    with np.load(io.BytesIO(http.get(path, params={"format": "npz"}).content)) as arrays:
        members = dict(arrays)
    for row, (one, place) in enumerate(zip(found, places.values(), strict=True)):
        x = kind.features[place]
        if kind.is_sparse:
            assert (one["x"]["indices"], one["x"]["values"]) == (np.flatnonzero(x).tolist(), x[x != 0].tolist())
        else:
            assert one["x"] == x.tolist() == members["X"][row].tolist()
        for reported, sent in (("y", "y"), ("weight", "weights"), ("time", "times")):
            if sent in kind.add:
                wanted = kind.add[sent][place]
                assert members["y" if reported == "y" else sent][row] == wanted
                assert reported == "time" or one[reported] == wanted
    table = http.get(path, params={"format": "csv"})
    assert table.status_code == (406 if kind.is_sparse else 200)
    if not kind.is_sparse:
        rows = list(csv.DictReader(io.StringIO(table.text)))
        assert [row["key"] for row in rows] == [str(key) for key in places]
        columns = [name for name in rows[0] if re.fullmatch("x[0-9]+", name)]
        assert [[float(row[name]) for name in columns] for row in rows] == [
            kind.features[p].tolist() for p in places.values()
        ]


def check_nothing(everything: dict[str, bytes], known: dict[str, Kind], gone: list[int]) -> None:
    """Check that no trace of the examples is left anywhere."""
    found = {
        (name, chosen, what, where)
        for name, kind in known.items()
        for chosen in gone
        for what, trace in kind.traces(chosen).items()
        for where, data in everything.items()
        if trace in data
    }
    assert not found


def check_optimum(http: httpx.Client, name: str, kind: Kind, gone: list[int]) -> None:
    """Check that it is the model without the examples: scale, gamma, classes and all."""
    stay = [chosen for chosen in range(N) if chosen not in gone]
    X = kind.features[stay]
    assert HIS not in json.dumps(http.get(f"/models/{name}").json())
    if kind.more.get("task") == "l2svc":
        reported = http.get(f"/models/{name}").json()
        assert [one["label"] for one in reported["classes"]] == ["ape", "bee", "cat"]
        answered = http.post(f"/models/{name}/predict", json={"X": X.tolist()}).status_code
        if kind.jobs:  # it is retrained without them
            assert (reported["relative_gap"] <= 0.1, reported["warnings"], answered) == (True, [], 200)
            return
        assert (reported["relative_gap"], reported["n_free"], answered) == (None, 0, 409)
        assert [one["name"] for one in reported["warnings"]] == ["untrained"]
        return
    answer = http.post(f"/models/{name}/predict", json={"X": X.tolist()}).raise_for_status().json()
    assert http.get(f"/models/{name}/certificate").json()["relative_gap"] <= 1e-8
    if name in ("robust", "pu"):  # of which a certificate says enough
        return
    y = [kind.add["y"][chosen] for chosen in stay] if "y" in kind.add else None
    rival = rivals(kind).fit(X, y, sample_weight=np.array(kind.add["weights"])[stay] if "weights" in kind.add else None)
    wanted = rival.predict(X) if isinstance(rival, IncrementalSVR) else rival.decision_function(X)
    np.testing.assert_allclose(answer["decision"], wanted, rtol=0, atol=1e-8)
    if isinstance(y, list) and isinstance(y[0], str):
        assert answer["classes"] == rival.classes_.tolist()


def rivals(kind: Kind) -> Any:
    """Return a model of the library that has learnt nothing."""
    kernel = {"name": "rbf", "gamma": GAMMA, **kind.more.get("kernel", {})}
    parameters = {"kernel": kernel["name"], "gamma": kernel["gamma"], "scale": kind.more.get("scale", "none")}
    if kind.more.get("task") == "svr":
        return IncrementalSVR(C=2.0, **parameters)
    if kind.more.get("task") == "oneclass":
        return IncrementalOneClassSVM(nu=0.3, **parameters)
    return IncrementalSVC(C=2.0, **parameters)


@pytest.mark.parametrize("weights", [None, "balanced", {"-1": 2.0}])
def test_examples_that_stay_are_learnt_again_with_what_was_changed_since(weights: Any) -> None:
    """C, weights that decayed, walls of a robust model; in parts, from data that are more than one of them."""
    rng = np.random.default_rng(3)
    n = PART + 200
    y = rng.choice([-1.0, 1.0], n)
    X = rng.normal(size=(n, 2)) + y[:, None]
    state = ModelState.empty(ModelSpec(id="m", C=2.0, class_weight=weights), 64)
    state.apply(Command(Batch(X, y, [*range(n)]), [], arrived=1.0, next_key=n))
    state.apply(Command(None, [], Edits(C=0.7, decay=0.5), arrived=2.0, next_key=n))
    state.apply(Command(None, [], Edits(change={"scale": "minmax"}), arrived=2.0, next_key=n))
    if weights is None:
        state.apply(Command(None, [], Edits(robust=Robustness(0.5, -0.5)), arrived=3.0, next_key=n))
    gone = np.unique([X[:, 0].argmin(), X[:, 1].argmax()]).tolist()
    version = state.version
    outcome = state.forget(gone)
    assert outcome is not None
    assert (state.version, outcome.sizes.n_examples) == (version + 1, n - len(gone))
    assert state.estimator.certificate().relative_gap <= 1e-8
    assert state.forget([]) is None  # as none of them is left
    assert state.C == 0.7
    assert (state.published().robust is None) == (weights is not None)
    here = ModelState.decode(state.spec, 64, state.encode())
    stay = np.setdiff1d(np.arange(n), gone)
    assert here.estimator.keys_ == stay.tolist()
    given = weights if isinstance(weights, str | None) else {-1: 2.0}
    rival = IncrementalSVC(C=0.7, class_weight=given, scale="minmax").fit(X[stay], y[stay], np.full(stay.size, 0.5))
    assert here.gamma == pytest.approx(rival.gamma_, rel=1e-12)
    if weights is not None:
        own = here.estimator.predictor().decision_function(X)
        np.testing.assert_allclose(own, rival.decision_function(X), rtol=0, atol=1e-8)


def test_a_class_goes_with_its_last_example(http: httpx.Client) -> None:
    """And classes with examples left stay; probabilities have a column for each that is there."""
    known = kinds()["words"]
    spec = {"id": "erase-words", "C": 2.0, "kernel": {"name": "rbf", "gamma": GAMMA}, "probability": True}
    http.post("/models", json=spec).raise_for_status()
    http.post("/models/erase-words/update", json=known.part(slice(0, N))).raise_for_status()

    def classes() -> list[str]:
        """Return as the model describes itself, and as it predicts."""
        reported = http.get("/models/erase-words").json()["classes"]
        asked = {"X": known.features[:4].tolist(), "probability": min(one["n_examples"] for one in reported) > 1}
        answer = http.post("/models/erase-words/predict", json=asked).json()
        assert answer["classes"] == [one["label"] for one in reported]
        assert not asked["probability"] or np.shape(answer["probability"]) == (4, len(reported))
        return [one["label"] for one in reported]

    def erase(places: list[int]) -> dict[str, Any]:
        answer = http.post("/models/erase-words/erase", json={"keys": [known.keys[chosen] for chosen in places]})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    assert classes() == ["ape", "bee", "cat", HIS]
    erase([GONE[1]])
    assert classes() == ["ape", "bee", "cat", HIS]
    version = erase([LEFT])["version"]
    assert classes() == ["ape", "bee", "cat"]
    afresh = http.post("/models/erase-words/erase", json={"keys": [known.keys[LEFT]]})
    assert (afresh.status_code, http.get("/models/erase-words").json()["version"]) == (404, version)
    two = [chosen for chosen in range(N) if known.add["y"][chosen] == "cat"]
    erase(two)
    assert classes() == ["ape", "bee"]
    again = {"add": {"X": known.features[:1].tolist(), "y": [HIS], "keys": [KEYS[0]]}}
    http.post("/models/erase-words/update", json=again).raise_for_status()
    assert http.get("/models/erase-words").json()["classes"][2] == {"label": HIS, "n_examples": 1}
    erase([*range(N)])
    assert http.get("/models/erase-words").json()["classes"] == []
    http.post(
        "/models/erase-words/update", json={"add": {"X": known.features[:2].tolist(), "y": [1, -1]}}
    ).raise_for_status()
    http.delete("/models/erase-words").raise_for_status()
