"""Saved positions: each write names the version that it replaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from forebay.contract.check import Check
from forebay.contract.trial import Trial
from forebay.contract.violation import equal, that
from forebay.errors.reasons import Reason

NAMESPACE: Final = "contract"


@contextmanager
def _key(trial: Trial) -> Iterator[dict[str, Any]]:
    """Return a key that no other run uses; delete its position afterwards."""
    key = {"namespace": NAMESPACE, "consumer": f"c-{trial.unique}", "sink": trial.sinks.create(), "partition": 0}
    try:
        yield key
    finally:
        trial.wire.ask("PositionService.DeletePosition", key=key)


def _stored(trial: Trial) -> None:
    with _key(trial) as key:
        that(
            not trial.wire.ask("PositionService.ReadPosition", key=key).HasField("position"),
            "a position that was never written is found",
        )
        first = trial.wire.ask("PositionService.WritePosition", key=key, document=b"one").version
        request = {"key": key, "document": b"two", "expected_version": first}
        second = trial.wire.ask("PositionService.WritePosition", **request).version
        that(first != second, "two documents have one version")
        found = trial.wire.ask("PositionService.ReadPosition", key=key).position
        equal((found.document, found.version), (b"two", second), "document and version of the position")


def _conflicting(trial: Trial) -> None:
    with _key(trial) as key:
        version = trial.wire.ask("PositionService.WritePosition", key=key, document=b"one").version
        for expected in ("", f"{version}-other"):
            request = {"key": key, "document": b"two", "expected_version": expected}
            trial.wire.refused("PositionService.WritePosition", Reason.POSITION_CONFLICT, **request)
        found = trial.wire.ask("PositionService.ReadPosition", key=key).position
        equal(found.document, b"one", "the document after rejected writes")


def _without_sink(trial: Trial) -> None:
    key = {"namespace": NAMESPACE, "consumer": f"c-{trial.unique}", "sink": trial.sinks.name(), "partition": 0}
    trial.wire.refused("PositionService.WritePosition", Reason.SINK_NOT_FOUND, key=key, document=b"one")


CHECKS: Final = (
    Check("positions", "a position is read as it was written", _stored),
    Check("positions", "a write that expects another version: POSITION_CONFLICT", _conflicting),
    Check("positions", "a position of an unknown sink: SINK_NOT_FOUND", _without_sink),
)
