"""The Go code of the documentation is code that `make test-go` runs."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs" / "how-to" / "use-another-language.md"
BLOCKS: Final = re.findall(r"^```go\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
CODE: Final = (ROOT / "tests" / "go" / "client_test.go").read_text(encoding="utf-8")


def lines(text: str) -> str:
    """Return lines without their indentation."""
    return "\n".join(line.strip() for line in dedent(text).strip().splitlines())


def test_the_page_has_go_code() -> None:
    assert len(BLOCKS) >= 6


@pytest.mark.parametrize("block", BLOCKS, ids=[block.strip().splitlines()[0][:40] for block in BLOCKS])
def test_a_block_of_go_is_code_of_the_tests(block: str) -> None:
    assert lines(block) in lines(CODE)


def test_the_page_names_the_versions_of_the_generators_that_are_used() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    found = dict(re.findall(r"^(PROTOC_GEN_GO\w*) := (\S+)$", makefile, re.MULTILINE))

    page = PAGE.read_text(encoding="utf-8")
    assert f"protoc-gen-go@{found['PROTOC_GEN_GO_VERSION']}" in page
    assert f"protoc-gen-go-grpc@{found['PROTOC_GEN_GO_GRPC_VERSION']}" in page
