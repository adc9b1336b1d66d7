"""Pages are bounded before protobuf decodes them."""

from __future__ import annotations

import pytest

from forebay.broker.rpc.pages.bounds import bounded_rows
from forebay.page.format import MalformedPage
from forebay.page.rows import DICTIONARY_COLUMNS_MAX, encode_rows
from forebay.v1 import record_pb2


def test_rows_with_too_many_dictionary_columns_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    class Undecoded:
        """A message that may not be decoded."""

        DESCRIPTOR = record_pb2.ArrowPage.DESCRIPTOR

    monkeypatch.setattr(record_pb2, "ArrowPage", Undecoded)

    with pytest.raises(MalformedPage, match="dictionary_columns: at most 1024"):
        bounded_rows(b"\x22\x00" * 10_000)
    with pytest.raises(MalformedPage, match="cannot be parsed"):
        bounded_rows(b"\x22\x05" + b"\x22" * 9_000)


def test_rows_within_the_bounds_are_read_in_both_forms() -> None:
    columns = tuple((column, 1) for column in range(DICTIONARY_COLUMNS_MAX))

    assert bounded_rows(encode_rows(3, 7, b"m")).count == 7
    assert bounded_rows(encode_rows(3, 7, b"m", columns)).dictionary_columns == columns
