from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.broker.storage.errors import StoreCorrupt
from forebay.broker.storage.store.bulk.remote_list import NAME, read_list, write_list


def test_a_list_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_list(tmp_path, {"b.pages": 2, "a.pages": 1})
    write_list(tmp_path, {"b.pages": 2})

    assert read_list(tmp_path) == {"b.pages": 2}
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize(
    "change", [lambda content: content[:-5], lambda content: content.replace(b":1", b":2"), bytes.upper]
)
def test_a_list_that_is_cut_off_or_changed_is_damage(tmp_path: Path, change: Callable[[bytes], bytes]) -> None:
    write_list(tmp_path, {"a.pages": 1})
    (tmp_path / NAME).write_bytes(change((tmp_path / NAME).read_bytes()))

    with pytest.raises(StoreCorrupt, match="its list of remote files is damaged"):
        read_list(tmp_path)


def test_a_missing_list_is_damage(tmp_path: Path) -> None:
    with pytest.raises(StoreCorrupt, match="its list of remote files is missing"):
        read_list(tmp_path)
