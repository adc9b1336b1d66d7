"""Live readings of this machine: processors, memory, disks, network, processes.

If the machine denies a reading (a container without disk counters, a process of another user), the reading is omitted
without an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import psutil

PROCESSES_MAX: Final = 40
"""Maximum number of processes per sample: those with the most memory."""

Reading = tuple[str, dict[str, Any]]
"""Subject of a reading, and its fields."""


def sample() -> Iterator[Reading]:
    """Yield one current reading per processor, memory, disk, network interface and process.

    Percentages of processors are relative to the previous call; the first call returns zero.
    """
    yield from _processors()
    yield from _memory()
    yield from _disks()
    yield from _network()
    yield from _processes()


def _processors() -> Iterator[Reading]:
    for number, times in enumerate(psutil.cpu_times_percent(percpu=True)):
        fields = {
            name: value for name, value in times._asdict().items() if name in {"user", "system", "idle", "iowait"}
        }
        yield f"cpu/{number}", {"sensor": "processor", "unit": "%", **fields}
    one, five, fifteen = psutil.getloadavg()
    yield "cpu/load", {"sensor": "load", "unit": "tasks", "1 min": one, "5 min": five, "15 min": fifteen}


def _memory() -> Iterator[Reading]:
    for name, usage in (("memory", psutil.virtual_memory()), ("swap", psutil.swap_memory())):
        fields = {"total": usage.total, "used": usage.used, "free": usage.free, "percent": usage.percent}
        yield f"memory/{name}", {"sensor": name, "unit": "bytes", **fields}


def _disks() -> Iterator[Reading]:
    for name, counters in (psutil.disk_io_counters(perdisk=True) or {}).items():
        fields = {"read bytes": counters.read_bytes, "written bytes": counters.write_bytes}
        yield f"disk/{name}", {"sensor": "disk", "unit": "bytes", **fields}


def _network() -> Iterator[Reading]:
    for name, counters in (psutil.net_io_counters(pernic=True) or {}).items():
        fields = {
            "sent": counters.bytes_sent,
            "received": counters.bytes_recv,
            "drops": counters.dropin or None,
        }
        yield f"network/{name}", {"sensor": "network", "unit": "bytes", **fields}


def _processes() -> Iterator[Reading]:
    found = []
    for process in psutil.process_iter(["pid", "name", "memory_info", "num_threads", "cpu_times"]):
        if process.info["memory_info"] is not None:
            found.append(process.info)
    found.sort(key=lambda info: -info["memory_info"].rss)
    for info in found[:PROCESSES_MAX]:
        times = info["cpu_times"]
        yield (
            f"process/{info['pid']}",
            {
                "sensor": "process",
                "unit": "bytes",
                "name": info["name"],
                "resident": info["memory_info"].rss,
                "threads": info["num_threads"],
                "cpu seconds": round(times.user + times.system, 2) if times is not None else None,
            },
        )
