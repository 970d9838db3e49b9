"""The own functions that an update and a prediction over HTTP pass through, counted in this process.

    python -m tests.support.walk [--calls]

Prints one JSON object. ``--calls`` lists the calls of the update in their order.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import httpx
import numpy as np

from livesvm.service.api.app import create_app
from livesvm.service.settings import Settings

ROOT = Path(__file__).parents[2]
OWN = tuple(f"{ROOT}/{name}/" for name in ("service", "solvers", "livesvm"))


class Walk:
    """The calls of own functions in all threads, while it counts."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self._counts = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self._counts and event == "call" and frame.f_code.co_filename.startswith(OWN):
            self.calls.append(frame.f_code)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count inside, from nothing."""
        self.calls, self._counts = [], True
        yield
        self._counts = False

    @property
    def counts(self) -> dict[str, int]:
        """The calls, the functions, the files, and how often a call is in another file than the one before it."""
        files = [code.co_filename for code in self.calls]
        changes = sum(one != other for one, other in pairwise(files))
        return {
            "calls": len(files),
            "functions": len(set(self.calls)),
            "files": len(set(files)),
            "changes of file": changes,
        }


async def walk_of_calls(directory: Path, walk: Walk) -> dict[str, Any]:
    """Return the counts of an update of 10 in and 10 out of a window of 300 x 6, and of a prediction of 3 rows."""
    ready = threading.Event()
    app = create_app(Settings(data_dir=directory, page=False), ready.set)
    rng = np.random.default_rng(0)

    def rows(n: int) -> dict[str, Any]:
        y = rng.choice([-1.0, 1.0], n)
        return {"X": (rng.normal(size=(n, 6)) + 0.3 * y[:, None]).tolist(), "y": y.tolist()}

    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http,
    ):
        await asyncio.to_thread(ready.wait)
        spec = {"id": "m", "C": 1.0, "kernel": {"name": "rbf", "gamma": 0.2}, "window": {"max_examples": 300}}
        (await http.post("/models", json=spec)).raise_for_status()
        found: dict[str, Any] = {}
        for n in (300, 10, 10, 10):
            with walk.counted():
                (await http.post("/models/m/update", json={"add": rows(n)})).raise_for_status()
                await asyncio.sleep(0.02)  # for what follows the answer
        found["update"], found["walk"] = walk.counts, walk.calls
        for _ in range(3):
            with walk.counted():
                (await http.post("/models/m/predict", json={"X": rows(3)["X"]})).raise_for_status()
        found["predict"] = walk.counts
    return found


def main() -> None:
    """Count and print."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    with tempfile.TemporaryDirectory() as directory:
        found = asyncio.run(walk_of_calls(Path(directory), walk))
    sys.setprofile(None)
    calls = found.pop("walk")
    if "--calls" in sys.argv[1:]:
        for code in calls:
            file = Path(code.co_filename).relative_to(ROOT)
            print(f"{file}:{code.co_firstlineno} {code.co_qualname}", file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
