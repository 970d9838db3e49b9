"""A window of sparse rows through JSON: `python -m tests.benchmarks.sparse_text` starts a service and fills it.

Rows look like text: few words each, some of them in most rows, most in hardly any, of which every seventh tells the
class. Prints, call by call, processor time of the service and its memory; then its certificate, predictions, and what
is on disk.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from livesvm.service.client import Client
from tests.service.process import ServiceProcess

MEGABYTE = 1e6


def text(seed: int, n: int, width: int, words: int) -> tuple[Any, Any]:
    """Return rows (n, width) of length 1, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], n)
    often = 1.0 / np.arange(1, width + 1) ** 0.8
    rows = [np.unique(rng.choice(width, words, p=often / often.sum())) for _ in range(n)]
    indptr, columns = np.cumsum([0, *map(len, rows)]), np.concatenate(rows)
    topic = (columns % 7 == 0) * np.where(columns % 2 == 1, 1.0, -1.0) * np.repeat(y, np.diff(indptr))
    values = rng.exponential(size=columns.size) * (1.0 + 0.6 * topic)
    values /= np.repeat(np.sqrt(np.add.reduceat(values**2, indptr[:-1])), np.diff(indptr))
    return sparse.csr_array((values, columns, indptr), shape=(n, width)), y


def resident(pid: int) -> float:
    """Return megabytes in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def processor(pid: int) -> float:
    """Return seconds of processor time so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--width", type=int, default=8315)
    parser.add_argument("--words", type=int, default=80)
    parser.add_argument("--call", type=int, default=1000, help="rows of one call")
    asked = parser.parse_args()
    X, y = text(1, asked.rows, asked.width, asked.words)
    dense = 8 * X.shape[0] * X.shape[1] / MEGABYTE
    print(f"{X.nnz} numbers, {12 * X.nnz / MEGABYTE:.1f} MB sparse, {dense:.1f} MB dense")
    with tempfile.TemporaryDirectory() as place, ServiceProcess(Path(place), solve_seconds=600) as service:
        fill(service, X, y, asked.call)
        stored = sum(file.stat().st_size for file in Path(place).rglob("*") if file.is_file())
        print(f"on disk {stored / MEGABYTE:.1f} MB")


def fill(service: ServiceProcess, X: Any, y: Any, rows: int) -> None:
    """Send everything, and ask for what comes of it."""
    with Client(service.url, timeout=600) as client:
        print(f"at rest {resident(service.pid):.0f} MB")
        client.create_model("text", kernel={"name": "linear"})
        for start in range(0, len(y), rows):
            before, part = processor(service.pid), slice(start, start + rows)
            answer = client.update("text", X[part], y[part])
            seconds = processor(service.pid) - before
            now = f"{resident(service.pid):.0f} MB"
            print(f"to {answer['n_examples']}: {seconds:.1f} s of processor time, {answer['events']} events, {now}")
        print(f"relative gap {client.certificate('text')['relative_gap']:.1e}")
        before = processor(service.pid)
        new, classes = text(2, 1000, X.shape[1], 80)
        decisions = np.array(client.predict("text", new)["decision"])
        right = float(np.mean(np.sign(decisions) == classes))
        print(f"1000 predictions: {processor(service.pid) - before:.1f} s of processor time, {right:.1%} right")
        client.checkpoint("text")


if __name__ == "__main__":
    main()
