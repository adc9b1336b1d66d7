"""Conversion between protobuf messages and the values of sinks."""

from __future__ import annotations

from typing import Any, Final, get_type_hints

from google.protobuf.duration_pb2 import Duration

from forebay.client.errors import InvalidArgument
from forebay.client.values.convert import duration, names
from forebay.client.values.sink_settings import Ordering, SinkOptions, SinkSettings
from forebay.errors.reasons import Reason
from forebay.v1 import sink_pb2

DURATIONS: Final = {
    f"{field.name}_s": field.name for field in sink_pb2.SinkSettings.DESCRIPTOR.fields if field.message_type is not None
}
"""Fields that are durations, by the names of their settings, which are in seconds."""

CHOICES: Final = {
    field.name: {name: number for number, name in names(field.enum_type).items() if number}
    for field in sink_pb2.SinkSettings.DESCRIPTOR.fields
    if field.enum_type is not None
}
"""Numbers of the choices, by the name of their setting and their own."""

KINDS: Final = get_type_hints(SinkSettings)


def _wrong(name: str, found: object, allowed: str) -> InvalidArgument:
    facts = {"field": name, "value": str(found), "allowed": allowed}
    return InvalidArgument(f"{name} = {found}: must be {allowed}", reason=Reason.INVALID_SETTING, facts=facts)


def _allowed(name: str) -> str:
    """Return the allowed values as text for people; the broker knows the bounds of a number."""
    if name in CHOICES:
        *choices, last = CHOICES[name]
        return f"{', '.join(choices)} or {last}"
    if name in DURATIONS:
        return "0 or at least 0.000001, a number of seconds within its bounds"
    return "true or false" if KINDS[name] is bool else "a number within its bounds"


def _duration(seconds: float) -> Duration:
    """Return the wire form of seconds; raises ``ValueError`` where they would be rounded to 0."""
    found = duration(seconds)
    if seconds and not found.ToMicroseconds():
        raise ValueError("it is below a microsecond, and 0 has a meaning of its own")
    return found


def settings_message(options: SinkOptions) -> tuple[sink_pb2.SinkSettings, list[str]]:
    """Return the wire form of the given settings and their field paths; raises ``INVALID_SETTING``."""
    message = sink_pb2.SinkSettings()
    given: dict[str, Any] = dict(options)
    for name, found in given.items():
        if name not in KINDS:
            raise _wrong(name, found, "one of " + ", ".join(sorted(KINDS)))
        try:
            if name in DURATIONS:
                getattr(message, DURATIONS[name]).CopyFrom(_duration(found))
            else:
                setattr(message, name, CHOICES[name][str(found)] if name in CHOICES else found)
        except (KeyError, OverflowError, TypeError, ValueError) as failure:
            raise _wrong(name, found, _allowed(name)) from failure
    return message, [DURATIONS.get(name, name) for name in given]


def ordering(value: int) -> Ordering:
    """Return the ordering; STRICT for a broker that does not report one."""
    return Ordering.RELAXED if value == sink_pb2.ORDERING_RELAXED else Ordering.STRICT
