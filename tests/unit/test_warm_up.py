"""After ``warm_up`` nothing is left to compile: not in a first fill, not in a month in and out, not in an answer,
not in an assessment, nor in a large window, nor for arrays of any kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from livesvm.solvers.warm_up import FAMILIES

SCRIPT = """
import json
import numpy as np
from numba.core.caching import NullCache
from scipy import sparse
from livesvm import solvers
from livesvm.service.demo.data.fisher_river import examples, load, scale_by
from livesvm.solvers.runtime.compile import compiled
from livesvm.solvers.warm_up import FAMILIES, is_compiled, warm_up
from tests import everything

@compiled
def called(x):
    return x + 1

@compiled
def forgotten(x):
    return called(x)

for function in (called, forgotten):
    function._cache = NullCache()

def sizes():
    raw = examples(load())
    days = scale_by(raw[:730], raw)
    for kernel in ("rbf", "linear", "poly"):
        C = 1e4 if kernel == "rbf" else 1.0
        model = solvers.IncrementalSVC(C=C, kernel=kernel, gamma=0.01, coef0=1.0, classes=(-1, 1))
        model.update(add=(days.X[:300], days.y[:300]), keys=list(days.dates[:300]))
        model.update(add=(days.X[300:330], days.y[300:330]), remove=model.keys_[:30], keys=list(days.dates[300:330]))
        model.update(remove=model.keys_[:5])
        model.predictor().decision_function(days.X[:3])
        model.certificate()
        for intercept in (True, False):
            model.set_params(fit_intercept=intercept).fit(days.X[:60], days.y[:60])
            solvers.leave_one_out(model)
            solvers.k_fold(model, 5)
        model.set_params(fit_intercept=True).fit(days.X[:300], days.y[:300])
        model.regularization_path(C / 3, C * 3).best(days.X[300:400], days.y[300:400])
        solvers.IncrementalSVC.from_arrays(model.get_params(), model.to_arrays()).update(remove=model.keys_[:5])
        for parameter in ("theta", "s"):
            path = model.outlier_path(parameter)
            path.best(days.X[300:400], days.y[300:400])
            path.at(path.start).update(robust=path.robustness(path.end))
            solvers.cccp(model, parameter)
    X = np.random.default_rng(0).normal(size=(2750, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    large = solvers.IncrementalSVC(gamma=0.1, classes=(-1, 1))
    large.update(add=(X[:2600], y[:2600]))
    for first in (2600, 2650, 2700):
        large.update(add=(X[first : first + 50], y[first : first + 50]), remove=large.keys_[:50])
    thin = sparse.csr_array(np.where(X[:200] > 1.0, X[:200], 0.0))
    parts = thin.data, thin.indices.astype(np.int64), thin.indptr.astype(np.int64)
    for part in parts:
        part.flags.writeable = False
    thin = sparse.csr_array(parts, shape=thin.shape)
    for kernel in ("linear", "rbf"):
        solvers.FrankWolfeSVC(kernel=kernel, gamma=0.1, tol=0.5).fit(thin, y[:200]).predict(thin[:3])
    for variant in ("auto", "fw", "mfw"):
        for n, sampling in ((200, None), (200, 59), (2600, None)):
            solvers.FrankWolfeSVC(gamma=0.1, variant=variant, tol=0.5, sampling=sampling).fit(X[:n], y[:n])

told = []
def more(*calls):
    before = everything.compiled()
    assert before  # or nothing would be seen
    for call in calls:
        call()
    told.append(sorted(everything.compiled() - before))

warm_up()
kept = [is_compiled(family) for family in FAMILIES]
more(sizes)
more(everything.main)
more(lambda: forgotten(1))
more(lambda: called(1))
print(json.dumps([kept, *told]))
"""


@pytest.fixture(scope="module")
def reported() -> list[Any]:
    """What a process says: which families are kept after ``warm_up``, and what each part has compiled after that."""
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_nothing_is_compiled_after_warm_up(reported: list[Any]) -> None:
    _, sizes, everything, *_ = reported
    assert sizes == []
    assert everything == []


def test_what_is_compiled_after_warm_up_would_be_seen(reported: list[Any]) -> None:
    """Also where it has been part of other machine code already."""
    *_, whole, part = reported
    assert whole == ["Entry forgotten(int64,)", "Inner called(int64,)"]
    assert part == ["Entry called(int64,)"]


def test_families_are_known_to_be_compiled_by_what_is_kept(reported: list[Any], tmp_path: Path) -> None:
    assert reported[0] == [True] * len(FAMILIES)
    script = "from livesvm.solvers.warm_up import FAMILIES, is_compiled; print({is_compiled(f) for f in FAMILIES})"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "{False}"
