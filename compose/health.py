"""Health checks of the containers: exit code 0 is healthy, and one line says why not.

health.py broker HOST:PORT          gRPC health says SERVING
health.py deliverer HOST:PORT SINK  the broker has a consumer of the sink
health.py job FOLDER SECONDS        the checkpoint's last commit is not older
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

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
    from forebay.client import Client, ClientSettings, ForebayError, RetryPolicy  # noqa: PLC0415

    once = replace(ClientSettings.from_environment(), call_timeout_s=TIMEOUT_S, retry=RetryPolicy(tries_max=1))
    try:
        with Client(endpoint, settings=once) as client:
            consumers = sum(subscription.consumers for subscription in client.sinks.stats(sink).subscriptions)
    except ForebayError as error:
        return str(error)
    return "" if consumers else f"nobody consumes {sink}"


def job(checkpoint: str, seconds: str) -> str:
    """Return what is wrong with the streaming query, or nothing."""
    commits = [path.stat().st_mtime for path in Path(checkpoint, "commits").glob("[0-9]*")]
    if not commits:
        return "no batch was committed yet"
    age_s = time.time() - max(commits)
    return "" if age_s <= float(seconds) else f"the last commit is {age_s:.0f} s old"


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
