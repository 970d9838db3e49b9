"""Solves that are interrupted: at any look, the model is as it was; a handler that returns leaves no trace."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from itertools import count
from time import sleep
from typing import Any

import numpy as np
import pytest
from numba.core.caching import NullCache

from livesvm.solvers import (
    IncrementalOneClassSVM,
    IncrementalSVC,
    IncrementalSVR,
    TimeLimit,
    conformal,
    data_values,
    influences,
    k_fold,
    leave_one_out,
    time_limit,
)
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.kernels import kernel as kernels
from livesvm.solvers.models import predictor
from livesvm.solvers.problem import state
from livesvm.solvers.robust.ramp_losses import Parameter
from livesvm.solvers.robust.settings import Robustness
from livesvm.solvers.runtime import interrupt
from livesvm.solvers.runtime.compile import compiled, spent
from livesvm.solvers.runtime.interrupt import Interrupt, check, interruptible, undisturbed
from livesvm.solvers.runtime.threads import threads as cores
from livesvm.solvers.runtime.threads import together
from livesvm.solvers.runtime.types import Floats
from tests.interrupts import Looks, Stop, is_in_compiled_code
from tests.support.arrays import assert_same_arrays
from tests.support.interrupts import looked_at

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 3))
Y = np.where(X[:, 0] + RNG.normal(size=90) > 0, 1, -1)
GRID = np.round(X)  # duplicates, ties and dependent rows
GRAM = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))

Model = Any
Update = Callable[[Model], Any]


def svc(rows: Any = X, **parameters: Any) -> IncrementalSVC:
    """Return a classifier of the first 60 rows."""
    defaults: dict[str, Any] = {"C": 3.0, "gamma": 0.5, "classes": (-1, 1)}
    return IncrementalSVC(**defaults | parameters).fit(rows[:60], Y[:60])


def robust() -> IncrementalSVC:
    """Return a classifier that does not follow the labels that look wrong."""
    model = svc(C=10.0)
    model.update(robust=Robustness(0.2, -0.1))
    return model


def half_as_heavy(model: Model) -> dict[Any, float]:
    return dict.fromkeys(model.keys_[:20], 0.5)


UPDATES: dict[str, tuple[Callable[[], Model], Update]] = {
    "first": (lambda: IncrementalSVC(gamma=0.5, classes=(-1, 1)), lambda m: m.update(add=(X[:40], Y[:40]))),
    "fit": (svc, lambda m: m.fit(X[30:80], Y[30:80])),
    "slide": (svc, lambda m: m.update(add=(X[60:80], Y[60:80]), remove=m.keys_[:20])),
    "remove": (svc, lambda m: m.update(remove=m.keys_[:25])),
    "relabel": (svc, lambda m: m.update(relabel={key: -Y[key] for key in m.keys_[5:15]})),
    "reweight": (svc, lambda m: m.update(reweight=half_as_heavy(m), decay=0.9)),
    "C": (svc, lambda m: m.update(C=40.0)),
    "most of it": (svc, lambda m: m.update(add=(X[60:], Y[60:]), remove=m.keys_[:50])),
    "large costs": (lambda: svc(C=1e6), lambda m: m.update(add=(X[60:80], Y[60:80]), remove=m.keys_[:20])),
    "degenerate": (
        lambda: svc(GRID, kernel="linear", C=100.0),
        lambda m: m.update(add=(GRID[60:80], Y[60:80]), remove=m.keys_[:20]),
    ),
    "not convex": (
        lambda: svc(0.1 * X, kernel="poly", degree=1, coef0=-1e-12),
        lambda m: m.update(add=(0.1 * X[60:70], Y[60:70])),
    ),
    "precomputed": (
        lambda: svc(GRAM[:, :60], kernel="precomputed"),
        lambda m: m.update(add=(GRAM[60:80, :80], Y[60:80]), remove=m.keys_[:20]),
    ),
    "become robust": (lambda: svc(C=10.0), lambda m: m.update(robust=Robustness(0.0, 0.0))),
    "stay robust": (robust, lambda m: m.update(add=(X[60:80], -Y[60:80]), remove=m.keys_[:20])),
    "regression": (
        lambda: IncrementalSVR(C=5.0, gamma=0.5).fit(X[:60], X[:60, 0]),
        lambda m: m.update(add=(X[60:80], X[60:80, 1]), remove=m.keys_[:20]),
    ),
    "one class": (
        lambda: IncrementalOneClassSVM(nu=0.3, gamma=0.5).fit(X[:60]),
        lambda m: m.update(add=(X[60:80], None), remove=m.keys_[:20]),
    ),
}


def arrays(model: Model) -> dict[str, Any] | None:
    return model.to_arrays() if hasattr(model, "_window") else None


@pytest.mark.parametrize("name", UPDATES)
def test_an_update_that_is_ended_at_any_look_changes_nothing(name: str) -> None:
    make, update = UPDATES[name]
    model = make()
    before = arrays(model)
    for k in count(1):
        looks = Looks(end_at=k)
        with looked_at(looks):
            try:
                update(model)
                break
            except Stop:
                pass
        after = arrays(model)
        if before is None or after is None:
            assert after is before
        else:
            assert_same_arrays(before, after)
    assert k > 5
    assert looks.within_compiled_code > 0
    assert model.certificate().relative_gap < 1e-9


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work be little when it is very little, so that it is done in parts as that of a large window is."""
    monkeypatch.setattr(interrupt, "AT_ONCE", 2000)
    monkeypatch.setattr(kernels, "AT_ONCE", 2000)
    monkeypatch.setattr(state, "LITTLE", 20)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", UPDATES)
