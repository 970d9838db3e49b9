"""Malformed requests through real sockets, at the level of bytes and above it, against a service of its own.

    python -m tests.faults.malformed [--requests 100000] [--held 40] [--seed 0]
    python -m tests.faults.malformed --replay attack-failures.jsonl

Broken lines, heads, lengths and chunks; truncated and corrupted JSON, npy and npz; wrong media types; hostile values in
every field of every route; unknown paths and methods; requests that end half-way,
some that are held open, and one in 500 that is small and would become large. Each has
to be answered, or its connection closed, in time; with no 5xx but a 503 that gives a reason; with bounded memory; with
every model changed by what was answered 200 and by nothing else; and afterwards each model learns and predicts as one
that was trained from nothing. It exits 1 if any of this does not hold, and writes failing requests to a file.
"""

from __future__ import annotations

import argparse
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial

from tests.faults.attack import Attack, numbered, options, replay, report, started
from tests.faults.hostile_heads import SLOW, drawn
from tests.faults.promises import Verdict
from tests.faults.scene import Scene
from tests.faults.wire import Sent
from tests.service.process import ServiceProcess

HELD_SECONDS = 40.0
"""After which a request that never becomes whole has to be given up by the service."""


def given_up(address: tuple[str, int], number: int) -> bool:
    """Return whether the service ends a connection on which a request is never finished."""
    start = SLOW[number % len(SLOW)].replace(b"%b", b"%s:%d" % (address[0].encode(), address[1]))
    with closing(socket.create_connection(address, HELD_SECONDS)) as connection:
        connection.sendall(start)
        with suppress(ConnectionResetError):
            try:
                while connection.recv(2**16):
                    pass
            except TimeoutError:
                return False
    return True


def hold(service: ServiceProcess, count: int) -> Verdict:
    """Begin requests that are never finished, all at once."""
    host, port = service.url.removeprefix("http://").rsplit(":", 1)
    with ThreadPoolExecutor(max(1, count)) as pool:
        ended = sum(pool.map(partial(given_up, (host, int(port))), range(count)))
    return Verdict("requests held open are given up by the service", f"{ended} of {count}", ended == count)


def by(count: int, seed: int) -> Callable[[Scene], Iterator[Sent]]:
    """Return what draws so many requests."""
    return lambda scene: numbered(lambda number: drawn(seed, number, scene), count, "malformed")


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack once and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options(parser, requests=100_000).add_argument("--held", type=int, default=40, help="connections held open")
    given = parser.parse_args(arguments)
    if given.replay:
        return replay(given.replay, given.seconds)
    with started() as service:
        attack = Attack(by(given.requests, given.seed), given.seconds, given.megabytes)
        seen, scene, verdicts = attack.run(service)
        return report(seen, scene, [*verdicts, hold(service, given.held)], given.failures)


if __name__ == "__main__":
    sys.exit(main())
