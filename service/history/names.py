"""What stores are told apart by: models have their ids, feeds theirs behind a prefix that no model's id can have."""

from __future__ import annotations

FEEDS = "feed."


def is_feed(stored: str) -> bool:
    """Return whether what is stored under this id is a feed."""
    return stored.startswith(FEEDS)


def stored_feed(feed: str) -> str:
    """Return the id that a feed is stored under."""
    return FEEDS + feed


def id_of(stored: str) -> str:
    """Return the id of the model or the feed that is stored under this."""
    return stored.removeprefix(FEEDS)
