"""Plain language: first lines of docstrings, headings, and the words of code, documents and names of tests.

A first line states its fact: a noun phrase or an imperative, at most 100 characters, never an indirect question. A
banned word is one for which the field always has a better one. First lines of tests may be longer. The same
words are banned in texts that users see (messages, log events, help), in documents, and in the names of tests; headings
of documents are no questions, and no name of a test begins with one.

``OFFENDERS`` counts, per folder, the lines that are still to be rewritten. A count must match exactly: a change that
removes an offender lowers its number, and no change raises one. ``python -m tests.contract.test_language`` prints the
table as it should be, and ``--list FOLDER`` prints the offenders of one folder.
"""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE_ROOTS: Final = ("protos", "broker", "client", "spark_integration", "tests")
FIRST_LINE_MAX: Final = 100
QUESTION_WORDS: Final = ("What", "Which", "Who", "How", "Where", "When", "Whether")
QUESTION: Final = re.compile(rf"(?:{'|'.join(QUESTION_WORDS)})\b")

BANNED: Final = {
    r"mend(?:s|ed|ing)?": "repair",
    r"told": "notified, recorded, known",
    r"bur(?:y|ied|ial)": "dead-letter, move to the dead-letter sink",
    r"comes? again": "is redelivered, is retried",
    r"stands? on the disk": "is durable",
    r"lets? go|letting go": "release, drop",
    r"step(?:s|ped)? aside": "goes to the retry queue",
    r"throws? away|thrown away": "discard",
    r"who(?:so)?ever": "the caller, the consumer, the process that ...",
    r"nobody": "no process, no consumer, no reader",
    r"somebody|someone": "another process, a caller, a reader",
    r"anybody|anyone": "any caller, any process",
    r"everybody|everyone": "every caller, every process",
    r"parked": "in the retry queue",
    r"anew": "again, recreated, rewritten",
    r"lineups?": "queue",
    r"checks? out": "is intact, is valid",
    r"go(?:es)? on": "continue",
    r"looks? at|looked at": "check, examine, read",
    r"speaks? of": "name, contain",
    r"stands? (?:for|at|in)": "represent, be, contain",
    r"gives? back|gave back|given back": "release, return",
    r"comes? back|came back": "return, recover",
    r"takes? back|took back|taken back": "revoke, undo",
    r"heard": "received",
    r"set aside|kept aside": "in the retry queue, in quarantine",
    r"is away": "is not reachable",
}
"""Each banned expression, with the words to use in its place."""

BANNED_WORD: Final = re.compile(r"\b(?:" + "|".join(BANNED).replace(" ", r"\s+") + r")\b", re.IGNORECASE)

