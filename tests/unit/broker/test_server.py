from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.embedded import BrokerServer
from forebay.broker.server import serve
from forebay.broker.settings import BrokerSettings, load


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
