"""Find sentences that are hard to read, in the documents and in the source.

Three rules: a sentence has at most 25 words, a docstring begins with its subject (or with a verb, for what a function
does), and a line of prose in a document has at most 120 characters.

    python scripts/check_prose.py              # the whole project
    python scripts/check_prose.py docs/faq.md  # some files
"""

from __future__ import annotations

import ast
import inspect
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
SUBJECT_LATER = frozenset(
    "of in on at with without for from by to than into onto where when whether if as because and but or nor not only also so "
    "then while after before until since through under over per".split()
)
"""First words of a docstring that put its subject last, or leave it out."""
AUXILIARY = frozenset(
    "has have had is are was were be being does do did can cannot could may might must shall should will would never".split()
)
"""First words of a statement without its subject: "Must be called once"."""
DROPPED_SUBJECT = frozenset(
    "adds allows applies asks brings builds carries chooses closes collects comes compares computes contains converts creates "
    "decides deletes describes does draws evaluates exports finds fits follows gets gives goes handles holds keeps knows leaves "
    "lets listens loads makes needs opens passes puts raises refuses removes replaces resumes rewrites saves says sends shows sits "
    "stands takes tells trains tries turns waits wraps writes".split()
)
"""Third-person verbs: "Makes a session" leaves out who makes it. Write "Make a session", or name the subject."""
DETERMINER = re.compile(r"(?:a|an|the|its?|their|every|each|all|one|what|how|whether|this|these|them|itself|nothing|`)")
"""After a word in -s it shows a verb: "Steps the environment", but "Steps per second"."""
PARTICIPLE = re.compile(
    r"[a-z]+ed|built|done|drawn|found|given|held|kept|made|read|run|sent|set|shown|taken|told|written"
)
AFTER_PARTICIPLE = frozenset("after as at before by for from if in once only on to until when where with".split())
"""Second words that show a dropped subject: "Written by the trainer", but "Written rows"."""
ABBREVIATIONS = re.compile(r"\b(e\.g|i\.e|etc|vs|cf|Eq|Fig|Sec|al|approx)\.(?=\s)", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])[)\"'*_”]*\s+(?=[^a-z])")
WORD = re.compile(r"[^\W_](?:[\w'’.,/:%+-]*\w)?")
ITEM = re.compile(r"(?:[-*+>]|(\d+)[.)]|\[\^[^\]]*\]:)\s+")
TITLE = re.compile(r"(?:#+|!!!|\?\?\?\+?|===)\s")

Finding = tuple[int, str]


def sentences(text: str) -> list[str]:
    """Split one paragraph into sentences."""
    text = ABBREVIATIONS.sub(r"\1", " ".join(text.split()))
    return [part for part in SENTENCE_END.split(text) if part.strip()]


def words(sentence: str) -> int:
    """Count the words; code in backticks, a formula, a tag and a number are one word each, a link as many as its
    text."""
    plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    plain = re.sub(r"`+[^`]*`+|\$[^\s$](?:[^$]*[^\s$])?\$|</?[A-Za-z][^<>]*>", "code", plain)
    return len(WORD.findall(plain))


def too_long(line: int, paragraph: str) -> Iterator[Finding]:
    for sentence in sentences(paragraph):
        if (count := words(sentence)) > MOST_WORDS:
            yield line, f"{count} words: {sentence}"


def paragraphs(text: str, *, indented_code: bool = False) -> Iterator[tuple[int, str]]:
    """Yield every paragraph, list item, heading and table cell with its line number; code and formulas are left out."""
    fence, start, collected, numbered = "", 0, [], False  # type: ignore[var-annotated]

    def finished() -> Iterator[tuple[int, str]]:
        if collected:
            yield start, " ".join(collected)
            collected.clear()

    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if stripped.startswith("<"):
            stripped = re.sub(r"<!--.*?-->|<[^<>]*>", " ", stripped).strip()
        if fence:
            fence = "" if stripped.startswith(fence) else fence
        elif marker := re.match(r"```+|~~~+|\$\$", stripped):
            yield from finished()
            closed_at_once = stripped != marker[0] and stripped.endswith(marker[0])
            fence = "" if closed_at_once else marker[0]
        elif not stripped or stripped.startswith(":::"):
            yield from finished()
        elif stripped.startswith("|"):
            yield from finished()
            yield from ((number, cell) for cell in re.split(r"(?<!\\)\|", stripped) if cell.strip())
        elif re.search(r"\S {3,}\S", line):  # columns
            yield from finished()
            yield from ((number, cell) for cell in re.split(r" {3,}", stripped))
        elif TITLE.match(stripped):
            yield from finished()
            yield number, TITLE.sub("", stripped)
        elif not (indented_code and line.startswith("    ") and not collected):
            item = ITEM.match(stripped)
            if item and collected and item[1] not in (None, "1") and not numbered:
                item = None  # a number at a line's start, in the middle of a sentence
            if item:
                yield from finished()
            if not collected:
                start, numbered = number, bool(item and item[1])
            collected.append(stripped[item.end() :] if item else stripped)
    yield from finished()


