"""Headers per record of a page, bounded by their lengths or one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.page.format import HEADERS_MAX
from forebay.page.headers import check_header_counts
from forebay.v1 import record_pb2 as pb


def checked(*headers: pb.Headers, count: int | None = None) -> None:
    """Check a page whose records have these headers."""
    run = pb.RecordRun(value_lengths=[0] * (count or len(headers)), headers=headers)
    page = pb.RecordPage(runs=[run, run])
    check_header_counts(page.SerializeToString(), page)


def some(count: int, value: bytes = b"") -> pb.Headers:
    """So many headers."""
    return pb.Headers(entries=[pb.Header(key="k" if value else "", value=value)] * count)


@pytest.mark.parametrize("value", [b"", b"a value", b"a long value" * 20])
def test_as_many_headers_as_are_allowed_pass(value: bytes) -> None:
    checked(*[some(HEADERS_MAX, value)] * 3)


@pytest.mark.parametrize("value", [b"", b"a value", b"a long value" * 20])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_record_with_one_too_many_is_refused_wherever_it_stands(value: bytes, at: int) -> None:
    headers = [some(2, value), some(2, value), some(2, value)]
    headers[at] = some(HEADERS_MAX + 1, value)

    with pytest.raises(ValueError, match="has 65 headers: at most 64"):
        checked(*headers)


@given(counts=st.lists(st.integers(0, 70), max_size=8), value=st.binary(max_size=3))
def test_the_lengths_and_the_messages_agree(counts: list[int], value: bytes) -> None:
    if max(counts, default=0) > HEADERS_MAX:
        with pytest.raises(ValueError, match="headers"):
            checked(*[some(count, value) for count in counts])
    else:
        checked(*[some(count, value) for count in counts])


def test_fields_in_another_order_and_unknown_fields_are_checked_closely() -> None:
    run = pb.RecordRun(headers=[some(HEADERS_MAX + 1)]).SerializeToString() + b"\x78\x01"
    page = pb.RecordPage.FromString(b"\x0a" + bytes([0x80 | len(run) & 0x7F, len(run) >> 7]) + run)

    with pytest.raises(ValueError, match="headers"):
        check_header_counts(b"\x78\x01" + page.SerializeToString(), page)
