"""Warnings about single files: expiring certificates, and secrets that other accounts can access."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from pathlib import Path
from typing import Final

from forebay.credentials.validity import validities

NEAR: Final = timedelta(days=30)
"""Time before the expiry at which a warning starts; at most the last third of the validity."""

_BYTES_MAX: Final = 1 << 20
_OTHERS_READ: Final = stat.S_IRGRP | stat.S_IROTH
_EVERYBODY_WRITES: Final = stat.S_IWOTH
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class Kind(Enum):
    """Content of a file."""

    CERTIFICATES = auto()
    """Certificates, own ones or of authorities."""

    SECRET = auto()
    """A private key or a token."""

    TRUST = auto()
    """Names of accepted callers, without secrets."""


@dataclass(frozen=True, slots=True)
class Account:
    """User and groups of a process."""

    uid: int
    groups: frozenset[int]

    @classmethod
    def of_process(cls) -> Account | None:
        """Return that of this process; None where the system has no such numbers."""
        if not hasattr(os, "geteuid"):
            return None
        return cls(os.geteuid(), frozenset({os.getegid(), *os.getgroups()}))

    def reads_by_group(self, status: os.stat_result) -> bool:
        """Return whether a file of root is given to a group of the process, as Kubernetes gives a Secret.

        The process cannot change such a file, and could not read it without the right of its group.
        """
        return self.uid != 0 == status.st_uid and status.st_gid in self.groups


@dataclass(frozen=True, slots=True)
class CredentialFile:
    """File named by a setting."""

    setting: str
    path: str
    kind: Kind


def warnings_of(files: Iterable[CredentialFile], now: datetime, *, account: Account | None = None) -> tuple[str, ...]:
    """Return a sentence per problem. Unreadable files are reported by their users.

    ``account`` is that of the process by default.
    """
    account = account or Account.of_process()
    return tuple(sentence for file in files if file.path for sentence in _of(file, now, account))


def _of(file: CredentialFile, now: datetime, account: Account | None) -> Iterator[str]:
    path = Path(file.path)
    try:
        status = path.stat()
        mode = stat.S_IMODE(status.st_mode)
        folder = stat.S_IMODE(path.resolve().parent.stat().st_mode)
    except OSError:
        return
    place = f"{file.setting} = {file.path}"
    if mode & _EVERYBODY_WRITES or (file.kind is Kind.SECRET and mode & _OTHERS_WRITE):
        yield f"{place}: other accounts may change it (mode {mode:04o}); run chmod go-w on it"
    if folder & _EVERYBODY_WRITES and not folder & stat.S_ISVTX:
        yield f"{place}: every account may replace it, since its directory has mode {folder:04o}; run chmod o-w on that"
    others = stat.S_IROTH if account is not None and account.reads_by_group(status) else _OTHERS_READ
    if file.kind is Kind.SECRET and mode & others:
        yield f"{place}: other accounts may read it (mode {mode:04o}); run chmod 600 on it"
    if file.kind is Kind.CERTIFICATES:
        yield from _about_validity(place, path, now)


def _about_validity(place: str, path: Path, now: datetime) -> Iterator[str]:
    try:
        with path.open(encoding="latin-1") as opened:
            found = list(validities(opened.read(_BYTES_MAX)))
    except (OSError, ValueError):
        return
    for number, validity in enumerate(found, start=1):
        which = "the certificate" if len(found) == 1 else f"certificate {number} of {len(found)}"
        day = f"{validity.ends:%Y-%m-%d %H:%M} UTC"
        if now >= validity.ends:
            yield f"{place}: {which} has expired on {day}; replace it"
        elif now < validity.begins:
            yield f"{place}: {which} is not valid before {validity.begins:%Y-%m-%d %H:%M} UTC"
        elif validity.ends - now <= min(NEAR, (validity.ends - validity.begins) / 3):
            yield f"{place}: {which} expires on {day}; replace it"
