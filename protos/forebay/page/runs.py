"""Runs of a body with records, as views of its columns."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import chain
from typing import Final

from google.protobuf.message import DecodeError

from forebay.page.format import COLUMN_TAGS, HEADERS_TAG, RUN_TAG, Bytes, MalformedPage
from forebay.page.varint import extent_at
from forebay.v1 import record_pb2

_EMPTY: Final = memoryview(b"")


@dataclass(frozen=True, slots=True)
class Run:
    """Columns of a run. They need not agree with each other: see ``count``."""

    value_lengths: memoryview
    """Little-endian 32-bit numbers, one per record."""

    values: memoryview

    key_lengths: memoryview
    """As ``value_lengths``, ``NO_KEY`` for no key; empty when no record has one."""

    keys: memoryview

    event_times_us: memoryview
    """Little-endian 64-bit numbers, ``NO_TIME`` for none; empty when no record has one."""

    headers: tuple[Bytes, ...]
    """A serialized ``Headers`` per record; empty when no record has any."""

    header_fields: memoryview = _EMPTY
    """The fields with the headers of all records, where they were left together."""

    def __len__(self) -> int:
        """Return the number of records."""
        return self.value_lengths.nbytes // 4


def runs_of(body: Bytes) -> list[Run]:
    """Return the runs of a body. Raises ``MalformedPage`` where it is no ``RecordPage``."""
    found = usual_runs(body)
    return general_runs(body) if found is None else found


def usual_runs(body: Bytes, *, runs_max: int | None = None, headers: bool = True) -> list[Run] | None:
    """Return the runs of a body in the usual form; None for every other one, damaged ones included.

    More than ``runs_max`` runs raise ``MalformedPage``, unless headers are among them. Without ``headers``, all that
    follows the columns of a run stays together, unread.
    """
    view = memoryview(body)
    found: list[Run] = []
    at, size = 0, len(view)
    while at < size:
        extent = extent_at(view, at + 1) if view[at] == RUN_TAG else None
        if extent is None:
            return None
        run = _usual_run(view[extent[0] : extent[1]], headers=headers)
        if run is None:
            return None
        found.append(run)
        if runs_max is not None and len(found) > runs_max:
            if any(one.headers or one.header_fields for one in found):
                return None
            raise MalformedPage(f"it has more than {runs_max} runs: join their columns")
        at = extent[1]
    return found


def general_runs(body: Bytes) -> list[Run]:
    """Return the runs of a body in any form, read by protobuf. Raises ``MalformedPage``."""
    try:
        page = record_pb2.RecordPage.FromString(bytes(body))
    except DecodeError as error:
        raise MalformedPage("it cannot be parsed") from error
    return [_general_run(run) for run in page.runs]


def _usual_run(run: memoryview, *, headers: bool) -> Run | None:
    columns = [_EMPTY] * len(COLUMN_TAGS)
    entries: tuple[bytes, ...] = ()
    together = _EMPTY
    at = last = 0
    size = len(run)
    while at < size:
        tag = run[at]
        if tag == HEADERS_TAG and not headers:
            together = run[at:]
            break
        if tag == HEADERS_TAG:
            found = _usual_headers(bytes(run[at:]))
            if found is None:
                return None
            entries = found
            break
        extent = extent_at(run, at + 1) if tag > last and tag in COLUMN_TAGS else None
        if extent is None:
            return None
        columns[(tag >> 3) - 1] = run[extent[0] : extent[1]]
        last, at = tag, extent[1]
    lengths, values, key_lengths, keys, times = columns
    if lengths.nbytes % 4 or key_lengths.nbytes % 4 or times.nbytes % 8:
        return None
    return Run(lengths, values, key_lengths, keys, times, entries, together)


def _usual_headers(fields: bytes) -> tuple[bytes, ...] | None:
    """Return the headers of each record, of the last fields of a run; None if another field is among them.

    Headers of one size below 128 bytes are divided in C.
    """
    size = len(fields)
    if size > 1 and fields[1] < 0x80 and not size % (step := fields[1] + 2):
        count = size // step
        if fields[::step] == bytes((HEADERS_TAG,)) * count and fields[1::step] == fields[1:2] * count:
            return tuple(chain.from_iterable(struct.iter_unpack(f"2x{step - 2}s", fields)))
    found: list[bytes] = []
    at = 0
    while at < size:
        extent = extent_at(fields, at + 1) if fields[at] == HEADERS_TAG else None
        if extent is None:
            return None
        found.append(fields[extent[0] : extent[1]])
        at = extent[1]
    return tuple(found)


def _general_run(run: record_pb2.RecordRun) -> Run:
    return Run(
        memoryview(struct.pack(f"<{len(run.value_lengths)}I", *run.value_lengths)),
        memoryview(run.values),
        memoryview(struct.pack(f"<{len(run.key_lengths)}I", *run.key_lengths)),
        memoryview(run.keys),
        memoryview(struct.pack(f"<{len(run.event_times_us)}q", *run.event_times_us)),
        tuple(entries.SerializeToString() for entries in run.headers),
    )
