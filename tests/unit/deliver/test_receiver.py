"""The receiving system, as a process of its own."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from forebay.deliver import Batch, Delivered, Reject, TargetContext
from forebay.deliver.targets import encoding as encode
from forebay.deliver.targets.http import HttpTarget
from forebay.deliver.targets.http_settings import HttpSettings
from forebay.packaging import install_command
from tests.support.targets.memory_source import MemoryRecord, records


@dataclass(slots=True)
class Receiver:
    """A running receiver."""

    url: str
    process: subprocess.Popen[str]

    def post(self, body: bytes) -> httpx2.Response:
        """Send a request."""
        return httpx2.post(self.url + "/records", content=body, trust_env=False)

    def get(self, path: str) -> dict[str, Any]:
        """Return what it says."""
        answer = httpx2.get(self.url + path, trust_env=False)
        assert answer.status_code == 200
        found: dict[str, Any] = answer.json()
        return found

    def stop(self) -> int:
        """End it in good order and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)


@contextmanager
def receiving(db: Path) -> Iterator[Receiver]:
    """Run a receiver until the block ends."""
    command = [sys.executable, "-m", "forebay.deliver.receiver", "--db", str(db)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield Receiver(json.loads(process.stdout.readline())["url"], process)
        finally:
            process.kill()


def lines(partition: int, *offsets: int) -> bytes:
    """Return envelopes."""
    batch = Batch(
        "orders", "1f2e-3d", partition, tuple(MemoryRecord(offset, b'{"n": %d}' % offset) for offset in offsets)
    )
    return b"".join(line + b"\n" for line in encode.envelopes(batch))


@pytest.mark.slow
def test_it_keeps_each_record_once_and_counts_what_came_twice_or_out_of_order(tmp_path: Path) -> None:
    with receiving(tmp_path / "r.db") as receiver:
        for body in (lines(0, 0, 1, 2), lines(1, 0, 3), lines(0, 1, 2, 3), lines(1, 2)):
            assert receiver.post(body).status_code == 200
        stats = receiver.get("/stats")
        assert receiver.get("/health") == {"status": "ok"}
        assert receiver.stop() == 0

    counts = {name: stats[name] for name in ("rows", "arrivals", "duplicates", "out_of_order")}
    assert counts == {"rows": 7, "arrivals": 9, "duplicates": 2, "out_of_order": 1}
    assert stats["partitions"][0] == {
        "source": "1f2e-3d",
        "partition": 0,
        "rows": 4,
        "first_offset": 0,
        "last_offset": 3,
    }


@pytest.mark.slow
def test_answered_records_are_stored_after_a_kill(tmp_path: Path) -> None:
    with receiving(tmp_path / "r.db") as receiver:
        receiver.post(lines(0, 0, 1))
        receiver.process.kill()
        receiver.process.wait(30)

    with receiving(tmp_path / "r.db") as receiver:
        receiver.post(lines(0, 1, 2))
        stats = receiver.get("/stats")
        assert receiver.stop() == 0

    assert (stats["rows"], stats["duplicates"], stats["out_of_order"]) == (3, 1, 0)
    with closing(sqlite3.connect(tmp_path / "r.db")) as database:
        rows = database.execute('SELECT key, value, attempts FROM records ORDER BY "offset"').fetchall()
    assert rows == [
        ("1f2e-3d-0-0", '{"n": 0}', 1),
        ("1f2e-3d-0-1", '{"n": 1}', 2),
        ("1f2e-3d-0-2", '{"n": 2}', 1),
    ]


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiver]:
    """A receiver of refused requests only: each leaves it empty."""
    with receiving(tmp_path_factory.mktemp("receiver") / "r.db") as receiver:
        yield receiver


@pytest.mark.parametrize(
    "body", [b"nonsense\n", b"[1]\n", b'{"key": "a"}\n', b'{"key":1,"partition":0,"offset":0,"value":1}']
)
def test_a_line_that_is_no_envelope_refuses_the_whole_request(refusing: Receiver, body: bytes) -> None:
    answer = refusing.post(lines(0, 0) + body)

    assert answer.status_code == 422
    assert refusing.get("/stats")["rows"] == 0


@pytest.mark.slow
def test_the_http_target_and_the_receiver_understand_each_other(tmp_path: Path) -> None:
    batch = Batch("orders", "1f2e", 0, (*records(3), MemoryRecord(3, b"\xff", key=b"k")))
    with receiving(tmp_path / "r.db") as receiver:
        for envelope, outcome in ((True, Delivered), (False, Reject)):
            target = HttpTarget(HttpSettings(url=receiver.url + "/records", envelope=envelope))
            target.open(TargetContext("orders", "default", 1))
            assert isinstance(target.send(batch), outcome)
            target.close()
        assert receiver.get("/stats")["rows"] == 4


def test_a_wrong_address_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "forebay.deliver.receiver", "--db", str(tmp_path / "r.db"), "--listen", "nowhere"]

    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert run.returncode == 2
    assert "must be HOST:PORT" in run.stderr


def test_without_its_web_server_the_receiver_names_the_extra() -> None:
    program = "import sys; sys.modules['uvicorn'] = None; import forebay.deliver.receiver"

    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert install_command("demo") in run.stderr
