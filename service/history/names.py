"""Names in stores: models have their ids, feeds theirs behind a prefix that no model's id can have."""

from __future__ import annotations

FEEDS = "feed."
SERIES, AFTER_SERIES = "/", chr(ord("/") + 1)
"""Between the id of a fleet and the name of a series, neither of which has one in it; and what sorts right behind."""


FLEET = "fleet "
"""Before the id of a fleet, in what an erasure is asked of."""


def is_feed(stored: str) -> bool:
    """Return whether what is stored under this id is a feed."""
    return stored.startswith(FEEDS)


def stored_feed(feed: str) -> str:
    """Return the id that a feed is stored under."""
    return FEEDS + feed


def id_of(stored: str) -> str:
    """Return the id of the model or the feed that is stored under this."""
    return stored.removeprefix(FEEDS)


def fleet_of(feed: str) -> str | None:
    """Return the id of the fleet that a feed is a series of; None of one that is by itself."""
    fleet, slash, _ = feed.partition(SERIES)
    return fleet if slash else None


def prefix_of(fleet: str) -> str:
    """Return what the ids of a fleet's series begin with."""
    return fleet + SERIES
