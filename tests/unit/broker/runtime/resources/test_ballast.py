from __future__ import annotations

from errno import ENOSPC

import pytest

from forebay.broker.runtime.resources.ballast import BallastKeeper

pytestmark = pytest.mark.anyio


class Room:
    """A ballast that takes no room, and may fail to be made."""

    def __init__(self, size: int = 0) -> None:
        self.size = size
        self.full = False

    def make(self, size: int) -> None:
        if self.full:
            self.size = 0
            raise OSError(ENOSPC, "No space left on device")
        self.size = size

    def release(self) -> None:
        self.size = 0


async def test_it_is_made_when_there_is_room_beside_the_reserve() -> None:
    room = Room()
    keeper = BallastKeeper(room, size=64, reserve_bytes=512)

    await keeper.check(64 + 511)
    before = room.size
    await keeper.check(64 + 512)
    await keeper.check(0)

    assert (before, room.size) == (0, 64), "what is there is not given up while the broker runs"


async def test_the_ballast_counts_as_free_space_when_it_is_to_grow() -> None:
    room = Room(32)

    await BallastKeeper(room, size=64, reserve_bytes=512).check(32 + 512)

    assert room.size == 64


async def test_none_is_kept_where_none_is_wanted() -> None:
    room = Room(64)

    await BallastKeeper(room, size=0, reserve_bytes=512).check(0)

    assert room.size == 0


async def test_a_ballast_that_cannot_be_allocated_is_reported_once_and_retried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room()
    room.full = True
    keeper = BallastKeeper(room, size=64, reserve_bytes=0)
    for _ in range(3):
        await keeper.check(1_000)
    room.full = False

    await keeper.check(1_000)

    assert room.size == 64
    assert len(caplog.records) == 1
