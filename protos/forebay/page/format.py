"""Layout of a page, and its bounds.

A page is the unit of publishing, storing and reading: consecutive records of one partition in one blob, its *body*. The
broker stores and forwards a body as it was published; a CRC-32 covers all of it. The encoding says what a body is.

``RECORDS``: a ``RecordPage``, one or several *runs*, each a set of columns of equal length:

    RecordPage   0a <length> RecordRun ...
    RecordRun    0a <length> value lengths   12 <length> values
                 1a <length> key lengths     22 <length> keys
                 2a <length> event times     32 <length> Headers ... one per record

Value lengths and key lengths are unsigned 32-bit numbers, event times signed 64-bit microseconds since 1970-01-01 UTC;
both are packed, so that a column is, byte for byte, an array of little-endian numbers. Values and keys are joined
without separators. ``NO_KEY`` and ``NO_TIME`` mark records without a key or an event time. An empty column is left out:
no record of the run has a key, an event time or headers then. Two bodies joined are the body of all their records.

``ARROW``: an ``ArrowPage``, rows with a registered schema:

    ArrowPage          08 version   10 rows   1a <length> messages
                       08 version   10 rows   22 <length> DictionaryColumn ...   2a <length> messages
    DictionaryColumn   08 column    10 index bytes

The messages are those of Arrow's IPC stream format that follow the schema message. The second form has columns that the
messages encode by a dictionary.

The *usual form* of a body has each field once and in the order above, as every publisher of this project writes it. It
is read by its tags, without a copy and without decoding single records. Any other form that protobuf permits (fields
split, out of order or not packed) is read by protobuf, with the same result.
"""

from __future__ import annotations

from typing import Final, TypeAlias

Bytes: TypeAlias = bytes | memoryview
"""Body of a page, or a part of it; a view keeps the message that it was received in alive."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Content that is copied into a body."""

PAGE_RECORDS_MAX: Final = 65_536
"""Records of a page."""

PAGE_BYTES_MAX: Final = 1 << 20
"""Bytes of the body of a page with more than one record, beside ``PAGE_FRAMING_BYTES``."""

PAGE_FRAMING_BYTES: Final = 64
"""Bytes for the tags and lengths of one run, so that a full page of values does not exceed the bound."""

RUNS_MAX: Final = 4_096
"""Runs of a page that is published; each costs time, however short it is."""

HEADERS_MAX: Final = 64
"""Headers of a record."""

NO_KEY: Final = 0xFFFF_FFFF
"""Key length of a record without a key."""

NO_TIME: Final = -(1 << 63)
"""Event time of a record without an event time."""

TIMES_US: Final = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""First and last event time: the years 1 to 9999, which is what a ``Timestamp`` can hold."""

SMALL_BYTES: Final = 4_096
"""Size below which protobuf reads a body or a request faster than Python reads its tags."""


RUN_TAG: Final = 0x0A
"""Field of a ``RecordPage`` that is a run."""

COLUMN_TAGS: Final = (0x0A, 0x12, 0x1A, 0x22, 0x2A)
"""Fields of a run: value lengths, values, key lengths, keys, event times."""

HEADERS_TAG: Final = 0x32
"""Field of a run that is the ``Headers`` of one record."""


class MalformedPage(ValueError):
    """A body that is not a page of its encoding."""
