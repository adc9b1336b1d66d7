from __future__ import annotations

import pytest

from forebay.broker.composition import build
from forebay.broker.core.errors import MemoryOverloaded
from forebay.broker.core.settings import SinkSettings
from forebay.broker.rpc.pages.codec import PageCodec
from forebay.broker.runtime import housekeeping
from forebay.broker.runtime.broker import Bounds
from forebay.broker.runtime.clock import FakeClock
from forebay.broker.runtime.resources.memory import BELOW, SHARE, MemoryGuard, Reading, measure, read_file
from forebay.broker.storage.recovery import recover
from tests.support.brokers.held_store import HeldStore
from tests.support.brokers.one_sink import fill
from tests.support.pages.samples import page

GIB = 1 << 30
PROCESS = {
    "/proc/meminfo": "MemTotal:        4194304 kB\nMemFree:  1 kB\n",
    "/proc/self/status": "Name:\tpython\nVmRSS:\t 900000 kB\nRssAnon:\t 524288 kB\nRssShmem:\t 1024 kB\n",
}


def of(files: dict[str, str]) -> list[Reading]:
    return measure(files.get)


def test_a_process_without_a_group_is_held_against_the_machine() -> None:
    assert of(PROCESS) == [Reading("process", (524_288 + 1_024) * 1024, 4 * GIB)]


def test_a_cgroup_v2_counts_without_reclaimable_memory() -> None:
    files = {
        **PROCESS,
        "/proc/self/cgroup": "0::/system.slice/h.service\n",
        "/sys/fs/cgroup/system.slice/h.service/memory.max": f"{GIB}\n",
        "/sys/fs/cgroup/system.slice/h.service/memory.current": "700000000\n",
        "/sys/fs/cgroup/system.slice/h.service/memory.stat": "anon 1\ninactive_file 100000000\nactive_file 50000000",
        "/sys/fs/cgroup/system.slice/memory.max": "max\n",
        "/sys/fs/cgroup/system.slice/memory.current": "800000000\n",
    }

    assert of(files)[1:] == [Reading("cgroup", 550_000_000, GIB)]


def test_a_group_of_the_first_kind_counts_what_is_below_it_too() -> None:
    files = {
        **PROCESS,
        "/proc/self/cgroup": "5:cpu:/a\n4:cpuset,memory:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": str(2 * GIB),
        "/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": "900",
        "/sys/fs/cgroup/memory/docker/abc/memory.stat": "a 1\ntotal_inactive_file 300\ntotal_active_file 9",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": "5",
    }

    assert of(files)[1:] == [Reading("cgroup", 591, 2 * GIB)]


def test_in_a_container_whose_path_is_the_hosts_the_group_is_at_the_top() -> None:
    files = {
        "/proc/self/cgroup": "0::/kubepods/pod1/abc\n",
        "/sys/fs/cgroup/memory.max": "1000",
        "/sys/fs/cgroup/memory.current": "400",
    }

    assert of(files) == [Reading("cgroup", 400, 1000)]


def test_a_limit_above_what_the_machine_has_is_none() -> None:
    files = {
        **PROCESS,
        "/proc/self/cgroup": "0::/a\n",
        "/sys/fs/cgroup/a/memory.max": str(1 << 50),
        "/sys/fs/cgroup/a/memory.current": "400",
    }

    assert of(files)[1:] == [Reading("cgroup", 400, 4 * GIB)]


@pytest.mark.parametrize("text", ["", "nonsense", "MemTotal:\n", "0::\n"])
def test_a_system_that_does_not_say_is_no_failure(text: str) -> None:
    assert measure(lambda _: text) == []
    assert of({}) == []


def test_this_machine_is_read_without_a_failure() -> None:
    assert all(reading.limit > 0 and reading.used >= 0 for reading in measure())
    assert read_file("/nowhere/at/all") is None


class Use:
    """A use of memory that a test changes."""

    def __init__(self, used: int = 0) -> None:
        self.used = used
        self.told: list[bool] = []

    def read(self) -> list[Reading]:
        return [Reading("process", 1, 1_000), Reading("cgroup", self.used, 1_000)]

    def guard(self) -> MemoryGuard:
        return MemoryGuard(self.read, high_watermark=0.8, waiting_bytes_max=SHARE * 100, on_change=self.told.append)


def test_the_watermark_is_passed_above_it_and_counts_as_passed_until_well_below() -> None:
    use = Use()
    guard = use.guard()
    seen = []
    for used in (800, 801, 800, int(800 * BELOW) + 1, int(800 * BELOW), 800):
        use.used = used
        guard.check()
        seen.append(guard.overloaded)

    assert seen == [False, True, True, True, False, False]
    assert guard.worst == Reading("cgroup", 800, 1_000)
    assert use.told == [True, False]


def test_below_the_watermark_everything_may_wait() -> None:
    Use().guard().admit(1 << 40, 1 << 40)


def test_above_it_so_many_bytes_may_wait_and_one_page_always_may() -> None:
    use = Use(900)
    guard = use.guard()
    guard.check()

    guard.admit(0, 5_000)
    guard.admit(60, 40)
    with pytest.raises(MemoryOverloaded) as refused:
        guard.admit(60, 41)

    assert refused.value.facts == {"waiting": "60", "bound": "100"}


def test_without_a_measure_nothing_is_ever_too_much() -> None:
    guard = MemoryGuard()
    guard.check()

    assert not guard.overloaded


@pytest.mark.anyio
async def test_over_the_watermark_the_tail_gives_its_memory_up_and_takes_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "SWEEP_S", 1_000.0)
    use, store = Use(), HeldStore()
    given_back: list[int] = []
    broker = build(
        recover(store),
        FakeClock(),
        bounds=Bounds(waiting_bytes=SHARE * 100),
        codec=PageCodec(),
        measure_memory=use.read,
        on_memory=lambda: given_back.append(broker.read_cache.size),
    )
    broker.start()
    protected, _ = await broker.create("protected", SinkSettings(buffer_page_size=1))
    bare, _ = await broker.create("bare", SinkSettings(buffer_page_size=1, memory_overload_protection=False))
    await fill(protected, 3)
    held = broker.read_cache.size

    use.used = 900
    broker.memory.check()
    await fill(protected, 1)
    over = broker.read_cache.size
    store.hold()
    waiting = [await protected.append(page(b"x" * 80))]
    with pytest.raises(MemoryOverloaded):
        await protected.append(page(b"x" * 80))
    waiting.append(await bare.append(page(b"x" * 80)))
    store.let_go()
    for append in waiting:
        await append.done
    use.used = 0
    broker.memory.check()
    await fill(protected, 1)

    assert (held > 0, over, given_back) == (True, 0, [0])
    assert broker.read_cache.size > 0
    await broker.close()
