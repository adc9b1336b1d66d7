"""A failed run of the demo shows the end of the log of its process as lines."""

from __future__ import annotations

from pathlib import Path

from forebay.cli.demo.processes.children import ChildFailed
from forebay.cli.operate.demo_folder import failure
from forebay.cli.report import sentence


def test_the_end_of_a_log_is_shown_line_by_line() -> None:
    failed = failure(ChildFailed("broker", "ended with code 1", "first\nno disk left"), Path("/run"))

    assert sentence(failed) == "forebay: the broker process ended with code 1; its log ends with:"
    assert failed.lines == ("  first", "  no disk left", "files of the run: /run")


def test_a_process_without_a_log_has_its_sentence_only() -> None:
    failed = failure(ChildFailed("broker", "ended with code 1", ""), Path("/run"))

    assert sentence(failed) == "forebay: the broker process ended with code 1"
    assert failed.lines == ("files of the run: /run",)