def test_so_does_one_that_is_ended_between_two_parts_of_its_work(name: str) -> None:
    make, update = UPDATES[name]
    model = make()
    before, k, ended = arrays(model), 1, True
    vacant = vacancies(model)
    while ended:
        ended = False
        with looked_at(Looks(end_at=k)):
            try:
                update(model)
            except Stop:
                ended = True
        if ended and before is not None:
            assert_same_arrays(before, model.to_arrays())
            assert vacancies(model) == vacant
        k += 1 + k // 8
    assert k > 5
    assert model.certificate().relative_gap < 1e-9


def vacancies(model: Model) -> int:
    """Return how many numbers of a given kernel matrix are unused; they may become more."""
    gram = model._window.state.kernel.gram if hasattr(model, "_window") else None
    return 0 if gram is None else len(gram.values) - len(gram.vacant)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
def test_kernel_values_are_the_same_in_parts(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    rows, columns = rng.normal(size=(7, 5)), rng.normal(size=(5, 1700))
    k = kernels.Kernel(kernel, gamma=0.3, coef0=1.0)
    whole = k.matrix(rows, columns, 1650)
    monkeypatch.setattr(kernels, "AT_ONCE", 20_000)
    with looked_at(Looks()) as looks:
        np.testing.assert_array_equal(k.matrix(rows, columns, 1650), whole)
    assert looks.count > 8


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", UPDATES)
def test_values_do_not_depend_on_interrupts_between_parts(name: str) -> None:
    test_a_handler_that_returns_leaves_no_trace(name)


@pytest.mark.usefixtures("small_parts")
@pytest.mark.parametrize("name", UPDATES)
def test_others_can_go_first_at_any_look(name: str) -> None:
    """A scheduler lets another thread solve meanwhile: this one must hold nothing that the other waits for."""
    make, update = UPDATES[name]
    model, *others = pickle.loads(pickle.dumps([make() for _ in range(31)]))

    class GiveWay(Looks):
        """At each look, up to the number of others, one of those is updated in a thread of its own."""

        def __call__(self) -> None:
            super().__call__()
            if self.count <= len(others):
                thread = threading.Thread(target=update, args=(others[self.count - 1],), daemon=True)
                thread.start()
                thread.join(20.0)
                assert not thread.is_alive()

    with looked_at(GiveWay()) as looks:
        update(model)
    assert looks.count > 1


@pytest.mark.parametrize("name", UPDATES)
def test_a_handler_that_returns_leaves_no_trace(name: str) -> None:
    make, update = UPDATES[name]
    alone, interrupted = make(), make()
    update(alone)
    with looked_at(Looks()) as looks:
        update(interrupted)
    assert looks.within_compiled_code > 0
    assert_same_arrays(alone.to_arrays(), interrupted.to_arrays())


LONG: dict[str, Callable[[Model], Any]] = {
    "leave one out": lambda m: leave_one_out(m).decisions,
    "k fold": lambda m: k_fold(m, 4).decisions,
    "path": lambda m: m.regularization_path(0.1, 50.0).breakpoints.value,
    "validation": lambda m: m.regularization_path(0.1, 50.0).validation_error(X[60:], Y[60:]).left,
    "outlier theta": lambda m: [b.value for b in m.outlier_path("theta").breakpoints],
    "outlier s": lambda m: m.outlier_path("s").validation_errors(X[60:], Y[60:])[1],
    "certificate": lambda m: m.certificate().duality_gap,
    "decisions": lambda m: m.decision_function(X),
    "back": lambda m: prepared(m).decision_function(X),
}


def prepared(model: Model) -> Model:
    """Return the model from its arrays, with its factor."""
    back = type(model).from_arrays(model.get_params(), model.to_arrays())
    back.prepare()
    return back


@pytest.mark.parametrize("name", LONG)
def test_what_changes_nothing_can_be_ended_and_interrupted_too(name: str) -> None:
    model = svc(C=30.0)
    before, expected = arrays(model), LONG[name](model)
    assert before is not None
    with looked_at(Looks()) as looks:
        np.testing.assert_array_equal(LONG[name](model), expected)
    for end_at in np.unique(np.linspace(1, looks.count, 30).astype(int)).tolist():
        with looked_at(Looks(end_at)), pytest.raises(Stop):
            LONG[name](model)
        assert_same_arrays(before, model.to_arrays())
    np.testing.assert_array_equal(LONG[name](model), expected)


def test_every_event_of_a_path_is_a_look() -> None:
    """Also where compiled code begins many walks."""
    model = svc(C=30.0)
    parameters: tuple[Parameter, ...] = ("theta", "s")
    for parameter in parameters:
        with looked_at(Looks()) as looks:
            events = model.outlier_path(parameter).events
        assert looks.within_compiled_code > events
    with looked_at(Looks()) as looks:
        leave_one_out(model)
    assert looks.within_compiled_code >= np.count_nonzero(model.to_arrays()["beta"])


def hard() -> tuple[Any, Any]:
    """Return a problem of tens of thousands of events."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(3000, 20)), rng.choice([-1, 1], 3000)


def test_another_thread_interrupts_a_long_walk() -> None:
    rows, labels = hard()
    model = svc(C=1e8, gamma=2.0)
    seen: list[tuple[str, bool]] = []
    interrupts: list[Interrupt] = []
    begun, end = threading.Event(), threading.Event()

    def handler() -> None:
        seen.append((threading.current_thread().name, is_in_compiled_code()))
        if end.is_set():
            raise Stop("from another thread")

    def solve() -> None:
        with interruptible(handler) as interrupt:
            interrupts.append(interrupt)
            begun.set()
            with pytest.raises(Stop):
                model.fit(rows, labels)

    thread = threading.Thread(target=solve, name="solver")
    thread.start()
    assert begun.wait(60)
    while thread.is_alive() and not any(compiled for _, compiled in seen):
        sleep(0.01)
        interrupts[0].ask()
    end.set()
    interrupts[0].ask()
    thread.join(60)
    assert not thread.is_alive()
    assert {name for name, _ in seen} == {"solver"}
    assert any(compiled for _, compiled in seen)
    assert model.n_window_ == 60


def test_a_time_limit_ends_what_is_solved_inside_and_nothing_else() -> None:
    rows, labels = hard()
    model = svc(gamma=2.0)
    before = model.to_arrays()
    with time_limit(0.3):
        for _ in range(2):  # after the limit there is no time for anything inside
            with pytest.raises(TimeLimit, match=r"0\.3 s.*as it was"):
                model.update(add=(rows[:, :3], labels), C=1e8)
    assert_same_arrays(before, model.to_arrays())
    with time_limit(600.0):
        model.update(add=(X[60:], Y[60:]))
    assert model.certificate().relative_gap < 1e-9


@pytest.mark.parametrize("seconds", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_time_limit_is_a_positive_number(seconds: Any) -> None:
    with pytest.raises(InvalidInput, match="seconds"), time_limit(seconds):
        pass


def test_those_around_are_heeded_too() -> None:
    calls: list[str] = []
    with interruptible(lambda: calls.append("outer")) as outer, interruptible(lambda: calls.append("inner")) as inner:
        check()
        outer.ask()
        check()
        inner.ask()
        check()
        check()
        assert calls == ["outer", "inner"]
        inner.ask()
    check()
    assert calls == ["outer", "inner"]


def test_both_are_heeded_in_the_middle_of_a_walk() -> None:
    inner, outer = Looks(), Looks(end_at=40)
    model = svc()
    before = model.to_arrays()
    with looked_at(outer), looked_at(inner), pytest.raises(Stop):
        model.update(C=1e5)
    assert inner.count in (39, 40)
    assert inner.within_compiled_code > 0
    assert_same_arrays(before, model.to_arrays())


def test_an_undo_is_not_disturbed_and_requests_meanwhile_are_answered_afterwards() -> None:
    looks = Looks()
    with looked_at(looks):
        with undisturbed():
            check()
            assert looks.count == 0
        check()
        assert looks.count == 1


def test_threads_of_one_solve_leave_interrupts_to_the_one_that_waits() -> None:
    names: set[str] = set()

    def handler() -> None:
        names.add(threading.current_thread().name)

    def work() -> int:
        sleep(0.1)
        check()
        return 1

    with cores(2), interruptible(handler) as interrupt:
        interrupt.ask()
        assert together([work] * 4) == [1] * 4
    assert names == {threading.current_thread().name}


def test_what_other_threads_have_not_begun_is_not_begun_any_more() -> None:
    done: list[int] = []

    def work() -> None:
        sleep(0.05)
        done.append(1)

    with cores(2), looked_at(Looks(end_at=2)), pytest.raises(Stop):
        together([work] * 100)
    assert len(done) < 100


def test_time_that_compiling_takes_does_not_count() -> None:
    @compiled
    def first_used(x: Floats) -> float:
        total = 0.0
        for value in x:
            total += np.sqrt(np.abs(np.sin(value)))
        return total

    first_used._cache = NullCache()  # type: ignore[attr-defined]
    before, reached = spent.seconds, []

    def work() -> None:
        with time_limit(0.02):
            first_used(np.ones(3))
            reached.append(spent.seconds - before)
            check()
            reached.append(0.0)
            while True:
                check()

    with pytest.raises(TimeLimit):
        work()
    assert len(reached) == 2
    assert reached[0] > 0.02


ASKED: dict[str, Callable[[Model, Any], Any]] = {
    "decisions": lambda model, rows: model.decision_function(rows),
    "decisions of pairs": lambda model, rows: several().decision_function(rows),
    "influences": influences,
    "data values": lambda model, rows: data_values(model, rows, np.sign(rows[:, 0])),
    "sets": lambda model, rows: conformal(model).sets(rows, 0.9),
    "sets of pairs": lambda model, rows: conformal(several()).sets(rows, 0.9),
    "intervals": lambda model, rows: conformal(IncrementalSVR(gamma=0.5).fit(X, X[:, 0])).intervals(rows, 0.9),
}


def several() -> IncrementalSVC:
    """Return a classifier of three classes."""
    return IncrementalSVC(C=3.0, gamma=0.5).fit(X, Y + (X[:, 1] > 0))


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_of_many_rows_can_be_ended_after_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (interrupt, predictor):
        monkeypatch.setattr(module, "AT_ONCE", 1)
    ask, model, counts = ASKED[name], svc(), []
    for n in (16, 1600):
        looks = Looks()
        with interruptible(looks) as asked:
            looks.start(asked)
            ask(model, np.resize(X, (n, 3)))
        counts.append(looks.count)
    assert counts[1] >= counts[0] + 90
    looks = Looks(end_at=counts[1] - 5)
    with interruptible(looks) as asked:
        looks.start(asked)
        with pytest.raises(Stop):
            ask(model, np.resize(X, (1600, 3)))
