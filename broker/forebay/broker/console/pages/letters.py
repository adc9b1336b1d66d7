"""Dead letters of a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from forebay.broker.console.pages.page import Page, PageSource, refused
from forebay.broker.core.access.principal import Right
from forebay.broker.core.dead_letters.letters import Filter
from forebay.broker.core.errors import BrokerError
from forebay.broker.runtime.dead_letters.operations import DeadLetterOperations

LETTERS: Final = 1_000
"""Dead letters that are grouped."""

SHOWN: Final = 10
"""Dead letters of a group that are listed."""


@dataclass(frozen=True, slots=True)
class Letter:
    """Position of one dead letter, and of its record in the sink."""

    partition: int
    offset: int
    origin_partition: int | None
    origin_offset: int | None
    attempts: int
    at_us: int


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """Dead letters with the same error."""

    error: str
    count: int
    letters: tuple[Letter, ...]
    """The oldest ones."""


@dataclass(frozen=True, slots=True)
class LetterList:
    """Data of the dead letters of a sink."""

    sink: str
    count: int
    count_max: int
    """Number of dead letters above which newer ones are not counted; large ones end it earlier."""

    more: bool
    """True if there may be newer dead letters, which are not counted."""

    groups: tuple[LetterGroup, ...]


async def letters(source: PageSource, request: Request) -> Page:
    """Return the oldest dead letters of a sink, grouped by the words of the target."""
    name = source.named(request, Right.REPLAY)
    dead_letters = DeadLetterOperations(source.broker, name)
    try:
        found, after = await dead_letters.list(Filter(), LETTERS, None)
    except BrokerError as error:
        raise refused(error) from error
    groups: dict[str, list[Letter]] = {}
    for partition, letter in found:
        origin = letter.origin
        groups.setdefault(origin.error if origin is not None else letter.uncut, []).append(
            Letter(
                partition,
                letter.offset,
                origin.partition if origin is not None else None,
                origin.offset if origin is not None else None,
                origin.attempts if origin is not None else 0,
                origin.at_us if origin is not None else letter.accepted_at_us,
            )
        )
    ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
    data = LetterList(
        name,
        len(found),
        LETTERS,
        after is not None,
        tuple(LetterGroup(error, len(each), tuple(each[:SHOWN])) for error, each in ordered),
    )
    path = f"/sinks/{name}/dead-letters"
    return Page("letters.html", f"Dead letters of {name}", data, f"forebay dlq list {name}", path)
