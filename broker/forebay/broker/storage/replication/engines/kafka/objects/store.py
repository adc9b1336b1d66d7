"""Store of objects in a topic: changes are appended, and what is read is as of the end of the topic.

A change is confirmed by all replicas that are in sync. Whether it has an effect is known once everything below it in
the partition is: own messages are known without a read, and what others wrote between them is read.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

from forebay.broker.storage.replication.engine import EngineAway, EngineUnsuitable
from forebay.broker.storage.replication.engines.kafka.objects.cache import MessageCache
from forebay.broker.storage.replication.engines.kafka.objects.index import (
    INDEX,
    INDEX_BYTES,
    IndexDamaged,
    decode_index,
    encode_index,
    find_indexes,
    index_is_due,
)
from forebay.broker.storage.replication.engines.kafka.objects.log import Log, LogMessage, OffsetsGone
from forebay.broker.storage.replication.engines.kafka.objects.message import (
    Header,
    MessageKind,
    MessageUnknown,
    decode,
    encode,
)
from forebay.broker.storage.replication.engines.kafka.objects.table import SEPARATOR, Change, Objects, StoredObject
from forebay.broker.storage.replication.pieces import Piece
from forebay.broker.storage.replication.record import HEADER_BYTES

_log: Final = logging.getLogger(__name__)
TIMEOUT_S: Final = 15.0
"""Time limit of one request, and of a read without progress; the caller repeats it."""
LOST_END: Final = "it lost its end or was recreated; restart the broker when it is restored"
FRESH_S: Final = 1.0
"""Age of what is known from which it is read again, where it need not be as of now."""
ORDER_S: Final = 0.005
"""Wait for own messages below an offset, before they are read as those of others are."""
SMALL_BYTES: Final = 64 << 10
"""Largest own message that is kept as those of others are."""
IN_FLIGHT_MAX: Final = 8
"""Unconfirmed messages of one change."""
SURE_S: Final = 5.0
"""Time without a read of the topic, from which it may have lost its end unnoticed."""
READS_MAX: Final = 5
"""Times that a read begins again because what it reads was carried away."""

_T = TypeVar("_T")


class _Pending:
    """A change of this process."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.sent = 0
        self.confirmed = 0
        self.end = 0
        """Offset after its last message that is confirmed."""
        self.known_end = 0
        """End of the topic as it was known when its first message was sent; no message of it can be below."""
        self.error: str | None = None
        self.has_effect: bool | None = None
        """None before everything below its last message is known."""


