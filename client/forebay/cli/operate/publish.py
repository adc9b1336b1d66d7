"""`forebay publish`: publishes values from the command line, a file or standard input."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.operate.progress import shown_count
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
        _values(values, file, whole=whole) as found,
        exporting("forebay-publish"),
        connect(endpoint, sink) as client,
        client.publisher(sink) as publisher,
        shown_count(f"publish to {sink}", len(values) if values else None) as advance,
    ):
        waiting: deque[Future[Receipt]] = deque()
        published: dict[int, Published] = {}
        for value in found:
            waiting.append(publisher.send(value, key=encoded_key, headers=headers, partition=partition))
            while len(waiting) > UNANSWERED_MAX or (waiting and waiting[0].done()):
                _count(published, waiting.popleft().result())
                advance(1)
        publisher.flush()
        for future in waiting:
            _count(published, future.result())
            advance(1)
    results = [published[number] for number in sorted(published)]
    if output is Output.JSON:
        write_json({"sink": sink, "records": sum(part.records for part in results), "partitions": results})
        return
    write_list(
        f"published to {sink}",
        ("partition", "records", "first offset", "last offset", "durability"),
        [(part.partition, part.records, part.first_offset, part.last_offset, part.durability) for part in results],
    )


@contextmanager
def _values(values: Sequence[str] | None, file: Path | None, *, whole: bool) -> Iterator[Iterable[bytes]]:
    if values:
        yield [_encode(value) for value in values]
    elif file is None or str(file) == "-":
        yield _of(sys.stdin.buffer, whole=whole)
    else:
        try:
            opened = file.open("rb")
        except OSError as error:
            raise CommandFailed(f"{file}: {error.strerror}", ExitCode.NOT_FOUND) from error
        with opened:
            yield _of(opened, whole=whole)


def _of(stream: IO[bytes], *, whole: bool) -> Iterator[bytes]:
    if whole:
        yield stream.read()
    else:
        for line in stream:
            yield line.removesuffix(b"\n").removesuffix(b"\r")


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
