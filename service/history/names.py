"""Names in stores: a model is stored under its id, a feed under its id with a prefix that no model's id can have."""

from __future__ import annotations

FEEDS = "feed."
SERIES, AFTER_SERIES = "/", chr(ord("/") + 1)
"""The character between the id of a fleet and the name of a series, which neither has, and the next one in order."""


FLEET = "fleet "
"""Prefix of a fleet's id as the target of an erasure."""


def is_feed(stored: str) -> bool:
    """Return whether this stored name is that of a feed, not of a model."""
    return stored.startswith(FEEDS)


def stored_feed(feed: str) -> str:
    """Return the name under which a feed is stored."""
    return FEEDS + feed


def id_of(stored: str) -> str:
    """Return the id of a model or feed, given its name in the store."""
    return stored.removeprefix(FEEDS)


def fleet_of(feed: str) -> str | None:
    """Return the id of the fleet to which a feed belongs as a series; None if the feed belongs to no fleet."""
    fleet, slash, _ = feed.partition(SERIES)
    return fleet if slash else None


def prefix_of(fleet: str) -> str:
    """Return the prefix of the ids of a fleet's series."""
    return fleet + SERIES
