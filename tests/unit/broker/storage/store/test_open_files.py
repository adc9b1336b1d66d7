"""The limit of open files, in processes of their own: a hard limit never goes up again."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from typing import Any

import pytest

from forebay.broker.storage.store.open_files import SpareFiles

ASK = """
import resource, sys
from pathlib import Path
from forebay.broker.storage.errors import StoreFilesLimited
from forebay.broker.storage.store.open_files import ensure_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
try:
    print("allowed", ensure_open_files(1_024), *resource.getrlimit(resource.RLIMIT_NOFILE))
except StoreFilesLimited as error:
    print("refused", error.needed, error.allowed)
"""


def ask(soft: int, hard: int) -> str:
    done = subprocess.run([sys.executable, "-c", ASK, str(soft), str(hard)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_limit_that_is_high_enough_stays() -> None:
    assert ask(1_024, 2_048) == "allowed 1024 1024 2048"


def test_a_low_soft_limit_is_raised_to_the_hard_one() -> None:
    assert ask(256, 2_048) == "allowed 2048 2048 2048"


def test_a_low_hard_limit_is_refused() -> None:
    assert ask(256, 512) == "refused 1024 512"


RAISE = """
import resource, sys
from forebay.broker.storage.store.open_files import raise_open_files
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
print(raise_open_files(int(sys.argv[3])), *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "outcome"),
    [
        (256, 4_096, 1_024, "1024 1024 4096"),
        (256, 512, 1_024, "512 512 512"),
        (2_048, 4_096, 1_024, "2048 2048 4096"),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_is_wanted_and_allowed(
    soft: int, hard: int, wanted: int, outcome: str
) -> None:
    command = [sys.executable, "-c", RAISE, str(soft), str(hard), str(wanted)]

    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == outcome


SPARE = """
import os, resource
from contextlib import suppress
from forebay.broker.storage.store.open_files import SpareFiles
spare = SpareFiles(3)
resource.setrlimit(resource.RLIMIT_NOFILE, (200, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
with suppress(OSError):
    while True:
        taken.append(os.open(os.devnull, os.O_RDONLY))
found = [spare.has_room(), spare.has_room()]
spare.restore()
print(len(taken) > 100, *found, spare.has_room())
"""


def test_reserved_descriptors_are_lent_when_none_is_left_and_reserved_again_later() -> None:
    done = subprocess.run([sys.executable, "-c", SPARE], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["True", "False", "True", "False"]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
def test_a_shortage_that_passes_is_no_room_and_no_error(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spare = SpareFiles(1)

    def refused(*_: Any) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refused)
        found = spare.has_room()
    spare.close()

    assert not found
