"""The own functions that an update and a prediction over HTTP pass through, counted in this process.

    python -m tests.support.walk [--update] [--predict]

Prints one JSON object. ``--update`` and ``--predict`` list the calls of either in their order.
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


def counts(calls: list[CodeType]) -> dict[str, int]:
    """Return the calls, the functions, the files, and how often a call is in another file than the one before it."""
    files = [code.co_filename for code in calls]
    changes = sum(one != other for one, other in pairwise(files))
    return {"calls": len(files), "functions": len(set(calls)), "files": len(set(files)), "changes of file": changes}


async def _walks(directory: Path, walk: Walk) -> dict[str, list[CodeType]]:
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
        (await http.post("/models/m/update", json={"add": rows(300)})).raise_for_status()
        found: dict[str, list[list[CodeType]]] = {"update": [], "predict": []}
        for _ in range(4):
            with walk.counted():
                (await http.post("/models/m/update", json={"add": rows(10)})).raise_for_status()
                await asyncio.sleep(0.02)  # for what follows the answer
            found["update"].append(walk.calls)
            with walk.counted():
                (await http.post("/models/m/predict", json={"X": rows(3)["X"]})).raise_for_status()
            found["predict"].append(walk.calls)
    return {kind: min(walks, key=len) for kind, walks in found.items()}  # without what runs besides now and then


def walks() -> dict[str, list[CodeType]]:
    """Return the calls of an update of 10 in and 10 out of a window of 300 x 6, and of a prediction of 3 rows."""
    walk = Walk()
    threading.setprofile(walk)
    sys.setprofile(walk)
    try:
        with tempfile.TemporaryDirectory() as directory:
            return asyncio.run(_walks(Path(directory), walk))
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def main() -> None:
    """Count and print."""
    found = walks()
    for kind in sys.argv[1:]:
        for code in found[kind.removeprefix("--")]:
            file = Path(code.co_filename).relative_to(ROOT)
            print(f"{file}:{code.co_firstlineno} {code.co_qualname}", file=sys.stderr)
    print(json.dumps({kind: counts(calls) for kind, calls in found.items()}))


if __name__ == "__main__":
    main()
