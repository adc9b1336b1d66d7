"""Brokers of earlier versions: every version serves the directories and the backups that they left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from forebay.broker.storage.backup.catalog import find
from forebay.broker.storage.backup.restores.restore import OnDamage, restore
from forebay.broker.storage.backup.targets import open_target
from forebay.broker.storage.errors import StoreFormatUnsupported
from forebay.broker.storage.formats import FORMAT
from forebay.client import Record
from tests.support.storage.stored_broker import (
    SINKS,
    check_state,
    commit_staged,
    read_facts,
    read_on,
    serving,
    values_of,
)
from tests.support.storage.stored_directory import ARCHIVES, DATA, TARGET, unpack

ALL = sorted(ARCHIVES.glob("broker-*.tar.xz"))


def test_there_is_an_archive_of_a_broker_of_the_format_that_this_version_writes() -> None:
    assert f"broker-{FORMAT}.tar.xz" in [path.name for path in ALL]


@pytest.mark.parametrize("archive", ALL, ids=lambda path: path.name)
def test_a_broker_serves_the_directory_of_an_earlier_version_and_continues(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    facts = read_facts(tmp_path)

    with serving(tmp_path) as client:
        check_state(client, facts)
        client.publish("orders", [Record(b"order 10")])
        assert read_on(client) == [b"order %d" % number for number in range(facts.position, 11)]
        commit_staged(client, facts)
        assert values_of(client, "exact") == [f"epoch {epoch}" for _ in range(2) for epoch in range(3)]


@pytest.mark.parametrize("archive", ALL, ids=lambda path: path.name)
def test_a_broker_serves_a_restored_backup_of_an_earlier_version(archive: Path, tmp_path: Path) -> None:
    unpack(archive, tmp_path)
    target = open_target(str(tmp_path / TARGET))

    report = restore(
        target,
        find(target),
        tmp_path / "new",
        on_damage=OnDamage.STOP,
        store_id="8" * 32,
        at_us=time.time_ns() // 1_000,
    )

    assert {sink.name for sink in report.sinks} >= set(SINKS)
    with serving(tmp_path, data="new") as client:
        check_state(client, read_facts(tmp_path))


def test_the_directory_of_a_later_format_is_refused_with_the_version_that_wrote_it(tmp_path: Path) -> None:
    unpack(ALL[-1], tmp_path)
    (tmp_path / DATA / "FORMAT").write_text(f"{FORMAT + 1}\n")
    (tmp_path / DATA / "owner.json").write_text('{"pid": 1, "version": "9.1.0"}')

    with (
        pytest.raises(StoreFormatUnsupported, match=rf"format {FORMAT + 1}, .* use Forebay 9\.1\.0, which wrote it"),
        serving(tmp_path),
    ):
        raise AssertionError("a broker started")
