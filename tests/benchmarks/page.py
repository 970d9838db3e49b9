"""How soon the page is there, and whether it stays smooth, in a real browser.

    python -m tests.benchmarks.page [--models 100 1000]

First paint is the browser's own first contentful paint; `models` is when the table holds all of them. While updates
and predictions go on, `longest task` is the longest time the page did not react, and `busy` its share of a core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.service.process import ServiceProcess

OPENINGS = 5
WATCHED_SECONDS = 10.0
MARKS = """() => new Promise((done) => {
    const look = () => {
        const shown = performance.getEntriesByName("models-shown").at(-1);
        const paint = performance.getEntriesByName("first-contentful-paint")[0];
        if (shown && paint) done([paint.startTime, shown.startTime]);
        else setTimeout(look, 20);
    };
    look();
})"""
WATCH = """() => {
    window.longest = 0;
    new PerformanceObserver((list) => {
        for (const task of list.getEntries()) window.longest = Math.max(window.longest, task.duration);
    }).observe({ entryTypes: ["longtask"] });
}"""


def opened(browser: Browser, url: str) -> tuple[float, float]:
    """First paint and the whole table, in milliseconds, of a browser that knows nothing."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    paint, shown = page.evaluate(MARKS)
    context.close()
    return float(paint), float(shown)


def watched(page: Page, service: ServiceProcess, n: int) -> tuple[float, float, int]:
    """Return the longest task in ms, the share of a core while models change, and the number of updates."""
    ended = threading.Event()
    sent = 0

    def work() -> None:
        nonlocal sent
        with service.http() as http:
            while not ended.is_set():
                http.post(f"/models/m{sent % n}/update", json={"C": 1.0 + sent}).raise_for_status()
                sent += 1
                time.sleep(0.01)

    page.evaluate(WATCH)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    before = _task_seconds(client)
    worker = threading.Thread(target=work)
    worker.start()
    page.wait_for_timeout(1000 * WATCHED_SECONDS)
    ended.set()
    worker.join()
    return float(page.evaluate("window.longest")), (_task_seconds(client) - before) / WATCHED_SECONDS, sent


def _task_seconds(client: Any) -> float:
    found = {entry["name"]: entry["value"] for entry in client.send("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def main() -> None:
    """Print one line a number of models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[100, 1000])
    counts = parser.parse_args().models
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as directory:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), chromium_sandbox=os.geteuid() != 0
        )
        for n in counts:
            with ServiceProcess(Path(directory) / str(n), max_models=n) as service:
                with service.http() as http:
                    for i in range(n):
                        http.post("/models", json={"id": f"m{i}"}).raise_for_status()
                        http.post(f"/models/m{i}/update", json={"add": {"X": [[0.0], [1.0]], "y": [-1, 1]}})
                times = [opened(browser, service.url) for _ in range(OPENINGS)]
                paint, shown = (statistics.median(column) for column in zip(*times, strict=True))
                page = browser.new_page()
                page.goto(service.url)
                page.evaluate(MARKS)
                longest, busy, sent = watched(page, service, n)
                print(
                    f"{n} models: first paint {paint:.0f} ms, models {shown:.0f} ms; over {sent} updates in "
                    f"{WATCHED_SECONDS:g} s the longest task {longest:.0f} ms, busy {busy:.1%}"
                )
                page.close()
        browser.close()


if __name__ == "__main__":
    main()
