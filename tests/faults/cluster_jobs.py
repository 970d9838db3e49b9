"""Jobs that are asked for while what they depend on is killed: each ends, or says by name why it cannot."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

import httpx

from tests.service.process import ServiceProcess

PATIENCE = 60.0
PAUSE = 0.2
ONE_CLASS = "invalid-input"
"""A window of this load may be of one class for a moment, of which there is no path."""
AWAY = ("worker-lost", "interrupted", "model-unavailable", "restoring", "store-unavailable", "not-ready")
WHY = frozenset({ONE_CLASS, *AWAY})
"""Of what a job may end when its worker, its front end or its model's actor is killed."""


class Jobs:
    """Asks for one regularization path after the other, of one of these models, and cancels every third."""

    def __init__(self, fronts: Sequence[ServiceProcess], models: int, done: threading.Event) -> None:
        self._fronts, self._models, self._done = fronts, models, done
        self._chance = random.Random(models)
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []

    def run(self) -> None:
        """Until it is done."""
        number = 0
        while not self._done.wait(PAUSE):
            number += 1
            job = self._asked(self._fronts[number % 2], f"/models/m{number % self._models}/regularization-path")
            if job is None:
                continue
            if is_cancelled := number % 3 == 0:
                time.sleep(self._chance.uniform(0.0, 0.3))
                self._sent("DELETE", self._fronts[0], job)
            self.ended[self._end(job, is_cancelled)] += 1

    def _sent(self, method: str, front: ServiceProcess, path: str) -> httpx.Response | None:
        """Return an answer that is final; None if a front end was killed or asks to come again."""
        body = {"minimum": 0.1, "maximum": 100.0} if method == "POST" else None
        try:
            with front.http(PATIENCE) as http:
                answer = http.request(method, path, json=body)
        except (httpx.TransportError, httpx.InvalidURL):
            return None
        return None if answer.status_code in (429, 503) else answer

    def _asked(self, front: ServiceProcess, path: str) -> str | None:
        answer = self._sent("POST", front, path)
        if answer is not None and answer.status_code != 202:
            self.faults.append(f"{path} was answered {answer.status_code}: {answer.text}")
        return None if answer is None or answer.status_code != 202 else str(answer.headers["location"])

    def _end(self, job: str, is_cancelled: bool) -> str:
        """Return how a job ended, as either front end says; one that had ended before it was cancelled is deleted."""
        end, at = time.monotonic() + PATIENCE, 0
        while time.monotonic() < end:
            at += 1
            answer = self._sent("GET", self._fronts[at % 2], job)
            if answer is None:
                time.sleep(0.1)
                continue
            if answer.status_code == 404 and is_cancelled:
                return "deleted"
            if answer.status_code != 200:
                self.faults.append(f"{job} was answered {answer.status_code}: {answer.text}")
                return "lost"
            found = answer.json()
            if found["state"] not in ("queued", "running"):
                why = found.get("error", {}).get("type", "").rpartition(":")[2]
                if why and why not in WHY:
                    self.faults.append(f"{job} failed: {found['error']}")
                return f"{found['state']} ({why})" if why else str(found["state"])
            time.sleep(0.05)
        self.faults.append(f"{job} has not ended")
        return "not ended"
