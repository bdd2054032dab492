"""A real browser for tests of pages: Debian's Chromium, driven by Playwright. Tests are skipped where it is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.helpers import wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--autoplay-policy=no-user-gesture-required",
]
PATIENCE_MS = 300_000
"""Milliseconds until a test gives up on the browser: only one that hangs takes so long."""


class OpenedPage:
    """A page with what it asked for and complained about since it was opened."""

    def __init__(self, page: Any):
        self.page = page
        self.requests: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression is true. Playwright's own waiting needs eval, which a page may forbid."""
        assert wait_until(lambda: bool(self.page.evaluate(condition)), PATIENCE_MS / 1000), condition


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no Chromium was found: scripts/install_browser.sh installs it")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=QUIET, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., OpenedPage]]:
    """Give a function that opens an address in a window of its own; `options` are Playwright's, as color_scheme."""
    contexts = []

    def opened(address: str, width: int = 1280, height: int = 900, **options: Any) -> OpenedPage:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = OpenedPage(context.new_page())
        page.page.goto(address, timeout=PATIENCE_MS)
        return page

    yield opened
    for context in contexts:
        context.close()
