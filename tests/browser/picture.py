"""A picture of the page, of the demonstration's own run: python -m tests.browser.picture [page.png] [--months 24]

The demonstration is run and kept up; what the page shows of its feed, or of its model where it has no feed, is kept
as a picture, and the demonstration's service is ended.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from playwright.sync_api import expect

from tests.browser.conftest import chromium

WIDTH, HEIGHT = 1100, 760
STOP = re.compile(r"up at (http://\S+) .*?kill (\d+) && rm -r (\S+)", re.DOTALL)
"""What the demonstration says of a service that it leaves up."""


@contextmanager
def demonstrated(months: int | None) -> Iterator[str]:
    """Yield the address of the service that the demonstration has left, which is ended afterwards."""
    with tempfile.TemporaryDirectory() as place:
        asked = ["--keep", "--picture", str(Path(place) / "demo.png")]
        asked += [] if months is None else ["--months", str(months)]
        command = [sys.executable, "-m", "livesvm.service.demo", *asked]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = STOP.search(said)
    if found is None:
        raise SystemExit(f"the demonstration does not say where its service is:\n{said}")
    address, pid, directory = found.groups()
    try:
        yield address
    finally:
        os.kill(int(pid), signal.SIGTERM)
        shutil.rmtree(directory, ignore_errors=True)


def screen(address: str) -> str:
    """Return the screen of the demonstration's feed, or of its first model."""
    with httpx.Client(base_url=address) as http:
        for kind in ("feeds", "models"):
            answer = http.get(f"/{kind}")
            if answer.status_code == 200 and answer.json()[kind]:
                return f"/{kind}/{answer.json()[kind][0]['id']}"
    raise SystemExit("the demonstration has left neither a feed nor a model")


def main(arguments: list[str] | None = None) -> None:
    """Make the picture."""
    parser = argparse.ArgumentParser(prog="python -m tests.browser.picture", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("picture", nargs="?", type=Path, default=Path("page.png"), help="default: %(default)s")
    parser.add_argument("--months", type=int, help="of the demonstration; all when absent")
    parser.add_argument("--scheme", choices=["light", "dark"], default="light")
    asked = parser.parse_args(arguments)
    with demonstrated(asked.months) as address, chromium() as browser:
        size = {"width": WIDTH, "height": HEIGHT}
        page = browser.new_page(viewport=size, color_scheme=asked.scheme, device_scale_factor=1.5)  # type: ignore[arg-type]
        page.goto(f"{address}/#{screen(address)}")
        expect(page.locator(".chart canvas, .sides").first).to_be_visible(timeout=60_000)
        page.wait_for_timeout(1500)  # until what comes with the chart is there
        page.screenshot(path=asked.picture)
    print(f"{asked.picture}: {asked.picture.stat().st_size / 1024:.0f} kB")


if __name__ == "__main__":
    main()
