"""Readings that are wanted by their times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from livesvm.service.feeds.timeline import Timeline
from livesvm.service.feeds.told import seconds_asked, time_of
from livesvm.solvers.errors import InvalidInput


@dataclass(frozen=True)
class Wanted:
    """Readings of some times, and those from one time to another, both among them; times as the feed has them."""

    times: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None

    def among(self, timeline: Timeline, names: Mapping[str, float]) -> list[str]:
        """Their times as text; times from before all readings, ``names``, too, which stand for all of those.

        Raises InvalidInput where there is none, or for what is no time.
        """
        spec = timeline.spec
        begin, end = seconds_asked(spec, self.begin, "from"), seconds_asked(spec, self.end, "to")
        asked = [seconds_asked(spec, time, "times") for time in self.times]
        oldest = min(names.values(), default=0.0)
        found = {str(time_of(timeline, time)): None for time in asked if time is not None and time < oldest}
        is_range = self.begin is not None or self.end is not None
        if is_range and (begin is None or begin < oldest):
            found["before the oldest"] = None
        wanted = set(asked)
        for name, time in names.items():
            if time in wanted or (is_range and (begin is None or time >= begin) and (end is None or time <= end)):
                found[name] = None
        if not found:
            raise InvalidInput("the feed has no reading of any of these times", field="times")
        return list(found)
