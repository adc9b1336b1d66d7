"""Operations that cannot be made wrong."""

from __future__ import annotations

import pytest

from forebay.broker.storage.store.contract import DeleteRange, Family, Put


def test_bulk_cannot_be_put() -> None:
    with pytest.raises(ValueError, match="filled by ingest"):
        Put(Family.BULK, b"key", b"value")


def test_a_range_cannot_run_backwards() -> None:
    with pytest.raises(ValueError, match="below its first key"):
        DeleteRange(Family.META, b"b", b"a")
