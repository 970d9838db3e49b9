"""What changes while a retraining runs is there when it is applied: every verb, for every task."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import EmptyModel
from livesvm.service.history.entries import Restoration
from livesvm.service.jobs.retraining_worker import retrain
from livesvm.service.models.commands import Removal
from livesvm.service.models.retrained import Retrained
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy, ModelState
from livesvm.service.models.window import WindowLimits
from livesvm.service.store import codec
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.sparse import dense
from tests.support.erasing import intent_of
from tests.support.live_models import alive

N, CACHE_MB = 30, 16
RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 2))
PROBE = RNG.normal(size=(20, 2))
SIGNS = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1.0, -1.0)
WORDS = np.array(["ape", "bee", "cat"])[np.arange(60) % 3]
POSITIVE = np.where((SIGNS > 0) & (np.arange(60) % 2 == 0), 1.0, 0.0)
KERNEL = {"name": "rbf", "gamma": 0.5}
POLY = {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.2}

SPECS: dict[str, tuple[dict[str, Any], Any, tuple[Any, Any]]] = {
    "two classes": ({"C": 2.0}, SIGNS, (-SIGNS[3], -SIGNS[4])),
    "balanced": ({"C": 2.0, "class_weight": "balanced", "scale": "standard"}, SIGNS, (-SIGNS[3], -SIGNS[4])),
    "words": ({"C": 2.0}, WORDS, ("bee", "dog")),
    "svr": ({"task": "svr", "C": 2.0}, X[:, 0] + 0.1 * X[:, 1], (2.5, -1.0)),
    "oneclass": ({"task": "oneclass", "nu": 0.3}, None, (1.0, 1.0)),
    "pu": ({"task": "pu", "prior": 0.5, "lam": 0.01}, POSITIVE, (1.0, 1.0)),
    "large": ({"task": "l2svc", "C": 2.0}, SIGNS, (-SIGNS[3], -SIGNS[4])),
    "large words": ({"task": "l2svc", "C": 2.0}, WORDS, ("bee", "dog")),
}
"""Specification, targets of all rows, and other targets of the examples 3 and 4."""


def rows(case: str, numbers: range, keys: list[Any], shift: float = 0.0, **columns: Any) -> Change:
    """Add these rows under these keys, which may have been there before."""
    targets = SPECS[case][1]
    return Change(
        Batch(X[numbers] + shift, None if targets is None else targets[numbers], keys, **columns), on_repeat="replace"
    )


def removal(*keys: Any) -> Change:
    return Change(remove=Removal(keys=[*keys]))


def edits(**verbs: Any) -> Change:
    return Change(edits=Edits(**verbs))


def changed(**parameters: Any) -> Callable[[str], list[Change]]:
    return lambda case: [edits(change=parameters)]


COMMON: dict[str, Callable[[str], list[Change]]] = {
    "nothing": lambda case: [],
    "add": lambda case: [rows(case, range(30, 33), ["a", "b", "c"], weights=np.array([1.0, 0.5, 2.0]))],
    "remove": lambda case: [removal(3, 7), Change(remove=Removal(oldest=2))],
    "relabel": lambda case: [edits(relabel=dict(zip((3, 4), SPECS[case][2], strict=True)))],
    "reweight": lambda case: [edits(reweight={5: 3.0, 6: 0.0}), edits(reweight={5: 2.0})],
    "decay": lambda case: [edits(decay=0.7)],
    "all leave": lambda case: [Change(rows(case, range(30, 50), [*range(30, 50)]).add, Removal(oldest=N))],
    "age out": lambda case: [rows(case, range(33, 36), ["a", "b", "c"], times=np.full(3, 200.0))],
    "return": lambda case: [removal(4), rows(case, range(4, 5), [4])],
    "return as another": lambda case: [removal(4), rows(case, range(4, 5), [4], 0.3)],
    "return behind": lambda case: [removal(29), rows(case, range(31, 32), ["a"]), rows(case, range(29, 30), [29])],
    "return in another order": lambda case: [
        removal(27, 28, 29),
        rows(case, range(29, 30), [29], 0.3),
        rows(case, range(27, 29), [27, 28]),
    ],
}
COST = {"C": lambda case: [edits(C=7.0)]}
OF_KERNELS = {
    "gamma": changed(gamma=0.2),
    "kernel": changed(**POLY),
    "scale": changed(scale="minmax"),
}
MORE: dict[str, dict[str, Callable[[str], list[Change]]]] = {
    "two classes": COST
    | OF_KERNELS
    | {
        "class weight": changed(class_weight={"1": 3.0}),
        "intercept": changed(fit_intercept=False),
        "robust": lambda case: [edits(robust=Robustness(0.0, -0.5))],
        "robust no more": lambda case: [edits(robust=Robustness(0.0, -0.5)), edits(robust=Robustness(1.0, -0.5))],
        "C and a kernel": lambda case: [edits(C=7.0), edits(change=POLY)],
    },
    "balanced": COST
    | OF_KERNELS
    | {"rescale": lambda case: [rows(case, range(30, 50), [*range(30, 50)], 3.0), edits(rescale=True)]},
    "words": COST
    | OF_KERNELS
    | {"a class that goes again": lambda case: [Change(Batch(X[40:41], np.array(["eel"]), ["e"])), removal("e")]},
    "svr": COST | OF_KERNELS | {"epsilon": changed(epsilon=0.3)},
    "oneclass": OF_KERNELS | {"nu": changed(nu=0.5)},
    "pu": COST | OF_KERNELS | {"prior": changed(prior=0.6), "prior, open": changed(prior="estimate")},
    "large": COST,
    "large words": COST,
}
ALL = [(case, verb) for case in SPECS for verb in COMMON | MORE[case]]


def spec_of(case: str) -> ModelSpec:
    return ModelSpec.model_validate({"id": "m", "kernel": KERNEL, **SPECS[case][0]})


def do(state: ModelState, update: Change, now: float = 1.0, **limits: Any) -> None:
    state.apply(state.window.plan(update, WindowLimits(1000, 10, **limits), now, None))


def job(copy: ModelCopy, at: Path, **asked: Any) -> Retrained:
    """Return what a retraining of a model has found."""
    (at / "given").write_bytes(codec.encode({"arrays": copy.arrays, "changed": copy.changed}))
    solver = "blocks" if copy.spec.task == "l2svc" else "batch"
    work = {"spec": copy.spec.model_dump_json(), "cache_mb": CACHE_MB, "threads": 1, "solver": solver, "tol": 1e-3}
    files = {"input": str(at / "given"), "output": str(at / "found")}
    retrain(work | asked | files, lambda reported: None)
    return Retrained("j", at / "found", version=copy.version)


@cache
def begun(case: str, C: float | None = None, kernel: str | None = None) -> tuple[bytes, bytes]:
    """Return a model, and what a job finds that was asked for such parameters."""
    state = ModelState.empty(spec_of(case), CACHE_MB)
    do(state, rows(case, range(N), [*range(N)], weights=np.linspace(0.5, 1.5, N), times=100.0 + np.arange(N)))
    asked = ({} if C is None else {"C": C}) | ({} if kernel is None else {"kernel": {"name": kernel, "gamma": 0.2}})
    with TemporaryDirectory() as directory:
        found = job(state.copy(), Path(directory), **asked).carried().data
    assert found is not None
    return state.encode(), found


def restored(case: str, data: bytes) -> ModelState:
    return ModelState.decode(spec_of(case), CACHE_MB, data)


def brought(case: str, found: bytes, state: ModelState) -> tuple[ModelState, int]:
    """Return the model once what was found has been applied, and how many examples that changed."""
    data, count = Retrained("j", Path(), found).brought_up_to(state)
    return restored(case, data), count


def after(case: str, verb: str, state: ModelState) -> ModelState:
    for update in (COMMON | MORE[case])[verb](case):
        if verb == "age out":
            do(state, update, 205.0, max_age_seconds=100.0)
        else:
            do(state, update)
    return state


def of_window(state: ModelState) -> list[Any]:
    """Return the window, oldest first."""
    m = state.estimator
    return [m.keys_, dense(m.window_features).tolist(), list(m.window_y), m.window_sample_weight.tolist(), state.window]


def of_parameters(state: ModelState) -> list[Any]:
    """Return what else a model tells of itself."""
    shown = state.published()
    kernel = {name: value for name, value in (shown.kernel or {}).items() if name != "gamma"}
    others = [shown.C, shown.gamma, shown.parameters, shown.robust, shown.counts]
    return [kernel, *others, state.sizes.n_examples]


def decisions(state: ModelState) -> Any:
    return state.estimator.predictor().decision_function(state.estimator._scaled(PROBE))


def check_same(found: ModelState, wanted: ModelState) -> None:
    assert of_window(found) == of_window(wanted)
    assert of_parameters(found) == of_parameters(wanted)
    np.testing.assert_allclose(decisions(found), decisions(wanted), atol=1e-6)
    assert found.certificate()["relative_gap"] < 1e-8


EXACT = [(case, verb) for case, verb in ALL if not case.startswith("large")]
COUNTS = {"nothing": 0, "add": 3, "remove": 4, "relabel": 2, "reweight": 2, "decay": N, "return": 2, "C": 0}


@pytest.mark.parametrize(("case", "verb"), EXACT)
def test_one_with_the_same_parameters_leaves_the_model_as_it_is(case: str, verb: str) -> None:
    model, found = begun(case)
    state = after(case, verb, restored(case, model))
    now, count = brought(case, found, state)
    check_same(now, state)
    if (case, verb) not in (("oneclass", "relabel"), ("pu", "relabel")):  # which has fewer to change
        assert count == COUNTS.get(verb, count)


@pytest.mark.parametrize("verb", ["nothing", "reweight", "C", "kernel", "C and a kernel", "robust"])
@pytest.mark.parametrize("asked", [{"C": 5.0}, {"kernel": "poly"}, {"C": 5.0, "kernel": "poly"}])
def test_parameters_that_it_was_asked_for_hold_from_then_on_and_the_others_are_the_model_s(
    asked: dict[str, Any], verb: str
) -> None:
    case = "two classes"
    model, found = begun(case, **asked)
    state = after(case, verb, restored(case, model))
    now, _ = brought(case, found, state)
    wanted = {**asked, **({"gamma": 0.2, "degree": 3, "coef0": 0.0} if "kernel" in asked else {})}
    do(state, edits(change=wanted))
    check_same(now, state)


@pytest.mark.parametrize("verb", COMMON | COST)
@pytest.mark.parametrize("case", ["large", "large words"])
def test_of_a_large_window_it_is_as_if_it_had_been_applied_at_once(case: str, verb: str) -> None:
    model, found = begun(case)
    early, _ = brought(case, found, restored(case, model))
    wanted = after(case, verb, early)
    now, _ = brought(case, found, after(case, verb, restored(case, model)))
    assert of_window(now) == of_window(wanted)
    assert of_parameters(now) == of_parameters(wanted)
    np.testing.assert_array_equal(decisions(now), decisions(wanted))
    if not verb.startswith("return"):  # whose key and features are there is known again
        np.testing.assert_array_equal(now.estimator.window_coefficients, wanted.estimator.window_coefficients)
        if verb not in ("all leave", "relabel"):  # which a certificate is refused for
            assert now.certificate() | {"version": 0} == wanted.certificate() | {"version": 0}


def test_of_a_large_window_a_cost_that_it_was_asked_for_holds_from_then_on() -> None:
    model, found = begun("large", C=5.0)
    now, _ = brought("large", found, after("large", "C", restored("large", model)))
    assert now.C == 5.0


def test_the_scale_of_features_is_of_the_window_that_it_learnt(tmp_path: Path) -> None:
    state = after("balanced", "all leave", restored("balanced", begun("balanced")[0]))
    found = job(state.copy(), tmp_path)
    now, _ = brought("balanced", found.path.read_bytes(), after("balanced", "decay", state))
    assert now.estimator.feature_scale_.is_of(state.estimator.window_features, np.ones(20))


def test_a_model_that_went_back_to_before_its_first_example_is_not_one_to_be_retrained() -> None:
    model, found = begun("two classes")
    state = restored("two classes", model)
    Restoration(0, ModelState.empty(state.spec, CACHE_MB).encode(), None, 1.0).apply(state)
    with pytest.raises(EmptyModel, match="knows no example any more"):
        brought("two classes", found, state)


def test_what_has_learnt_erased_examples_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store")
    spec = spec_of("large")
    live = alive(store, store.create("m", b""), spec)
    live.update(rows("large", range(N), [*range(N)]), None).result()
    found = job(live.copy().result(), tmp_path)
    live.erase(intent_of("m", [3])).result()
    with pytest.raises(InvalidInput, match="before examples were erased"):
        live.swap(found, None).result()
    assert not live.published.predictor
    live.stop()
    store.close()