STATEMENTS: Final = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of the nodes of a tree that hold statements, or parts of a statement that hold some."""

MAYBE_QUESTION: Final = re.compile(rf"[\"']\s*(?:\\\n\s*)?{QUESTION.pattern}")
"""Beginning of each string that may be a docstring with a question word: files without one need not be parsed."""

QUESTION_NAME: Final = re.compile(rf"test_(?:{'|'.join(QUESTION_WORDS).lower()})(?:_|$)")
"""Name of a test whose subject is an indirect question ("what is sent is"), not a thing ("a sent record is")."""

CODE: Final = re.compile(r"`+[^`\n]+`+")
"""Names of the code within a text: they are not words of it."""


FENCED: Final = re.compile(r"^ *(`{3,})[^\n]*\n(.*?)^ *\1`*[ \t]*$", re.MULTILINE | re.DOTALL)
"""Block of code in a document: only its comments are language."""

HEADING: Final = re.compile(rf"^#+ ({QUESTION.pattern})(?!-to)", re.MULTILINE)
"""Heading of a document that begins with a question word; "How-to" is none."""

COMMENT: Final = re.compile(r"(?:^|\s)# (.*)")
CONFIGURATION: Final = frozenset({".yaml", ".yml", ".toml", ".sh", ".service", ".tpl"})
"""Suffixes of files with comments and texts for operators."""

NOT_OURS: Final = frozenset({"build", "dist", "htmlcov", "node_modules", "site"})


class Offenders(NamedTuple):
    """Numbers of offenders in one folder."""

    questions: int = 0
    """First lines that begin with a question word."""

    long: int = 0
    """First lines longer than ``FIRST_LINE_MAX``."""

    banned: int = 0
    """Banned words in docstrings and comments."""


OFFENDERS: Final[dict[str, Offenders]] = {}
"""Offenders that are left, per folder; a folder that is missing has none."""


def test_offenders_are_exactly_those_of_the_table() -> None:
    found = counts()
    wrong = [
        f"{folder}: the table says {OFFENDERS.get(folder, Offenders())}, the code has {found.get(folder, Offenders())}"
        for folder in sorted(found.keys() | OFFENDERS.keys())
        if found.get(folder, Offenders()) != OFFENDERS.get(folder, Offenders())
    ]

    assert wrong == [], "lower a number with the change that removes an offender; rewrite a new offender"


def test_comments_of_the_protos_have_no_banned_word() -> None:
    found = [
        f"{path.name}: {word.group()}"
        for path in sorted((ROOT / "protos").rglob("*.proto"))
        # A text of several lines is one text: the words of an expression may be on two of them.
        for comment in re.findall(r"(?:^ *//.*\n)+", path.read_text(encoding="utf-8"), re.MULTILINE)
        for word in BANNED_WORD.finditer(CODE.sub("``", re.sub(r"\n *//", "\n", comment)))
    ]

    assert found == []


def test_documents_have_no_banned_word_and_no_heading_that_is_a_question() -> None:
    found = [f"{path.relative_to(ROOT)}:{line}: {text}" for path in documents() for line, text in offences(path)]

    assert found == []


def test_texts_that_users_see_have_no_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for path in [*(path for path in sources() if not path.is_relative_to(ROOT / "tests")), *programs()]
        for line, word in banned_texts(path.read_text(encoding="utf-8"))
    ]

    assert found == []


def test_configuration_that_is_shipped_has_no_banned_word() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {word.group()}"
        for path in walked()
        if path.suffix in CONFIGURATION or path.name in {"Dockerfile", "Makefile"}
        for word in BANNED_WORD.finditer(CODE.sub("``", path.read_text(encoding="utf-8")))
    ]

    assert found == []


def test_names_of_tests_have_no_banned_word() -> None:
    found = [f"{path}: {name}" for path, name in names_of_tests() if BANNED_WORD.search(name.replace("_", " "))]

    assert found == []


def test_names_of_tests_begin_with_no_question_word() -> None:
    found = [f"{path}: {name}" for path, name in names_of_tests() if QUESTION_NAME.match(name)]

    assert found == [], "begin with the subject, a term of the field: test_a_sent_record_is_..."


@pytest.mark.parametrize("word", QUESTION_WORDS)
def test_a_question_word_is_found_at_the_beginning_of_a_name_only(word: str) -> None:
    lower = word.lower()

    assert QUESTION_NAME.match(f"test_{lower}_was_sent_is_in_flight")
    assert QUESTION_NAME.match(f"test_{lower}")
    assert not QUESTION_NAME.match(f"test_{lower}ever_is_sent")
    assert not QUESTION_NAME.match(f"test_an_error_says_{lower}_it_failed")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# Title\n\nIt goes\non, `nobody`.\n", [(3, "goes\non")]),
        ("```sh\nnobody # the job goes on\n```\nNobody.\n", [(2, "goes on"), (4, "Nobody")]),
        ("# How-to guides\n## How it works\n", [(2, "## How")]),
    ],
)
def test_each_offence_of_a_document_is_found_where_it_is_written(
    text: str, expected: list[tuple[int, str]], tmp_path: Path
) -> None:
    document = tmp_path / "page.md"
    document.write_text(text, encoding="utf-8")

    assert list(offences(document)) == expected


def test_a_banned_word_is_found_in_a_message_and_not_in_a_name() -> None:
    assert list(banned_texts('x = f"nobody {y}"\nPARKED = "PARKED"\n')) == [(1, "nobody")]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ('"""Return the low watermark."""', Offenders()),
        ('"""How far it got."""', Offenders(questions=1)),
        ('class A:\n    x: int\n    """Whether it is."""\n', Offenders(questions=1)),
        ('def f():\n    def g():\n        """\n        Where it is.\n        """\n', Offenders(questions=1)),
        (f'"""{"x" * 101}\n\nMore."""', Offenders(long=1)),
        (f'"""{"x" * 100}\n\n{"y" * 110}"""', Offenders()),
        ('"""It comes\nagain, Whoever asks."""\n# mended', Offenders(banned=3)),
        ('"""Recommended: see ``Log.mend``."""\nx = "nobody"', Offenders()),
    ],
)
def test_each_kind_of_offender_is_found_where_it_is_written(source: str, expected: Offenders) -> None:
    found = [kind for kind, _, _ in offenders(source)]

    assert Offenders(*(found.count(kind) for kind in Offenders._fields)) == expected


def counts() -> dict[str, Offenders]:
    """Return the numbers of offenders of every folder that has one."""
    found: dict[str, list[str]] = {}
    for path in sources():
        kinds = [kind for kind, _, _ in offenders_of(path)]
        found.setdefault(str(path.parent.relative_to(ROOT)), []).extend(kinds)
    return {
        folder: Offenders(*(kinds.count(kind) for kind in Offenders._fields))
        for folder, kinds in sorted(found.items())
        if kinds
    }


def sources() -> Iterator[Path]:
    """Iterate over the hand-written modules of the product and the tests."""
    for source_root in SOURCE_ROOTS:
        for path in sorted((ROOT / source_root).rglob("*.py")):
            if "_pb2" not in path.name:
                yield path


def names_of_tests() -> Iterator[tuple[Path, str]]:
    """Iterate over the names of the test functions and methods, each with the path of its file."""
    for path in sources():
        if path.is_relative_to(ROOT / "tests"):
            for name in re.findall(r"def (test_\w+)", path.read_text(encoding="utf-8")):
                yield path.relative_to(ROOT), name


def walked() -> Iterator[Path]:
    """Iterate over the files of the repository, without what a command creates."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_OURS)
        yield from (Path(folder, name) for name in sorted(files))


