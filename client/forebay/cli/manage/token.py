"""`forebay token ...`: creates, lists and revokes credentials in a broker's file.

A token is shown once and not stored; the file contains its hash. A running broker loads a changed file within seconds.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.manage.confirmation import DryRun, Yes, confirm, preview
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_json, write_line, write_message, write_table
from forebay.cli.quantities import size
from forebay.cli.report import CommandFailed
from forebay.state.numbers import counted
from forebay.text.quantities import with_unit

if TYPE_CHECKING:
    from forebay.broker.core.access.credentials import Credential

TOKEN_BYTES: Final = 32
"""Number of random bytes, enough that a token cannot be derived from its hash."""
HASH_SHOWN: Final = 8

token_app = Commands(
    help="Create, list and revoke credentials for a broker.",
    example="forebay token create nightly --token-hashes-file tokens --allow publish=orders\n"
    "forebay token list --token-hashes-file tokens",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the principal, shown in logs.", show_default=False)]
HashesFile = Annotated[
    Path,
    typer.Option("--token-hashes-file", help="Credentials file of the broker.", show_default=False),
]
Allow = Annotated[
    list[str],
    typer.Option(
        "--allow",
        metavar="RIGHT=PATTERN",
        help="Right to sinks: publish, consume, replay, view, manage or admin = names; `*` matches any characters. "
        "Repeatable.",
        show_default=False,
    ),
]


@token_app.command(example="forebay token create nightly --token-hashes-file tokens --allow publish=orders,events-*")
def create(
    name: Name,
    token_hashes_file: HashesFile,
    allow: Allow,
    certificate: Annotated[
        str,
        typer.Option(metavar="IDENTITY", help="Accept the client certificate with this name instead of a token."),
    ] = "",
    calls_per_s: Annotated[int, typer.Option(help="Maximum calls and stream messages per second; 0 is unlimited.")] = 0,
    bytes_per_s: Annotated[
        int,
        typer.Option(metavar="SIZE", parser=size(), help="Maximum bytes per second, such as 10MB; 0 is unlimited."),
    ] = 0,
    output: OutputForm = Output.TABLE,
) -> None:
    """Create a token, show it once, and add its hash and rights to a broker's credentials file."""
    with needed_for("a token", "broker"):
        from forebay.broker.core.access.credentials import (
            CredentialsInvalid,
            certificate_credential,
            token_credential,
        )
    limits = {"calls_per_s": calls_per_s, "bytes_per_s": bytes_per_s}
    words = [*allow, *(f"{limit}={rate}" for limit, rate in limits.items() if rate)]
    made = "" if certificate else secrets.token_urlsafe(TOKEN_BYTES)
    try:
        credential = (
            certificate_credential(name, certificate, words) if certificate else token_credential(name, made, words)
        )
    except CredentialsInvalid as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    try:
        _append(token_hashes_file, credential.line)
    except OSError as error:
        raise CommandFailed(f"{token_hashes_file}: cannot be written: {error.strerror}") from error
    if output is Output.JSON:
        write_json({"name": name, "certificate": certificate} if certificate else {"name": name, "token": made})
    elif certificate:
        write_message(f"{token_hashes_file} accepts certificates with the name {certificate} as {name}")
    else:
        write_line(made)
        write_message(f"the token is shown only once; {token_hashes_file} accepts it as {name}")


@token_app.command("list", example="forebay token list --token-hashes-file tokens")
def list_tokens(token_hashes_file: HashesFile, output: OutputForm = Output.TABLE) -> None:
    """List the credentials in a broker's file with their rights and limits."""
    every = _parsed(token_hashes_file, _text(token_hashes_file))
    if output is Output.JSON:
        write_json([_fields(one) for one in every])
        return
    rows = [tuple({**_fields(one), "limits": _limits(one)}.values()) for one in every]
    write_table("", ("name", "kind", "credential", "rights", "limits"), rows)


