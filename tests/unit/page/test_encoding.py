"""Encoding of records from columns: byte for byte what protobuf writes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from forebay.client.values.convert import headers_message
from forebay.page.encoding import encode_headers, encode_messages, header_head
from forebay.page.format import NO_KEY, NO_TIME
from forebay.v1 import record_pb2

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=300) | st.sampled_from(["", "text", "ä"])), max_size=4)
RECORDS = st.lists(
    st.tuples(
        st.binary(max_size=300),
        st.none() | st.binary(max_size=200),
        st.none() | st.integers(-(2**40), 2**50),
        HEADERS,
    ),
    min_size=1,
    max_size=20,
)


def stored(pairs: list[tuple[str, Any]]) -> record_pb2.Headers:
    entries = [
        record_pb2.Header(key=name, value=value if isinstance(value, bytes) else value.encode())
        for name, value in pairs
    ]
    return record_pb2.Headers(entries=entries)


@given(HEADERS)
def test_headers_are_what_protobuf_writes_of_the_publisher_and_of_the_page(pairs: list[tuple[str, Any]]) -> None:
    expected = stored(pairs).SerializeToString()

    assert headers_message(pairs) == encode_headers(pairs) == expected
    assert headers_message(tuple(pairs)) == expected
    assert headers_message(dict(pairs)) == stored(list(dict(pairs).items())).SerializeToString()


@given(NAMES, st.binary(max_size=400))
def test_a_head_and_its_value_are_the_header(name: str, value: bytes) -> None:
    assert header_head(name, len(value)) + value == stored([(name, value)]).SerializeToString()


@given(RECORDS, st.sets(st.sampled_from(["keys", "times", "headers"])))
def test_columns_are_what_protobuf_writes(records: list[tuple[bytes, Any, Any, Any]], complete: set[str]) -> None:
    values = [value for value, _, _, _ in records]
    keys = [key if key is not None or "keys" not in complete else b"" for _, key, _, _ in records]
    times = [time if time is not None or "times" not in complete else 0 for _, _, time, _ in records]
    headers = [pairs if pairs or "headers" not in complete else [("n", b"v")] for _, _, _, pairs in records]
    run = record_pb2.RecordRun(value_lengths=map(len, values), values=b"".join(values))
    if any(key is not None for key in keys):
        run.key_lengths.extend(NO_KEY if key is None else len(key) for key in keys)
        run.keys = b"".join(key for key in keys if key)
    if any(time is not None for time in times):
        run.event_times_us.extend(NO_TIME if time is None else time for time in times)
    if any(headers):
        run.headers.extend(map(stored, headers))

    body = encode_messages(values, keys, times, [encode_headers(pairs) for pairs in headers])

    assert body == record_pb2.RecordPage(runs=[run]).SerializeToString()


def test_headers_of_more_than_a_kilobyte_are_written_as_others() -> None:
    messages = [encode_headers([("n", bytes(size))]) for size in (0, 100, 130, 1_000, 1_024, 20_000)]

    page = record_pb2.RecordPage.FromString(encode_messages([b"v"] * len(messages), None, None, messages))

    assert [one.SerializeToString() for one in page.runs[0].headers] == messages


@given(size=st.sampled_from([0, 1, 120, 121, 1_030]), count=st.integers(1, 5), other=st.none() | st.integers(0, 9))
def test_headers_of_one_size_are_written_as_those_of_several(size: int, count: int, other: int | None) -> None:
    values = [bytes([number]) * size for number in range(count)] + ([] if other is None else [bytes(other)])
    headers = [[("n", value)] for value in values]
    run = record_pb2.RecordRun(value_lengths=[0] * len(values), headers=[stored(pairs) for pairs in headers])

    body = encode_messages([b""] * len(values), None, None, [encode_headers(pairs) for pairs in headers])

    assert body == record_pb2.RecordPage(runs=[run]).SerializeToString()
