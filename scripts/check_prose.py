"""Find sentences that are hard to read, in the documents and in the source.

Three rules: a sentence has at most 25 words, a docstring begins with its subject (or with a verb, for what a function does),
and a line of prose in a document has at most 120 characters.

    python scripts/check_prose.py              # the whole project
    python scripts/check_prose.py docs/faq.md  # some files
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MOST_WORDS = 25
LINE_LENGTH = 120
ROOT = Path(__file__).resolve().parent.parent
NO_SUBJECT = frozenset(
    "of in on at with without for from by to than into onto where when whether if as because and but or nor not only also so "
    "then while after before until since through under over per has have had is are was were be being does do did".split()
)
"""First words that leave the subject out, or put it last."""
DROPPED_SUBJECT = frozenset(
    "adds allows asks brings builds calls carries changes checks chooses closes collects comes compares computes contains converts "
    "copies counts creates decides deletes describes does draws ends evaluates exports finds fits follows gets gives goes handles "
    "holds keeps knows leaves lets listens lists loads looks makes maps means measures names needs opens passes plays prints puts "
    "raises reads records refuses removes replaces reports resumes returns rewrites runs samples saves says sends sets shows sits "
    "stands starts steps stops stores takes tells trains tries turns updates uses waits watches works wraps writes".split()
)
"""Third-person verbs: "Runs a session" leaves out who runs it. Write "Run a session", or name the subject."""
ALSO_NOUNS = frozenset(
    "calls changes checks copies counts ends maps means measures names needs plays prints records reports returns runs samples sets "
    "starts steps stops stores updates uses works".split()
)
"""Verbs among them that may be a plural: flagged only before an article or the like."""
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|Eq|Fig|Sec|al|approx|no)\.(?=\s)", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*_”]*\s+(?=[^a-z])")
WORD = re.compile(r"[^\W_](?:[\w'’.,/:%+-]*\w)?")

Finding = tuple[int, str]


def sentences(text: str) -> list[str]:
    """Split one paragraph into sentences."""
    text = ABBREVIATIONS.sub(r"\1", " ".join(text.split()))
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def words(sentence: str) -> int:
    """Count the words; code in backticks, a link and a number are one word each."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    plain = re.sub(r"`+[^`]*`+|\$[^$]*\$|<[^<>]*>", "code", plain)
    return len(WORD.findall(plain))


def too_long(line: int, paragraph: str) -> Iterator[Finding]:
    for sentence in sentences(paragraph):
        if (count := words(sentence)) > MOST_WORDS:
            yield line, f"{count} words: {sentence}"


# --- documents -----------------------------------------------------------------------------------------------------------


def document_paragraphs(text: str) -> Iterator[tuple[int, str]]:
    """Yield every paragraph, list item, heading and table cell with its line number; code, HTML and formulas are left out."""
    fence, start, collected = "", 0, []  # type: ignore[var-annotated]

    def finished() -> Iterator[tuple[int, str]]:
        if collected:
            yield start, " ".join(collected)
            collected.clear()

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if fence:
            fence = "" if stripped.startswith(fence) else fence
            continue
        marker = re.match(r"(```+|~~~+|\$\$)", stripped)
        if marker:
            yield from finished()
            closed_at_once = stripped != marker[1] and stripped.endswith(marker[1])
            fence = "" if closed_at_once else marker[1]
            continue
        if (
            not stripped
            or stripped.startswith(("<", ":::", "|", "#", "[^"))
            or re.match(r"([-*+]|\d+\.|>|!!!|\?\?\?|===)\s", stripped)
        ):
            yield from finished()
        if not stripped or stripped.startswith(("<", ":::")):
            continue
        if stripped.startswith("|"):
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", stripped) if cell.strip())
            continue
        if not collected:
            start = number
        collected.append(re.sub(r"^([-*+]|\d+\.|>|#+|!!!|\?\?\?|===)\s+", "", stripped))
        if stripped.startswith("#"):
            yield from finished()
    yield from finished()


def check_document(text: str) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.strip().startswith("```")
        unbreakable = (
            line.lstrip().startswith(("|", "<", "!", "[!")) or max(map(len, line.split()), default=0) > LINE_LENGTH // 2
        )
        if len(line) > LINE_LENGTH and not fenced and not unbreakable:
            yield number, f"line of {len(line)} characters"
    for number, paragraph in document_paragraphs(text):
        yield from too_long(number, paragraph)


# --- source --------------------------------------------------------------------------------------------------------------


def check_source(text: str) -> Iterator[Finding]:
    tree = ast.parse(text)
    docstrings = {id(node): node for node in _docstrings(tree)}
    for node in docstrings.values():
        yield from _check_docstring(node)
    for node, string in _strings(tree):
        if id(node) not in docstrings:
            for paragraph in re.split(r"\n", string):
                yield from too_long(node.lineno, paragraph)
    for number, comment in _comments(text):
        yield from too_long(number, comment)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every string that stands alone as a statement: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def _check_docstring(node: ast.Constant) -> Iterator[Finding]:
    text = str(node.value).strip()
    first = re.match(r"([A-Za-z]+)( (?:a|an|the|its?|every|each|all|one|what|how|whether|this|these)\b)?", text)
    noun = first and first[1].lower() in ALSO_NOUNS and not first[2]  # "Steps per second", but "Steps the environment"
    if first and not noun and first[1].lower() in NO_SUBJECT | DROPPED_SUBJECT:
        yield node.lineno, f"docstring without its subject: {text.splitlines()[0]}"
    fence = False
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        fence ^= line.strip().startswith("```")
        code = fence or (line.startswith("        " if node.col_offset else "    ") and line.strip()[:1] not in "-*")
        if not line.strip() or code or line.strip().startswith(("- ", "* ", "|", "```")):
            yield from too_long(node.lineno, " ".join(paragraph))
            paragraph = []
        if line.strip() and not code:
            paragraph.append(line.strip())


def _strings(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield every string and f-string; a placeholder counts as one word."""
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in ast.walk(node)
        if part is not node
    }
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node, node.value
        elif isinstance(node, ast.JoinedStr):
            yield node, "".join(part.value if isinstance(part, ast.Constant) else "X" for part in node.values)  # type: ignore[misc]


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments, with those of adjoining lines in one."""
    start, last, collected = 0, -1, []  # type: ignore[var-annotated]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        number, own_line = token.start[0], token.line.strip().startswith("#")
        if collected and not (own_line and number == last + 1):
            yield start, " ".join(collected)
            collected = []
        if not collected:
            start = number
        collected.append(token.string.lstrip("# "))
        last = number if own_line else -1
    if collected:
        yield start, " ".join(collected)


def check_file(path: Path) -> list[Finding]:
    text = path.read_text(encoding="utf-8")
    return sorted(check_document(text) if path.suffix == ".md" else check_source(text))


def project_files() -> list[Path]:
    """Return the project's own documents and source, as git lists them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", "*.md", "src/*.py", "examples/*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    return [ROOT / name for name in listed if name and (ROOT / name).exists()]


def main(arguments: list[str]) -> int:
    files = [Path(argument).resolve() for argument in arguments] or project_files()
    count = 0
    for path in files:
        for number, problem in check_file(path):
            count += 1
            print(f"{path.relative_to(ROOT)}:{number}: {problem}")
    print(f"{count} finding{'s' * (count != 1)} in {len(files)} files")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
