"""One sink: its account, its settings, and its last day."""

from __future__ import annotations

from dataclasses import asdict

from google.protobuf.json_format import MessageToDict
from starlette.requests import Request

from forebay.broker.console.history import Day
from forebay.broker.console.pages.page import Page, PageSource, as_json
from forebay.broker.core.settings import SETTINGS
from forebay.broker.rpc.sinks import convert
from forebay.broker.runtime.sink.statistics import sink_state


async def sink(source: PageSource, request: Request) -> Page:
    """Return the state of one sink, partition by partition."""
    name = source.named(request)
    buffer = source.broker.sinks[name]
    snapshot = await source.sampler.current()
    message = await convert.stats(buffer, await sink_state(buffer), source.broker.clock.wall_us())
    history = snapshot.histories.get(name)
    day = history.day if history is not None else Day()
    lines = await source.lines([one for one in snapshot.sinks if one.name == name])
    settings = buffer.settings
    data = {
        "stats": as_json(message),
        "settings": MessageToDict(convert.settings_message(settings), preserving_proto_field_name=True),
        "day": [asdict(span) for span in day.spans()],
    }
    shown = {
        "stats": message,
        "line": lines[0] if lines else None,
        "settings": [
            (
                one.public_name,
                one.text(getattr(settings, one.name)),
                getattr(settings, one.name) != getattr(source.broker.sink_defaults, one.name),
            )
            for one in SETTINGS
        ],
        "day": day.spans(),
        "can_write": source.can_write,
    }
    return Page("sink.html", name, data, f"forebay lag {name} -p", f"/sinks/{name}", shown=shown)
