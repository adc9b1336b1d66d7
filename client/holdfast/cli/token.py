"""`holdfast token`: makes a token for a caller of a broker.

The token is shown once and kept nowhere; the file of hashes gets a line by which the broker knows it.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Annotated, Final

import typer

from holdfast.cli.exits import ExitCode
from holdfast.cli.extras import needed_for
from holdfast.cli.options import OutputForm
from holdfast.cli.output import Output, say, write_json
from holdfast.cli.report import CommandFailed

TOKEN_BYTES: Final = 32
"""Random bytes: nobody finds the token of a hash."""


def token(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Who is to have it.", show_default=False)],
    token_hashes_file: Annotated[
        Path,
        typer.Option("--token-hashes-file", help="The broker's file of hashes; made if missing.", show_default=False),
    ],
    output: OutputForm = Output.TABLE,
) -> None:
    """Make a token, show it once, and add its hash to a broker's file.

    A broker that serves takes it from its next SIGHUP on. To take a token back, take its line out of the file.
    """
    with needed_for("a token", "broker"):
        from holdfast.broker.core.tokens import TokenHashesInvalid, hash_of
    made = secrets.token_urlsafe(TOKEN_BYTES)
    try:
        line = hash_of(name, made).line
    except TokenHashesInvalid as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    try:
        _append(token_hashes_file, line)
    except OSError as error:
        raise CommandFailed(f"{token_hashes_file}: cannot be written: {error.strerror}") from error
    if output is Output.JSON:
        write_json({"name": name, "token": made})
    else:
        print(made)
        say(f"this is shown once; {token_hashes_file} knows it as {name}")


def _append(path: Path, line: str) -> None:
    """Add a line in one write; a new file is its owner's alone."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        ended = not (size := file.seek(0, os.SEEK_END)) or _last(file.fileno(), size) == b"\n"
        file.write(f"{'' if ended else chr(10)}{line}\n".encode())


def _last(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)
