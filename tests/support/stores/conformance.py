"""Contract of the stores that are servers: what holds of every store, and what a server can do to it.

A test module derives from ``StoreServerConformance`` and provides the fixture ``server``.
"""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Protocol

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.client import Client, DropReason, Gap, InvalidArgument, Record
from forebay.client.errors import (
    PositionConflict,
    PositionFenced,
    PositionStoreError,
    PositionStoreUnavailable,
)
from forebay.client.positions.position import PositionKey
from forebay.client.positions.saver import PositionSaver
from forebay.client.positions.schedule import SaveSchedule
from forebay.client.positions.store import PositionStore, open_store
from tests.support.positions.conformance import KEY, Opened, PositionStoreConformance
from tests.support.positions.no_channels import no_channels
from tests.support.processes.backed_up_broker import BackedUpBroker
from tests.support.processes.broker import Launcher
from tests.support.stores.server import StoreServer, free_port

LIMIT_S: Final = 3.0
SLACK_S: Final = 3.0
"""Addition to a time limit on a busy machine."""


class OpenedAt(Protocol):
    """Opens the store of a URL."""

    def __call__(self, url: str, limit_s: float = 20.0) -> PositionStore: ...


class StoreServerConformance(PositionStoreConformance):
    """Derive from it and provide the fixture ``server``."""

    kills = 2
    """Kills of the server in mid write."""

    @pytest.fixture
    def url(self, server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> str:
        """URL of a store that is empty."""
        for name, value in server.good.items():
            monkeypatch.setenv(name, value)
        return fresh_url(server)

    @pytest.fixture
    def opened_at(self) -> Iterator[OpenedAt]:
        """Opens the store of a URL, as another process does; closes it after the test."""
        stores: list[PositionStore] = []

        def one(url: str, limit_s: float = 20.0) -> PositionStore:
            stores.append(open_store(url, channels=no_channels(), rw_timeout_s=limit_s))
            return stores[-1]

        yield one
        for store in stores:
            store.close()

    @pytest.fixture
    def opened(self, url: str, opened_at: OpenedAt) -> Opened:
        return lambda: opened_at(url)

    def test_a_store_that_was_closed_twice_is_closed(self, opened: Opened) -> None:
        store = opened()
        store.compare_and_write(KEY, b"1", None)

        store.close()
        store.close()

    def test_a_consumer_that_was_replaced_cannot_write(self, opened: Opened) -> None:
        key = PositionKey("default", "billing", "orders", 0)
        savers = [PositionSaver(opened(), owner=name, schedule=SaveSchedule(frequency_s=0)) for name in ("a", "b")]
        for saver in savers:
            saver.take_over(key, *saver.read(key), incarnation="x", start=0)

        savers[1].moved(0, 7)
        savers[1].close(30)
        savers[0].moved(0, 9)
        with pytest.raises(PositionFenced):
            savers[0].close(30)

        saved, _ = PositionSaver(opened(), owner="c", schedule=SaveSchedule()).read(key)
        assert saved is not None
        assert (saved.offset, saved.epoch, saved.owner) == (7, 2, "b")

    def test_a_consumer_resumes_in_another_process_after_what_it_finished(self, url: str) -> None:
        with BrokerServer.in_memory() as broker, Client(broker.endpoint) as client:
            client.sinks.create("orders")
            client.publish("orders", [Record(b"1"), Record(b"2")])
            with client.consumer("orders", "billing", store=url, follow=False) as consumer:
                assert sum(len(batch) for batch in consumer) == 2
            client.publish("orders", [Record(b"3")])
            with client.consumer("orders", "billing", store=url, follow=False) as consumer:
                assert [batch.first_offset for batch in consumer] == [2]

    @pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
    def test_a_consumer_that_is_ahead_of_a_restored_broker_gets_the_gap_and_repeats_nothing(
        self, url: str, tmp_path: Path, guarantee: str
    ) -> None:
        with Launcher() as launcher, closing(BackedUpBroker(launcher, tmp_path)) as broker:
            with Client(broker.endpoint) as client:
                client.sinks.create("orders")
                client.publish("orders", [Record(b"1")])
                broker.back_up()
                client.publish("orders", [Record(b"2")])
                assert _taken(client, url, guarantee=guarantee) == [b"1", b"2"]
            broker.lose_and_restore()
            with Client(broker.endpoint) as client:
                client.publish("orders", [Record(b"3")])

                assert _taken(client, url, guarantee=guarantee) == [DropReason.RESTORED, b"3"]

    def test_a_server_that_stopped_answering_is_unavailable_in_time_and_works_when_it_continues(
        self, server: StoreServer, url: str, opened_at: OpenedAt
    ) -> None:
        version = opened_at(url).compare_and_write(KEY, b"1", None)
        store = opened_at(url, LIMIT_S)
        assert store.read(KEY) is not None

        server.pause()
        began = time.monotonic()
        try:
            with pytest.raises(PositionStoreUnavailable):
                store.read(KEY)
            with pytest.raises(PositionStoreUnavailable):
                store.compare_and_write(KEY, b"2", version)
        finally:
            elapsed_s = time.monotonic() - began
            server.resume()

        assert elapsed_s < 2 * LIMIT_S + SLACK_S
        assert until_available(store) in {b"1", b"2"}  # the write may take effect after the time limit

    def test_a_host_that_is_unreachable_is_unavailable_in_time(
        self, server: StoreServer, url: str, opened_at: OpenedAt
    ) -> None:
        away = url.replace(str(server.port), str(free_port()))
        began = time.monotonic()

        with pytest.raises(PositionStoreUnavailable):
            opened_at(away, LIMIT_S).read(KEY)

        assert time.monotonic() - began < LIMIT_S + SLACK_S

    def test_credentials_that_are_refused_are_an_error_that_does_not_show_them(
        self, server: StoreServer, url: str, opened_at: OpenedAt, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name, value in server.wrong.items():
            monkeypatch.setenv(name, value)

        with pytest.raises(PositionStoreError) as refused:
            opened_at(url).read(KEY)

        assert not isinstance(refused.value, PositionStoreUnavailable), refused.value
        shown = f"{refused.value!s} {refused.value!r} {refused.value.facts}"
        assert not [secret for secret in secrets_of(server) if secret in shown]

    def test_neither_a_store_nor_its_errors_show_credentials(
        self, server: StoreServer, url: str, opened_at: OpenedAt, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level("DEBUG")
        store = opened_at(url)
        store.compare_and_write(KEY, b"1", None)
        shown = f"{store!r} {store!s} {vars(store)} {caplog.text}"

        assert not [secret for secret in secrets_of(server) if secret in shown]

    def test_an_unknown_option_and_a_password_in_the_url_are_refused(self, url: str, opened_at: OpenedAt) -> None:
        separator = "&" if "?" in url else "?"
        with pytest.raises(InvalidArgument, match="the option 'secret_key' is unknown") as refused:
            opened_at(f"{url}{separator}secret_key=abc-def")
        assert "abc-def" not in str(refused.value)
        with pytest.raises(InvalidArgument, match="credentials belong in the environment") as refused:
            opened_at(url.replace("://", "://user:abc-def@", 1))
        assert "abc-def" not in f"{refused.value} {refused.value.facts}"

    @pytest.mark.timeout(600)  # a busy machine starts a server in minutes
    def test_a_server_that_dies_in_mid_write_keeps_what_it_acknowledged(
        self, server: StoreServer, url: str, opened_at: OpenedAt
    ) -> None:
        for round_number in range(self.kills):
            key = f"default/billing/orders/{round_number}"
            writer = Writer(opened_at(url, 30.0), key)
            writer.start()
            assert writer.wrote.wait(30)
            time.sleep(0.05 * (round_number + 1))
            server.kill()
            server.start()
            writer.goes_on(120)
            writer.stop()

            assert writer.problems == []
            found = opened_at(url).read(key)
            assert found is not None
            assert json.loads(found.document) in {writer.acknowledged, writer.tried}


def fresh_url(server: StoreServer) -> str:
    """Return the URL of a store that is empty."""
    return server.url(f"t{uuid.uuid4().hex[:12]}")


def secrets_of(server: StoreServer) -> list[str]:
    """Return what must never be shown."""
    return [
        line
        for one in (server.good, server.wrong)
        for name, value in one.items()
        if name.endswith(("KEY", "PASSWORD"))
        for line in value.split("\\n")  # the key of an account is JSON
    ]


def until_available(store: PositionStore, within_s: float = 60.0) -> bytes:
    """Return the document when the store answers again."""
    ends_at = time.monotonic() + within_s
    while True:
        try:
            found = store.read(KEY)
        except PositionStoreUnavailable:
            if time.monotonic() > ends_at:
                raise
            time.sleep(0.1)
            continue
        assert found is not None
        return found.document


def _taken(client: Client, url: str, *, guarantee: str) -> list[bytes | DropReason]:
    """Values and gaps that a consumer gets."""
    with client.consumer("orders", "billing", store=url, follow=False, guarantee=guarantee) as consumer:
        return [one.reason if isinstance(one, Gap) else one.value for batch in consumer for one in batch]


class Writer(threading.Thread):
    """Writes rising numbers, as a consumer saves its position; an oracle of what must be there."""

    def __init__(self, store: PositionStore, key: str) -> None:
        super().__init__(daemon=True)
        self.wrote = threading.Event()
        self.acknowledged = -1
        """Last number whose write was answered."""
        self.tried = -1
        """Last number that was sent."""
        self.problems: list[str] = []
        self._store = store
        self._key = key
        self._stopping = threading.Event()

    def run(self) -> None:
        version: str | None = None
        while not self._stopping.is_set():
            self.tried += 1
            document = json.dumps(self.tried).encode()
            try:
                version = self._store.compare_and_write(self._key, document, version)
                self.acknowledged = self.tried
                self.wrote.set()
            except (PositionStoreUnavailable, PositionConflict):
                version = self._read_again()

    def _read_again(self) -> str | None:
        """Read after a failure: an acknowledged write must be there, and nothing that was never sent."""
        while not self._stopping.is_set():
            with suppress(PositionStoreUnavailable):
                found = self._store.read(self._key)
                number = json.loads(found.document) if found is not None else -1
                if not self.acknowledged <= number <= self.tried:
                    self.problems.append(f"{number} is stored, {self.acknowledged} was acknowledged")
                return found.version if found is not None else None
            time.sleep(0.05)
        return None

    def goes_on(self, within_s: float) -> None:
        """Wait for an acknowledged write after now."""
        self.wrote.clear()
        assert self.wrote.wait(within_s)

    def stop(self) -> None:
        """End the thread after its write."""
        self._stopping.set()
        self.join(60)
        assert not self.is_alive()
