"""Examples in the documents work, and their links exist.

A fenced block whose info string says ``run`` is run: ```` ```sh run ```` with ``bash -euo pipefail``, and
```` ```python run ```` with the Python of the tests. The blocks of one document run in their order in one
empty folder, each with at most ``timeout=SECONDS`` (default 180, for a machine that does much else); what they leave
running is then ended.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
FENCE: Final = re.compile(r"^(?P<fence>`{3,})(?P<info>[^\n`]*)\n(?P<text>.*?)^(?P=fence)`*[ \t]*$", re.M | re.S)
INLINE_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
LINK: Final = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\[[^\]]+\]:\s*(\S+)", re.M)
HEADING: Final = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.M)
ELSEWHERE: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.I)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block that is to be run."""

    line: int
    language: str
    text: str
    timeout_s: float = 180

    def command(self) -> list[str]:
        """Return what runs the block."""
        if self.language == "python":
            return [sys.executable, "-c", self.text]
        return ["bash", "-euo", "pipefail", "-c", self.text]


def documents() -> Iterator[Path]:
    """Yield every Markdown file that is ours."""
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
        yield from (Path(folder, name) for name in sorted(files) if name.endswith(".md"))


def blocks(document: str) -> Iterator[Block]:
    """Yield the blocks of ``document`` that are to be run."""
    for match in FENCE.finditer(document):
        language, *attributes = match["info"].split() or [""]
        if "run" not in attributes:
            continue
        if language not in {"sh", "python"}:
            raise ValueError(f"only sh and python blocks can be run, not {language!r}")
        [timeout_s] = [float(a.removeprefix("timeout=")) for a in attributes if a.startswith("timeout=")] or [180]
        yield Block(document.count("\n", 0, match.start()) + 1, language, match["text"], timeout_s)


def links(document: str) -> Iterator[str]:
    """Yield the targets of all links to files and headings, code left out."""
    prose = INLINE_CODE.sub("", FENCE.sub("", document))
    for match in LINK.finditer(prose):
        target = match[1] or match[2]
        if not ELSEWHERE.match(target):
            yield unquote(target)


def anchors(document: str) -> set[str]:
    """Return the names by which the headings of ``document`` can be linked to."""
    titles = HEADING.findall(FENCE.sub("", document))
    slugs = [re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).replace(" ", "-") for title in titles]
    return {f"{slug}-{n}" if (n := slugs[:index].count(slug)) else slug for index, slug in enumerate(slugs)}


def broken_links(path: Path, root: Path) -> list[str]:
    """Return the links of the document at ``path`` that lead nowhere, or out of ``root``."""
    broken = []
    for link in links(path.read_text(encoding="utf-8")):
        file, _, anchor = link.partition("#")
        target = (root / file.lstrip("/") if file.startswith("/") else path.parent / file) if file else path
        exists = target.exists() and target.resolve().is_relative_to(root)
        if not exists or (
            anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8"))
        ):
            broken.append(link)
    return broken


def name_of(path: Path) -> str:
    """Return the name of a document in test reports."""
    return str(path.relative_to(ROOT))


DOCUMENTS: Final = list(documents())
WITH_BLOCKS: Final = [path for path in DOCUMENTS if list(blocks(path.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    assert broken_links(path, ROOT) == []


@pytest.mark.documents
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", WITH_BLOCKS, ids=name_of)
def test_the_blocks_of_a_document_run(path: Path, tmp_path: Path) -> None:
    assert run(list(blocks(path.read_text(encoding="utf-8"))), tmp_path) == []


def test_no_two_documents_use_the_same_port() -> None:
    used: dict[str, set[Path]] = {}
    for path in documents():
        for block in blocks(path.read_text(encoding="utf-8")):
            for port in re.findall(r"127\.0\.0\.1:(1[0-9]{4})", block.text):
                used.setdefault(port, set()).add(path)

    assert len(used) > 5
    assert {port: paths for port, paths in used.items() if len(paths) > 1} == {}


def run(todo: list[Block], folder: Path) -> list[str]:
    """Run the blocks in ``folder`` and return what went wrong, at most one line and its output."""
    home = folder / "home"
    home.mkdir()
    environment = {
        **os.environ,
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]),
    }
    output = folder / "home" / "output"
    started: list[subprocess.Popen[bytes]] = []
    try:
        for block in todo:
            with output.open("wb") as sink:
                process = subprocess.Popen(
                    block.command(),
                    cwd=folder,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            started.append(process)
            try:
                status = str(process.wait(block.timeout_s))
            except subprocess.TimeoutExpired:
                status = f"more than {block.timeout_s:g} s"
            if status != "0":
                said = output.read_text(encoding="utf-8", errors="replace")
                return [f"the block at line {block.line} ended with {status}:\n{said}"]
    finally:
        for process in started:
            end(process)
    return []


def end(process: subprocess.Popen[bytes]) -> None:
    """End what a block left running: its session is its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


SAMPLE: Final = """# Title `x`: part 1

See [this](a.md#one), [that](https://example.org) and `[not](this.md)`.

```sh run timeout=5
echo hello > file
sleep 100 &
```

```sh
exit 1
```

```python run
assert open("file").read() == "hello\\n"
```

[ref]: b.md
"""


def test_only_marked_blocks_are_run_in_order_and_in_one_folder(tmp_path: Path) -> None:
    found = list(blocks(SAMPLE))

    assert [(block.line, block.language, block.timeout_s) for block in found] == [
        (5, "sh", 5),
        (14, "python", 180),
    ]
    assert run(found, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "report"), [("echo out\nfalse", "line 1 ended with 1:\nout"), ("sleep 9", "more than 0.5 s")]
)
def test_a_block_that_fails_or_hangs_is_reported(text: str, report: str, tmp_path: Path) -> None:
    [found] = run([Block(1, "sh", text, timeout_s=0.5)], tmp_path)

    assert report in found


def test_a_block_in_a_language_that_cannot_be_run_is_an_error() -> None:
    with pytest.raises(ValueError, match="not 'ruby'"):
        list(blocks("```ruby run\nputs 1\n```\n"))


def test_links_in_code_and_to_other_sites_are_left_alone() -> None:
    assert list(links(SAMPLE)) == ["a.md#one", "b.md"]


def test_a_link_to_a_missing_file_or_heading_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# One\n\n[x](#one) [y](#two) [z](b.md) [w](../out.md)\n")

    assert broken_links(tmp_path / "a.md", tmp_path) == ["#two", "b.md", "../out.md"]


def test_headings_are_named_as_the_usual_hosts_name_them() -> None:
    assert anchors(SAMPLE + "\n# Title `x`: part 1\n") == {"title-x-part-1", "title-x-part-1-1"}
