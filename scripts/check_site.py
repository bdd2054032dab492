"""Check the built site: every link leads somewhere, and no page loads anything from another machine.

python scripts/check_site.py [site]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

ROOT = Path(__file__).resolve().parents[1]
CSS_LOADS = re.compile(r"""(?:url\(\s*|@import\s+)["']?([^"')\s]+)""")
REMOTE = re.compile(r"(?:https?:)?//", re.IGNORECASE)


class Page(HTMLParser):
    """What one page holds: its anchors, the links a reader may follow, and the addresses a browser loads by itself."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self._in_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self._in_style = tag == "style"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.loads += CSS_LOADS.findall(values.get("style", ""))
        if tag in ("a", "area"):
            self.links += [values["href"]] if "href" in values else []
            return
        self.loads += [values[name] for name in ("src", "href", "data", "poster", "xlink:href") if values.get(name)]
        self.loads += [part.split()[0] for part in values.get("srcset", "").split(",") if part.strip()]

    def handle_endtag(self, tag: str) -> None:
        self._in_style = False

    def handle_data(self, data: str) -> None:
        if self._in_style:
            self.loads += CSS_LOADS.findall(data)


def problems(site: Path) -> Iterator[str]:
    """Yield one line for each broken link and each address of another machine."""
    pages = {file: Page(file.read_text(encoding="utf-8")) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        where = file.relative_to(site).as_posix()
        for address in page.loads:
            if REMOTE.match(address):
                yield f"{where} loads {address}"
        for address in {*page.links, *page.loads}:
            if problem := _broken(site, pages, where, address):
                yield f"{where} links {address}: {problem}"
    for file in sorted(site.rglob("*.css")):
        for address in CSS_LOADS.findall(file.read_text(encoding="utf-8")):
            if REMOTE.match(address):
                yield f"{file.relative_to(site).as_posix()} loads {address}"


def _broken(site: Path, pages: dict[Path, Page], where: str, address: str) -> str | None:
    """Return what is wrong with a link to the site itself, or None."""
    if REMOTE.match(address) or urlsplit(address).scheme:
        return None
    parts = urlsplit(urljoin(f"/{where}", address))
    target = site / unquote(parts.path).lstrip("/")
    target = target / "index.html" if target.is_dir() else target
    if not target.is_file():
        return "there is no such file"
    if target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "there is no such anchor"
    return None


def main(arguments: list[str]) -> int:
    site = Path(arguments[0]) if arguments else ROOT / "site"
    if not (site / "index.html").is_file():
        sys.exit(f"there is no site in {site}: run `make docs`")
    found = list(problems(site))
    print("\n".join([*found, f"{len(found)} problems in {len(list(site.rglob('*.html')))} pages"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
