r"""Encoding of records as JSON text, one line each.

An *envelope* contains the record with its idempotency key, so that a target can detect a redelivery with
any batches:

    {"key": "9f3c-0-17", "partition": 0, "offset": 17, "event_time": "2024-05-01T12:00:00.000000Z" or null,
     "encoding": "json" | "text" | "base64", "value": ...,
     "record_key": {"encoding": ..., "value": ...} or null,
     "headers": [{"name": ..., "encoding": ..., "value": ...}, ...]}

``encoding`` is the form of ``value``: the record's own JSON, unchanged; its text; or its bytes in base64.
Without an envelope, JSON is sent unchanged, text as a JSON string and other bytes as a JSON string in base64.

A value counts as JSON only if every strict parser accepts it: no ``NaN``, no second document. It is
embedded as written, so that no number is rounded; only its line ends, which are whitespace in JSON, become blanks.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, NoReturn

from forebay.deliver.batches.batch import Batch
from forebay.deliver.source import SourceRecord

_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


def envelopes(batch: Batch) -> Iterator[bytes]:
    """Yield each record of a batch in its envelope: one JSON object, UTF-8, without a line end."""
    for record in batch.records:
        yield _envelope(batch, record)


def bare(value: bytes) -> bytes:
    """Return a value alone as one JSON value, UTF-8, without a line end."""
    return _json_or(value)[1]


def _envelope(batch: Batch, record: SourceRecord) -> bytes:
    encoding, value = _json_or(record.value)
    record_key = b"null" if record.key is None else b"{%b}" % _text_fields(record.key)
    headers = b",".join(b'{"name":%b,%b}' % (_string(name), _text_fields(content)) for name, content in record.headers)
    return (
        b'{"key":"%b","partition":%d,"offset":%d,"event_time":%b,"encoding":"%b","value":%b,"record_key":%b,"headers":[%b]}'
        % (
            batch.record_key(record.offset).encode(),
            batch.partition,
            record.offset,
            _time(record.event_time),
            encoding,
            value,
            record_key,
            headers,
        )
    )


def _json_or(value: bytes) -> tuple[bytes, bytes]:
    """Return the name of the encoding and the JSON text of a value."""
    try:
        json.loads(value.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return _text_or_base64(value)
    return b"json", value.translate(_LINE_ENDS).strip()


def _text_or_base64(value: bytes) -> tuple[bytes, bytes]:
    try:
        return b"text", _string(value.decode())
    except UnicodeDecodeError:
        return b"base64", b'"%b"' % b64encode(value)


def _text_fields(value: bytes) -> bytes:
    encoding, text = _text_or_base64(value)
    return b'"encoding":"%b","value":%b' % (encoding, text)


def _string(text: str) -> bytes:
    return json.dumps(text, ensure_ascii=False).encode()


def _time(event_time: datetime | None) -> bytes:
    if event_time is None:
        return b"null"
    return b'"%bZ"' % event_time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds").encode()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not valid JSON")
