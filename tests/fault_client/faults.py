"""The kinds of fault: the effect of each on a broker or its clients, and the time allowed to recover."""

from __future__ import annotations

import errno
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.fault_client.control import KINDS, Control
from tests.fault_client.processes import Keys, Stage
from tests.fault_client.worker import KEEPALIVE_S, KEEPALIVE_TIMEOUT_S

RECONNECT_S: Final = 12.0
"""Documented: a pause of 2 s, and 10 s to connect."""
AGAIN_S: Final = RECONNECT_S + 15.0
"""And 15 s until what a dead consumer had goes to others."""
HALF_OPEN_S: Final = KEEPALIVE_S + KEEPALIVE_TIMEOUT_S
READS_S: Final = 30.0
"""The longest pause between two reads of a disk that does not answer."""
HOUR_S: Final = 3_600
ERRORS: Final = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


@dataclass(frozen=True, slots=True)
class Draw:
    """Parameters of a round."""

    chance: random.Random
    hold_s: float
    """Duration for which a process is stopped or held."""

    turn: int
    """Number of times that the kind was used: each time, a later call fails."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault."""

    name: str
    act: Callable[[Stage, Draw], str]
    """Does it, and takes it back; returns what exactly was done."""

    bound_s: float = AGAIN_S
    weight: int = 2
    needs: str = ""
    """``keys``, ``control`` or ``clients_control``, where a stage has to have one."""

    calls: bool = False
    """It lets calls fail, and comes to nothing when none is made."""

    def fits(self, stage: Stage) -> bool:
        """Return True if a stage has everything that it needs."""
        return not self.needs or getattr(stage, self.needs) is not None


def _reset(stage: Stage, draw: Draw) -> str:
    times = draw.chance.choice((1, 1, 2, 5))
    for _ in range(times):
        stage.wire.reset()
        time.sleep(draw.chance.uniform(0.0, 0.3))
    return f"{times} times"


def _swallowed(stage: Stage, draw: Draw) -> str:
    stage.wire.swallow()
    return ""


def _stalled(stage: Stage, draw: Draw) -> str:
    seconds = draw.chance.uniform(0.5, draw.hold_s)
    stage.wire.hold()
    time.sleep(seconds)
    stage.wire.release()
    return f"{seconds:.1f} s"


def _refused(stage: Stage, draw: Draw) -> str:
    seconds = draw.chance.uniform(0.5, draw.hold_s)
    stage.wire.refuse()
    time.sleep(seconds)
    stage.wire.release()
    return f"{seconds:.1f} s"


def _slow(stage: Stage, draw: Draw) -> str:
    seconds = draw.chance.uniform(0.02, 0.3)
    stage.wire.slow(seconds)
    time.sleep(3.0)
    stage.wire.slow(0.0)
    return f"each chunk {seconds:.2f} s"


def _killed(stage: Stage, draw: Draw) -> str:
    stage.broker.kill()
    seconds = draw.chance.choice((0.0, 0.0, draw.chance.uniform(0.0, draw.hold_s)))
    time.sleep(seconds)
    stage.start()
    return f"away {seconds:.1f} s"


def _stopped(stage: Stage, draw: Draw) -> str:
    code = stage.broker.terminate(120.0)
    stage.start()
    if code != 0:
        stage.ledger.take(["ended", "broker", f"exit code {code}", "", "a stop that was not whole"])
    return f"exit code {code}"


def _held(who: str) -> Callable[[Stage, Draw], str]:
    def act(stage: Stage, draw: Draw) -> str:
        seconds = draw.chance.uniform(draw.hold_s / 2, draw.hold_s)
        stage.held(who, seconds)
        return f"{seconds:.1f} s"

    return act


def _keys(stage: Stage) -> Keys:
    assert stage.keys is not None
    return stage.keys


def _certificate(stage: Stage, draw: Draw) -> str:
    _keys(stage).new_certificate()
    time.sleep(1.5)  # the broker looks once a second
    stage.wire.reset()
    return "pair replaced"


def _authority(stage: Stage, draw: Draw) -> str:
    _keys(stage).new_authority()
    time.sleep(1.5)
    stage.wire.reset()
    return "authority and pair replaced"


def _token(stage: Stage, draw: Draw) -> str:
    keys = _keys(stage)
    keys.new_token()
    time.sleep(1.5)
    keys.hand_out_token()
    stage.wire.reset()  # a stream is judged by the token it was opened with
    time.sleep(3.0)
    return "replaced, the former one still valid"


