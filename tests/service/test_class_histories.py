"""Any updates in any order, retried, refused between and restored: every pair of classes is at its optimum.

Each is followed by a comparison with models trained from nothing, two classes at a time, on the window as plain rules
have it; at the end, and in the long form in the middle as well, the service is killed and compared again.
"""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from livesvm.service.client import Client, ServiceProblem
from tests.service.process import ServiceProcess
from tests.support.class_book import Book, Example, Label

WORDS = ("ape", "bee", "cat", "dog", "eel")
NUMBERS = (-1, 1, 2, 5, 70)
CENTRES = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [1.0, 1.0]])
PROBE = np.random.default_rng(1).normal(size=(15, 2)) * 1.5 + 1.0
HOUR = 3600.0
SEEDS = st.integers(0, 2**32 - 1)
KERNELS = (
    {"name": "rbf", "gamma": 0.5},
    {"name": "linear", "gamma": 1.0},
    {"name": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0},
)
_ids = itertools.count()


class Histories(RuleBasedStateMachine):
    """One model over REST, and the book of what it has to be."""

    service: Service
    is_long = False

    @property
    def client(self) -> Client:
        """As the service is reached now."""
        return self.service.client

    @initialize(seed=SEEDS)
    def create(self, seed: int) -> None:
        """Create an empty model."""
        rng = np.random.default_rng(seed)
        self.base = time.time()
        self.labels: tuple[Label, ...] = WORDS if rng.random() < 0.5 else NUMBERS
        window: dict[str, Any] = {}
        if rng.random() < 0.3:
            window["max_examples"] = 25
        if rng.random() < 0.4:
            window["max_age_seconds"] = 6 * HOUR
        some = {str(self.labels[1]): 2.0, str(self.labels[3]): 0.5}
        weights = (None, "balanced", some)[int(rng.integers(3))]
        scale = str(rng.choice(["none", "none", "standard", "minmax", "robust"]))
        self.book = Book(
            float(rng.choice([0.1, 1.0, 30.0])), dict(KERNELS[int(rng.integers(3))]), weights, True, scale, **window
        )
        self.id = f"history-{next(_ids)}"
        spec = {"C": self.book.C, "kernel": self.book.kernel, "scale": scale, "window": window}
        spec |= {} if weights is None else {"class_weight": weights}
        self.client.create_model(self.id, decision_function_shape="ovo", **spec)
        self.bookkeeping = {0: self.book.copy()}
        self.asked: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    # -- what may happen -----------------------------------------------------------------------------------------------

    @rule(seed=SEEDS)
    def add(self, seed: int) -> None:
        """Add examples, perhaps of a new class; others may leave and change with them."""
        rng = np.random.default_rng(seed)
        come = self._drawn(rng, int(rng.integers(1, 13)))
        others = {"remove": self._removal(rng), **self._edits(rng)} if rng.random() < 0.5 else {}
        self._update(rng, come, **others)

    @rule(seed=SEEDS)
    def replace(self, seed: int) -> None:
        """Replace as many examples as come."""
        rng = np.random.default_rng(seed)
        gone = self._some(rng, 6)
        if gone:
            self._update(rng, self._drawn(rng, len(gone)), remove={"keys": gone})

    @rule(seed=SEEDS)
    def remove(self, seed: int) -> None:
        """Remove by key, by order or by time."""
        rng = np.random.default_rng(seed)
        removal = self._removal(rng)
        if removal:
            self._update(rng, remove=removal)

    @rule(seed=SEEDS)
    def edit(self, seed: int) -> None:
        """Edit labels, weights and C of the examples that stay."""
        rng = np.random.default_rng(seed)
        edits = self._edits(rng)
        if edits:
            self._update(rng, **edits)

    @precondition(lambda self: self.book.examples)
    @rule(seed=SEEDS, by_relabel=st.booleans())
    def vanish(self, seed: int, by_relabel: bool) -> None:
        """Remove a class with all its examples, or make it another."""
        rng = np.random.default_rng(seed)
        label = self._label(rng, present=True)
        keys = [key for key, one in self.book.examples.items() if one.y == label]
        if by_relabel:
            self._update(rng, relabel=dict.fromkeys(keys, self._label(rng)))
        else:
            self._update(rng, remove={"keys": keys})

    @precondition(lambda self: self.book.examples)
    @rule(seed=SEEDS)
    def change(self, seed: int) -> None:
        """Other parameters; those of the kernel mean a re-solve."""
        rng = np.random.default_rng(seed)
        book = self.book
        what = str(rng.choice(["C", "gamma", "kernel", "scale", "class_weight", "fit_intercept", "rescale"]))
        if what == "rescale":
            if book.scale == "none":
                return
            self._ask({"rescale": True})
        else:
            weights = {str(label): float(rng.choice([0.3, 1.0, 4.0])) for label in self.labels[:3]}
            value: Any = {
                "C": float(rng.choice([0.05, 2.0, 50.0])),
                "gamma": float(rng.choice([0.1, 0.8])),
                "kernel": dict(KERNELS[int(rng.integers(3))]),
                "scale": str(rng.choice(["none", "standard", "minmax", "robust"])),
                "class_weight": weights if rng.random() < 0.6 else "balanced",
                "fit_intercept": bool(rng.random() < 0.7) or book.kernel["name"] != "rbf",
            }[what]
            self._ask({"change": {what: value}})
            if what == "gamma":
                book.kernel["gamma"] = value
            else:
                setattr(book, what, value)
            if what == "kernel" and value["name"] != "rbf" and not book.fit_intercept:
                book.version += 1
                self._keep()
                book.fit_intercept = True  # without one, a class without examples may well be what is predicted
                self._ask({"change": {"fit_intercept": True}})
        if what in ("gamma", "kernel", "scale", "rescale", "fit_intercept"):
            book.rescale()
        book.version += 1
        self._keep()

    @rule(seed=SEEDS)
    def retry(self, seed: int) -> None:
        """Repeat a request under its key: the same answer, no second effect; refuse another one."""
        rng = np.random.default_rng(seed)
        if not self.asked:
            return
        key = str(rng.choice(list(self.asked)))
        body, answer = self.asked[key]
        assert self.client.update(self.id, **body, idempotency_key=key) == answer
        with pytest.raises(ServiceProblem):
            self.client.update(self.id, **body | {"decay": 0.123}, idempotency_key=key)

    @rule(seed=SEEDS)
    def refuse(self, seed: int) -> None:
        """Refuse one wrong row as a whole."""
        rng = np.random.default_rng(seed)
        come = self._drawn(rng, 4)
        X, y = np.array([one.x for one in come]), [one.y for one in come]
        other: Label = "fox" if self.labels is NUMBERS else 9
        here = list(self.book.examples)
        asks: list[dict[str, Any]] = [
            {"X": np.where(np.arange(8).reshape(4, 2) == 5, np.nan, X), "y": y},
            {"X": X, "y": y[:3]},
            {"X": X, "y": y, "weights": [1.0, 1.0, -1.0, 1.0]},
            {"X": X, "y": y, "keys": ["a", "b", "a", "c"]},
            {"X": X, "y": y, "remove": {"keys": ["nobody"]}},
            {"X": X, "y": y, "relabel": {"nobody": y[0]}},
            {"X": X, "y": [0.5, 1.0, 2.0, 3.0]},
        ]
        if self.book.known:
            asks += [{"X": X, "y": [other] * 4}, {"X": np.ones((4, 3)), "y": y}]
        if here:
            asks += [
                {"X": X, "y": y, "keys": [*here[:1], "x", "y", "z"]},
                {"X": X, "y": y, "relabel": {here[-1]: other}, "C": 7.0},
                {"X": X, "y": y, "remove": {"oldest": len(here) + 1}},
            ]
        with pytest.raises(ServiceProblem) as refused:
            self.client.update(self.id, **asks[int(rng.integers(len(asks)))])
        assert 400 <= refused.value.status < 500

    @rule(seed=SEEDS)
    def restore(self, seed: int) -> None:
        """Restore an earlier version, of those that are kept."""
        rng = np.random.default_rng(seed)
        version = int(rng.integers(self.client.versions(self.id)["oldest"], self.book.version + 1))
        answer = self.client.restore(self.id, version)
        now = self.book.version + 1
        assert answer["version"] == now
        counter = self.book.next_key
        self.book = self.bookkeeping[version].copy()
        self.book.version, self.book.next_key = now, counter  # a key is given out once
        self._keep()

    @precondition(lambda self: self.is_long)
    @rule(is_kind=st.booleans(), has_snapshot=st.booleans())
    def come_back(self, is_kind: bool, has_snapshot: bool) -> None:
        """Stop or kill the service, and start it again."""
        if has_snapshot:
            self.client.checkpoint(self.id)
        self.service.again(is_kind=is_kind)

    # -- what holds then -----------------------------------------------------------------------------------------------

    @invariant()
    def the_model_is_the_one_trained_from_nothing(self) -> None:
        """Check the window, the classes, the proof and the predictions against training from nothing."""
        if not hasattr(self, "book"):
            return
        book, reported = self.book, self.client.model(self.id)
        assert (reported["version"], reported["n_examples"], reported["C"]) == (
            book.version,
            len(book.examples),
            book.C,
        )
        assert [(one["label"], one["n_examples"]) for one in reported["classes"]] == book.counts
        self._compare_window()
        if not book.examples:
            return
        proof = self.client.certificate(self.id)
        assert max([proof["relative_gap"], *(pair["relative_gap"] for pair in proof.get("pairs", []))]) <= 1e-8
        self._compare_predictions()

    def teardown(self) -> None:
        """Check that the same model comes back."""
        if hasattr(self, "book"):
            self.service.again(is_kind=False)
            type(self).the_model_is_the_one_trained_from_nothing(self)
            self.client.delete_model(self.id)

    def _compare_window(self) -> None:
        shown, there = self.client.examples(self.id, limit=1000)["examples"], self.book.examples
        assert [one["key"] for one in shown] == list(there)
        assert [one["y"] for one in shown] == [one.y for one in there.values()]
        np.testing.assert_allclose([one["weight"] for one in shown], [one.weight for one in there.values()], rtol=1e-12)
        assert [one["x"] for one in shown] == [one.x.tolist() for one in there.values()]

    def _compare_predictions(self) -> None:
        found, expected = self.client.predict(self.id, PROBE), self.book.pairs(PROBE)
        known = sorted(self.book.known)
        pairs = list(itertools.combinations(known, 2))
        decision = np.array(found["decision"]).reshape(len(PROBE), -1)
        if len(known) > 2:
            assert [tuple(two) for two in found["pairs"]] == pairs
        else:
            decision = -decision  # of two classes it is positive for the second
        weighed = {one.y for one in self.book.examples.values() if one.weight > 0.0}
        near = np.full(len(PROBE), not weighed)  # a class without weight may not be predicted
        votes = [Counter(dict.fromkeys((label for label, n in self.book.counts if n), 0)) for _ in PROBE]
        for column, two in zip(decision.T, pairs, strict=len(known) > 1):
            if two not in expected:
                continue
            wanted, is_sure = expected[two]
            apart = 0.0 if is_sure else float(np.median(column - wanted))
            np.testing.assert_allclose(column, wanted + apart, rtol=0, atol=1e-6 * max(1.0, np.abs(wanted).max()))
            near |= (np.abs(column) < 1e-6) | (not is_sure)
            for vote, value in zip(votes, wanted, strict=True):
                vote[two[0] if value > 0 else two[1]] += 1
        for label, vote, is_near in zip(found["prediction"], votes, near, strict=True):
            assert label in weighed or not weighed  # whoever is predicted has examples that count
            assert is_near or vote[label] == max(vote.values())
            assert is_near or label == min(one for one in vote if vote[one] == vote[label])

    # -- how it is asked -----------------------------------------------------------------------------------------------

    def _update(self, rng: Any, come: list[Example] | None = None, **verbs: Any) -> None:
        gone = self._gone(verbs.get("remove") or {})
        for verb in ("relabel", "reweight"):
            verbs[verb] = {key: value for key, value in verbs.get(verb, {}).items() if key not in set(gone)}
        verbs = {name: value for name, value in verbs.items() if value}
        if not verbs and not come:
            return
        names: list[Any] = list(range(self.book.next_key, self.book.next_key + len(come or [])))
        body = dict(verbs)
        if come:
            body |= {"X": np.array([one.x for one in come]), "y": [one.y for one in come]}
            body["weights"] = [one.weight for one in come]
            if come[0].time:
                body["times"] = [one.time for one in come]
            if rng.random() < 0.3:
                names = body["keys"] = [f"{self.book.version}-{i}" for i in range(len(come))]
        now = time.time()
        for one in come or []:
            one.time = one.time or now
        self._ask(body)
        self.book.update(
            now, dict(zip(names, come or [], strict=True)), gone, verbs.get("relabel", {}), verbs.get("reweight", {}),
            verbs.get("decay", 1.0), verbs.get("C"),
        )  # fmt: skip
        self._keep()

    def _gone(self, removal: dict[str, Any]) -> list[Any]:
        """Return the keys that a removal means."""
        there = self.book.examples
        if "older_than_unix" in removal:
            return [key for key, one in there.items() if one.time < removal["older_than_unix"]]
        return removal.get("keys") or list(there)[: removal.get("oldest", 0)]

    def _ask(self, body: dict[str, Any]) -> None:
        if "older_than_unix" in body.get("remove", {}):
            then = body["remove"]["older_than_unix"]
            body = body | {"remove": {"older_than": np.datetime64(int(then * 1000), "ms").item().isoformat() + "Z"}}
        key = f"key-{self.book.version}"
        self.asked[key] = body, self.client.update(self.id, **body, idempotency_key=key)

    def _keep(self) -> None:
        self.bookkeeping[self.book.version] = self.book.copy()

    def _drawn(self, rng: Any, n: int) -> list[Example]:
        """Draw ``n`` examples of some classes, rounded; all with a time of their own, or none."""
        kinds = rng.choice(len(self.labels), int(rng.integers(1, 4)), replace=False)
        is_timed = rng.random() < 0.4
        out = []
        for place in rng.choice(kinds, n).tolist():
            x = CENTRES[place] + rng.normal(size=2)
            ago = HOUR * (int(rng.integers(0, 9)) + 0.5)
            weight = float(rng.choice([0.0, 0.5, 1.0, 1.0, 3.0]))
            grid = np.round(x) if rng.random() < 0.2 else x
            out.append(Example(grid, self.labels[place], weight, self.base - ago if is_timed else 0.0))
        return out

    def _some(self, rng: Any, most: int) -> list[Any]:
        there = list(self.book.examples)
        n = min(int(rng.integers(1, most + 1)), len(there))
        return [there[i] for i in rng.permutation(len(there))[:n].tolist()]

    def _label(self, rng: Any, *, present: bool = False) -> Label:
        labels = [label for label, n in self.book.counts if n] if present else self.labels
        return labels[int(rng.integers(len(labels)))]

    def _removal(self, rng: Any) -> dict[str, Any]:
        n, way = len(self.book.examples), rng.random()
        if not n:
            return {}
        if way < 0.4:
            return {"keys": self._some(rng, n if rng.random() < 0.1 else 6)}
        if way < 0.7:
            return {"oldest": int(rng.integers(1, min(n, 6) + 1))}
        return {"older_than_unix": self.base - HOUR * int(rng.integers(2, 9))}

    def _edits(self, rng: Any) -> dict[str, Any]:
        edits: dict[str, Any] = {}
        if self.book.examples and rng.random() < 0.6:
            edits["relabel"] = {key: self._label(rng) for key in self._some(rng, 3)}
        if self.book.examples and rng.random() < 0.4:
            edits["reweight"] = {key: float(rng.choice([0.0, 0.3, 2.0])) for key in self._some(rng, 3)}
        if rng.random() < 0.3:
            edits["decay"] = 0.9
        if rng.random() < 0.3:
            edits["C"] = float(rng.choice([0.2, 1.5, 20.0]))
        return edits


