"""Kill the service in the middle of calls of many series, many times, and report.

    python -m tests.faults.fleet --kills 100 [--redis] [--series 24] [--seed 0]

A client sends readings of all series of a fleet, three of each to a call, each call under its own Idempotency-Key, and
repeats one until it is answered. Kills come at random moments and at the named points, of which a call passes some once
for each series. After each, the position of every series tells what is lost or doubled; at the end forecasts and scores
of some are compared with feeds that were never troubled, and every model's certificate is computed from its data.
"""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from livesvm.service.feeds.spec import spec_of
from livesvm.service.feeds.state import FeedState
from tests.faults.feeds import AGREE, GAP, Campaign, asked
from tests.support.feeds import FEED, rows_of, series

SIZE = 3
COMPARED = 3


class FleetStream:
    """The readings of a fleet, one call after the other; a stand-in for the stream of a feed."""

    def __init__(self, http: httpx.Client, count: int) -> None:
        self.http, self.count = http, count
        self.calls = 0
        self.rows = [rows_of(series(20_000, seed)) for seed in range(count)]

    def send(self, times: int = 1) -> dict[str, Any]:
        """Return the next call; its answer."""
        self.calls += 1
        return self.send_again()

    def send_again(self) -> dict[str, Any]:
        """Return the newest call, again if it was sent."""
        first, last = SIZE * (self.calls - 1), SIZE * self.calls
        rows = [
            {"series": f"s{number}", **own[at]} for at in range(first, last) for number, own in enumerate(self.rows)
        ]
        headers = {"idempotency-key": f"call-{self.calls}"}
        answer = self.http.post("/fleets/meters/observations", json={"rows": rows}, headers=headers)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def positions(self) -> dict[str, int]:
        """Return how many readings each series has."""
        listed = self.http.get("/fleets/meters/series").raise_for_status().json()["series"]
        return {one["feed"]: self.http.get(f"/feeds/{one['feed']}").json()["position"] for one in listed}


def repeated(stream: FleetStream) -> list[str]:
    """Send the call again that was under way; what is wrong then, if anything is."""
    before, now = SIZE * (stream.calls - 1), SIZE * stream.calls
    allowed = (before, now) if stream.calls > 1 else (0, before, now)
    found = [
        f"{id_} has {n} readings, {before} were acknowledged"
        for id_, n in stream.positions().items()
        if n not in allowed
    ]
    answer = stream.send_again()
    if answer["refused"] or answer["series"] != stream.count:
        found.append(f"the repeated call answers {answer}")
    again = stream.send_again()
    if again != answer | {"replayed": stream.count}:
        found.append(f"the call that was repeated twice answers {again}, not {answer}")
    after = stream.positions()
    found += [f"{id_} has {n} readings, {now} were sent" for id_, n in after.items() if n != now]
    return found if len(after) == stream.count else [*found, f"there are {len(after)} series"]


def differences(stream: FleetStream) -> list[str]:
    """Return what of some series is not as it would be untroubled, and which certificates are not good."""
    http, found = stream.http, []
    chosen = http.get("/fleets/meters").json()["settings"]["chosen"]
    recipes = [{name: step[name] for name in ("represent", "gamma", "C")} for step in chosen["steps"]]
    spec = spec_of({**FEED, "season": chosen["season"], "recipes": recipes})
    for number in range(0, stream.count, max(1, stream.count // COMPARED)):
        one = FeedState.empty(spec).forecaster
        for call in range(stream.calls):
            one.observe(stream.rows[number][SIZE * call : SIZE * (call + 1)])
        reported = http.get(f"/feeds/meters/s{number}/forecast").json()["forecasts"]
        spread = float(np.std(series(SIZE * stream.calls, number)))
        for mine, other in zip(reported, one.latest, strict=True):
            if abs(mine["value"] - other.value) > AGREE * spread:
                found.append(f"s{number}, step {mine['step']}: {mine['value']} is not {other.value}")
        counts = [one["n"] for one in http.get(f"/feeds/meters/s{number}").json()["scores"]]
        if counts != [int(scores.sums[0]) for scores in one.scores]:
            found.append(f"s{number}: {counts} forecasts were scored")
    for number in range(stream.count):
        gap = http.get(f"/feeds/meters/s{number}/certificate").json()["relative_gap"]
        found += [f"s{number}: the gap is {gap}"] if gap > GAP else []
    return found


def main() -> None:
    """Run it; ends with 1 where a promise was broken."""
    given = asked(100, series=24).parse_args()
    stream = FleetStream(httpx.Client(), given.series)
    campaign = Campaign(
        stream,
        lambda: repeated(stream),
        lambda: differences(stream),
        dies=0.6,
        most=lambda point: 4 if point in ("before-log", "before-answer") else 3 * given.series,
    )
    campaign.run(given, "/fleets", {"id": "meters", **FEED}, SIZE * given.series)


if __name__ == "__main__":
    main()
