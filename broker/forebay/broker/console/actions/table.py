"""Actions on a sink, as one table: the call that each makes, its preview, and its result in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from google.protobuf.message import Message

from forebay.broker.core.dead_letters.letters import dead_letter_sink_name
from forebay.broker.rpc.dead_letter_service import DeadLetterServicer
from forebay.broker.rpc.sinks.service import SinkServicer
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.sink.buffer import Buffer
from forebay.state.numbers import count, counted, plural
from forebay.v1 import dead_letter_service_pb2 as dead
from forebay.v1 import sink_service_pb2 as pb

EXAMINED: Final = 1_000
"""Dead letters that a preview counts."""

AT_ONCE_MAX: Final = 100_000
"""Dead letters of one action."""

REASON_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Entered:
    """Text that an action takes."""

    text: str
    is_exact: bool = False
    """Dead letters match whose text equals it, not those whose text contains it."""


@dataclass(frozen=True, slots=True)
class Preview:
    """Request of an action, and its effect in words."""

    request: Message
    sentence: str
    does_something: bool = True


@dataclass(frozen=True, slots=True)
class Action:
    """One action."""

    title: str
    method: str
    """Call that it makes; its rule has the right that it needs."""

    request_type: type[Message]
    preview: Callable[[Broker, Buffer, Entered], Awaitable[Preview]]

    run: Callable[[Broker, Any], Awaitable[str]]
    """Makes the call, and returns the result as a sentence."""

    command: str
    """Command that does the same, with ``{sink}``."""

    entered: str = ""
    """Label of the text that the action takes; empty for none."""

    entered_option: str = ""
    """Option of the command for that text."""

    exact_option: str = ""
    """Option of the command for an exact match; empty where there is none."""

    unfiltered_option: str = ""
    """Option that the command requires without that text; empty for none."""

    is_destructive: bool = False


async def _preview_pause(broker: Broker, buffer: Buffer, entered: Entered) -> Preview:
    request = pb.PauseSinkRequest(
        name=buffer.name,
        incarnation=buffer.record.incarnation,
        reason=entered.text[:REASON_MAX] or "paused in the console",
    )
    consumers = sum(len(one.owners.consumers) for one in buffer.subscriptions.values())
    connected = f"{count(consumers)} connected {plural(consumers, 'consumer')}"
    return Preview(
        request, f"Deliveries of {buffer.name} to {connected} stop until it is resumed. Records are still accepted."
    )


async def _pause(broker: Broker, request: pb.PauseSinkRequest) -> str:
    await SinkServicer(broker).PauseSink(request, None)
    return f"{request.name} is paused."


async def _preview_resume(broker: Broker, buffer: Buffer, entered: Entered) -> Preview:
    request = pb.ResumeSinkRequest(name=buffer.name, incarnation=buffer.record.incarnation)
    return Preview(request, f"Deliveries of {buffer.name} continue at once, also those that back off.")


async def _resume(broker: Broker, request: pb.ResumeSinkRequest) -> str:
    await SinkServicer(broker).ResumeSink(request, None)
    return f"{request.name} is resumed."


async def _preview_redrive(broker: Broker, buffer: Buffer, entered: Entered) -> Preview:
    found = await _chosen(broker, buffer, entered)
    request = dead.RedriveDeadLettersRequest(
        sink=buffer.name, filter=found.filter, incarnation=found.incarnation, end_offsets=found.ends
    )
    return Preview(
        request,
        f"This moves {found.text} of {buffer.name} out of the dead letters, and appends them to {buffer.name} again.",
        found.may_do_something,
    )


async def _redrive(broker: Broker, request: dead.RedriveDeadLettersRequest) -> str:
    service, done = DeadLetterServicer(broker), 0
    while done < AT_ONCE_MAX:
        answer = await service.RedriveDeadLetters(request, None)
        done += answer.redriven
        request.page_token = answer.next_page_token
        if not request.page_token:
            return f"Appended {counted(done, 'dead letter')} of {request.sink} again."
    return f"Appended {counted(done, 'dead letter')} of {request.sink} again; there are more: repeat it."


async def _preview_purge(broker: Broker, buffer: Buffer, entered: Entered) -> Preview:
    found = await _chosen(broker, buffer, entered)
    request = dead.PurgeDeadLettersRequest(
        sink=buffer.name, filter=found.filter, incarnation=found.incarnation, end_offsets=found.ends
    )
    return Preview(request, f"This deletes {found.text} of {buffer.name} for good.", found.may_do_something)


async def _purge(broker: Broker, request: dead.PurgeDeadLettersRequest) -> str:
    service, done = DeadLetterServicer(broker), 0
    while done < AT_ONCE_MAX:
        answer = await service.PurgeDeadLetters(request, None)
        done += answer.purged
        request.page_token = answer.next_page_token
        if not request.page_token:
            return f"Deleted {counted(done, 'dead letter')} of {request.sink}."
    return f"Deleted {counted(done, 'dead letter')} of {request.sink}; there are more: repeat it."


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Dead letters that an action is about: those that are there now, and no later ones."""

    filter: dead.DeadLetterFilter
    incarnation: str
    ends: dict[int, int]
    text: str
    number: int
    """Counted so far."""

    more: bool
    """True if others were not examined."""

    @property
    def may_do_something(self) -> bool:
        """Return True unless it is known that there are none."""
        return self.number > 0 or self.more


