"""Connections whose certificate files are replaced while they are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import httpcore2
import pytest

from forebay.deliver import InvalidOption
from forebay.deliver.targets.http_pool import RETRY_S, RenewablePool


class Pool(httpcore2.ConnectionPool):
    """Pool that keeps whether it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


class Maker:
    """Makes pools of what is in a file; the word "bad" is no certificate."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.now = 0.0
        self.made: list[Pool] = []
        self.failures = 0

    def __call__(self) -> Pool:
        if not self.file.exists() or self.file.read_text() == "bad":
            self.failures += 1
            raise InvalidOption("http", "cert_file", "no certificate")
        self.made.append(Pool())
        return self.made[-1]

    def write(self, text: str) -> None:
        """Replace the file, as one that renews certificates does."""
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.file)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    found = Maker(tmp_path / "cert.pem")
    found.write("one")
    return found


def pool_of(maker: Maker) -> RenewablePool:
    return RenewablePool(maker, [str(maker.file)], place="https://h/", clock=lambda: maker.now)


def used(pool: RenewablePool) -> httpcore2.ConnectionPool:
    with pool.used() as found:
        return found


def test_files_that_do_not_change_leave_the_pool(maker: Maker) -> None:
    pool = pool_of(maker)

    assert used(pool) is used(pool) is maker.made[0]
    pool.close()

    assert [one.closed for one in maker.made] == [1]


def test_a_changed_file_is_taken_with_the_next_request_and_the_old_connections_end_with_theirs(maker: Maker) -> None:
    pool = pool_of(maker)

    with pool.used() as first:
        maker.write("two")
        with pool.used() as second:
            assert (first, second) == (maker.made[0], maker.made[1])
            assert maker.made[0].closed == 0
        assert maker.made[0].closed == 0
    assert [one.closed for one in maker.made] == [1, 0]

    maker.write("three")
    assert used(pool) is maker.made[2]
    assert [one.closed for one in maker.made] == [1, 1, 0]
    pool.close()


@pytest.mark.parametrize("harm", [lambda maker: maker.write("bad"), lambda maker: os.unlink(maker.file)])
def test_a_file_that_cannot_be_used_leaves_the_pool_until_it_is_repaired(
    maker: Maker, harm: Callable[[Maker], object], caplog: pytest.LogCaptureFixture
) -> None:
    pool = pool_of(maker)
    harm(maker)

    assert used(pool) is used(pool) is maker.made[0]
    assert maker.failures == 1
    maker.now = RETRY_S
    assert used(pool) is maker.made[0]
    assert maker.failures == 2
    assert caplog.text.count("the old ones are used") == 1

    maker.write("two")
    assert used(pool) is maker.made[1]
    pool.close()


def test_without_files_there_is_one_pool(maker: Maker) -> None:
    pool = RenewablePool(maker, [], place="http://h/", clock=lambda: maker.now)
    maker.write("two")

    assert used(pool) is maker.made[0]
    pool.close()
