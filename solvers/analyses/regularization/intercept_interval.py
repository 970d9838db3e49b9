"""Parts of a path without a free example: all examples are made bound, and b is set to the middle of its interval.

On such a part any b of an interval is optimal. The compiled loop leaves b where it was, and leaves one example free
whose coefficient is at an end of its box; both depend on the history of the model. Here an example that is free at an
end of its box counts as bound, so that breakpoints are at the beginning and the end of a part. Each end of the interval
of b is the upper or lower envelope of straight lines. So the middle of the interval is piecewise linear, and segments
are cut at its bends. An update that ends without a free example also sets b to the middle (``degeneracy.center``), so a
model of the path equals a trained one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from livesvm.solvers.homotopy.piecewise import Changes, Segments, places
from livesvm.solvers.homotopy.refresh import combine
from livesvm.solvers.problem.piecewise_linear import Losses
from livesvm.solvers.problem.state import PathState
from livesvm.solvers.runtime.interrupt import check
from livesvm.solvers.runtime.types import Floats, Ints


class Tables(NamedTuple):
    """The losses at both ends of a path, between which kinks and levels are linear in tau."""

    start: Losses
    end: Losses

    def kinks(self, tau: float) -> Floats:
        """Return the kinks at ``tau``; unused ones stay infinite."""
        return _between(self.start.kinks, self.end.kinks, tau)

    def levels(self, tau: float) -> Floats:
        """Return the levels at ``tau``."""
        return _between(self.start.levels, self.end.levels, tau)


def centered(
    state: PathState, start: Ints, segments: Segments, changes: Changes, tables: Tables
) -> tuple[Ints, Segments, Changes]:
    """Return the path with all examples bound and b in the middle of its interval on all parts without a free example.

    Segments are cut where this b bends. ``state`` is used for kernel rows only.
    """
    runs = _runs(start, segments, changes, tables)
    start, segments, changes = _bound(runs, start, segments, changes)
    for first, last, piece in reversed(runs):
        taus = segments.start_tau[first], segments.end_tau[last]
        w = [_without_b(state, np.take_along_axis(tables.levels(r), piece[:, None], 1)[:, 0]) for r in taus]
        low, high = _limits(tables, piece, taus, w)
        cuts, b = _middle(low, high)
        if b.size:
            segments = _with_b(segments, first, last, taus[0] - cuts * (taus[0] - taus[1]), b)
    return start, segments, changes


def _bound(
    runs: list[tuple[int, int, Ints]], start: Ints, segments: Segments, changes: Changes
) -> tuple[Ints, Segments, Changes]:
    """Return the path with all examples bound on the given runs of segments, and changes at both ends of each run."""
    before = segments.changes_before  # of each segment
    begin, counts = start, before.copy()
    parts = [changes.part(slice(0, 0))]
    done = 0  # changes of the old path that the parts account for
    for number, (first, last, piece) in enumerate(runs):
        bound = 2 * piece
        if first == 0:
            begin = bound
        elif number > 0 and runs[number - 1][1] == first - 1:
            parts.append(_changed(segments.start_tau[first], 2 * runs[number - 1][2], bound))
        else:
            kept = slice(done, before[first - 1])
            parts += [changes.part(kept), _changed(segments.start_tau[first], places(start, changes, kept.stop), bound)]
        counts[first : last + 1] = total = sum(part.tau.size for part in parts)
        done = changes.tau.size
        if last + 1 < before.size and not segments.idle[last + 1]:
            done = before[last + 1]
            parts.append(_changed(segments.end_tau[last], bound, places(start, changes, done)))
            counts[last + 1 :] = before[last + 1 :] - done + total + parts[-1].tau.size
    parts.append(changes.part(slice(done, None)))
    sizes = np.diff(segments.first)
    of_others = np.repeat(~segments.idle, sizes)
    segments = segments._replace(
        changes_before=counts,
        first=np.concatenate([[0], np.cumsum(np.where(segments.idle, 0, sizes))]),
        slot=segments.slot[of_others],
        start_beta=segments.start_beta[of_others],
        end_beta=segments.end_beta[of_others],
    )
    return begin, segments, Changes(*map(np.concatenate, zip(*parts, strict=True)))


def _changed(tau: float, before: Ints, after: Ints) -> Changes:
    """Return the changes that take all examples from the segments ``before`` to ``after``, all at the same ``tau``."""
    slots = np.flatnonzero(before != after)
    return Changes(np.full(slots.size, tau), slots, before[slots], after[slots])


def _between(start: Floats, end: Floats, tau: float) -> Floats:
    used = np.isfinite(end)
    return np.where(used, tau * np.where(used, start, 0.0) + (1.0 - tau) * np.where(used, end, 0.0), end)


def _runs(start: Ints, segments: Segments, changes: Changes, tables: Tables) -> list[tuple[int, int, Ints]]:
    """Return the runs of segments without a free example inside its box: first and last segment, and the pieces."""
    runs: list[tuple[int, int, Ints]] = []
    for i in np.flatnonzero(segments.idle).tolist():
        segment = places(start, changes, int(segments.changes_before[i]))
        piece = _pieces(segment, segments, i, tables)
        if runs and runs[-1][1] == i - 1 and np.array_equal(runs[-1][2], piece):
            runs[-1] = runs[-1][0], i, piece
        else:
            runs.append((i, i, piece))
    return runs


def _pieces(segment: Ints, segments: Segments, i: int, tables: Tables) -> Ints:
    """Return the piece of every example in segment ``i``; for one free at an end of its box, the piece at this end."""
    piece = segment // 2
    pool = segments.pool(i)
    slots, beta = segments.slot[pool], 0.5 * (segments.start_beta[pool] + segments.end_beta[pool])
    levels = tables.levels(0.5 * float(segments.start_tau[i] + segments.end_tau[i]))
    q = piece[slots]
    piece[slots] = q + (np.abs(beta - levels[slots, q]) > np.abs(beta - levels[slots, q + 1]))
    return piece


def _without_b(state: PathState, beta: Floats) -> Floats:
    support = np.flatnonzero(beta)
    return combine(state, support, beta[support])[: beta.size]


def _limits(tables: Tables, piece: Ints, taus: tuple[float, float], w: list[Floats]) -> tuple[Floats, Floats]:
    """Return the lines that bound b from below, and from above, as values at the start and end of a run, (m, 2)."""
    kinks = [tables.kinks(tau) for tau in taus]
    above = np.flatnonzero(piece > 0)
    below = np.flatnonzero(piece < tables.end.n_kinks)
    low = np.stack([k[above, piece[above] - 1] - g[above] for k, g in zip(kinks, w, strict=True)], axis=1)
    high = np.stack([k[below, piece[below]] - g[below] for k, g in zip(kinks, w, strict=True)], axis=1)
    return low, high


def _middle(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Return bends in [0, 1] and the middle of the interval of b at each bend; both are empty if b has no limits."""
    lower, upper = envelope(low), envelope(-high)
    ends = [side for side in (lower, upper) if side is not None]
    if not ends:
        return np.empty(0), np.empty(0)
    places_ = np.unique(np.concatenate([side[0] for side in ends]))
    values = [np.interp(places_, *side) * sign for side, sign in ((lower, 1.0), (upper, -1.0)) if side is not None]
    return places_, np.mean(values, axis=0)


