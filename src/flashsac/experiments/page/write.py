"""The page as one HTML file: styles, scripts, plotly and data inside, so that it opens without a server or a network.

The content security policy allows the scripts that are in the page by their hashes, and no request to anywhere."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.util
import re
import shutil
from importlib.resources import files
from pathlib import Path

from flashsac.errors import MissingExtra
from flashsac.experiments.comparison import Comparison, Published
from flashsac.experiments.page.data import page_data
from flashsac.experiments.page.kept import json_text
from flashsac.experiments.scores import Summary
from flashsac.system.files import replacing, write_atomic

PAGE = "index.html"
VIDEOS = "videos"
SCRIPTS = ("figures.js", "coverage.js", "ablation.js", "page.js")
"""The page's own scripts, in the order in which they run."""


def check_plotly() -> None:
    """Raise unless the page's drawing library is installed."""
    if importlib.util.find_spec("plotly") is None:
        raise MissingExtra("the HTML page needs plotly, which is not installed: pip install 'flashsac[report]'")


def write_page(
    comparison: Comparison,
    published: Published,
    out: Path,
    scores: Summary | None,
    *,
    notes: list[str],
    embed_videos: bool,
) -> list[Path]:
    """Write the page, and copies of the videos beside it unless they are embedded; return the files."""
    written: list[Path] = []

    def file_of(task: str, name: str, seed: int, video: Path) -> str:
        if embed_videos:
            return f"data:video/mp4;base64,{base64.b64encode(video.read_bytes()).decode()}"
        stem = re.sub(r"[^A-Za-z0-9.]+", "-", f"{task}-{name}-seed{seed}")[:80].strip("-.")
        copy = out / VIDEOS / f"{len(written) + 1}-{stem}.mp4"
        copy.parent.mkdir(exist_ok=True)
        with replacing(copy, in_place=True) as temporary:
            shutil.copyfile(video, temporary)
        written.append(copy)
        return f"{VIDEOS}/{copy.name}"

    data = page_data(comparison, published, notes, file_of, scores=scores)
    page = out / PAGE
    write_atomic(page, render(json_text(data), plotly()), in_place=True)
    return [page, *written]


def plotly() -> str:
    """Return the drawing library as its Python package brings it."""
    check_plotly()
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def render(data: str, library: str | None, poll_seconds: float = 0.0) -> str:
    """Return the page. Without `library` it loads plotly.js from beside it; with `poll_seconds`, data.json too."""
    own = [_resource(name) for name in SCRIPTS]
    scripts = own if library is None else [library, *own]
    allowed = " ".join(f"'sha256-{_digest(script)}'" for script in scripts)
    inside = "\n".join(f"<script>{script}</script>" for script in scripts)
    beside = '<script src="plotly.js"></script>\n' if library is None else ""
    values = {
        "policy": html.escape(
            f"default-src 'none'; script-src 'self' {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
            "media-src 'self' data: file:; connect-src 'self'; base-uri 'none'; form-action 'none'"
        ),
        "style": _resource("page.css"),
        "poll": f"{poll_seconds:g}",
        "data": data,
        "scripts": beside + inside,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: values[match[1]], _resource("page.html"))


def _resource(name: str) -> str:
    return files("flashsac.experiments.page").joinpath(name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
