"""What a call over REST costs in processor time, next to a bare FastAPI route that parses and stores the same body.

    python -m tests.benchmarks.fixed_cost [--calls 300] [--turns 5] [--examples 1000] [--rows 1]

The bare route parses with pydantic, inserts the body in SQLite with ``synchronous=FULL``, and answers; its prediction
is one product of matrices. The service takes the same bodies on a window that is full, so that as many rows leave. Both
processes are asked one after the other, over kept connections; the processor time is that of the process that answers,
and the path's is what the service says that its solve took. Medians over the turns. Exits 1 if a call fails.
"""

from __future__ import annotations

import argparse
import http.client
import json
import sqlite3
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from livesvm.client import Client
from tests.benchmarks.call_cost import body, examples, make, post
from tests.benchmarks.first_requests import processor_seconds
from tests.benchmarks.printing import machine, table
from tests.service.process import ServiceProcess


class Rows(BaseModel):
    """The rows of a prediction, or of an update."""

    X: list[list[float]]
    y: list[float] = []


class Update(BaseModel):
    """The body of an update."""

    add: Rows


def bare(database: Path) -> FastAPI:
    """Return the application that is compared with: two routes, one table."""
    app, lock = FastAPI(), threading.Lock()
    rows = sqlite3.connect(database, check_same_thread=False)
    rows.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE log (model TEXT, body TEXT)")

    @app.post("/models/{model}/update")
    def update(model: str, update: Update) -> dict[str, int]:
        with lock, rows:
            added = rows.execute("INSERT INTO log VALUES (?, ?)", (model, update.model_dump_json())).lastrowid
        return {"version": added or 0}

    @app.post("/models/{model}/predict")
    def predict(model: str, asked: Rows) -> dict[str, list[float]]:
        X = np.array(asked.X)
        return {"values": (X @ np.ones(X.shape[1])).tolist()}

    return app


def serve(database: Path) -> subprocess.Popen[str]:
    """Start the bare application in a process of its own; its port is the first line that it prints."""
    command = [sys.executable, "-m", "tests.benchmarks.fixed_cost", "--bare", str(database)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def run_bare(database: Path) -> None:
    """Answer on a free port until the process is ended."""
    config = uvicorn.Config(bare(database), host="127.0.0.1", port=0, access_log=False, log_level="warning")
    with config.bind_socket() as listening:
        print(listening.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[listening])


def each(pid: int, port: int, path: str, bodies: list[bytes]) -> tuple[float, float]:
    """Return milliseconds of processor time of a call, and those of its path."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for data in bodies[:20]:
        post(connection, path, data)
    used = processor_seconds(pid)
    answers = [post(connection, path, data) for data in bodies]
    used = processor_seconds(pid) - used
    connection.close()
    solved = sum(answer.get("seconds", 0.0) for answer in answers)
    return 1e3 * used / len(bodies), 1e3 * solved / len(bodies)


def main(arguments: list[str] | None = None) -> int:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.fixed_cost", description=__doc__)
    parser.add_argument("--calls", type=int, default=300, help="of each kind in a turn")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--examples", type=int, default=1000, help="in the window")
    parser.add_argument("--rows", type=int, default=1, help="of each call")
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.bare:
        run_bare(asked.bare)
        return 0
    print(machine())
    rng = np.random.default_rng(0)
    bodies = {
        "update": [body(rng, asked.rows) for _ in range(asked.calls)],
        "predict": [json.dumps({"X": examples(rng, asked.rows)[0].tolist()}).encode() for _ in range(asked.calls)],
    }
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as directory, ServiceProcess(Path(directory)) as service:
        other = serve(Path(directory) / "bare.sqlite3")
        try:
            assert other.stdout
            sides = {
                "bare": (other.pid, int(other.stdout.readline())),
                "service": (service.pid, int(service.url.rsplit(":", 1)[1])),
            }
            with Client(service.url) as client:
                make(client, "window", asked.examples)
            for _ in range(asked.turns):
                for side, (pid, port) in sides.items():
                    for verb, sent in bodies.items():
                        found.setdefault((verb, side), []).append(each(pid, port, f"/models/window/{verb}", sent))
        finally:
            other.terminate()
            other.wait(30)
    lines = []
    for verb in bodies:
        plain = float(np.median([used for used, _ in found[verb, "bare"]]))
        used, path = (float(np.median(values)) for values in zip(*found[verb, "service"], strict=True))
        lines.append([verb, *(f"{value:.2f}" for value in (plain, used, path, used - path, (used - path) / plain))])
    print(table(["ms of processor time", "bare route", "service", "its path", "the rest", "rest / bare"], lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
