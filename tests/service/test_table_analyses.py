"""Each question that a service answers about a model is answered for a table as for its features, and names columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from livesvm.service.client import Client, ServiceProblem
from livesvm.solvers import IncrementalOneClassSVM, IncrementalPUClassifier, IncrementalSVC, IncrementalSVR, tune
from tests.service.conftest import Make
from tests.service.process import ServiceProcess
from tests.service.test_tables_rest import PROBE, ROWS, Row, Y, customers

NAMES = {"age", "plan", "joined", "vip"}
TIMED = frozenset({"seconds", "id", "model", "job", "created_at", "started_at", "finished_at", "updated_at", "memory"})
"""Fields that differ between two equal models."""
OF_TABLES = frozenset({"columns", "x", "n_features", "scale"})
"""Fields that name columns, or count features, where a model has columns."""
LATER, LATER_Y = customers(12, 60)
THREE = ["high" if (row["age"] or 40) > 50 else "low" if (row["age"] or 40) < 30 else "middle" for row in ROWS]
AGES = [row["age"] or 40.0 for row in ROWS]
MARKED = [int(y == "stays" and at % 3 > 0) for at, y in enumerate(Y)]
TASKS: dict[str, tuple[dict[str, Any], type[Any], Any]] = {
    "svc": ({"C": 3.0, "probability": True}, IncrementalSVC, Y),
    "three": ({"C": 3.0, "probability": True}, IncrementalSVC, THREE),
    "svr": ({"task": "svr", "C": 3.0, "epsilon": 0.5}, IncrementalSVR, AGES),
    "oneclass": ({"task": "oneclass", "nu": 0.3}, IncrementalOneClassSVM, None),
    "pu": ({"task": "pu", "prior": 0.4, "lam": 0.01}, IncrementalPUClassifier, MARKED),
}
Ask = Callable[["Asked"], Any]


class Asked:
    """One of two models that hold the same examples, as rows with names or as their features."""

    def __init__(self, client: Client, id: str, features: Callable[[list[Row]], Any], y: Any) -> None:
        self.client, self.id, self.features, self.y = client, id, features, y

    def targets(self, rows: slice) -> Any:
        """Return targets of the first examples, None of a one-class model."""
        return None if self.y is None else self.y[rows]

    def call(self, name: str, *arguments: Any, **more: Any) -> Any:
        """Return the answer of a call about the model."""
        return getattr(self.client, name)(self.id, *arguments, **more)

    def job(self, name: str, *arguments: Any, **more: Any) -> Any:
        """Return the result of a job."""
        done = self.client.wait(self.call(name, *arguments, **more)["id"])
        assert done["state"] == "done", done
        return done["result"]

    def retrained(self, **asked: Any) -> Any:
        """Return the decisions after a retraining, which is applied."""
        columns, job = self.call("model")["columns"], self.call("retrain", **asked)
        assert self.client.wait(job["id"])["state"] == "done"
        self.client.apply(job["id"])
        assert self.call("certificate")["relative_gap"] < 1e-8
        assert self.call("model")["columns"] == columns
        return self.decisions()

    def decisions(self) -> Any:
        """Return decisions for rows that the model has not learnt."""
        return self.call("predict", self.features(PROBE))["decision"]

    def held(self) -> tuple[Any, Any]:
        """Return examples to choose by."""
        return self.features(ROWS[:20]), self.targets(slice(20))

    def of_all(self) -> tuple[Any, Any]:
        """Return the examples that the model has learnt."""
        return self.features(ROWS), self.y


ALL, LABELS, TWO = ("svc", "three", "svr", "oneclass", "pu"), ("svc", "three"), ("svc", "svr")
OF_TARGETS = ("svc", "three", "svr", "pu")
QUESTIONS: dict[str, tuple[tuple[str, ...], Ask]] = {
    "predict": (ALL, lambda one: one.call("predict", one.features(PROBE))),
    "probabilities": (LABELS, lambda one: one.call("predict", one.features(PROBE), probability=True)),
    "sets": (("svc", "three", "svr"), lambda one: one.call("predict", one.features(PROBE), coverage=0.8)),
    "thresholds": (("pu",), lambda one: one.call("predict", one.features(PROBE), alerts=0.2)),
    "precision": (("pu",), lambda one: one.call("predict", one.features(PROBE), precision=0.5)),
    "certificate": (ALL, lambda one: one.call("certificate")),
    "explain": (ALL, lambda one: one.call("explain", one.features(PROBE[:3]))),
    "data values": (
        ("svc", "three", "svr"),
        lambda one: one.call("explain", one.features(ROWS[:9]), one.targets(slice(9))),
    ),
    "what if": (
        ALL,
        lambda one: one.call(
            "what_if", one.features(PROBE[:3]), X=one.features(LATER), y=one.targets(slice(12)), remove={"oldest": 5}
        ),
    ),
    "drift": (("svc", "svr"), lambda one: one.call("drift")),
    "leave-one-out": (("svc",), lambda one: one.job("assess")),
    "folds": (("svc", "oneclass"), lambda one: one.job("assess", folds=4)),
    "path": (("svc",), lambda one: one.job("regularization_path")),
    "path by validation": (OF_TARGETS, lambda one: one.job("regularization_path", 0.1, 10.0, validation=one.held())),
    "path of other data": (
        TWO,
        lambda one: one.job("regularization_path", 0.1, 10.0, data=one.of_all(), validation=one.held()),
    ),
    "path over epsilon": (("svr",), lambda one: one.job("regularization_path", parameter="epsilon")),
    "path over nu": (("oneclass",), lambda one: one.job("regularization_path", 0.05, 0.8)),
    "outlier path": (("svc", "three", "svr"), lambda one: one.job("outlier_path", validation=one.held())),
    "outlier path, held out": (("svr",), lambda one: one.job("outlier_path", "s", hold_out=0.2)),
    "suspected labels": (LABELS, lambda one: (one.job("suspected_labels"), one.call("suspects"))),
    "retrain": (("three", "svr", "oneclass", "pu"), lambda one: one.retrained()),
    "retrain with another C": (TWO, lambda one: one.retrained(C=1.5)),
    "correct": (
        OF_TARGETS,
        lambda one: (one.call("update", relabel={"c3": one.y[4]}, reweight={"c5": 0.5}), one.decisions()),
    ),
    "slide": (
        ALL,
        lambda one: (
            one.call("update", one.features(LATER), one.targets(slice(12)), remove={"oldest": 12}),
            one.decisions(),
        ),
    ),
    "restore": (ALL, lambda one: (one.call("restore", 1)["version"], one.call("versions")["current"], one.decisions())),
}


def check_same(found: Any, expected: Any, at: str = "") -> None:
    """Assert that two answers are equal but for rounding, and for fields that differ between equal models."""
    if isinstance(expected, dict):
        left_out = TIMED | OF_TABLES
        assert found.keys() - left_out == expected.keys() - left_out, at
        for name in expected.keys() - left_out:
            check_same(found[name], expected[name], f"{at}.{name}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), at
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            check_same(one, other, f"{at}[{place}]")
    elif isinstance(expected, float) and isinstance(found, int | float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6), at
    else:
        assert found == expected, at


@pytest.fixture(params=[*TASKS])
def both(request: pytest.FixtureRequest, service: ServiceProcess, make: Make) -> Iterator[tuple[str, Asked, Asked]]:
    spec, estimator, y = TASKS[request.param]
    own = {name: value for name, value in spec.items() if name != "task"}
    known = estimator(columns="auto", **own).fit(ROWS, y)
    scale = known.feature_scale_
    plain = {"kernel": {"name": "rbf", "gamma": known.gamma_}}
    with Client(service.url) as client:
        table = Asked(client, make(**spec, columns="auto"), lambda rows: rows, y)
        matrix = Asked(client, make(**spec, **plain), lambda rows: scale.apply(scale.read(rows)), y)
        for one in (table, matrix):
            one.call("update", one.features(ROWS), y, keys=[f"c{at}" for at in range(len(ROWS))])
        yield request.param, table, matrix


def test_every_question_about_a_table_is_answered_as_about_its_features(both: tuple[str, Asked, Asked]) -> None:
    task, table, matrix = both
    with ThreadPoolExecutor(2) as pool:
        for name, (tasks, ask) in QUESTIONS.items():
            if task in tasks:
                found, expected = pool.map(ask, (table, matrix))
                check_same(found, expected, name)
    for example in table.call("examples")["examples"]:
        assert example["x"].keys() == NAMES


def test_what_depends_on_the_encoding_is_that_of_a_model_of_the_rows_alone(service: ServiceProcess, make: Make) -> None:
    """An erasure leaves the model of the other rows; settings are judged with the encodings of the folds alone."""
    model = make(columns="auto", C=3.0)
    with Client(service.url) as client:
        client.update(model, ROWS, Y, keys=[f"c{at}" for at in range(80)])
        known = IncrementalSVC(C=3.0, columns="auto").fit(ROWS, Y)
        done = client.wait(client.tune_model(model, gammas=[0.1, 0.3], C=(0.1, 10.0), folds=3)["id"])["result"]
        expected = tune(known, gammas=[0.1, 0.3], C=(0.1, 10.0), folds=3)
        check_same([done["C"], done["errors"]], [expected.C.tolist(), expected.errors.tolist()])
        rest = IncrementalSVC(C=3.0, columns=known.columns_.documents()).fit(ROWS[2:], Y[2:]).decision_function(PROBE)
        foreseen = client.what_if(model, PROBE, erase={"keys": ["c0", "c1"]})
        assert foreseen["rows"]["after"]["decision"] == pytest.approx(rest, abs=1e-6)
        client.erase(model, ["c0", "c1"])
        assert client.predict(model, PROBE)["decision"] == pytest.approx(rest, abs=1e-6)


@pytest.mark.parametrize(
    ("rows", "y", "named"),
    [
        ([{**ROWS[0], "age": "old"}], Y[:1], {"field": "validation.rows", "row": 0, "name": "age"}),
        ([ROWS[0], {"colour": "red"}], Y[:2], {"field": "validation.rows", "row": 1, "name": "colour"}),
        (ROWS[:2], ["left", "who"], {"field": "validation.y", "row": 1}),
        (ROWS[:3], ["left", "left"], {"field": "validation.y"}),
        ([[1.0, 2.0, 3.0, 4.0]], Y[:1], {"field": "validation.X"}),
    ],
)
def test_wrong_validation_rows_are_named(
    service: ServiceProcess, make: Make, rows: Any, y: list[str], named: dict[str, Any]
) -> None:
    model, numbers = make(columns="auto", C=3.0), make()
    with Client(service.url) as client:
        client.update(model, ROWS, Y)
        for call in (client.regularization_path, client.outlier_path):
            with pytest.raises(ServiceProblem) as refused:
                call(model, validation=(rows, y))
            assert {name: refused.value.document.get(name) for name in named} == named
        client.update(numbers, [[1.0], [2.0]], ["left", "stays"])
        with pytest.raises(ServiceProblem, match=r"validation\.rows: needs a model with columns"):
            client.regularization_path(numbers, validation=(ROWS[:1], Y[:1]))
