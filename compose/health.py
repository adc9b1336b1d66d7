"""Health checks of the containers: exit code 0 is healthy, and one line says why not.

health.py broker HOST:PORT               gRPC health says SERVING
health.py deliverer HOST:PORT SINK       consumer is connected, and answers records while some wait for it
health.py job FOLDER HOST:PORT SINK      the checkpoint has a new commit, unless the broker takes nothing

The last two compare with their previous call, whose count is in a file of the temporary folder: a limit in seconds
would call a slow system dead, and a connection alone proves no work. The container's settings say how many may fail.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forebay.client import SinkStats

TIMEOUT_S: Final = 3.0


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