@token_app.command(example="forebay token revoke nightly --token-hashes-file tokens --dry-run")
def revoke(
    name: Name,
    token_hashes_file: HashesFile,
    credential: Annotated[
        str,
        typer.Option("--credential", help="Credential as shown by `list`; default: all of the principal."),
    ] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
    output: OutputForm = Output.TABLE,
) -> None:
    """Remove credentials from a broker's file. Calls and open streams that use them end within seconds."""
    with needed_for("tokens", "broker"):
        from forebay.broker.core.access.credentials import lines_without
    every = _parsed(token_hashes_file, _text(token_hashes_file))
    gone = [one for one in every if one.principal.name == name and credential in {"", _fields(one)["credential"]}]
    if not gone:
        raise CommandFailed(f"{token_hashes_file}: contains no such credential of {name!r}", ExitCode.NOT_FOUND)
    _check_rest(token_hashes_file, every, gone)
    effect = f"revoke {counted(len(gone), 'credential')} of {name}"
    if dry_run:
        preview(effect, {"revoke": name, "credentials": [_fields(one) for one in gone]}, output)
        return
    confirm(effect, yes=yes, output=output)
    text = _text(token_hashes_file)  # others may have changed it while the question was open
    _check_rest(token_hashes_file, _parsed(token_hashes_file, text), gone)
    try:
        _rewrite(token_hashes_file, "".join(lines_without(text, gone)))
    except OSError as error:
        raise CommandFailed(f"{token_hashes_file}: cannot be written: {error.strerror}") from error
    if output is Output.JSON:
        write_json({"name": name, "revoked": len(gone)})
    else:
        write_message(f"revoked {counted(len(gone), 'credential')} of {name}")


def _check_rest(path: Path, every: Sequence[Credential], gone: Sequence[Credential]) -> None:
    """Raise `CommandFailed` if no credential would be left."""
    if all(one in gone for one in every):
        raise CommandFailed(
            f"{path}: would contain no credential, and a broker rejects such a file; "
            "create another one first, or stop the broker"
        )


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise CommandFailed(f"{path}: cannot be read: {error.strerror}", ExitCode.NOT_FOUND) from error
    except UnicodeDecodeError as error:
        raise CommandFailed(f"{path}: not a text file", ExitCode.USAGE) from error


def _parsed(path: Path, text: str) -> tuple[Credential, ...]:
    with needed_for("tokens", "broker"):
        from forebay.broker.core.access.credentials import CredentialsInvalid, parse
    try:
        return parse(text).every
    except CredentialsInvalid as error:
        raise CommandFailed(f"{path}: {error}", ExitCode.USAGE) from error


def _fields(one: Credential) -> dict[str, str]:
    from forebay.broker.core.access.credentials import limits_text, rights_text

    return {
        "name": one.principal.name,
        "kind": "token" if one.digest else "certificate",
        "credential": one.digest.hex()[:HASH_SHOWN] if one.digest else one.identity,
        "rights": " ".join(rights_text(one.principal)),
        "limits": " ".join(limits_text(one.principal)),
    }


def _limits(one: Credential) -> str:
    """Return the rate limits for a table."""
    from forebay.broker.core.access.credentials import limits_text

    pairs = (word.partition("=") for word in limits_text(one.principal))
    return " ".join(f"{name}={with_unit(name, int(rate))}" for name, _, rate in pairs)


def _append(path: Path, line: str) -> None:
    """Append a line in one write; a new file is accessible by its owner only."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b") as file:
        ended = not (size := file.seek(0, os.SEEK_END)) or _last(file.fileno(), size) == b"\n"
        file.write(f"{'' if ended else chr(10)}{line}\n".encode())


def _last(descriptor: int, size: int) -> bytes:
    return os.pread(descriptor, 1, size - 1)


def _rewrite(path: Path, text: str) -> None:
    """Replace the file atomically by one with ``text``, keeping owner and mode."""
    status = path.stat()
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fchmod(file.fileno(), status.st_mode & 0o777)
            if os.geteuid() == 0:
                os.fchown(file.fileno(), status.st_uid, status.st_gid)
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
