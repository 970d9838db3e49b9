"""A real browser on a real service. A machine without a browser fails these tests: `make browser` installs one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.service.process import ServiceProcess, blobs

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SCREENSHOTS = "PAGE_SCREENSHOTS"
"""Environment variable: the directory that pictures of the screens are kept in."""
Open = Callable[..., Page]
Serve = Callable[..., ServiceProcess]
Picture = Callable[[Page, str], None]
expect.set_options(timeout=30_000)  # a file is read in a process of its own, which takes long on a busy machine


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium on the path, or Playwright's own."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0
        with playwright.chromium.launch(executable_path=found, chromium_sandbox=sandbox) as launched:
            yield launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of all tests."""
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path_factory.mktemp("page"), max_models=2000) as process:
        yield process


@pytest.fixture
def http(service: ServiceProcess) -> Iterator[httpx.Client]:
    with service.http() as client:
        yield client


@pytest.fixture
def expected() -> list[str]:
    """Parts of what the console may say, as a test provokes it."""
    return []


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start services of a test's own, which last until its pages are closed."""
    with ExitStack() as stack:
        yield lambda **settings: stack.enter_context(ServiceProcess(tmp_path / "data", **settings))


@pytest.fixture
def open_page(browser: Browser, expected: list[str], serve: Serve) -> Iterator[Open]:
    """Open an address in a browser of its own; whatever the console says of faults fails the test."""
    contexts: list[BrowserContext] = []
    faults: list[str] = []

    def open_at(url: str, **options: object) -> Page:
        own = httpx.URL(url).host
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "request", lambda asked: None if httpx.URL(asked.url).host == own else faults.append(f"asked {asked.url}")
        )
        page.goto(url)
        return page

    yield open_at
    for context in contexts:
        context.close()
    assert [fault for fault in faults if not any(part in fault for part in expected)] == []


@pytest.fixture
def picture() -> Picture:
    """Keep a picture of a page where the environment says."""
    directory = os.environ.get(SCREENSHOTS)

    def keep(page: Page, name: str) -> None:
        if directory:
            Path(directory).mkdir(parents=True, exist_ok=True)
            page.screenshot(path=Path(directory) / f"{name}.png", full_page=True)

    return keep


def learnt(http: httpx.Client, model: str, n: int = 60, seed: int = 0, **spec: object) -> None:
    """Create a model of two overlapping classes."""
    http.post("/models", json={"id": model, "C": 1.0, **spec}).raise_for_status()  # which does not tune itself
    X, y = blobs(np.random.default_rng(seed), n)
    add = {"X": X, "y": y, "keys": [f"k{i}" for i in range(n)]}
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