async def _chosen(broker: Broker, buffer: Buffer, entered: Entered) -> _Chosen:
    text = entered.text
    wanted = dead.DeadLetterFilter(error=text) if entered.is_exact else dead.DeadLetterFilter(error_contains=text)
    dead_letter_sink = broker.sinks.get(dead_letter_sink_name(buffer.name))
    ends = {log.number: log.tail.next_offset for log in dead_letter_sink.logs} if dead_letter_sink is not None else {}
    asked = dead.ListDeadLettersRequest(sink=buffer.name, filter=wanted, page_size=EXAMINED)
    found = await DeadLetterServicer(broker).ListDeadLetters(asked, None)
    number = len(found.dead_letters)
    more = bool(found.next_page_token)
    noun = plural(2 if more else number, "dead letter")
    whose = f" whose error {'is' if entered.is_exact else 'contains'} {text!r}" if text or entered.is_exact else ""
    incarnation = dead_letter_sink.record.incarnation if dead_letter_sink is not None else ""
    return _Chosen(
        wanted, incarnation, ends, f"{count(number)}{' or more' if more else ''} {noun}{whose}", number, more
    )


_ERROR: Final = "Only those whose error contains"

ACTIONS: Final[dict[str, Action]] = {
    "pause": Action(
        "Pause deliveries",
        "/forebay.v1.SinkService/PauseSink",
        pb.PauseSinkRequest,
        _preview_pause,
        _pause,
        "forebay sink pause {sink}",
        entered="Reason",
        entered_option="--reason",
    ),
    "resume": Action(
        "Resume deliveries",
        "/forebay.v1.SinkService/ResumeSink",
        pb.ResumeSinkRequest,
        _preview_resume,
        _resume,
        "forebay sink resume {sink}",
    ),
    "redrive": Action(
        "Redrive dead letters",
        "/forebay.v1.DeadLetterService/RedriveDeadLetters",
        dead.RedriveDeadLettersRequest,
        _preview_redrive,
        _redrive,
        "forebay dlq redrive {sink}",
        entered=_ERROR,
        entered_option="--error",
        exact_option="--error-equals",
    ),
    "purge-dead-letters": Action(
        "Delete dead letters",
        "/forebay.v1.DeadLetterService/PurgeDeadLetters",
        dead.PurgeDeadLettersRequest,
        _preview_purge,
        _purge,
        "forebay dlq purge {sink}",
        entered=_ERROR,
        entered_option="--error",
        exact_option="--error-equals",
        unfiltered_option="--all",
        is_destructive=True,
    ),
}
"""Actions on a sink, by the word in the address."""
