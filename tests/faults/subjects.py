"""The models that a campaign of kills follows, and what each has to be after it: one trained from nothing."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np

from livesvm.solvers import IncrementalSVC
from tests.support.updates_under_faults import MODEL, PROBE, batch

ERASED_AT_ONCE = 3
SEARCHED = 30
"""Of the examples that were erased, the newest."""
WINDOW = 60
"""Examples that the models keep."""

Place = tuple[int, int]
"""An example: the number of its update, and its row there."""
Rows = tuple[np.ndarray, list[Any]]
"""Features (n, d) and labels (n,)."""


@dataclass(frozen=True)
class Subject:
    """One model.

    Parameters
    ----------
    spec : as it is created
    batch : its update of a number: ten examples under their own keys
    decisions : of PROBE by a model that learns the window from nothing, by pair of labels; the second window is the one
        by which features are scaled
    """

    spec: dict[str, Any]
    batch: Callable[[int], dict[str, Any]]
    decisions: Callable[[Rows, Rows], dict[Any, np.ndarray]]

    @property
    def path(self) -> str:
        """Where it is served."""
        return f"/models/{self.spec['id']}"

    def send(self, http: httpx.Client, number: int, **options: Any) -> httpx.Response:
        """Send an update, under its own Idempotency-Key."""
        name = {"Idempotency-Key": f"update-{number}"}
        return http.post(f"{self.path}/update", json=self.batch(number), headers=name, **options)


WORDS = np.array(["ape", "bee", "cat"])


def _words(number: int) -> dict[str, Any]:
    """Three classes, and now and then one example alone in a fourth."""
    rng = np.random.default_rng([1, number])
    places = np.arange(10) % 3
    y = WORDS[places].tolist()
    if number % 7 == 0:
        y[9] = "dog"
    X = rng.normal(size=(10, 3)) + np.eye(3)[places]
    return {"add": {"X": X.tolist(), "y": y, "keys": [f"{number}-{row}" for row in range(10)]}}


def _scaled(number: int) -> dict[str, Any]:
    """Return features of different sizes."""
    rng = np.random.default_rng([2, number])
    y = rng.choice([-1, 1], 10)
    X = (rng.normal(size=(10, 3)) + y[:, None]) * [1.0, 50.0, 0.02]
    return {"add": {"X": X.tolist(), "y": y.tolist(), "keys": [f"{number}-{row}" for row in range(10)]}}


def _of_two(window: Rows, _: Rows) -> dict[Any, np.ndarray]:
    return {None: IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit(*window).decision_function(PROBE)}


def _of_several(window: Rows, _: Rows) -> dict[Any, np.ndarray]:
    model = IncrementalSVC(C=10.0, gamma=0.3, decision_function_shape="ovo").fit(*window)
    return dict(zip(model.pairs_, model.decision_function(PROBE).T, strict=True))


def _on_a_scale(window: Rows, scaled_by: Rows) -> dict[Any, np.ndarray]:
    low = scaled_by[0].min(axis=0)
    width = scaled_by[0].max(axis=0) - low
    model = IncrementalSVC(C=10.0, gamma=0.3, classes=(-1, 1)).fit((window[0] - low) / width, window[1])
    return {None: model.decision_function((np.array(PROBE) - low) / width)}


TWO = Subject(MODEL, batch, _of_two)
SUBJECTS = (
    TWO,
    Subject(MODEL | {"id": "words", "decision_function_shape": "ovo"}, _words, _of_several),
    Subject(MODEL | {"id": "scaled", "scale": "minmax"}, _scaled, _on_a_scale),
)


@dataclass
class Course:
    """What was asked of one of the models and acknowledged; its window is in the order in which examples came."""

    subject: Subject = TWO
    acknowledged: int = 0
    updates: int = 0  #: that were acknowledged, among all calls
    window: list[Place] = field(default_factory=list)
    scaled_by: list[Place] = field(default_factory=list)  #: whose features decided the scale
    erased: list[Place] = field(default_factory=list)
    erasing: list[Place] = field(default_factory=list)  #: asked for, and not acknowledged yet
    is_updating: bool = False  #: whether an update has been sent that is not acknowledged yet

    def updated(self) -> None:
        """Note that the next update is acknowledged."""
        self.window = [*self.window, *((self.updates, row) for row in range(10))][-WINDOW:]
        self.scaled_by = self.scaled_by or self.window
        self.updates += 1
        self.acknowledged += 1
        self.is_updating = False

    def forgotten(self) -> None:
        """So is what was to be erased."""
        self.window = [place for place in self.window if place not in self.erasing]
        self.scaled_by = self.window
        self.erased += self.erasing
        self.erasing = []
        self.acknowledged += 1

    def wants_to_erase(self, rng: random.Random, share: float) -> bool:
        """Return whether the next call is an erasure, rather than an update."""
        may = len(self.window) > 2 * ERASED_AT_ONCE and not self.is_updating
        return bool(self.erasing) or (may and rng.random() < share)

    def keys(self, rng: random.Random) -> list[str]:
        """Return keys to erase: some of the window, and one that left it, or was erased before."""
        if not self.erasing:
            self.erasing = rng.sample(self.window, ERASED_AT_ONCE)
        before = (0, 0) if (0, 0) not in self.window else self.erasing[0]
        return [f"{number}-{row}" for number, row in dict.fromkeys([*self.erasing, before])]

    def is_right(self, http: httpx.Client) -> bool:
        """Return whether the model is the one trained from nothing on what was acknowledged."""
        fresh = self.subject.decisions(self._rows(self.window), self._rows(self.scaled_by))
        answer = http.post(f"{self.subject.path}/predict", json={"X": PROBE}).json()
        found: dict[Any, np.ndarray] = {None: np.array(answer["decision"])}
        if "pairs" in answer:
            found = {tuple(two): row for two, row in zip(answer["pairs"], found[None].T, strict=True)}
        same = all(np.allclose(found[two], wanted, rtol=0, atol=1e-6) for two, wanted in fresh.items())
        gap = http.get(f"{self.subject.path}/certificate").json()["relative_gap"]
        return bool(same and answer["version"] == self.acknowledged and gap <= 1e-8)

    def searched(self) -> list[list[float]]:
        """Return features of the examples erased last."""
        return [self.subject.batch(number)["add"]["X"][row] for number, row in self.erased[-SEARCHED:]]

    def _rows(self, places: list[Place]) -> Rows:
        added = {number: self.subject.batch(number)["add"] for number, _ in places}
        X, y = ([added[number][name][row] for number, row in places] for name in ("X", "y"))
        return np.array(X), y
