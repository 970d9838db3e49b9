"""A recorded path: its linear segments, the examples that change to another piece, and the solution at any tau."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from livesvm.solvers.active_set.recorder import Log
from livesvm.solvers.runtime.by_reference import by_reference
from livesvm.solvers.runtime.types import Bools, Floats, Ints


@by_reference
class Segments(NamedTuple):
    """Linear segments of the path in order; where two segments meet, b and betas may jump."""

    start_tau: Floats  #: (s,) from 1 at the start of the path down to 0
    end_tau: Floats
    start_b: Floats  #: (s,) with no example free any b of an interval is optimal; the path goes on with this one
    end_b: Floats
    first: Ints  #: (s + 1,) segment i has the entries first[i] to first[i + 1] - 1 of the pool
    changes_before: Ints  #: (s,) number of changes before each segment
    idle: Bools  #: (s,) no example is free except at an end of its box, so that b may be any of an interval
    slot: NDArray[np.int32]  #: (p,) the pool: the free examples
    start_beta: Floats  #: (p,)
    end_beta: Floats  #: (p,)

    def at(self, tau: float) -> int:
        """Return the number of the segment that contains ``tau``."""
        return min(int(np.searchsorted(-self.end_tau, -tau)), self.end_tau.size - 1)

    def pool(self, segment: int) -> slice:
        """Return the slice of the pool arrays with the free examples of a segment."""
        return slice(int(self.first[segment]), int(self.first[segment + 1]))

    def part(self, which: slice, changes: int) -> Segments:
        """Return the segments of the slice ``which``, with ``changes_before`` reduced by ``changes``."""
        return self._replace(
            start_tau=self.start_tau[which],
            end_tau=self.end_tau[which],
            start_b=self.start_b[which],
            end_b=self.end_b[which],
            first=self.first[which.start : which.stop + 1],
            changes_before=self.changes_before[which] - changes,
            idle=self.idle[which],
        )

    def share(self, segment: int, tau: float) -> float:
        """Return how far along the segment ``tau`` is, from 0 at its start to 1 at its end."""
        start, end = float(self.start_tau[segment]), float(self.end_tau[segment])
        return min(max((start - tau) / (start - end), 0.0), 1.0)


class Changes(NamedTuple):
    """Changes of examples between the pieces and kinks of their losses: slot, old and new segment, and tau."""

    tau: Floats
    slot: Ints
    before: Ints
    after: Ints

    def part(self, which: slice) -> Changes:
        """Return the changes of the slice ``which``."""
        return Changes(self.tau[which], self.slot[which], self.before[which], self.after[which])


class Position(NamedTuple):
    """The solution at one tau: b, and by slot each example's segment (piece or kink) and coefficient."""

    segment: Ints
    beta: Floats
    b: float


def position(start: Ints, segments: Segments, changes: Changes, tau: float, levels: Floats) -> Position:
    """Return the solution at ``tau``: segments, coefficients and b.

    Parameters
    ----------
    start : (n,) places at the start of the way
    levels : (n, kinks + 1) levels at this tau
    """
    i = segments.at(tau)
    segment = places(start, changes, int(segments.changes_before[i]))
    beta = np.take_along_axis(levels[: segment.size], (segment // 2)[:, None], 1)[:, 0]
    t, pool = segments.share(i, tau), segments.pool(i)
    beta[segments.slot[pool]] = (1.0 - t) * segments.start_beta[pool] + t * segments.end_beta[pool]
    return Position(segment, beta, float((1.0 - t) * segments.start_b[i] + t * segments.end_b[i]))


def places(start: Ints, changes: Changes, count: int) -> Ints:
    """Return the ``segment`` of every example after the first ``count`` changes."""
    segment = start.copy()
    segment[changes.slot[:count]] = changes.after[:count]  # of an example's changes the last one stays
    return segment


def joined(logs: list[Log]) -> tuple[Segments, Changes]:
    """Join the parts of a log into all linear segments and all changes of the path."""
    used = [(log, log.used[0].segments, log.used[0].pool, log.used[0].changes) for log in logs]
    before = np.cumsum([(0, 0), *((p, c) for _, _, p, c in used)], axis=0)
    start_tau, start_b, end_tau, end_b = np.concatenate([log.ends[:s] for log, s, _, _ in used]).T.copy()
    first, changes_before = np.concatenate([log.before[:s] + before[i] for i, (log, s, _, _) in enumerate(used)]).T
    start_beta, end_beta = np.concatenate([log.beta[:p] for log, _, p, _ in used]).T.copy()
    change = np.concatenate([log.change[:c] for log, _, _, c in used]).T.copy()
    return Segments(
        start_tau=start_tau,
        end_tau=end_tau,
        start_b=start_b,
        end_b=end_b,
        first=np.append(first, before[-1, 0]),
        changes_before=changes_before.copy(),
        idle=np.concatenate([log.idle[:s] for log, s, _, _ in used]),
        slot=np.concatenate([log.slot[:p] for log, _, p, _ in used]),
        start_beta=start_beta,
        end_beta=end_beta,
    ), Changes(np.concatenate([log.change_tau[:c] for log, _, _, c in used]), *change)