class Service:
    """A process that comes back, and a client that follows it."""

    def __init__(self, process: ServiceProcess) -> None:
        self.process = process
        self.client = Client(process.url)

    def again(self, *, is_kind: bool) -> None:
        """Have it end and start."""
        self.client.close()
        if is_kind:
            self.process.stop()
        else:
            self.process.kill()
        self.process.start()
        self.client = Client(self.process.url)


@pytest.fixture(scope="module")
def coming_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with ServiceProcess(tmp_path_factory.mktemp("histories"), max_models=2000) as process:
        service = Service(process)
        yield service
        service.client.close()


def machine(on: Service, *, is_long: bool) -> type[Histories]:
    """Return histories on this service."""
    return type("Histories", (Histories,), {"service": on, "is_long": is_long})


@pytest.mark.alone
def test_any_history_ends_at_the_optimum_from_nothing(coming_back: Service) -> None:
    short = settings(max_examples=3, stateful_step_count=14)
    run_state_machine_as_test(machine(coming_back, is_long=False), settings=short)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_long_histories_end_at_the_optimum_from_nothing(coming_back: Service) -> None:
    long = settings(max_examples=int(os.environ.get("HISTORIES", "40")), stateful_step_count=50, derandomize=False)
    run_state_machine_as_test(machine(coming_back, is_long=True), settings=long)
