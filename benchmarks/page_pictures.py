"""Pictures of a report's page, as a browser shows it: one PNG for each section.

    python benchmarks/page_pictures.py DIR/index.html --out DIR [--sections ablations curves] [--width 1280] [--dark]

It needs Debian's chromium (scripts/install_browser.sh) and playwright."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

SECTIONS = ("overview", "curves", "ablations", "diagnostics", "coverage")
DRAWN_MS = 500
"""Milliseconds for the figures of one screen to be drawn."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sections", nargs="+", default=SECTIONS, choices=SECTIONS)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--dark", action="store_true")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium was found: sh scripts/install_browser.sh")
    options.out.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(
            viewport={"width": options.width, "height": 900}, color_scheme="dark" if options.dark else "light"
        )
        page.goto(options.page.resolve().as_uri())
        draw_all(page)
        for name in options.sections:
            section = page.locator(f"section[aria-labelledby={name}]")
            if section.count():
                section.screenshot(path=options.out / f"page-{name}.png")
                print(f"wrote {options.out / f'page-{name}.png'}")
        browser.close()


def draw_all(page: Any) -> None:
    """Scroll through the page, because figures are drawn when they are seen. Its bar stays out of the pictures."""
    height = page.evaluate("document.documentElement.scrollHeight")
    for y in range(0, height, 800):
        page.evaluate(f"window.scrollTo(0, {y})")
        page.wait_for_timeout(DRAWN_MS)
    page.add_style_tag(content=".bar, header, nav { position: static !important; }")


if __name__ == "__main__":
    main()