def envelope(lines: Floats) -> tuple[Floats, Floats] | None:
    """Return the bends, in [0, 1], and the values there, of the upper envelope of lines given by values at 0 and 1."""
    if lines.shape[0] == 0:
        return None
    slopes = lines[:, 1] - lines[:, 0]
    t = 0.0
    ts, values = [0.0], [float(lines[:, 0].max())]
    top = int(np.lexsort((slopes, lines[:, 0]))[-1])
    while t < 1.0:
        check()
        steeper = slopes > slopes[top]
        gaps = np.where(steeper, lines[top, 0] - lines[:, 0], np.inf)
        meet = gaps / np.where(steeper, slopes - slopes[top], 1.0)
        nearest = float(meet.min())
        if not nearest < 1.0:
            break
        t = max(t, nearest)
        ts.append(t)
        values.append(float(lines[top, 0] + t * slopes[top]))
        tied = np.flatnonzero(meet <= nearest)
        top = int(tied[np.argmax(slopes[tied])])
    ts.append(1.0)
    values.append(float(lines[:, 1].max()))
    return np.array(ts), np.array(values)


def _with_b(old: Segments, first: int, last: int, bends: Floats, b: Floats) -> Segments:
    """Cut the segments ``first`` to ``last`` at ``bends``, and set their b to ``b`` at the bends, linear in between."""
    parts = cut(old, first, last, bends[1:-1])
    many = slice(first, parts.start_tau.size - (old.start_tau.size - last - 1))
    parts.start_b[many] = np.interp(-parts.start_tau[many], -bends, b)
    parts.end_b[many] = np.interp(-parts.end_tau[many], -bends, b)
    return parts


def cut(old: Segments, first: int, last: int, taus: Floats) -> Segments:
    """Cut the segments ``first`` to ``last`` at each tau of ``taus``, which are in descending order."""
    owner = np.array([first + int(np.argmax(old.end_tau[first : last + 1] < r)) for r in taus], np.int64)
    inside = (old.end_tau[owner] < taus) & (taus < old.start_tau[owner])
    owner, taus = owner[inside], taus[inside]
    if owner.size == 0:
        return old._replace(start_b=old.start_b.copy(), end_b=old.end_b.copy())
    every = np.arange(old.start_tau.size)
    order = np.sort(np.append(every, owner))
    new_start = np.append(old.start_tau, taus)[np.argsort(np.append(every, owner), kind="stable")]
    new_end = np.append(taus, old.end_tau)[np.argsort(np.append(owner, every), kind="stable")]
    sizes = np.diff(old.first)[order]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pool = np.repeat(old.first[order] - starts[:-1], sizes) + np.arange(starts[-1])
    span = old.start_tau[order] - old.end_tau[order]
    shares = []
    for new, of_nothing in ((new_start, 0.0), (new_end, 1.0)):  # a segment of no length keeps both its ends
        share = np.full(span.size, of_nothing)
        np.divide(old.start_tau[order] - new, span, out=share, where=span > 0.0)
        shares.append(np.repeat(share, sizes))
    beta = [old.start_beta[pool] + share * (old.end_beta[pool] - old.start_beta[pool]) for share in shares]
    return Segments(
        new_start,
        new_end,
        old.start_b[order],
        old.end_b[order],
        starts,
        old.changes_before[order],
        old.idle[order],
        old.slot[pool],
        beta[0],
        beta[1],
    )