def documents() -> Iterator[Path]:
    """Iterate over the documents of the repository."""
    yield from (path for path in walked() if path.suffix == ".md")


def programs() -> Iterator[Path]:
    """Iterate over the programs that are shipped beside the packages."""
    yield from (path for folder in ("compose", "docs") for path in sorted((ROOT / folder).rglob("*.py")))


def offences(document: Path) -> Iterator[tuple[int, str]]:
    """Iterate over the line number and text of each offence in a document."""
    text = document.read_text(encoding="utf-8")
    language = FENCED.sub(lambda block: "\n".join(map(comment_of, block.group().split("\n"))), text)
    language = CODE.sub(lambda code: "`" * len(code.group()), language)
    for pattern in (BANNED_WORD, HEADING):
        for found in pattern.finditer(language):
            yield language.count("\n", 0, found.start()) + 1, found.group()


def comment_of(line: str) -> str:
    """Return the comment of a line of code, or an empty line."""
    found = COMMENT.search(line)
    return found.group(1) if found else ""


def banned_texts(source: str) -> Iterator[tuple[int, str]]:
    """Iterate over the line number and text of each banned word in a string of a module that is no name."""
    if BANNED_WORD.search(source) is None:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and not node.value.isidentifier():
            for word in BANNED_WORD.finditer(CODE.sub("``", node.value)):
                yield node.lineno, word.group()


def offenders_of(path: Path) -> Iterator[tuple[str, int, str]]:
    """Iterate over the offenders of one file."""
    yield from offenders(path.read_text(encoding="utf-8"), any_length=path.is_relative_to(ROOT / "tests"))


def offenders(source: str, *, any_length: bool = False) -> Iterator[tuple[str, int, str]]:
    """Iterate over the kind, line number and text of each offender in one module."""
    # Parsing is most of the work, and few files have a text that may offend.
    is_long = len(max(source.split("\n"), key=len)) > FIRST_LINE_MAX and not any_length
    banned = BANNED_WORD.search(source) is not None
    texts = list(docstrings(source)) if is_long or banned or MAYBE_QUESTION.search(source) else []
    for line, text in texts:
        first = text.strip().partition("\n")[0].rstrip()
        if QUESTION.match(first):
            yield "questions", line, first
        if len(first) > FIRST_LINE_MAX and not any_length:
            yield "long", line, first
    for line, text in [*texts, *comments(source)] if banned else ():
        for word in BANNED_WORD.finditer(CODE.sub("``", text)):
            yield "banned", line + text.count("\n", 0, word.start()), word.group()


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Iterate over the docstrings of the module, its classes, functions and attributes, with their line numbers."""
    blocks: list[ast.AST] = [ast.parse(source)]
    while blocks:
        node = blocks.pop()
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
        # Statements only: the expressions are most of a tree, and hold no docstring.
        blocks += [inner for field in STATEMENTS for inner in getattr(node, field, ()) if isinstance(inner, ast.AST)]


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Iterate over the comments, with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def row(folder: str, offenders: Offenders) -> str:
    """Return a line of ``OFFENDERS``."""
    numbers = ", ".join(f"{kind}={number}" for kind, number in offenders._asdict().items() if number)
    return f'    "{folder}": Offenders({numbers}),'


def main(arguments: list[str]) -> None:
    """Print the table, or the offenders of a folder."""
    if arguments[:1] != ["--list"]:
        print("\n".join(row(folder, offenders) for folder, offenders in counts().items()))
        return
    for path in sources():
        if path.parent == ROOT / arguments[1]:
            for kind, line, text in offenders_of(path):
                print(f"{path.relative_to(ROOT)}:{line}: {kind}: {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
