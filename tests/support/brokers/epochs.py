"""Short words for what producers stage and commit."""

from __future__ import annotations

from collections.abc import Sequence

from forebay.broker.core.epochs.values import Claim, Content, EpochCheck, TokenPart, Wanted
from forebay.broker.runtime.broker import Broker
from forebay.broker.runtime.epochs.commits import CommitResult
from forebay.broker.runtime.epochs.stage import StageSession
from forebay.broker.runtime.sink.buffer import Buffer
from tests.support.pages.samples import page, values


def claim(
    epoch: int = 0,
    *,
    producer: str = "query",
    run: str = "run-1",
    ticket: int = 1,
    name: str = "orders",
    takeover: bool = False,
) -> Claim:
    """Identity of the writer: one query by default."""
    return Claim("orders", producer, name, epoch, run, ticket, takeover)


def wanted(
    of: Claim,
    *tokens: tuple[str, Sequence[tuple[int, int, int]]],
    content: Content | None = None,
    check: EpochCheck = EpochCheck.RECORDS,
) -> Wanted:
    """A commit: each token with (partition, pages, records)."""
    named = tuple((token, tuple(TokenPart(*part) for part in parts)) for token, parts in tokens)
    return Wanted(of, named, content, check)


async def stage(buffer: Buffer, of: Claim, token: str, *pages: Sequence[bytes], partition: int = 0) -> StageSession:
    """Stage pages of one partition and wait until they are durable; the stream stays open."""
    session = buffer.staging.open(of, token, None)
    begin = session.next_sequences().get(partition, 0)
    for sequence, found in enumerate(pages, begin):
        stored = await (await session.publish(page(*found, partition=partition), sequence))
        assert stored.staged
    return session


async def commit(broker: Broker, *found: Wanted) -> CommitResult:
    """Commit epochs of the sinks that their claims name."""
    return await broker.epochs.commit([(broker.sink(each.claim.sink), each) for each in found])


async def stored(broker: Broker, sink: str = "orders", partition: int = 0) -> list[bytes]:
    """The values of a partition, as the store has them."""
    buffer, pages = broker.sink(sink), broker.pages
    end = buffer.logs[partition].tail.next_offset
    entries = await pages.call(pages.journal.entries, buffer.record.id, partition, 0, end, 1_000)
    bodies = await pages.call(pages.journal.read_pages, buffer.record.id, partition, entries)
    return [value for body in bodies if body is not None for value in values(body.data)]
