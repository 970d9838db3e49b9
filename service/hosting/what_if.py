"""Compute the effect of a change on a copy of a model; the model stays unchanged, and the change is not logged."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from livesvm.service.hosting.model import limits_of
from livesvm.service.models.arrays import Key, Rows
from livesvm.service.models.commands import Outcome, memory_of
from livesvm.service.models.learners import task_of
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelCopy, ModelState
from livesvm.service.models.table_rows import TableRows
from livesvm.service.settings import Settings
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.models.change import Change

Document = dict[str, Any]

BYTES_OF_DECISION = 80
"""Bytes of a decision: as a number in an array, as an object, and as text."""


@dataclass(frozen=True)
class WhatIfQuestion:
    """A change to try on a copy of a model: an update or an erasure.

    Parameters
    ----------
    update : the update to try; None: an erasure
    keys, tags : keys and tags of the examples that the erasure would remove
    X : rows (m, d), or with names, to decide before and after; None: only the window's examples are compared
    """

    update: Change | None = None
    keys: tuple[Key, ...] = ()
    tags: tuple[str, ...] = ()
    X: Rows | TableRows | None = None

    def memory(self) -> int:
        """Return the bytes of memory that the question takes until its answer is sent."""
        return (0 if self.update is None else memory_of(self.update)) + (0 if self.X is None else self.X.nbytes)


def memory_of_answer(copy: ModelCopy, asked: WhatIfQuestion) -> int:
    """Return the memory in bytes for the decisions before and after the change."""
    pairs = max(1, copy.n_classes * (copy.n_classes - 1) // 2)
    return 0 if asked.X is None else 2 * BYTES_OF_DECISION * pairs * len(asked.X)


def what_if(copy: ModelCopy, asked: WhatIfQuestion, settings: Settings) -> Document:
    """Return a description of the model after a change, and how much the change alters the model's predictions.

    Parameters
    ----------
    copy : the version to which the change would be made
    settings : the settings, which limit rows, features and classes

    Returns
    -------
    JSON values, as ``WhatIfAnswer`` names them

    Raises
    ------
    InvalidInput, DuplicateKey, UnknownKey : the change cannot be made
    NotSolved, SolverError : no optimum was reached
    """
    if not task_of(copy.spec).is_exact and asked.update is not None:
        reason = f"models of task {copy.spec.task} predict by their last training, which no update changes"
        raise InvalidInput(reason, field="body")
    state = copy.state()
    if (training := state.trained_on) is not None and training.dataset is not None:
        reason = f"model {copy.spec.id} was trained on dataset {training.dataset['name']}, which a job has to do again"
        raise InvalidInput(f"{reason} after an erasure; that cannot be weighed", field="erase")
    before = state.published()
    before.check_known(copy.spec)
    X = None if asked.X is None else before.checked(copy.spec, asked.X, settings.max_predict_rows)
    of_window = _Window.of(state, before)
    reported = _erase(state, asked) if asked.update is None else _apply(state, asked.update, settings)
    after = state.published()
    can_predict = after.predictor is not None
    return {
        "version": copy.version,
        **copy.on_scale,
        **reported,
        **vars(state.sizes),
        "can_predict": can_predict,
        "certificate": state.certificate() | {"version": copy.version} if can_predict else None,
        "window": of_window.compared(state, after) if can_predict else None,
        "rows": None if X is None else _rows(copy, before, after if can_predict else None, X),
    }


def _apply(state: ModelState, update: Change, settings: Settings) -> Document:
    limits = limits_of(state.spec, settings)
    command = state.plan(update, limits, settings.max_classes, time.time(), None)
    outcome = state.apply(command)
    kept = {"ignored": command.ignored} if command.ignored else {}
    return {"added": command.added, "removed": command.remove, **kept, "changed": outcome.changed, **_path(outcome)}


def _erase(state: ModelState, asked: WhatIfQuestion) -> Document:
    wanted, tagged, window = set(asked.keys), set(asked.tags), state.window
    keys = [key for key in window.arrivals if key in wanted or not tagged.isdisjoint(window.tags.get(key, ()))]
    training = state.trained_on
    rests = training is not None and any(key in wanted or not tagged.isdisjoint(tags) for key, tags in training.named())
    outcome = state.forget(keys, is_trained_on=rests) or Outcome(state.sizes)
    if state.owed is not None:
        raise InvalidInput(f"{state.owed.reason}", field="erase")
    return {"added": [], "removed": keys, "changed": 0, **_path(outcome)}


def _path(outcome: Outcome) -> Document:
    return {"events": outcome.events, "seconds": outcome.seconds, "warnings": outcome.more.get("warnings")}


@dataclass(frozen=True)
class _Window:
    """The decisions for the window's examples before a change, by key."""

    places: dict[Key, int]
    decision: Any
    prediction: Any

    @classmethod
    def of(cls, state: ModelState, seen: Published) -> _Window:
        """Return a model's decisions for the examples in its window; the model must be able to predict."""
        keys = state.estimator.keys_
        return cls({key: place for place, key in enumerate(keys)}, *_decided(state, seen))

    def compared(self, state: ModelState, after: Published) -> Document:
        """Return how much the change alters the decisions for the examples that stay in the window."""
        keys = state.estimator.keys_
        stay = np.array([key in self.places for key in keys], dtype=bool)
        there = np.array([self.places[key] for key in keys if key in self.places], dtype=np.intp)
        decision, prediction = _decided(state, after)
        differs = _differs(state.spec, self.prediction[there], prediction[stay])
        return {"n_stay": int(stay.sum()), "n_changed": differs, **_moved(self.decision[there], decision[stay])}


def _decided(state: ModelState, seen: Published) -> tuple[Any, Any]:
    return seen.decide(state.spec, state.estimator.window_features)


def _rows(copy: ModelCopy, before: Published, after: Published | None, X: Rows) -> Document:
    first, now = before.decide(copy.spec, X), None if after is None else after.decide(copy.spec, X)
    reported: Document = {"before": _told(first, before), "after": None if now is None else _told(now, after)}
    if now is None:
        return reported | {"n_changed": None, "largest_move": None}
    return reported | {"n_changed": _differs(copy.spec, first[1], now[1]), **_moved(first[0], now[0])}


def _told(decided: tuple[Any, Any], seen: Published | None) -> Document:
    decision, prediction = decided
    classes = None if seen is None or seen.classes is None else seen.classes.tolist()
    return {"decision": decision.tolist(), "prediction": prediction.tolist(), "classes": classes}


def _differs(spec: ModelSpec, before: Any, after: Any) -> int | None:
    """Return how many predicted labels differ; None if the predictions are not labels."""
    return None if task_of(spec).has_values else int(np.count_nonzero(before != after))


def _moved(before: Any, after: Any) -> Document:
    """Return the largest difference between old and new decisions; None without decisions, or if the classes differ."""
    alike = before.shape == after.shape and before.size
    return {"largest_move": float(np.abs(after - before).max()) if alike else None}
