"""The demonstration, which sends the Fisher River's raw daily readings through the real service.

``livesvm demo``, or ``python -m livesvm.service.demo``, starts the service on a free loopback port with an empty data
directory, and drives it through REST alone. First a feed forecasts the flow 1, 3 and 7 days ahead from the readings as
they come (``feed.py``); then a model says whether it will rise, and each month's update is timed against training
again (``rise.py``).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import httpx

from livesvm.service.client import Client, ServiceProblem
from livesvm.service.demo import feed, rise
from livesvm.service.demo.errors import DemoError
from livesvm.service.demo.server import Server, ServerError
from livesvm.solvers.warm_up import is_compiled

PICTURE = Path("fisher-river.png")


def run(server: Server, shown: argparse.Namespace) -> None:
    """Run the demonstration on a service that is running."""
    print(f"service ready at {server.address} after {server.seconds:.1f} s\n")
    with Client(server.address) as client:
        feed.run(client, shown.months)
        print()
        rise.run(client, shown.C, shown.gamma, shown.months)
        shown.picture.write_bytes(client.feed_plot(feed.FEED, "png"))
    print(f"\npicture of the readings, the forecasts and their band: {shown.picture}")


def main(arguments: list[str] | None = None) -> int:
    """Run the demonstration; return the exit status, which is 0 if every step had the expected result."""
    parser = argparse.ArgumentParser(prog="python -m livesvm.service.demo", description="Forecast the Fisher River.")
    parser.add_argument("--keep", action="store_true", help="leave the service up and say how to stop it")
    parser.add_argument("--months", type=int, help="stop after so many months (default: all 24)")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="where the picture goes (default: %(default)s)")
    parser.add_argument("--C", type=float, default=rise.C, help="of the model of rises (default: %(default)g)")
    parser.add_argument("--gamma", type=float, default=rise.GAMMA, help="of its rbf kernel (default: %(default)g)")
    parser.add_argument("--ray", metavar="ADDRESS", help="have the models live in this Ray cluster")
    parser.add_argument("--redis-url", help="and be kept in this Redis")
    shown = parser.parse_args(arguments)
    asked = {"LIVESVM_RAY": shown.ray, "LIVESVM_REDIS_URL": shown.redis_url}
    settings = {name: value for name, value in asked.items() if value is not None}
    server = Server(Path(tempfile.mkdtemp(prefix="livesvm-demo-")), settings)
    done = False
    if not is_compiled("updates"):
        print("compiling the solvers, which takes a minute or two and is kept", flush=True)
    try:
        server.start()
        run(server, shown)
        done = True
    except (DemoError, ServerError, ServiceProblem, httpx.TransportError, OSError) as error:
        print(f"the demonstration failed: {error}\n{server.log_tail()}", file=sys.stderr)
    finally:
        if done and shown.keep:
            print(server.how_to_use())
        else:
            done = server.stop() == 0 and done
    return 0 if done else 1
