"""Health checks of the containers: exit code 0 is healthy, and one line says why not.

health.py broker HOST:PORT               gRPC health says SERVING
health.py member METRICS HOST:PORT       broker of a shard is an owner that serves, or a follower that keeps up
health.py deliverer HOST:PORT SINK       consumer is connected, and answers records while some wait for it
health.py job FOLDER HOST:PORT SINK      the checkpoint has a new commit, unless the broker takes nothing

`member` writes the role of the broker; METRICS is the HOST:PORT of its metrics, which a follower has too.

The last two compare with their previous call, whose count is in a file of the temporary folder: a limit in seconds
would call a slow system dead, and a connection alone proves no work. The container's settings say how many may fail.
"""

from __future__ import annotations

import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forebay.client import SinkStats

TIMEOUT_S: Final = 3.0
LAG_MAX_S: Final = 10.0
"""Time since a follower has read to the end of the journal, above which it does not keep up."""


def broker(endpoint: str) -> str:
    """Return what is wrong with a broker, or nothing."""
    import grpc  # noqa: PLC0415
    from grpc_health.v1 import health_pb2, health_pb2_grpc  # noqa: PLC0415

    from forebay.client import ClientSettings  # noqa: PLC0415
    from forebay.client.transport.security import open_channel  # noqa: PLC0415

    with open_channel(endpoint, ClientSettings.from_environment(), []) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service="readiness"), timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            return str(error.code())
    serving = health_pb2.HealthCheckResponse.SERVING
    return "" if answer.status == serving else health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)


def member(metrics: str, endpoint: str) -> str:
    """Return what is wrong with a broker of a shard, or nothing; writes its role."""
    try:
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=TIMEOUT_S) as answer:
            text = answer.read().decode()
    except OSError as error:
        return str(error)
    found = dict(re.findall(r"^forebay_(shard_owner|follower_lag)[a-z_]*(?:\{.*\})? (\S+)$", text, re.MULTILINE))
    if float(found.get("shard_owner", 0)) == 1:
        problem = broker(endpoint)
        sys.stdout.write("owner, not ready: " if problem else "owner\n")
        return problem
    if "follower_lag" not in found:
        return "neither an owner nor a follower"
    lag_s = float(found["follower_lag"])
    sys.stdout.write(f"follower, {lag_s:.1f} s behind\n")
    return "" if lag_s <= LAG_MAX_S else f"more than {LAG_MAX_S:g} s"


def deliverer(endpoint: str, sink: str) -> str:
    """Return what is wrong with the deliverer of a sink, or nothing."""
    from forebay.client import DeliveryState, ForebayError  # noqa: PLC0415

    try:
        subscriptions = _stats(endpoint, sink).subscriptions
    except ForebayError as error:
        return str(error)
    if not any(subscription.consumers for subscription in subscriptions):
        return f"{sink} has no consumer"
    partitions = [partition for subscription in subscriptions for partition in subscription.partitions]
    # A nack counts too: the target may be away, and the deliverer is at work as long as it says so.
    answered = sum(one.acked + one.dead_lettered + one.redelivered for one in partitions)
    waiting = sum(one.pending for one in partitions if one.state is DeliveryState.FLOWING)
    if _progressed("deliverer", answered) or not waiting:
        return ""
    return f"{waiting} records wait in {sink}, and none was answered since the last check"


def job(checkpoint: str, endpoint: str, sink: str) -> str:
    """Return what is wrong with the streaming query, or nothing."""
    from forebay.client import ForebayError  # noqa: PLC0415

    commits = [int(path.name) for path in Path(checkpoint, "commits").glob("[0-9]*")]
    if not commits:
        return "no batch was committed yet"
    if _progressed("job", max(commits)):
        return ""
    try:
        if _stats(endpoint, sink).full:
            return ""
    except ForebayError:
        return ""  # its tasks wait for the broker, as they should
    return f"no batch was committed since the last check: the newest is {max(commits)}"


def _stats(endpoint: str, sink: str) -> SinkStats:
    """Return the statistics of a sink, by one call without retries."""
    from forebay.client import Client, ClientSettings, RetryPolicy  # noqa: PLC0415

    once = replace(ClientSettings.from_environment(), call_timeout_s=TIMEOUT_S, retry=RetryPolicy(tries_max=1))
    with Client(endpoint, settings=once) as client:
        return client.sinks.stats(sink)


def _progressed(name: str, count: int) -> bool:
    """Return True if a count differs from that of the previous check, and save it; False for the first check."""
    saved = Path(tempfile.gettempdir(), f"forebay-health-{name}")
    before = saved.read_text(encoding="ascii") if saved.exists() else None
    saved.write_text(str(count), encoding="ascii")
    return before is not None and before != str(count)


CHECKS: Final[Mapping[str, Callable[..., str]]] = {
    "broker": broker,
    "member": member,
    "deliverer": deliverer,
    "job": job,
}


def main() -> int:
    """Check what the command line names."""
    name, *arguments = sys.argv[1:]
    problem = CHECKS[name](*arguments)
    if problem:
        sys.stdout.write(f"{problem}\n")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
