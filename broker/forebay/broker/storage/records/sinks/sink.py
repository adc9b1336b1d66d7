"""Sink: its name, settings and state. Stored again with every change.

Its settings are stored nowhere else, so a copy is stored in the index family. Settings that this version does not know
are left out, those that are missing take their default, and a value of a wrong type is left for
``SinkSettings.corrected`` to report.
"""

from __future__ import annotations

import json
from typing import Final

from forebay.broker.core.settings import SETTING_NAMES, SinkSettings
from forebay.broker.core.writes import PutSink, SinkRecord
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import NUMBER, Codec, Undecodable, as_json, opened
from forebay.broker.storage.store.contract import Family, Operation, Put


def _decode(value: bytes) -> SinkRecord:
    try:
        stored = json.loads(opened(value))
        settings = stored["settings"]
        if not isinstance(settings, dict):
            settings = {"partitions": [settings]}  # not a number of partitions
        known = {name: settings[name] for name in SETTING_NAMES if name in settings}
        return SinkRecord(**{**stored, "settings": SinkSettings(**known)})
    except (ValueError, KeyError, TypeError) as error:
        raise Undecodable(f"not a sink: {error}") from error


def _put(write: PutSink) -> list[Operation]:
    record = write.sink
    counted = [NEXT_SINK.put(NEXT_SINK.key(), record.id + 1)] if write.fresh else []
    stored = SINK.put(SINK.key(record.id), record)
    return [*counted, stored, Put(Family.INDEX, SINK_COPY.key(0, record.id, 0), stored.value)]


_CODEC: Final = Codec(as_json, _decode)
NEXT_SINK: Final = Kind(
    name="next sink",
    prefix=b"\x04",
    layout="",
    codec=NUMBER,
    lives="the life of the store; the id of a sink is never reused",
    damaged="above all sinks that any stored value names",
)
SINK: Final = Kind(
    name="sink",
    prefix=b"\x10",
    layout="sink u32",
    codec=_CODEC,
    lives="the sink's life",
    damaged="its copy in the index family; without one a sink `recovered-N` with the default settings",
    writes={PutSink: _put},
)
SINK_COPY: Final = Kind(
    name="copy of a sink",
    family=Family.INDEX,
    layout="zero u32, sink u32, zero u64",
    codec=_CODEC,
    lives="the sink's life",
    damaged="stays damaged until the sink changes",
)
