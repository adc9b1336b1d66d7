"""`forebay publish`: publishes values from the command line, a file or standard input."""

from __future__ import annotations

import os
import stat
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.operate.progress import Advance, shown_bytes, shown_count
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, connect
from forebay.cli.output import Output, write_json, write_list
from forebay.cli.report import CommandFailed
from forebay.cli.telemetry import exporting

if TYPE_CHECKING:
    from forebay.client import Receipt

UNANSWERED_MAX: Final = 100_000
"""Maximum number of records that await their receipts."""


@dataclass(frozen=True, slots=True)
class Published:
    """Published records of one partition."""

    partition: int
    """Partition, from 0."""

    records: int
    """Number of records."""

    first_offset: int | None
    """Lowest offset; None for old duplicates."""

    last_offset: int | None
    """Highest offset."""

    durability: str
    """Durability level of the last receipt."""


@dataclass(frozen=True, slots=True)
class _Input:
    """Values to publish."""

    values: Iterable[tuple[bytes, int]]
    """Each with its part of the bar: its bytes in a file of known size, else 1."""

    records: int | None = None
    """Number of values, where it is known."""

    size: int | None = None
    """Size of a file, where it is known."""


def publish(
    sink: SinkName,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="[VALUE]...", help="Values; default: the lines of standard input.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Publish the lines of this file; - is standard input.")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Publish the file as one value, not one per line.")] = False,
    key: Annotated[str | None, typer.Option("--key", "-k", help="Key of all records.")] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="Header of all records. Repeatable.")
    ] = None,
    partition: Annotated[int | None, typer.Option(help="Partition; default: by key, or in turn.", min=0)] = None,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Publish values and show their offsets once they are durable."""
    if values and file is not None:
        raise CommandFailed("values and --file are given: pass only one of them", ExitCode.USAGE)
    headers = _headers(header or [])
    encoded_key = None if key is None else _encode(key)
    with (
        _opened(values, file, whole=whole) as given,
        exporting("forebay-publish"),
        connect(endpoint, sink) as client,
        client.publisher(sink) as publisher,
        _shown(f"publish to {sink}", given) as advance,
    ):
        waiting: deque[tuple[Future[Receipt], int]] = deque()
        published: dict[int, Published] = {}

        def count_first() -> None:
            future, part = waiting.popleft()
            _count(published, future.result())
            advance(part)

        for value, part in given.values:
            waiting.append((publisher.send(value, key=encoded_key, headers=headers, partition=partition), part))
            while len(waiting) > UNANSWERED_MAX or (waiting and waiting[0][0].done()):
                count_first()
        publisher.flush()
        while waiting:
            count_first()
    results = [published[number] for number in sorted(published)]
    if output is Output.JSON:
        write_json({"sink": sink, "records": sum(part.records for part in results), "partitions": results})
        return
    write_list(
        f"published to {sink}",
        ("partition", "records", "first offset", "last offset", "durability"),
        [(part.partition, part.records, part.first_offset, part.last_offset, part.durability) for part in results],
    )


def _shown(description: str, given: _Input) -> AbstractContextManager[Advance]:
    if given.size is not None:
        return shown_bytes(description, given.size)
    return shown_count(description, given.records)


@contextmanager
def _opened(values: Sequence[str] | None, file: Path | None, *, whole: bool) -> Iterator[_Input]:
    if values:
        yield _Input([(_encode(value), 1) for value in values], records=len(values))
    elif file is None or str(file) == "-":
        yield _Input((value, 1) for value, _ in _of(sys.stdin.buffer, whole=whole))
    else:
        try:
            opened = file.open("rb")
        except OSError as error:
            raise CommandFailed(f"{file}: {error.strerror}", ExitCode.NOT_FOUND) from error
        with opened:
            found = os.fstat(opened.fileno())
            if stat.S_ISREG(found.st_mode) and found.st_size:  # a file of the system, as in /proc, has size 0
                yield _Input(_of(opened, whole=whole), size=found.st_size)
            else:
                yield _Input((value, 1) for value, _ in _of(opened, whole=whole))


def _of(stream: IO[bytes], *, whole: bool) -> Iterator[tuple[bytes, int]]:
    """Yield the values, each with its bytes in the stream."""
    if whole:
        content = stream.read()
        yield content, len(content)
    else:
        for line in stream:
            yield line.removesuffix(b"\n").removesuffix(b"\r"), len(line)


def _encode(text: str) -> bytes:
    """Return the bytes as typed, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def _headers(pairs: Sequence[str]) -> list[tuple[str, bytes | str]]:
    headers: list[tuple[str, bytes | str]] = []
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise CommandFailed(f"header {pair!r}: must be NAME=VALUE", ExitCode.USAGE)
        headers.append((name, text))
    return headers


def _count(published: dict[int, Published], receipt: Receipt) -> None:
    known = published.get(receipt.partition)
    firsts = [receipt.first_offset, known.first_offset if known else None]
    lasts = [receipt.last_offset, known.last_offset if known else None]
    published[receipt.partition] = Published(
        receipt.partition,
        1 + (known.records if known else 0),
        min((offset for offset in firsts if offset is not None), default=None),
        max((offset for offset in lasts if offset is not None), default=None),
        str(receipt.durability),
    )
