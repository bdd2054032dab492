"""The site's MkDocs hooks: links that leave docs/, and formulas.

The documents link to files all over the repository, because a forge shows them there. On the site a file outside docs/
is at repository/PATH: documents, source files and folders as pages, pictures and tables as copies. Only what a page
links is there.

Formulas ($...$ and $$...$$) become MathML, which browsers draw without a script.
"""

from __future__ import annotations

import html
import posixpath
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree.ElementTree import Element

import latex2mathml.converter
from markdown import Extension, Markdown
from markdown.treeprocessors import Treeprocessor
from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[1]
OUTSIDE = "repository/"
COPIED = {".png", ".svg", ".jpg", ".gif", ".csv", ".json", ".mp4"}
LANGUAGES = {".py": "python", ".sh": "bash", ".toml": "toml", ".yml": "yaml", ".json": "json"}
LINK = re.compile(r"\]\(\s*<?([^)\s>]+)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)

CELL = re.compile(r"<t[dh][ >].*?</t[dh]>", re.DOTALL)
CODE = re.compile(r"<code>([^<]*)</code>")
LETTERS = re.compile(r'(?:<mi mathvariant="normal">\w</mi>){2,}')
FUNCTION = re.compile(r"<mi>(log|ln|exp|cos|tanh|max|min)</mi>")
SIGN = re.compile(
    r"((?:<mrow>|<math[^>]*>|<mo[^>]*>(?:=|&#x0003D;|\[|&#x0005B;|\(|&#x00028;|,|&#x0002C;)</mo>))<mo>&#x02212;</mo>"
)
"""A minus that is no difference: after nothing, a bracket, a comma or an equals sign."""


# --- where a file of the repository is on the site --------------------------------------------------------------------


def site_path(file: str) -> str:
    """Return the path that MkDocs knows a file by, from its path in the repository."""
    if file == "docs" or file.startswith("docs/"):
        return file.removeprefix("docs").removeprefix("/")
    if (ROOT / file).is_dir():
        return f"{OUTSIDE}{file}/{'README' if (ROOT / file / 'README.md').exists() else 'index'}.md"
    return OUTSIDE + file + ("" if Path(file).suffix in COPIED | {".md"} else ".md")


def repository_path(page: str) -> str:
    """Return the inverse of `site_path`, for a page that is a document."""
    return page.removeprefix(OUTSIDE) if page.startswith(OUTSIDE) else f"docs/{page}"


def target_of(page: str, link: str) -> str | None:
    """Return the file or folder that a document links to, or None for an address, an anchor and what does not exist."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path or parts.path.startswith("/"):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(repository_path(page)), unquote(parts.path)))
    return target if not target.startswith("..") and (ROOT / target).exists() else None


def site_link(page: str, link: str) -> str:
    """Return a document's link as it must be on the site."""
    target = target_of(page, link)
    if target is None:
        return link
    there = posixpath.relpath(site_path(target), posixpath.dirname(page) or ".")
    fragment = re.sub(r"^L(\d+)(-L\d+)?$", r"__codelineno-0-\1", urlsplit(link).fragment)
    return f"{there}#{fragment}" if fragment else there


# --- files from outside docs/ -----------------------------------------------------------------------------------------


def on_files(files: Files, config: Any) -> Files:
    """Add every file outside docs/ that the navigation names or a document links, and what those documents link in
    turn."""
    named = [page for page in _pages(config.nav) if page.startswith(OUTSIDE)]
    for page in named:
        files.append(File.generated(config, page, abs_src_path=str(ROOT / repository_path(page))))
    todo = list(files.documentation_pages())
    while todo:
        page = todo.pop()
        for link in LINK.findall(page.content_string):
            target = target_of(page.src_uri, link)
            if target is None or site_path(target) in files.src_uris or not site_path(target).startswith(OUTSIDE):
                continue
            file = _outside(target, config)
            files.append(file)
            if target.endswith(".md") or (ROOT / target).is_dir():
                todo.append(file)
    return files


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for part in (nav.values() if isinstance(nav, dict) else nav) for page in _pages(part)]


def _outside(target: str, config: Any) -> File:
    path, uri = ROOT / target, site_path(target)
    if path.is_dir() and not uri.endswith("README.md"):
        inside = sorted(part for part in path.iterdir() if not part.name.startswith((".", "__pycache__")))
        links = "\n".join(f"- [{part.name}]({part.name})" for part in inside)
        source: dict[str, Any] = {"content": f"# {target}\n\n{links}\n"}
    elif path.is_dir() or path.suffix in COPIED | {".md"}:
        source = {"abs_src_path": str(ROOT / repository_path(uri))}
    else:
        language = LANGUAGES.get(path.suffix, "text")
        code = path.read_text(encoding="utf-8")
        source = {"content": f'# {target}\n\n`````{language} linenums="1"\n{code}`````\n'}
    return File.generated(config, uri, inclusion=InclusionLevel.NOT_IN_NAV, **source)


# --- links and formulas of a page -------------------------------------------------------------------------------------


class _Links(Treeprocessor):
    """A processor that rewrites the links of the page being rendered, before MkDocs looks them up."""

    page = ""

    def run(self, root: Element) -> None:
        for element in root.iter():
            for attribute in ("href", "src"):
                if link := element.get(attribute):
                    element.set(attribute, site_link(_Links.page, link))


class _RepositoryLinks(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        md.treeprocessors.register(_Links(md), "repository links", 3)  # MkDocs' own has priority 0


def on_config(config: Any) -> Any:
    config.markdown_extensions.append(_RepositoryLinks())
    return config


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    _Links.page = page.file.src_uri
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    return CELL.sub(lambda match: CODE.sub(_breakable, match[0]), FORMULA.sub(_formula, html))


def _breakable(match: re.Match[str]) -> str:
    """Let code in a table break between its words, and keep the dashes of a flag with its first word."""
    text = re.sub(r"([._/,=:])(?=\w)", r"\1<wbr>", match[1])
    text = re.sub(r"(?<![\w-])--\w+-?", r'<span class="whole">\g<0></span>', text)
    return f"<code>{text}</code>"


def _formula(match: re.Match[str]) -> str:
    display = "block" if match[1] == "div" else "inline"
    mathml = _typeset(latex2mathml.converter.convert(html.unescape(match[2]).strip(), display=display))
    return f'<div class="formula">{mathml}</div>' if display == "block" else mathml


def _typeset(mathml: str) -> str:
    """Give a formula the spaces that TeX would: around log, after a sign, between the letters of a word."""
    mathml = LETTERS.sub(lambda match: f"<mi>{re.sub('<[^>]*>', '', match[0])}</mi>", mathml)
    mathml = FUNCTION.sub(_function, mathml)
    mathml = SIGN.sub(r'\1<mo form="prefix" lspace="0em" rspace="0em">&#x02212;</mo>', mathml)
    return mathml.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def _function(match: re.Match[str]) -> str:
    before = "0em" if re.search(r"(</mo>|<mrow>|<math[^>]*>)$", match.string[: match.start()]) else "0.17em"
    after = "0em" if re.match(r"<mo[^>]*>(&#x00028;|\(|\[)", match.string[match.end() :]) else "0.17em"
    return f'<mo form="prefix" lspace="{before}" rspace="{after}">{match[1]}</mo>'
