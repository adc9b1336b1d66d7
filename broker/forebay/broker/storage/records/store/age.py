"""Age clock: the broker's own clock, and the machine's clocks at that moment."""

from __future__ import annotations

import struct
from typing import Final

from forebay.broker.core.writes import PutAge
from forebay.broker.storage.records.kind import OfStore
from forebay.broker.storage.records.sealed import Codec, Undecodable, opened, seal, unpack
from forebay.broker.storage.store.contract import Operation

_WITHOUT_BOOT: Final = struct.Struct(">QQ")
_LAYOUT: Final = struct.Struct(">QQQB")


def _encode(age: PutAge) -> bytes:
    return seal(_LAYOUT.pack(age.age_us, age.wall_us, age.boot_us, len(age.boot)) + age.boot)


def _decode(value: bytes) -> PutAge:
    content = opened(value)
    if len(content) == _WITHOUT_BOOT.size:  # stores of before have neither boot nor boot clock
        return PutAge(*unpack(_WITHOUT_BOOT, content))
    age_us, wall_us, boot_us, named = unpack(_LAYOUT, content)
    boot = content[_LAYOUT.size :]
    if len(boot) != named:
        raise Undecodable(f"the name of a boot has {len(boot)} bytes instead of {named}")
    return PutAge(age_us, wall_us, boot, boot_us)


def _put(age: PutAge) -> list[Operation]:
    return [AGE.put(AGE.key(), age)]


AGE: Final = OfStore(
    name="age clock",
    prefix=b"\x05",
    codec=Codec(_encode, _decode),
    lives="the store's life",
    damaged="goes on at the age of the youngest page",
    writes={PutAge: _put},
)
