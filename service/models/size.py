"""A model's share of the memory budget, by its numbers alone."""

from __future__ import annotations

MEGABYTE = 2**20
FLOAT = 8
COPIES = 4
"""Of the features: the solver's, a larger one while it grows, the support vectors that are shown, a snapshot's."""
BYTES_AN_EXAMPLE = 600
"""Of an example besides its features: its key, its arrival, and what the solver keeps by slot."""
PAIR_BYTES = 2**16
"""Of a pair of more than two classes besides its examples."""
FIXED_BYTES = 2**17
"""Of a model besides its examples: the solver's work arrays, its journal, its handle."""


def model_bytes(n: int, row_bytes: float, n_free: int, cache_mb: int, n_classes: int = 2) -> int:
    """Return what a model of ``n`` examples may take, whose features have ``row_bytes`` each.

    Its kernel rows take at most ``cache_mb``, with those of the free in them. Of more than two classes every example is
    in as many problems as there are others, and ``n_free`` counts it so.
    """
    others = max(1, n_classes - 1)
    pairs = others * n_classes // 2 if others > 1 else 1
    slots = 64 + n * 5 // 4
    rows = min(cache_mb * MEGABYTE, FLOAT * others * slots**2)
    free = min(n_free, rows // (FLOAT * slots))
    features = int(COPIES * row_bytes * slots)
    factors = FLOAT * free**2 // pairs if pairs > 1 else FLOAT * free**2
    return FIXED_BYTES + PAIR_BYTES * (pairs - 1) + features + rows + factors + BYTES_AN_EXAMPLE * others * slots
