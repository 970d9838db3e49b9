"""Tables in which rows come again: copies, categories in one-hot columns, grids, sensors that stand still.

A table is made from one seed at any size, so that windows of the size users have can be filled and slid. Targets carry
some signal and much noise, which leaves many examples free; copies of a row agree in their target or contradict.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tests.oracle import Matrix, Vector

Random = np.random.Generator


class Table(NamedTuple):
    """Rows (n, d), a real target (n,) and a label (n,) in {-1, +1} for each."""

    X: Matrix
    target: Vector
    label: Vector


def one_hot(codes: np.ndarray[tuple[int, int], np.dtype[np.int64]], levels: tuple[int, ...]) -> Matrix:
    """Return codes (n, k), column j in 0 .. levels[j]-1, as columns of 0 and 1."""
    return np.hstack([np.eye(count)[codes[:, j]] for j, count in enumerate(levels)])


def _noisy(random: Random, X: Matrix, score: Vector, noise: float) -> Table:
    score = (score - score.mean()) / max(float(score.std()), 1e-12)
    target = score + noise * random.normal(size=len(score))
    return Table(X, target, np.where(target > 0.0, 1.0, -1.0))


def copies(random: Random, n: int) -> Table:
    """Return rows drawn again and again from a quarter as many, targets drawn for each: copies contradict."""
    base = random.normal(size=(max(n // 4, 1), 5))
    X = base[random.integers(0, len(base), n)]
    return _noisy(random, X, X[:, 0], 0.8)


def agreeing(random: Random, n: int) -> Table:
    """Return the same with one target for all copies of a row."""
    base = random.normal(size=(max(n // 4, 1), 5))
    table = _noisy(random, base, base[:, 0], 0.8)
    pick = random.integers(0, len(base), n)
    return Table(base[pick], table.target[pick], table.label[pick])


def replay(random: Random, n: int) -> Table:
    """Return rows with little signal, the second half of which is the first one again."""
    half = (n + 1) // 2
    label = np.where(np.arange(half) % 2, 1.0, -1.0)
    X = (random.normal(size=(half, 20)) + 0.15 * label[:, None]).round(6)
    target = label + random.normal(size=half)
    return Table(np.tile(X, (2, 1))[:n], np.tile(target, 2)[:n], np.tile(label, 2)[:n])


def categories(random: Random, n: int) -> Table:
    """Return categories of a bank's customers in one-hot columns, some far more frequent than others.

    One in nine says yes.
    """
    levels = (12, 3, 4, 2, 2, 2, 3, 12, 4)
    codes = np.empty((n, len(levels)), np.int64)
    for j, count in enumerate(levels):
        share = 0.6 ** np.arange(count)
        codes[:, j] = random.choice(count, n, p=share / share.sum())
    X = one_hot(codes, levels)
    weights = np.random.default_rng(5).normal(size=X.shape[1])
    table = _noisy(random, X, X @ weights, 1.5)
    return table._replace(label=np.where(table.target > np.quantile(table.target, 0.88), 1.0, -1.0))


def few_categories(random: Random, n: int) -> Table:
    """Three columns of six categories: at most 216 different rows."""
    X = one_hot(random.integers(0, 6, (n, 3)), (6, 6, 6))
    return _noisy(random, X, X @ np.random.default_rng(6).normal(size=18), 1.0)


def cards(random: Random, n: int) -> Table:
    """Return hands of five cards, suits and ranks in one-hot columns; the label says whether two ranks are the same."""
    hands = np.argsort(random.random((n, 52)), axis=1)[:, :5]
    codes = np.empty((n, 10), np.int64)
    codes[:, ::2], codes[:, 1::2] = hands % 4, hands // 4
    pairs = np.array([5 - len(set(row)) for row in (hands // 4).tolist()], np.float64)
    return Table(one_hot(codes, (4, 13) * 5), pairs, np.where(pairs > 0, 1.0, -1.0))


def ternary(random: Random, n: int) -> Table:
    """Thirty columns of -1, 0 and 1 that follow a few hidden causes, as the marks of a web page do."""
    hidden = random.normal(size=(n, 4))
    mixing = np.random.default_rng(7).normal(size=(4, 30))
    return _noisy(random, np.clip(np.round(0.7 * hidden @ mixing), -1.0, 1.0), hidden[:, 0], 0.4)


def grid(random: Random, n: int) -> Table:
    """Three features of four values each."""
    X = random.integers(0, 4, (n, 3)).astype(np.float64)
    return _noisy(random, X, np.sin(X[:, 0]) + 0.3 * X[:, 1], 0.7)


def stuck(random: Random, n: int) -> Table:
    """Return a sensor's last four readings; it stands still for half of the time."""
    moving = random.random(n + 5) < 0.05
    state = np.cumsum(moving) % 2 == 0
    level = np.round(np.cumsum(np.where(state, 0.0, random.normal(size=n + 5))), 2)
    X = np.column_stack([level[k : k + n] for k in range(4)])
    change = level[4 : 4 + n] - level[3 : 3 + n]
    return Table(X / 4.0, change, np.where(change > 0.0, 1.0, -1.0))


def constant_columns(random: Random, n: int) -> Table:
    """Return two features of which one is rounded to halves, and three columns that never change."""
    X = np.zeros((n, 5))
    X[:, 0], X[:, 1], X[:, 3] = random.normal(size=n), np.round(2.0 * random.normal(size=n)) / 2.0, 7.0
    return _noisy(random, X, X[:, 0] + X[:, 1], 1.0)


def all_equal(random: Random, n: int) -> Table:
    """Return one row for all, and targets that contradict."""
    return _noisy(random, np.ones((n, 3)), random.normal(size=n), 0.5)


def distinct(random: Random, n: int) -> Table:
    """Return an ordinary table, in which no row comes again."""
    X = random.normal(size=(n, 6))
    return _noisy(random, X, X[:, 0] + np.sin(2.0 * X[:, 1]), 0.5)


FAMILIES: dict[str, Callable[[Random, int], Table]] = {
    make.__name__: make
    for make in (
        copies, agreeing, replay, categories, few_categories, cards, ternary, grid, stuck, constant_columns, all_equal,
        distinct,
    )
}  # fmt: skip


def table(family: str, n: int, seed: int = 0) -> Table:
    """Return ``n`` rows of a family."""
    return FAMILIES[family](np.random.default_rng([seed, n]), n)
