from __future__ import annotations

import asyncio
from collections import deque

from forebay.broker.core.partition.log import PartitionLog
from forebay.broker.core.writes import PutAge
from forebay.broker.runtime.commit.group import Append, AppendQueue, Group, Share
from forebay.broker.runtime.commit.lone import LONE_BYTES, LONE_WRITES, QUICK_S, STREAK, LoneGroups, is_lone
from tests.support.pages.samples import page


def share(count: int) -> Share:
    """Share of a partition with so many appends."""
    loop = asyncio.new_event_loop()
    appends = [Append(page(b"a"), at, 1, 1, None, 256, loop.create_future()) for at in range(count)]
    loop.close()
    return Share(AppendQueue(1, PartitionLog(0), lambda *_: None, waiting=deque()), appends)


def test_a_small_append_with_few_writes_is_lone() -> None:
    assert is_lone(Group([share(1)], [], [], 300), [[PutAge(1, 2)]])
    assert is_lone(Group([], [], [], 0), [[PutAge(1, 2)]])


def test_two_appends_many_bytes_or_many_writes_are_not_lone() -> None:
    assert not is_lone(Group([share(2)], [], [], 300), [])
    assert not is_lone(Group([share(1), share(1)], [], [], 300), [])
    assert not is_lone(Group([share(1)], [], [], LONE_BYTES + 1), [])
    assert not is_lone(Group([share(1)], [], [], 300), [[PutAge(1, 2)]] * (LONE_WRITES + 1))


def test_a_streak_of_lone_and_quick_groups_begins_again_after_any_other() -> None:
    groups = LoneGroups()
    quick, slow, other = (True, QUICK_S / 2), (True, QUICK_S), (False, 0.0)
    found: list[bool] = []
    for lone, seconds in [*[quick] * STREAK, slow, *[quick] * STREAK, other]:
        groups.note(is_lone=lone, seconds=seconds)
        found.append(groups.lasts)

    begins = [False] * (STREAK - 1) + [True]
    assert found == [*begins, False, *begins, False]
