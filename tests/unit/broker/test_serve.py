"""Process of a broker: the addresses and directories that it refuses."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.serve import open_store, serve
from forebay.broker.settings import BrokerSettings, load
from forebay.broker.storage.errors import StoreFailed
from forebay.broker.storage.records.journal_position import JOURNAL_POSITION, LEAVE_JOURNAL, JournalPosition
from forebay.broker.storage.store.rocks.store import RocksStore


@pytest.fixture
def taken() -> Iterator[str]:
    """Address in use."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def on_disk(path: Path, listen: str = "127.0.0.1:0") -> BrokerSettings:
    return load(data_dir=path / "data", listen=listen, disk_reserve_bytes=0)


@pytest.mark.slow
def test_a_process_that_cannot_listen_raises_an_error_and_closes_its_store(tmp_path: Path, taken: str) -> None:
    with pytest.raises(OSError, match="cannot listen"):
        serve(on_disk(tmp_path, taken))

    with BrokerServer.on_disk(on_disk(tmp_path)) as server:
        assert server.endpoint


def test_the_store_of_a_shard_is_not_opened_without_its_journal_and_is_closed_again(tmp_path: Path) -> None:
    settings = on_disk(tmp_path)
    position = JournalPosition("ab" * 16, 7, 1, "cd" * 16, 3)
    with closing(RocksStore(settings.data_dir)) as store:
        store.commit([], [JOURNAL_POSITION.put(JOURNAL_POSITION.key(), position)])

    with pytest.raises(StoreFailed, match="follows the journal of a shard"):
        open_store(settings)

    with closing(RocksStore(settings.data_dir)) as store:
        store.commit([], [LEAVE_JOURNAL])
    open_store(settings).close()
