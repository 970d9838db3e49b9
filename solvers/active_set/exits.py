"""Reasons why a compiled loop stops; each loop uses some of these reasons."""

from enum import IntEnum


class Exit(IntEnum):
    """The result of a compiled loop, or the request that its caller must meet before calling it again."""

    DONE = 0  #: the end of the path; inside, that the loop can go on
    NEED_ROW = 1  #: the kernel row of ``switching`` is not cached
    FACTOR_FULL = 2  #: the factor has no space for ``switching``
    STALLED = 3  #: too many events without a step: ties have to be spread
    UNBALANCED = 4  #: no example that is left can balance the sum of the coefficients
    INDEFINITE = 5  #: a squared pivot is negative
    CANCELLED = 6  #: the caller has asked for the end
    EXHAUSTED = 7  #: more events than a path can need
    ITERATION = 8  #: the end of an outer iteration
    WANT_ROWS = 9  #: rows that will be needed soon are not cached
    COSTLY = 23  #: more work than solving from nothing
    # of a loop that records its path
    STOPPED = 10  #: ``switching`` has reached a cutoff
    LOG_FULL = 11  #: call again with an empty log
    NEED_ROWS = 12  #: rows of examples with moving coefficients are not cached
    # of the D-steps of outlier paths
    SWITCHES_FULL = 13  #: no space to record which examples switched
    INEXACT = 14  #: the state is not at the optimum of its losses; the caller must bring it there
    ROSE = 15  #: the objective rose
    ENDLESS = 16  #: too many switches in a row
    # of a solve
    NO_PLACE = 25  #: of a pair of classes: too few vacant slots or rows for the new examples, or too much moves
    UNJUDGED = 24  #: it has ended, and the f that decide about it have yet to be computed
    # of outlier paths
    NOTES_FULL = 17  #: call again with empty notes
    AT_ONCE = 18  #: a leg has no length
    STUCK = 19  #: too many legs without progress
    TIED = 20  #: a leg has stalled
    LOST = 21  #: a leg has no end
    WITH_TIES = 22  #: an example is at a cutoff before the first leg
