"""Decoders of what comes from outside or from a damaged disk: a value, or the one error that says so.

Where there is a fast way and a general one, both find the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.broker.core.errors import (
    BrokerError,
    InvalidPage,
)
from forebay.broker.core.partition.pages import Body, Encoding, Entry
from forebay.broker.core.partition.ranges import Range
from forebay.broker.core.settings import DEFAULTS
from forebay.broker.core.writes import SchemaRecord
from forebay.broker.rpc.buffer.peek import peeked
from forebay.broker.rpc.pages import requests as page_requests
from forebay.broker.rpc.pages.bounds import count_records
from forebay.broker.rpc.pages.plain_records import records_at
from forebay.broker.rpc.pages.rows import json_rows, shown_rows
from forebay.broker.rpc.requests.reader import reader_of
from forebay.broker.rpc.sinks import convert as sinks
from forebay.broker.settings import SettingsError, load
from forebay.broker.storage.records import header
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.registry import KINDS
from forebay.broker.storage.records.sealed import Undecodable, seal
from forebay.client import Encoding as RowEncoding
from forebay.client import InvalidPage as ClientInvalidPage
from forebay.client import Schema, StoredPage
from forebay.client.replay.rows import PageRows
from forebay.errors.reasons import Reason
from forebay.page.rows import rows_of
from forebay.v1 import buffer_service_pb2, sink_pb2
from tests.fuzz import pages
from tests.fuzz.calls import name_of
from tests.fuzz.chance import Chance, Known
from tests.fuzz.messages import flipped, message, wire
from tests.support.rules.services import METHODS

pytestmark = pytest.mark.timeout(240)
MANY: Final = settings(max_examples=400, deadline=None, derandomize=True)
FEW: Final = settings(max_examples=150, deadline=None, derandomize=True)
SEEDS: Final = st.integers(0, 1 << 32)
MIB: Final = 1 << 20
SCHEMA: Final = SchemaRecord(1, 7, pages.schema(), "")


def chance(seed: int) -> Chance:
    """A source of chance."""
    return Chance(str(seed), Known())


def counted(body: bytes) -> int | None:
    """Records of a body; None for one that is refused."""
    try:
        return count_records(body)
    except ValueError:
        return None


# -- requests


@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.full_name)
@FEW
@given(seed=SEEDS)
def test_a_request_is_decoded_or_refused(method: Any, seed: int) -> None:
    one = chance(seed)
    kind = type(message(one, method.input_type))
    data = wire(one, message(one, method.input_type))

    try:
        found = reader_of(name_of(method), kind.FromString)(data)
    except BrokerError as error:
        if error.reason not in {Reason.INVALID_REQUEST, Reason.REQUEST_TOO_LARGE, Reason.NUMBER_OUT_OF_RANGE}:
            raise
        return

    assert found is not None


@MANY
@given(seed=SEEDS, cut=st.integers(0, 40))
def test_a_page_that_is_cut_out_of_its_message_is_what_protobuf_finds(seed: int, cut: int) -> None:
    one = chance(seed)
    request = buffer_service_pb2.PublishRequest(page=pages.page(one, 5)).SerializeToString()
    damaged = flipped(one, request[:40]) + request[40 : len(request) - cut]

    try:
        expected = page_requests.decode(damaged)
    except DecodeError:
        assert page_requests.cut(damaged) is None
        return
    found = page_requests.cut(damaged)

    if found is not None:
        assert isinstance(expected, page_requests.PageRequest)
        assert bytes(found.body) == bytes(expected.body)
        assert (found.page.partition, found.page.crc32) == (expected.page.partition, expected.page.crc32)


# -- pages of records


@MANY
@given(seed=SEEDS)
def test_a_page_of_records_is_refused_or_every_record_of_it_can_be_read(seed: int) -> None:
    page = pages.page(chance(seed))
    count = counted(page.body)
    unusual = counted(page.body + b"\x78\x01")

    assert count == unusual
    if count:
        entry = Entry(10, count, 1, False, len(page.body), Encoding.RECORDS, 50, 0, 0, 0)
        read = list(records_at(page.body, 10, [Range(10, 10 + count)]))
        shown = peeked(entry, Body(0, page.body), Range(10, 10 + count), schema_of, room=MIB)
        assert [offset for offset, _, _ in read] == list(range(10, 10 + count))
        assert [one.offset for one in shown] == list(range(10, 10 + len(shown)))


# -- pages of rows


def schema_of(version: int) -> SchemaRecord:
    """The schema of the rows, whatever version a page names."""
    return SCHEMA


@MANY
@given(seed=SEEDS)
def test_the_frame_of_a_page_of_rows_is_read_in_both_ways_alike(seed: int) -> None:
    body = pages.rows(chance(seed))
    found, unusual = framed(body), framed(body + b"\x78\x01")

    assert found == unusual


def framed(body: bytes) -> tuple[int, int, bytes] | None:
    """Return the contents of the frame of a page of rows; None when it is rejected."""
    try:
        page = rows_of(body)
    except ValueError:
        return None
    return page.schema_version, page.count, bytes(page.messages)


@FEW
@given(seed=SEEDS)
def test_rows_are_decoded_or_refused_and_what_is_shown_of_them_is_their_beginning(seed: int) -> None:
    body = pages.rows(chance(seed))
    entry = Entry(10, pages.ROWS, 1, False, len(body), Encoding.ARROW, 50, 0, 0, 0)
    within = Range(10, 10 + pages.ROWS)

    try:
        shown = list(shown_rows(entry, Body(0, body), within, schema_of, chars_max=50))
    except InvalidPage:
        return
    try:
        whole = json_rows(entry, Body(0, body), [within], schema_of, bytes_max=256 * MIB)
    except InvalidPage:
        return

    both = list(zip(shown, whole, strict=False))
    assert all((row.offset, row.unreadable) == (cut.offset, bool(cut.unreadable)) for row, cut in both)
    readable = [(row, cut.value) for row, cut in both if not row.unreadable]
    assert [row.text for row, _ in readable] == [value.decode()[:50] for _, value in readable]
    assert all(row.size >= len(value) for row, value in readable)


@settings(FEW, max_examples=40)
@given(seed=SEEDS)
def test_a_client_decodes_a_page_of_rows_or_refuses_it(seed: int) -> None:
    body = pages.rows(chance(seed))
    page = StoredPage(
        partition=0,
        base_offset=0,
        first_offset=0,
        last_offset=pages.ROWS - 1,
        record_count=pages.ROWS,
        encoding=RowEncoding.ARROW,
        body=body,
        parts=(),
        schema_of=lambda _: Schema(1, None, SCHEMA.arrow_schema, ""),
    )
    try:
        rows = PageRows(page)
    except ClientInvalidPage:
        return

    values = rows.values
    assert len(values) == len(rows) == pages.ROWS
    assert {place for place, value in enumerate(values) if not value} == set(rows.unreadable)
    assert sum(map(len, values)) <= rows.bytes_at_most


# -- data read from a disk


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@MANY
@given(content=st.binary(max_size=120) | st.sampled_from([b"{}", b"[]", b"null", b'{"settings": 1}', b"\xff" * 40]))
def test_a_stored_value_with_a_good_checksum_is_decoded_or_reported(kind: Kind[Any], content: bytes) -> None:
    try:
        kind.codec.decode(seal(content))
    except Undecodable:
        return


@MANY
@given(value=st.binary(max_size=200))
def test_the_head_of_a_stored_page_is_decoded_or_reported(value: bytes) -> None:
    try:
        header.decode_header(value)
    except header.Damaged:
        return


# -- settings


@MANY
@given(seed=SEEDS)
def test_settings_of_a_request_are_taken_or_refused(seed: int) -> None:
    one = chance(seed)
    asked = message(one, sink_pb2.SinkSettings.DESCRIPTOR)
    mask = FieldMask(paths=[one.text("paths") for _ in range(one.one(0, 1, 3, 30))])

    for values_of in (sinks.given, lambda given: sinks.masked(given, mask, DEFAULTS)):
        try:
            DEFAULTS.changed(values_of(asked)).checked()
        except BrokerError as error:
            if error.reason not in {Reason.INVALID_SETTING, Reason.NUMBER_OUT_OF_RANGE}:
                raise


VALUES: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES: Final = (
    "listen",
    "metrics_listen",
    "tail_bytes",
    "sinks_max",
    "drain_s",
    "log_level",
    "sink_defaults",
    "token_hashes_file",
)
ADDRESSES: Final = st.sampled_from(["x:²", "127.0.0.1:" + "9" * 5_000, ":1", "[::1]:٣", "127.0.0.1:0", "a:b:c", "0:-1"])


@MANY
@given(values=st.dictionaries(st.sampled_from(NAMES), VALUES | ADDRESSES, max_size=3))
def test_settings_of_a_broker_are_taken_or_refused(values: dict[str, Any]) -> None:
    try:
        load(**values)
    except SettingsError:
        return


@FEW
@given(text=st.text(max_size=60) | st.sampled_from(["listen = 1", "[sink_defaults]\npartitions = 'x'", "a = 1", "=\n"]))
def test_a_file_of_settings_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "settings.toml"
    path.write_bytes(text.encode(errors="surrogatepass"))

    try:
        load(path)
    except SettingsError:
        return
