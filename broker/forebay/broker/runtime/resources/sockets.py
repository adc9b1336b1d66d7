"""Accepted sockets of a listening port of this process, found among its file descriptors.

gRPC's listener reports no connections and closes none on request. Its sockets are descriptors of this process all the
same: the system lists them, and gRPC closes a socket that is shut down here as if the peer had left. Where the system
does not list descriptors, nothing is found.

A descriptor may be closed, and its number used again, at any time by gRPC's threads. So a socket is identified by its
inode, which is checked before and after.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
import sys
import termios
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from forebay.broker.core.resources.unread import Traffic

DESCRIPTORS: Final = "/dev/fd"
_MAPPED: Final = "::ffff:"
_TCP_INFO: Final[int | None] = socket.TCP_INFO if sys.platform == "linux" else None
_BYTES_AT: Final = 120
"""Offset of ``tcpi_bytes_acked`` and ``tcpi_bytes_received`` in ``tcp_info``, which grows at its end."""
_BYTES: Final = struct.Struct("=QQ")
_NOTHING: Final = Traffic()


@dataclass(frozen=True, slots=True)
class Accepted:
    """One accepted connection."""

    inode: int
    descriptor: int
    host: str
    port: int
    """The peer's address."""


class Sockets:
    """The accepted connections of one port. Used by one thread at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._known: dict[int, tuple[int, Accepted | None]] = {}
        """Inode, and connection if it is one of the port, by descriptor number."""

    def scan(self, again: Collection[Accepted] | None = None) -> list[Accepted]:
        """Return the connections that are open.

        Checks descriptors that are new and those of ``again``, the others are taken to be as they were; all are
        checked if it is None.
        """
        known: dict[int, tuple[int, Accepted | None]] = {}
        checked = None if again is None else {accepted.descriptor for accepted in again}
        for descriptor in self._descriptors():
            before = self._known.get(descriptor)
            if before is not None and checked is not None and descriptor not in checked:
                known[descriptor] = before
                continue
            inode = _inode(descriptor)
            if inode is None:
                continue
            known[descriptor] = (
                before if before is not None and before[0] == inode else (inode, self._asked(descriptor, inode))
            )
        self._known = known
        return [found for _, found in known.values() if found is not None]

    def traffic(self, accepted: Accepted) -> Traffic:
        """Return the bytes of a connection so far; none if unknown, or if it is gone."""
        if _TCP_INFO is None:
            return _NOTHING
        try:
            asked = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, accepted.descriptor)
        except OSError:
            return _NOTHING
        try:
            found = asked.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _BYTES_AT + _BYTES.size)
            queued = int.from_bytes(fcntl.ioctl(accepted.descriptor, termios.FIONREAD, bytes(4)), sys.byteorder)
        except OSError:
            return _NOTHING
        finally:
            asked.detach()
        if len(found) < _BYTES_AT + _BYTES.size or _inode(accepted.descriptor) != accepted.inode:
            return _NOTHING
        sent, received = _BYTES.unpack_from(found, _BYTES_AT)
        return Traffic(received=max(0, received - queued), sent=sent)

    def shut(self, accepted: Accepted) -> bool:
        """Shut a connection down; False if it is gone, or if no descriptor is left for it."""
        try:
            own = os.dup(accepted.descriptor)
        except OSError:
            return False
        if _inode(own) != accepted.inode:
            os.close(own)
            return False
        with socket.socket(fileno=own) as held:
            try:
                held.shutdown(socket.SHUT_RDWR)
            except OSError:
                return False
        return True

    def _descriptors(self) -> list[int]:
        """Return the numbers of the open descriptors; those of the last scan where none is left to ask with."""
        try:
            return [int(name) for name in os.listdir(DESCRIPTORS)]
        except OSError:
            return list(self._known)

    def _asked(self, descriptor: int, inode: int) -> Accepted | None:
        """Ask the system for the addresses of a socket."""
        try:
            asked = socket.socket(fileno=descriptor)
        except OSError:
            return None
        try:
            own, peer = asked.getsockname(), asked.getpeername()
        except OSError:  # it listens, or is gone
            return None
        finally:
            asked.detach()  # it stays gRPC's
        if _inode(descriptor) != inode or not isinstance(own, tuple) or own[1] != self._port:
            return None
        return Accepted(inode, descriptor, plain_host(peer[0]), peer[1])


def plain_host(host: str) -> str:
    """Return an address without its scope, and an IPv4 address that is mapped into IPv6 as IPv4."""
    host = host.partition("%")[0]
    return host.removeprefix(_MAPPED) if "." in host else host


def _inode(descriptor: int) -> int | None:
    """Return the inode of a socket, None for anything else."""
    try:
        found = os.fstat(descriptor)
    except OSError:
        return None
    return found.st_ino if stat.S_ISSOCK(found.st_mode) else None
