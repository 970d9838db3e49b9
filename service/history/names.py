"""Names in stores: a model is stored under its id, a feed under its id behind a prefix that no model's id can have."""

from __future__ import annotations

FEEDS = "feed."
SERIES, AFTER_SERIES = "/", chr(ord("/") + 1)
"""The character between the id of a fleet and the name of a series, which neither has, and the next one in order."""


FLEET = "fleet "
"""Prefix of a fleet's id as the target of an erasure."""


def is_feed(stored: str) -> bool:
    """Return whether a feed is stored under this id, and not a model."""
    return stored.startswith(FEEDS)


def stored_feed(feed: str) -> str:
    """Return the id that a feed is stored under."""
    return FEEDS + feed


def id_of(stored: str) -> str:
    """Return the id of a model or feed from the name it is stored under, without the prefix of feeds."""
    return stored.removeprefix(FEEDS)


def fleet_of(feed: str) -> str | None:
    """Return the id of the fleet that a feed is a series of; None if the feed belongs to no fleet."""
    fleet, slash, _ = feed.partition(SERIES)
    return fleet if slash else None


def prefix_of(fleet: str) -> str:
    """Return the prefix of the ids of a fleet's series."""
    return fleet + SERIES
