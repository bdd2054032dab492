"""The documents: links and anchors lead somewhere, the navigation names every page, generated pages are up to date."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.helpers import ROOT, from_file

DOCS = ROOT / "docs"
DOCUMENTS = sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")})
OUTSIDE = "repository/"
"""The site's folder for files from outside docs/ (scripts/docs_hooks.py)."""


def prose(document: Path) -> str:
    """A document without its code."""
    return re.sub(r"^( *)(```+).*?^\1\2 *$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)


def links(document: Path) -> list[str]:
    """The links of a document to the repository itself."""
    found = re.findall(r"\]\(\s*<?([^)\s>]+)", re.sub(r"`[^`\n]*`", "", prose(document)))
    found += re.findall(r"""(?:src|href)=["']([^"']+)""", prose(document))
    return [link for link in found if not urlsplit(link).scheme]


def slug(heading: str) -> str:
    """The anchor that forges and the site give to a heading."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w -]", "", plain).replace(" ", "-")


def anchors(document: Path) -> set[str]:
    """The anchors of a document; of the API's page also the names of what it describes."""
    text = prose(document)
    found = {slug(heading) for heading in re.findall(r"^#+ +(.+?)(?: *\{[^}]*\})? *#*$", text, re.MULTILINE)}
    found |= set(re.findall(r"""(?:\bid=["']|\{ *#)([\w.-]+)""", text))
    return found | set(re.findall(r"^::: ([\w.]+)", text, re.MULTILINE))


def problem(document: Path, link: str) -> str | None:
    parts = urlsplit(link)
    target = (document.parent / unquote(parts.path)).resolve() if parts.path else document
    if not target.is_relative_to(ROOT) or not target.exists():
        return "there is no such file"
    if parts.fragment and target.suffix == ".md" and parts.fragment not in anchors(target):
        return f"there is no such anchor; there are {', '.join(sorted(anchors(target)))}"
    return None


def navigation() -> list[str]:
    """The pages that mkdocs.yml names."""
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return re.findall(r"^ +- (?:.+: )?(\S+\.md)$", nav, re.MULTILINE)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_and_anchors_lead_somewhere(document):
    broken = {link: why for link in links(document) if (why := problem(document, link))}
    assert not broken
    files = re.findall(r"`((?:tests|src|docs|benchmarks|scripts|examples|constraints)/[\w./-]+)`", document.read_text())
    missing = [file for file in files if not (ROOT / file).exists()]
    assert not missing


def test_broken_links_are_found():
    readme = ROOT / "README.md"
    assert problem(readme, "docs/log.md#log-of-experiments") is None
    assert problem(readme, "docs/no-such.md") == "there is no such file"
    assert "no such anchor" in str(problem(readme, "docs/log.md#no-such"))
    assert problem(readme, "../outside.md") == "there is no such file"


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("When the disk is full, or goes away", "when-the-disk-is-full-or-goes-away"),
        ("`flashsac train`: a [run](x.md)", "flashsac-train-a-run"),
        ("Go1 – slow & steady", "go1--slow--steady"),
        ("eval_void", "eval_void"),
    ],
)
def test_slugs(heading, anchor):
    assert slug(heading) == anchor


def test_the_navigation_names_every_page_once():
    named = navigation()
    assert len(named) == len(set(named)) > 20
    ours = {page for page in named if not page.startswith(OUTSIDE)}
    assert ours == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    outside = {page.removeprefix(OUTSIDE) for page in named if page.startswith(OUTSIDE)}
    assert {"CHANGELOG.md", "SECURITY.md"} <= outside
    assert all((ROOT / page).is_file() for page in outside)


def test_every_entry_of_the_log_has_its_parts():
    """A date and a question, then setup, result, conclusion, and what was not tested."""
    _, *entries = re.split(r"^## ", (DOCS / "log.md").read_text(), flags=re.MULTILINE)
    assert len(entries) > 30
    for entry in entries:
        title = entry.partition("\n")[0]
        assert re.fullmatch(r"20\d\d-\d\d-\d\d: .+\?( \((partly )?negative.*\))?", title), title
        parts = re.findall(r"^\*\*(Setup|Result|Conclusion|Not tested)\.\*\*", entry, re.MULTILINE)
        assert [part for part in parts if part != "Result"] == ["Setup", "Conclusion", "Not tested"], title
        assert "Result" in parts, title


def test_readme_is_short_and_every_picture_of_the_docs_is_shown():
    assert len((ROOT / "README.md").read_text().splitlines()) < 150
    shown = {(document.parent / link).resolve() for document in DOCUMENTS for link in links(document)}
    assert set((DOCS / "images").iterdir()) <= shown


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("cli_reference", marks=pytest.mark.slow),
        "metrics_reference",
        "architecture_picture",
    ],
)
def test_generated_files_are_up_to_date(script):
    module = from_file(f"scripts/{script}.py")
    assert module.OUT.read_text() == module.text(), f"run `python scripts/{script}.py` and commit what it writes"


@pytest.fixture
def site(tmp_path):
    (tmp_path / "index.html").write_text('<h1 id="here">x</h1><a href="other.html#there">y</a><img src="a.png">')
    (tmp_path / "other.html").write_text(
        '<p id="there"><a href="index.html#here">z</a> <a href="https://x.org">far</a>'
    )
    (tmp_path / "a.png").write_bytes(b"")
    (tmp_path / "style.css").write_text("p { background: url(a.png) }")
    return tmp_path


def test_a_good_site_passes(site):
    assert list(from_file("scripts/check_site.py").problems(site)) == []


@pytest.mark.parametrize(
    ("file", "bad"),
    [
        ("index.html", '<a href="gone.html">x</a>'),
        ("index.html", '<a href="other.html#gone">x</a>'),
        ("index.html", '<img src="gone.png">'),
        ("index.html", '<script src="https://x.org/a.js"></script>'),
        ("index.html", '<link rel="stylesheet" href="//x.org/a.css">'),
        ("index.html", "<style>p { background: url(https://x.org/a.png) }</style>"),
        ("index.html", '<p style="background: url(https://x.org/a.png)">x</p>'),
        ("index.html", '<img srcset="a.png 1x, https://x.org/a.png 2x">'),
        ("style.css", '@import "https://x.org/a.css";'),
        ("style.css", "p { background: url(https://x.org/a.png) }"),
    ],
)
def test_a_bad_site_is_refused(site, file, bad):
    (site / file).write_text((site / file).read_text() + bad)
    assert len(list(from_file("scripts/check_site.py").problems(site))) == 1
