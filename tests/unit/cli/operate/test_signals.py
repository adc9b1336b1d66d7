"""A signal is handled while the main thread waits, whichever thread the system gives it to."""

from __future__ import annotations

import os
import signal
from queue import SimpleQueue
from threading import Event, Thread, current_thread, get_ident, main_thread

from forebay.cli.operate.signals import Signals

WAIT_S = 20.0


def kill_by_another_thread(number: signal.Signals, waits: Event) -> Thread:
    """Receive a signal on another thread while the main thread waits."""

    def receive() -> None:
        waits.wait(WAIT_S)
        signal.pthread_kill(get_ident(), number)

    thread = Thread(target=receive)
    thread.start()
    return thread


def test_a_signal_to_another_thread_is_handled_while_the_main_thread_waits_for_a_lock() -> None:
    handled: SimpleQueue[bool] = SimpleQueue()
    waits = Event()
    with Signals() as signals:
        signals.handle({signal.SIGUSR1: lambda: handled.put(current_thread() is main_thread())})
        thread = kill_by_another_thread(signal.SIGUSR1, waits)
        waits.set()
        assert handled.get(timeout=WAIT_S) is False
        thread.join()


def test_each_signal_has_its_handler_and_many_in_a_row_are_all_handled_by_kind() -> None:
    handled: SimpleQueue[str] = SimpleQueue()
    with Signals() as signals:
        signals.handle({signal.SIGUSR1: lambda: handled.put("first"), signal.SIGUSR2: lambda: handled.put("second")})
        for number, name in ((signal.SIGUSR1, "first"), (signal.SIGUSR2, "second")) * 100:
            os.kill(os.getpid(), number)
            assert handled.get(timeout=WAIT_S) == name


def test_the_former_handlers_are_restored() -> None:
    handled: SimpleQueue[int] = SimpleQueue()
    former = signal.signal(signal.SIGUSR1, lambda number, frame: handled.put(number))
    try:
        with Signals() as signals:
            signals.handle({signal.SIGUSR1: lambda: handled.put(0)})
            os.kill(os.getpid(), signal.SIGUSR1)
            assert handled.get(timeout=WAIT_S) == 0

        signal.raise_signal(signal.SIGUSR1)
        assert handled.get(timeout=WAIT_S) == signal.SIGUSR1
    finally:
        signal.signal(signal.SIGUSR1, former)
    fd = signal.set_wakeup_fd(-1)
    assert fd == -1
