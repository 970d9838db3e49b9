"""Selections of readings by their times."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from livesvm.service.feeds.presenter import seconds_asked, time_of
from livesvm.service.feeds.timeline import Timeline
from livesvm.solvers.errors import InvalidInput


@dataclass(frozen=True)
class WantedReadings:
    """A selection of readings by single times, and by a range that includes both ends; times are as in answers."""

    times: tuple[str, ...] = ()
    begin: str | None = None
    end: str | None = None

    def among(self, timeline: Timeline, readings: Mapping[str, float]) -> tuple[list[str], list[str]]:
        """Return the times of the selected ``readings`` as text, and the single times at which there is no reading.

        A time before the window selects all readings that have left the window, if any have. Raises InvalidInput if no
        reading is selected, or a text is no time.
        """
        spec = timeline.spec
        begin, end = seconds_asked(spec, self.begin, "from"), seconds_asked(spec, self.end, "to", "last")
        found = ((text, seconds_asked(spec, text, "times", "only")) for text in self.times)
        asked = {text: timeline.on_grid(seconds) for text, seconds in found if seconds is not None}
        oldest = next(iter(timeline.past), 0.0) if _have_left(timeline) else -math.inf
        is_range = self.begin is not None or self.end is not None
        before = [str(time_of(timeline, time)) for time in asked.values() if time < oldest]
        if is_range and (begin is None or begin < oldest) and _have_left(timeline):
            before.append("before the oldest")
        times = set(asked.values())
        names = [
            name
            for name, time in readings.items()
            if time in times or (is_range and (begin is None or time >= begin) and (end is None or time <= end))
        ]
        if not (names or before):
            raise InvalidInput("the feed has no reading of any of these times", field="times")
        known = set(readings.values())
        missing = [text for text, time in asked.items() if time >= oldest and time not in known]
        return [*before, *names], missing


def _have_left(timeline: Timeline) -> bool:
    """Return whether the window has already dropped old readings."""
    return bool(timeline.past) and next(iter(timeline.past.values())).slot > 0
