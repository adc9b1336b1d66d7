"""A confirmation fits one request of one principal, for ten minutes."""

from __future__ import annotations

import pytest

from forebay.broker.console.actions.confirmation import VALID_S, Confirmations


class _Clock:
    now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> _Clock:
    return _Clock()


@pytest.fixture
def confirmations(clock: _Clock) -> Confirmations:
    return Confirmations(clock)


def test_a_confirmation_returns_the_request_that_was_previewed(confirmations: Confirmations) -> None:
    sealed = confirmations.sealed("ann", "pause orders", b"request")

    assert confirmations.opened("ann", "pause orders", sealed) == b"request"


def test_it_fits_no_other_principal_and_no_other_action(confirmations: Confirmations) -> None:
    sealed = confirmations.sealed("ann", "pause orders", b"request")

    assert confirmations.opened("bob", "pause orders", sealed) is None
    assert confirmations.opened("ann", "pause alerts", sealed) is None


def test_it_ends_after_ten_minutes(confirmations: Confirmations, clock: _Clock) -> None:
    sealed = confirmations.sealed("ann", "pause orders", b"request")
    clock.now += VALID_S
    assert confirmations.opened("ann", "pause orders", sealed) == b"request"

    clock.now += 1

    assert confirmations.opened("ann", "pause orders", sealed) is None


def test_one_of_another_process_is_refused(confirmations: Confirmations, clock: _Clock) -> None:
    assert confirmations.opened("ann", "pause", Confirmations(clock).sealed("ann", "pause", b"")) is None


@pytest.mark.parametrize("forged", ["", "x", "é", "AAAA", "A" * 100_000, "=" * 9])
def test_a_confirmation_that_was_never_issued_is_refused(confirmations: Confirmations, forged: str) -> None:
    assert confirmations.opened("ann", "pause", forged) is None


def test_a_changed_byte_is_noticed(confirmations: Confirmations) -> None:
    sealed = confirmations.sealed("ann", "pause", b"request")

    for at in range(0, len(sealed), 7):
        changed = sealed[:at] + ("A" if sealed[at] != "A" else "B") + sealed[at + 1 :]
        assert confirmations.opened("ann", "pause", changed) is None
