"""Health, and reflection in both versions: a client without files of Forebay finds every symbol."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from forebay.contract.check import Check
from forebay.contract.foreign import HealthRequest, HealthResponse, ReflectionRequest, ReflectionResponse
from forebay.contract.trial import Trial
from forebay.contract.violation import Violation, equal, that

FILES: Final = tuple(
    f"forebay/v1/{name}_service.proto"
    for name in ("admin", "backup", "buffer", "dead_letter", "epoch", "position", "resend", "schema", "sink")
)
"""Files with the services."""

_SERVING: Final = 1
_NOT_FOUND: Final = grpc.StatusCode.NOT_FOUND.value[0]


def _healthy(trial: Trial) -> None:
    for service in ("", "readiness"):
        answer = trial.wire.foreign_unary(
            "/grpc.health.v1.Health/Check", HealthRequest(service=service), HealthResponse
        )
        equal(answer.status, _SERVING, f"the health of {service!r}")


def _asked(trial: Trial, version: str, **question: str) -> Any:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    return trial.wire.foreign(path, ReflectionRequest(**question), ReflectionResponse)


def _lists(version: str, trial: Trial) -> None:
    found = {one.name for one in _asked(trial, version, list_services="").list_services_response.service}
    wanted = {service.full_name for service in _services()}
    that(wanted <= found, f"the list lacks {', '.join(sorted(wanted - found))}")


def _describes(version: str, trial: Trial) -> None:
    for service in _services():
        described = _files(trial, version, service.full_name)
        methods = {m.name for file in described for s in file.service if s.name == service.name for m in s.method}
        lacking = {method.name for method in service.methods} - methods
        that(not lacking, f"{service.full_name} is described without {', '.join(sorted(lacking))}")


def _finds(version: str, trial: Trial) -> None:
    for symbol in (
        "forebay.v1.SinkService.CreateSink",
        "forebay.v1.Sink",
        "forebay.v1.Sink.name",
        "forebay.v1.PublishRequest.request",
        "forebay.v1.BUFFER_MODE_DISK",
    ):
        files = _files(trial, version, symbol)
        that(any(symbol.startswith(f"{file.package}.") for file in files), f"no file describes {symbol}")


def _rejects(version: str, trial: Trial) -> None:
    answer = _asked(trial, version, file_containing_symbol="forebay.v1.SinkService.NoSuchMethod")
    equal(answer.error_response.error_code, _NOT_FOUND, "the error code of an unknown symbol")


def _files(trial: Trial, version: str, symbol: str) -> list[FileDescriptorProto]:
    answer = _asked(trial, version, file_containing_symbol=symbol)
    if answer.HasField("error_response"):
        raise Violation(f"{symbol}: {answer.error_response.error_message or answer.error_response.error_code}")
    return [FileDescriptorProto.FromString(one) for one in answer.file_descriptor_response.file_descriptor_proto]


def _services() -> Iterator[Any]:
    for name in FILES:
        yield from descriptor_pool.Default().FindFileByName(name).services_by_name.values()


CHECKS: Final = (
    Check("health", "the broker and its readiness are SERVING", _healthy),
    *(
        Check("reflection", f"{version} {name}", partial(act, version))
        for version in ("v1", "v1alpha")
        for name, act in (
            ("lists every service", _lists),
            ("describes every method", _describes),
            ("finds methods, messages, fields and values", _finds),
            ("rejects an unknown symbol", _rejects),
        )
    ),
)