def _revoked(stage: Stage, draw: Draw) -> str:
    done = _token(stage, draw)
    _keys(stage).revoke_former()
    time.sleep(2.5)
    return done.replace("still valid", "revoked")


def _control(stage: Stage) -> Control:
    assert stage.control is not None
    return stage.control


def _clock(hours: int) -> Callable[[Stage, Draw], str]:
    def act(stage: Stage, draw: Draw) -> str:
        _control(stage).shift(hours * HOUR_S)
        if draw.chance.random() < 0.5:
            time.sleep(2.0)
            stage.wire.reset()
            done = "and a reset"
        else:
            stage.broker.kill()
            stage.start()
            done = "and a kill"
        return f"{hours:+d} h {done}"

    return act


def _clients_clock(hours: int) -> Callable[[Stage, Draw], str]:
    def act(stage: Stage, draw: Draw) -> str:
        assert stage.clients_control is not None
        stage.clients_control.shift(hours * HOUR_S)
        time.sleep(1.0)
        stage.wire.reset()
        return f"{hours:+d} h and a reset"

    return act


def _fall_behind(stage: Stage) -> None:
    """Leave the subscriber stopped, with records before it that only the disk has."""
    stage.workers["subscribe"].signal(signal.SIGSTOP)
    time.sleep(2.0)
    stage.broker.kill()
    stage.start()


def _store(call: str, error: str) -> Callable[[Stage, Draw], str]:
    def act(stage: Stage, draw: Draw) -> str:
        control = _control(stage)
        lasting = draw.chance.random() < 0.3
        nth = 1 + draw.turn % 40
        if call == "read":
            _fall_behind(stage)
        control.fail(call, ERRORS[error], nth, 1_000_000 if lasting else 1)
        stage.workers["subscribe"].signal(signal.SIGCONT)
        until = time.monotonic() + 4.0
        while time.monotonic() < until and not stage.broker.has_ended():
            if not lasting and control.get("hits"):
                break
            time.sleep(0.05)
        seen, hits = control.get("seen"), control.lift()
        stage.look()
        return f"call {nth}{' and all after it' if lasting else ''}: {seen} seen, {hits} failed"

    return act


def _start_with(call: str, error: str) -> Callable[[Stage, Draw], str]:
    def act(stage: Stage, draw: Draw) -> str:
        control = _control(stage)
        nth = 1 + draw.turn * 3 % 60
        stage.broker.kill()
        control.fail(call, ERRORS[error], nth, 1)
        refused = stage.start_or_refused()
        hits = control.lift()
        return f"call {nth} of a start: {hits} failed, {'refused' if refused else 'started'}"

    return act


KINDS_OF_FAULT: Final = (
    Kind("stream reset", _reset, weight=4),
    Kind("half-open", _swallowed, bound_s=HALF_OPEN_S + RECONNECT_S),
    Kind("stalled wire", _stalled),
    Kind("refused connections", _refused),
    Kind("slow wire", _slow),
    Kind("broker killed", _killed, weight=4),
    Kind("broker stopped", _stopped),
    Kind("broker SIGSTOP", _held("broker")),
    Kind("publisher SIGSTOP", _held("publish")),
    Kind("subscriber SIGSTOP", _held("subscribe")),
    Kind("certificate replaced", _certificate, needs="keys"),
    Kind("authority replaced", _authority, needs="keys"),
    Kind("token replaced", _token, needs="keys"),
    Kind("token revoked", _revoked, needs="keys"),
    Kind("broker's clock +1 h", _clock(1), needs="control"),
    Kind("broker's clock -1 h", _clock(-1), needs="control"),
    Kind("broker's clock right", _clock(0), needs="control"),
    Kind("clients' clock +1 h", _clients_clock(1), weight=1, needs="clients_control"),
    Kind("clients' clock -1 h", _clients_clock(-1), weight=1, needs="clients_control"),
    Kind("clients' clock right", _clients_clock(0), weight=1, needs="clients_control"),
    *(
        Kind(
            f"{error} at {call}", _store(call, error), bound_s=AGAIN_S + READS_S, weight=1, needs="control", calls=True
        )
        for call in KINDS
        for error in ERRORS
        if (call, error) != ("read", "ENOSPC") and call not in {"rename", "size"}
    ),
    *(Kind(f"EIO at {call}, start", _start_with(call, "EIO"), weight=1, needs="control", calls=True) for call in KINDS),
)
