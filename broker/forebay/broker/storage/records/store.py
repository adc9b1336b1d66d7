"""Values of the store as a whole: identity, starts, highest page number, age clock."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.backups.values import Restored
from forebay.broker.core.writes import PutAge, PutCounting, PutRealtime, PutRestored, PutStopped
from forebay.broker.storage.records.kind import Kind
from forebay.broker.storage.records.sealed import NUMBER, TEXT, Codec, Undecodable, json_record, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation
from forebay.state.numbers import plural

_HIGHEST: Final = struct.Struct(">QQ")
_CLOCKS: Final = struct.Struct(">QQ")
_AGE: Final = struct.Struct(">QQQB")

STORE_ID: Final = Kind(
    name="store id",
    prefix=b"\x01",
    layout="",
    codec=TEXT,
    lives="the life of the store; 16 random bytes as hex, which the header of every page has too",
    damaged="taken from any page",
)
START: Final = Kind(
    name="start count",
    prefix=b"\x02",
    layout="",
    codec=NUMBER,
    lives="the life of the store; rises with every start",
    damaged="continues above the number of every page",
)
COUNTING: Final = Kind(
    name="counting start",
    prefix=b"\x06",
    layout="",
    codec=NUMBER,
    lives="the life of the store; set by every start after it has taken over the state of the last one",
    damaged="taken for the last start",
    puts=PutCounting,
)
STOPPED: Final = Kind(
    name="stopped start",
    prefix=b"\x07",
    layout="",
    codec=NUMBER,
    lives="the life of the store; set by every orderly stop",
    damaged="taken for a start that was killed",
    puts=PutStopped,
)
RESTORED: Final = Kind(
    name="restore",
    prefix=b"\x09",
    layout="",
    codec=json_record(Restored, "a restore", added=("first_start", "last_start")),
    lives="the store's life; written by the restore of a backup, in place of the one before",
    damaged="the store has the identity of its pages, and missing epochs are not detected",
    puts=PutRestored,
)


def _put_realtime(write: PutRealtime) -> list[Operation]:
    key = REALTIME.key()
    return [REALTIME.delete(key) if write.enabled is None else REALTIME.put(key, int(write.enabled))]


REALTIME: Final = Kind(
    name="realtime switch",
    prefix=b"\x0a",
    layout="",
    codec=NUMBER,
    lives="until the choice is withdrawn; 1 is on, 0 is off",
    damaged="deleted, so the broker's setting applies",
    writes={PutRealtime: _put_realtime},
)


def _encode_highest(highest: tuple[int, int]) -> bytes:
    return seal(_HIGHEST.pack(*highest))


def _decode_highest(value: bytes) -> tuple[int, int]:
    """Return the number, and the records ever stored, which stores of before did not count."""
    content = opened(value)
    if len(content) * 2 == _HIGHEST.size:
        return NUMBER.decode(value), 0
    number, records = unpack(_HIGHEST, content)
    return number, records


HIGHEST: Final = Kind(
    name="highest page number",
    prefix=b"\x03",
    layout="",
    codec=Codec(_encode_highest, _decode_highest),
    lives="the life of the store; written with every batch that names pages",
    damaged="taken from the files: pages of a crash may stay in them",
)


def _encode_age(age: PutAge) -> bytes:
    return seal(_AGE.pack(age.age_us, age.wall_us, age.boot_us, len(age.boot)) + age.boot)


def _decode_age(value: bytes) -> PutAge:
    """Return the clocks; stores of before have neither boot nor boot clock."""
    content = opened(value)
    if len(content) == _CLOCKS.size:
        return PutAge(*unpack(_CLOCKS, content))
    age_us, wall_us, boot_us, named = unpack(_AGE, content)
    boot = content[_AGE.size :]
    if len(boot) != named:
        raise Undecodable(f"the boot id has {len(boot)} {plural(len(boot), 'byte')} instead of {named}")
    return PutAge(age_us, wall_us, boot, boot_us)


def _put_age(age: PutAge) -> list[Operation]:
    return [AGE.put(AGE.key(), age)]


AGE: Final = Kind(
    name="age clock",
    prefix=b"\x05",
    layout="",
    codec=Codec(_encode_age, _decode_age),
    lives="the life of the store; written while the broker runs",
    damaged="continues at the age of the youngest page",
    writes={PutAge: _put_age},
)