class TopicStore:
    """Objects by name. Calls block, from any thread; all raise ``EngineAway`` and ``EngineUnsuitable``."""

    def __init__(
        self,
        log: Log,
        name: str,
        part_bytes: int,
        *,
        index_bytes: int = INDEX_BYTES,
        timeout_s: float = TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``name`` is that of the topic in errors, ``part_bytes`` the largest value of a message.

        After ``index_bytes`` of messages another index is due. ``clock`` tells the age of what is known, in seconds.
        """
        self._log: Final = log
        self._name: Final = name
        self._part_bytes: Final = part_bytes
        self._index_bytes: Final = index_bytes
        self._timeout_s: Final = timeout_s
        self._clock: Final = clock
        self._writer: Final = secrets.randbits(64)
        self._number = 0
        self._pending: dict[int, _Pending] = {}
        self._in_flight = 0
        self._own: dict[int, tuple[Header, int, bytes]] = {}
        """Own confirmed messages by offset that follow one that is not known yet."""
        self._objects: Objects | None = None
        self._refreshed_at = clock() - FRESH_S
        self._errors = 0
        """Errors of the log, after which the last known message is looked for where it was."""
        self._errors_checked = 0
        self._checked_at = clock()
        """Time at which the end of the topic was what it should be."""
        self.cache: Final = MessageCache()
        """Values of messages; under the lock."""
        self._broken = ""
        """Error of every later call, empty while there is none: the topic is not what it was."""
        self._changed: Final = threading.Condition()  # protects all of the above, held for look-ups
        self._reads_end: Final = threading.Lock()  # held while the end of the log is read

    # -- changes

    def create(self, name: str, pieces: Sequence[Piece]) -> bool:
        """Add an object; returns False, without effect, if the name has one."""
        return self._change(MessageKind.CREATE, name, pieces)

    def put(self, name: str, pieces: Iterable[Piece]) -> None:
        """Add or replace an object, as a whole."""
        self._change(MessageKind.PUT, name, pieces)

    def delete(self, names: Sequence[str]) -> None:
        """Remove objects; those that do not exist are left out."""
        line: list[bytes] = []
        size = 0
        for name in map(str.encode, names):
            if line and size + len(name) > self._part_bytes:
                self._change(MessageKind.DELETE, "", [SEPARATOR.join(line)])
                line, size = [], 0
            line.append(name)
            size += len(name) + len(SEPARATOR)
        if line:
            self._change(MessageKind.DELETE, "", [SEPARATOR.join(line)])

    def _change(self, kind: MessageKind, name: str, pieces: Iterable[Piece], *, base: int = 0, origin: int = 0) -> bool:
        """Append a change; returns whether it has an effect."""
        if self._objects is None:
            self.refresh()
        with self._changed:
            if self._broken:
                raise self._log.away(self._broken)
            pending = _Pending(self._number)
            self._number += 1
            self._pending[pending.number] = pending
        # A deletion is one message: a reader after a cut between its parts would not see it.
        values = map(bytes, pieces) if kind is MessageKind.DELETE else _cut(pieces, self._part_bytes)
        try:
            part, value = 0, None
            for following in values:
                if value is not None:
                    self._append(
                        pending, Header(kind, self._writer, pending.number, name, part, 0, base, origin), value
                    )
                    part += 1
                value = following
            header = Header(kind, self._writer, pending.number, name, part, part + 1, base, origin)
            self._append(pending, header, value or b"")
            return self._effect(pending)
        finally:
            with self._changed:
                del self._pending[pending.number]

    def _append(self, pending: _Pending, header: Header, value: bytes) -> None:
        is_small = len(value) <= SMALL_BYTES or header.kind is MessageKind.DELETE
        content = value if is_small else value[:HEADER_BYTES]
        with self._changed:
            if not self._changed.wait_for(
                lambda: pending.error is not None or pending.sent - pending.confirmed < IN_FLIGHT_MAX, self._timeout_s
            ):
                raise self._log.away("no confirmation")
            if pending.error is not None:
                raise self._log.away(pending.error)
            assert self._objects is not None
            pending.sent += 1
            if pending.sent == 1:
                pending.known_end = self._objects.end
            self._in_flight += 1
        try:
            self._log.append(encode(header), value, partial(self._delivered, pending, header, len(value), content))
        except BaseException:
            with self._changed:
                self._in_flight -= 1
            raise

    def _delivered(
        self, pending: _Pending, header: Header, size: int, content: bytes, error: str | None, offset: int
    ) -> None:
        """Note a confirmation, in the thread of the log."""
        with self._changed:
            self._in_flight -= 1
            if error is not None:
                pending.error = error
                self._errors += 1
            elif self._broken:
                pending.error = self._broken
            elif offset < 0:
                pending.error = "its offset is unknown"
            elif offset < pending.known_end:
                self._broken = f"the topic ended at {pending.known_end}, and has a new message at {offset}: {LOST_END}"
                pending.error = self._broken
            else:
                pending.confirmed += 1
                pending.end = max(pending.end, offset + 1)
                if self._objects is None or offset >= self._objects.end:
                    self._own[offset] = (header, size, content)
                self._take_own()
            self._changed.notify_all()

    def _take_own(self) -> None:
        """Take own messages that follow what is known."""
        objects = self._objects
        if objects is None or not self._is_sure():
            return  # what is below them is read first
        while (own := self._own.pop(objects.end, None)) is not None:
            header, size, content = own
            if len(content) == size:
                self.cache.keep(objects.end, content)
            objects.last = objects.end, encode(header)
            self._checked_at = self._clock()  # it has followed what was known
            self._note(objects.take(header, size, content))

    def _is_sure(self) -> bool:
        """Return whether nothing can have taken known messages from the topic."""
        with self._changed:
            return self._errors == self._errors_checked and self._clock() - self._checked_at < SURE_S

    def _note(self, change: Change | None) -> None:
        if change is not None and change.writer == self._writer:
            pending = self._pending.get(change.number)
            if pending is not None and pending.has_effect is None:  # the first one counts: the log may have it twice
                pending.has_effect = change.has_effect

    def _effect(self, pending: _Pending) -> bool:
        """Wait until a change is confirmed, and everything below it is known."""
        with self._changed:
            if not self._changed.wait_for(
                lambda: pending.error is not None or pending.confirmed == pending.sent, self._timeout_s
            ):
                raise self._log.away("no confirmation")
            if pending.error is not None:
                raise self._log.away(pending.error)
            self._changed.wait_for(lambda: pending.has_effect is not None or not self._in_flight, ORDER_S)
            if pending.has_effect is not None:
                return pending.has_effect
        self._read_end(pending.end)
        return self._verdict(pending)

    def _verdict(self, pending: _Pending) -> bool:
        """Return whether a change has an effect, once everything below it is known."""
        with self._changed:
            if pending.error is not None:
                raise self._log.away(pending.error)
            if pending.has_effect is None:
                raise self._log.away("another broker has ended what took too long, or the topic was cut")
            return pending.has_effect

    # -- reads

    def find(self, name: str) -> StoredObject | None:
        """Return an object as of now, None for a name without one."""
        return self.look(lambda objects: objects.get(name))

    def find_known(self, name: str) -> StoredObject | None:
        """Return an object as it was within the last ``FRESH_S``, or None if there is none now."""
        if self._refreshed_at + FRESH_S > self._clock():
            found = self._known(lambda objects: objects.get(name))
            if found is not None:
                return found
        return self.find(name)

    def below(self, prefix: str) -> list[StoredObject]:
        """Return the objects whose names begin with ``prefix`` as of now, in any order."""
        return self.look(lambda objects: list(objects.below(prefix)))

    def look(self, look: Callable[[Objects], _T]) -> _T:
        """Return what is found among the objects as of now. ``look`` is called under the lock."""
        self.refresh()
        return self._known(look)

    def parts(self, found: StoredObject) -> Iterator[bytes]:
        """Yield the bytes of an object in parts.

        Raises ``FileNotFoundError`` if it was removed or replaced meanwhile.
        """
        done, tries = 0, 0
        while True:
            at = 0
            try:
                for offset in found.offsets:
                    value = self._message(offset)
                    if at + len(value) > done:
                        yield value[done - at :]
                        done = at + len(value)
                    at += len(value)
            except OffsetsGone:  # it was carried, perhaps in parts of another size
                again = self.find(found.name)
                tries += 1
                if again is None or again.origin != found.origin:
                    raise FileNotFoundError(found.name) from None
                if tries > READS_MAX:
                    raise self._log.away(f"{found.name} is carried again and again") from None
                found = again
            else:
                return

    def content(self, found: StoredObject | None) -> bytes | None:
        """Return the bytes of an object, or of its replacement, None if it was removed meanwhile."""
        while found is not None:
            with suppress(FileNotFoundError):
                return b"".join(self.parts(found))
            found = self.find(found.name)
        return None

    def _known(self, look: Callable[[Objects], _T]) -> _T:
        with self._changed:
            assert self._objects is not None
            return look(self._objects)

    def _message(self, offset: int) -> bytes:
        """Return the value of a message. Raises ``OffsetsGone``."""
        while (cached := self._cached(offset)) is None:
            found = self._log.read(offset, lambda: self._cached(offset) is not None)
            if found is None:
                continue  # another thread has read it with an earlier one
            with self._changed:
                for message in found:
                    self.cache.keep(message.offset, message.value)
            value = next((message.value for message in found if message.offset == offset), None)
            if value is None:
                raise self._log.away(f"no message at {offset}")
            return value
        return cached

    def _cached(self, offset: int) -> bytes | None:
        with self._changed:
            return self.cache.get(offset)

    def refresh(self) -> None:
        """Read the log to its end as of now."""
        self._read_end(None)

    def _read_end(self, end: int | None) -> None:
        """Read the log up to an offset, None for its end as of now.

        A new table is read to the end in any case: what it finds before does not count.
        """
        with self._reads_end:
            if end is not None and self._knows(end):
                return  # another thread has read it meanwhile
            try:
                for _ in range(READS_MAX):
                    if self._read_on(end):
                        return
            except EngineAway:
                with self._changed:
                    self._errors += 1
                raise
        raise self._log.away("the topic is cut again and again")

    def _knows(self, end: int) -> bool:
        """Return whether everything below an offset is known, without an error since then."""
        with self._changed:
            is_checked = not self._broken and self._errors == self._errors_checked
            return is_checked and self._objects is not None and self._objects.end >= end

    def _read_on(self, end: int | None) -> bool:
        """Read the log as ``_read_end`` does; returns False if it was cut meanwhile."""
        began = self._clock()
        with self._changed:  # before the end is asked for: own messages that are confirmed meanwhile raise it
            if self._broken:
                raise self._log.away(self._broken)
            objects, errors = self._objects, self._errors
            known_end = objects.end if objects is not None else 0
            known = objects.last if objects is not None else None
        begin, last = self._log.ends()
        if last < known_end:
            raise self._log.away(f"the topic ends at {last}, and ended at {known_end} before: {LOST_END}")
        if known is not None and self._is_sure():
            known = None
        try:
            if objects is None or begin > (known_end if known is None else known[0]):
                objects = self._read_all(begin, last)  # a base was cut: what was carried is after it
            else:
                if known is not None:
                    self._check(objects, *known, errors)
                self._read_to(objects, last if end is None else end)
        except OffsetsGone:
            return False
        with self._changed:
            self._errors_checked, self._checked_at = errors, began
            objects.cut(begin)
            self._take_own()
            if end is None:
                self._refreshed_at = began
        return True

    def _check(self, objects: Objects, at: int, key: bytes | None, errors: int) -> None:
        """Look whether a known message is where it was, and take those after it. Raises ``OffsetsGone``.

        ``errors`` are those before that question.
        """
        found = self._read_tail(at)
        if found[0].offset != at:
            raise self._log.away(f"no message at {at}")
        if found[0].key != key:
            with self._changed:
                self._broken = f"the message at {at} is another one than it was: {LOST_END}"
            raise self._log.away(self._broken)
        with self._changed:
            for message in found:
                self._take(objects, message, notes=True)
            self._errors_checked = errors
            self._take_own()

    def _read_tail(self, at: int) -> list[LogMessage]:
        found = self._log.tail.read(at)
        if not found:
            raise self._log.away(f"no message at {at} within {self._timeout_s:g} s")
        return found

    def _read_all(self, begin: int, end: int) -> Objects:
        """Replace the table by one that begins at the beginning of the log, and return it.

        Raises ``OffsetsGone``.

        Own changes that have been sent meanwhile, and are not known to have an effect, end with an error: what they met
        may have been cut.
        """
        with self._changed:
            self.cache.clear()
        objects = self._indexed(begin, end) or Objects(begin)
        self._read_to(objects, end, notes=False)
        with self._changed:
            for pending in self._pending.values():
                if pending.sent and pending.has_effect is None and self._objects is not None:
                    pending.error = "its outcome is unknown, since the topic was cut"
            self._objects = objects
            self._changed.notify_all()
        return objects

    def _indexed(self, begin: int, end: int) -> Objects | None:
        """Return the table of the newest index, None without a usable one. Raises ``OffsetsGone``."""
        for content in find_indexes(self._read_tail, begin, end):
            try:
                state = decode_index(content)
            except IndexDamaged as damage:
                _log.error("index of a topic is damaged and not used journal=%s cause=%s", self._name, damage)
                continue
            at, key = state.last
            if begin <= at < end:  # else what it covers was cut, or the topic has lost its end
                there = self._read_tail(at)[0]
                if (there.offset, there.key) == (at, key):
                    return Objects.of(state)
        return None

    def _read_to(self, objects: Objects, end: int, *, notes: bool = True) -> None:
        """Take the messages up to an offset. Raises ``OffsetsGone``."""
        while objects.end < end:
            found = self._read_tail(objects.end)
            with self._changed:
                for message in found:
                    self._take(objects, message, notes=notes)
        with self._changed:
            for offset in [offset for offset in self._own if offset < objects.end]:
                del self._own[offset]

    def _take(self, objects: Objects, message: LogMessage, *, notes: bool) -> None:
        offset, key, value = message
        if offset < objects.end:
            return  # an own one, known meanwhile
        while offset > objects.end:
            objects.take(None, 0, b"")  # the end of a transaction of another program has no message
        try:
            header = decode(key)
        except MessageUnknown as error:
            raise EngineUnsuitable(
                f"journal {self._name}: the message at {offset} cannot be read, a later version may have written it: "
                f"{error}"
            ) from error
        content = value if header is not None and header.kind is MessageKind.DELETE else value[:HEADER_BYTES]
        objects.last = offset, key
        change = objects.take(header, len(value), content)
        if notes:
            self._note(change)
        self.cache.keep(offset, value)

    # -- index

    def index(self) -> None:
        """Write an index if one is due. One that cannot be written is logged, and due again."""
        if self.look(partial(index_is_due, index_bytes=self._index_bytes)):
            self.write_index()

    def write_index(self) -> None:
        """Write an index as of now, from which later readers take the messages; see ``index``."""
        state = self.look(lambda objects: objects.state())
        if state is None or state.last[0] < state.begin:  # nothing is left of what it would cover
            return
        try:
            self.put(INDEX, [encode_index(state)])
        except EngineAway as away:
            _log.warning("index of a topic was not written journal=%s cause=%s", self._name, away.cause)

    # -- space

    def incomplete(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Return the changes that are not complete as of now, by writer and number.

        Of each its last offset, and the bytes of the messages after that. Those of this process are left out.
        """
        found = self.look(
            lambda objects: {key: (last, objects.bytes_after(last)) for key, last in objects.last_parts().items()}
        )
        with self._changed:
            own = {(self._writer, number) for number in self._pending}
        return {key: last for key, last in found.items() if key not in own}

    def abandon(self, writer: int, number: int) -> None:
        """End a change that is not complete."""
        self._change(MessageKind.ABANDON, "", (), base=writer, origin=number)

    def carry(self, found: StoredObject, base: int, pieces: Iterable[Piece]) -> None:
        """Repeat an object, so that everything before a base can be deleted."""
        self._change(MessageKind.CARRY, found.name, pieces, base=base, origin=found.origin)

    def cut(self, base: int) -> None:
        """Delete everything before a base. All objects before it must have been carried."""
        self._log.delete_before(base)
        self._known(lambda objects: objects.cut(base))


def _cut(pieces: Iterable[Piece], size: int) -> Iterator[bytes]:
    """Cut pieces into values of at most ``size`` bytes."""
    parts: list[memoryview] = []
    room = size
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            parts.append(rest[:room])
            room -= len(parts[-1])
            rest = rest[len(parts[-1]) :]
            if not room:
                yield b"".join(parts)
                parts, room = [], size
    if parts:
        yield b"".join(parts)
