"""An error of the system names the file, whichever call it comes from: a start that is refused says where to look."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from errno import EIO
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forebay.broker.storage.errors import StoreError
from forebay.broker.storage.file_errors import naming
from forebay.broker.storage.store.rocks.store import RocksStore


def test_an_error_without_a_file_gets_the_name_and_one_with_a_file_keeps_its_own(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=rf"\[Errno {EIO}\] .*: '{tmp_path}/a'"), naming(tmp_path / "a"):
        raise OSError(EIO, os.strerror(EIO))
    with pytest.raises(OSError, match="elsewhere"), naming(tmp_path / "a"):
        raise OSError(EIO, os.strerror(EIO), "elsewhere")


class Broken:
    """A call of the system of which the one with a number fails."""

    def __init__(self, call: Callable[..., Any], number: int) -> None:
        self._call, self._left = call, number

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            raise OSError(EIO, os.strerror(EIO))
        return self._call(*arguments, **named)

    @property
    def failed(self) -> bool:
        return self._left <= 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "call"),
    [(os, "write"), (os, "fsync"), (os, "pwrite"), (os, "pread"), (os, "ftruncate"), (fcntl, "flock")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_start_that_an_error_of_the_system_refuses_names_the_file(
    module: ModuleType, call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = getattr(module, call)
    said: list[str] = []
    for number in count(1):
        broken = Broken(whole, number)
        with monkeypatch.context() as patched:
            patched.setattr(module, call, broken)
            try:
                RocksStore(tmp_path / "store" / str(number)).close()
            except StoreError as error:
                said.append(str(error))
        if not broken.failed:
            break

    assert said
    assert [text for text in said if f"'{tmp_path}" not in text] == []