# --- documents --------------------------------------------------------------------------------------------------------


def check_document(text: str) -> Iterator[Finding]:
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        fenced ^= line.strip().startswith("```")
        unbreakable = (
            line.lstrip().startswith(("|", "<", "!", "[!")) or max(map(len, line.split()), default=0) > LINE_LENGTH // 2
        )
        if len(line) > LINE_LENGTH and not fenced and not unbreakable:
            yield number, f"line of {len(line)} characters"
    for number, paragraph in paragraphs(text):
        yield from too_long(number, paragraph)


# --- source -----------------------------------------------------------------------------------------------------------


def check_source(text: str) -> Iterator[Finding]:
    tree = ast.parse(text)
    docstrings = {id(node): node for node in _docstrings(tree)}
    for node in docstrings.values():
        yield from _check_docstring(node)
    for node, string in _strings(tree):
        if id(node) not in docstrings:
            for _, paragraph in paragraphs(string):
                yield from too_long(node.lineno, paragraph)
    for number, comment in _comments(text):
        for line, paragraph in paragraphs(comment):
            yield from too_long(number + line - 1, paragraph)


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield every string that stands alone as a statement: docstrings of modules, classes, functions and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def _check_docstring(node: ast.Constant) -> Iterator[Finding]:
    for line, paragraph in paragraphs(inspect.cleandoc(str(node.value)), indented_code=True):
        number = node.lineno + line - 1
        yield from too_long(number, paragraph)
        for place, sentence in enumerate(sentences(paragraph)):
            if lacks_subject(sentence, begins=line == 1 and place == 0):
                yield number, f"no subject: {sentence}"


def lacks_subject(sentence: str, *, begins: bool) -> bool:
    """Return whether a sentence lacks its subject; `begins` if a docstring begins with it."""
    start = re.match(r"([A-Za-z]+)(?: (\w+|`))?" if begins else r"([A-Z][a-z]+)(?: (\w+|`))?", sentence)
    if not start or sentence.endswith("?"):
        return False
    first, second = start[1].lower(), start[2] or ""
    if begins and first in SUBJECT_LATER:
        return True
    verb = re.fullmatch(r"\w{2,}[^s]s", first) and DETERMINER.fullmatch(second)
    participle = PARTICIPLE.fullmatch(first) and second in AFTER_PARTICIPLE
    return first in AUXILIARY | DROPPED_SUBJECT or bool(verb or participle)


def _strings(tree: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield every string, f-string and sum of strings; a placeholder counts as one word."""
    parts: set[int] = set()
    for node in ast.walk(tree):  # from the outside in, so a sum comes before its terms
        if id(node) in parts:
            continue
        text, inside = _text(node)
        parts |= inside
        if text is not None and isinstance(node, ast.expr):
            yield node, text


def _text(node: ast.AST) -> tuple[str | None, set[int]]:
    """Return the text of a string, X for what is filled in, and the ids of the nodes that it consists of."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value, {id(node)}
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        formats = {id(part) for value in node.values for part in ast.walk(getattr(value, "format_spec", None) or value)}
        inner = {
            id(part) for value in node.values if isinstance(value, ast.FormattedValue) for part in ast.walk(value.value)
        }
        return text, {id(node), *(formats - inner)}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        (left, its), (right, others) = _text(node.left), _text(node.right)
        if left is not None or right is not None:
            return (left or "X") + (right or "X"), {id(node), *its, *others}
    return None, set()


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield comments, with those of adjoining lines in one."""
    start, last, collected = 0, -1, []  # type: ignore[var-annotated]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        number, own_line = token.start[0], token.line.strip().startswith("#")
        if collected and not (own_line and number == last + 1):
            yield start, "\n".join(collected)
            collected = []
        if not collected:
            start = number
        collected.append(token.string.lstrip("# "))
        last = number if own_line else -1
    if collected:
        yield start, "\n".join(collected)


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
