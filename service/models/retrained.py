"""The result of a retraining job, and the update of this result to a window that has changed since the job began."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from livesvm.service.errors import EmptyModel
from livesvm.service.models.arrays import Key
from livesvm.service.models.classifier import ServedClassifier
from livesvm.service.models.commands import Outcome, Sizes, follow
from livesvm.service.models.learners import new_estimator, restored_estimator
from livesvm.service.models.state import ModelState
from livesvm.service.store import codec
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.errors import InvalidInput
from livesvm.solvers.estimators.large_window import LiveL2SVC
from livesvm.solvers.models import feature_scale
from livesvm.solvers.models.base import LiveEstimator
from livesvm.solvers.models.change import Batch, Change, Edits
from livesvm.solvers.models.changing import ChangingEstimator
from livesvm.solvers.models.class_labels import check_kind
from livesvm.solvers.sparse import same


@dataclass(frozen=True)
class Retrained:
    """A job's file with a retrained estimator: ``arrays``, the parameters that were ``changed``, and ``sizes``.

    The file also has the parameters that the job was ``asked`` for, and the ``scale`` of features at ``version``, the
    model's version that the job started from.
    """

    job: str
    path: Path
    data: bytes | None = None
    version: int = 0

    def carried(self) -> Retrained:
        """Return a copy with the file's content in memory, for a model in another process; raises StoreUnavailable."""
        return replace(self, data=self._read())

    def size(self) -> int:
        """Return the size of the file in bytes; raises StoreUnavailable."""
        return len(self._read())

    def brought_up_to(self, state: ModelState) -> tuple[bytes, int]:
        """Return a snapshot of the result for ``state``'s window, and how many examples changed since the job began.

        Raises SolverError if the result cannot be updated to the window, StoreUnavailable or StoreDamaged.
        """
        found = codec.decode(self._read())
        estimator = restored_estimator(state.spec, state.cache_mb, found["arrays"], **found["changed"])
        sizes, window = Sizes(**found["sizes"]), state.window
        if isinstance(estimator, LiveL2SVC):
            asked = found["asked"]
            estimator, count = _with_solution(state, estimator, keeps_C="C" not in asked)
            sizes = replace(sizes, n_examples=len(window.arrivals))
            window = replace(window, n_features=estimator.n_features_in_)
        else:
            estimator, brought, count = _brought(state, estimator, found)
            estimator._record, sizes = state.estimator._record, brought or sizes
        return replace(state, estimator=estimator, window=window, sizes=sizes, owed=None).encode(), count

    def _read(self) -> bytes:
        if self.data is not None:
            return self.data
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StoreUnavailable(f"what job {self.job} found cannot be read: {error}") from error


def _brought(
    state: ModelState, estimator: LiveEstimator, found: dict[str, Any]
) -> tuple[LiveEstimator, Sizes | None, int]:
    """Return the optimum for the window and parameters of ``state``, but with the parameters the job was asked for.

    The function also returns the sizes, or None if the sizes in ``found`` are right, and how many examples differ from
    the job's window. If the model has changed in more than its window, a copy of the model gets the parameters that the
    job was asked for.

    Raises
    ------
    EmptyModel : the model has no example any more
    SolverError
    """
    if not state.is_fitted:
        raise EmptyModel(f"model {state.spec.id} knows no example any more; retrain it when it does")
    (slid, count), asked = _slid(estimator, state.estimator), found["asked"]
    if not _has_only_slid(state, estimator, found, asked):
        own = state.copy().estimator()
        if not asked:
            return own, state.sizes, count
        assert isinstance(own, ChangingEstimator)
        return own, Outcome.of(own.change(**{name: getattr(estimator, name) for name in asked})).sizes, count
    if not count:
        return estimator, None, 0
    return estimator, follow(estimator, slid).sizes, count


def _has_only_slid(state: ModelState, estimator: LiveEstimator, found: dict[str, Any], asked: list[str]) -> bool:
    """Return whether the model differs from the job's only in its window and in the parameters ``asked`` for."""
    own, apart = state.estimator, {"gamma", *asked}
    then, now = ({k: v for k, v in each.items() if k not in apart} for each in (found["changed"], state.changed))
    gammas, priors = ([getattr(m, name, None) for m in (own, estimator)] for name in ("gamma_", "prior_estimate_"))
    each = found["scale"], feature_scale.kept(own.to_arrays())
    scales = [{name: value for name, value in one.items() if name != "words"} for one in each]  # those of the window
    known = {*(labels := state.labels or [])}
    if isinstance(estimator, ServedClassifier):
        known = {*estimator.classes_.tolist(), *own.window_y.tolist()}
    return (
        then == now
        and own.chosen_ == estimator.chosen_
        and ("gamma" in asked or gammas[0] == gammas[1])
        and priors[0] == priors[1]
        and codec.pack(scales[0]) == codec.pack(scales[1])
        and own.robustness() is None
        and known == {*labels}
    )


def _with_solution(state: ModelState, found: LiveL2SVC, *, keeps_C: bool) -> tuple[LiveL2SVC, int]:
    """Return a copy of the model with the job's solution, and how many of the model's examples the job did not have."""
    if state.is_fitted:
        model = restored_estimator(state.spec, state.cache_mb, state.estimator.to_arrays(), **state.changed)
    else:
        model = new_estimator(state.spec, state.cache_mb, **state.changed)
    assert isinstance(model, LiveL2SVC)
    width, own = found.n_features_in_, state.window.n_features
    if own is not None and width != own:
        raise InvalidInput(f"has {width} features, the model has {own}", field="dataset")
    check_kind(model.labels_, found.classes_, "dataset")
    before, C = set(found.keys_), model.C
    model.take_over(found)
    if keeps_C:
        model.C = C
    return model, sum(key not in before for key in model.keys_)


def _slid(before: LiveEstimator, now: LiveEstimator) -> tuple[Change, int]:
    """Return a change that turns the window of ``before`` into that of ``now``, and how many examples it changes.

    A change adds new examples at the end of the window. So the first examples of ``now`` can stay only as far as they
    have the same features and order. All examples after the first new one must be added, even if their keys were in the
    window before.
    """
    relabel, reweight, come = dict[Key, Any](), dict[Key, float](), list[int]()
    place_of, last = {key: place for place, key in enumerate(before.keys_)}, -1
    columns = [(m.window_features, m.window_y, m.window_sample_weight) for m in (before, now)]
    (old_X, old_y, old_weights), (X, y, weights) = columns
    stay = set()
    for place, key in enumerate(now.keys_):
        was = place_of.get(key, -1)
        if come or was <= last or not same(old_X[was], X[place]):
            come.append(place)
            continue
        last = was
        stay.add(key)
        if old_y[was] != y[place]:
            relabel[key] = y[place]
        if old_weights[was] != weights[place]:
            reweight[key] = float(weights[place])
    leave, keys = [key for key in place_of if key not in stay], now.keys_
    add = Batch(X[np.array(come)], y[come], [keys[place] for place in come], weights[come]) if come else None
    count = len({*leave, *relabel, *reweight}) + len(come)
    return Change(add, leave, Edits(relabel, reweight)), count
