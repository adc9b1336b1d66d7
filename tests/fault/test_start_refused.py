"""A broker process that cannot begin says why in one line, and ends with the code that the table promises."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from forebay.cli.exits import ExitCode
from forebay.client import Client, Record
from tests.support.calls.eventually import values_of
from tests.support.campaigns.publishers import SETTINGS
from tests.support.processes.broker import free_port, serve_command

ENDS_S = 30.0


def refused(data_dir: Path, listen: str = "127.0.0.1:0", *, before: Sequence[str] = ()) -> tuple[int, str]:
    """Exit code of a broker that does not come to serve, and all that it says."""
    serve = [sys.executable, "-m", "forebay.cli", "serve", "--data-dir", str(data_dir), "--listen", listen]
    ended = subprocess.run(
        [*before, *serve],
        cwd="/",
        check=False,
        capture_output=True,
        text=True,
        timeout=ENDS_S,
        stdin=subprocess.DEVNULL,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


@pytest.mark.slow
def test_a_second_broker_on_a_live_directory_is_refused_with_the_directory_and_the_process(
    tmp_path: Path,
) -> None:
    """The error names the directory and the owner; after the owner dies, a broker may start."""
    store, link = tmp_path / "store", tmp_path / "link"
    link.symlink_to(store)
    with serve_command(store) as owner:
        with Client(owner.ready(), settings=SETTINGS) as client:
            client.sinks.create("orders")
            code, said = refused(link)
            client.publish("orders", [Record(b"the owner goes on")])
        owner.kill()
    with serve_command(store) as successor, Client(successor.ready(), settings=SETTINGS) as client:
        found = values_of(client, "orders")

    assert code == ExitCode.REFUSED
    assert said == f"forebay: store {link} is in use by process {owner.pid}; end it, or use another directory\n"
    assert found == [b"the owner goes on"]


@pytest.mark.slow
@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_in_the_place_of_the_directory_is_named_and_left_alone(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")

    code, said = refused(tmp_path / "file" / below)

    assert code == ExitCode.FAILED
    assert said == f"forebay: store could not open: [Errno 20] It exists and is not a directory: '{tmp_path}/file'\n"
    assert (tmp_path / "file").read_text() == "precious"


@pytest.mark.slow
def test_a_directory_that_may_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    before: list[str] = []
    if os.geteuid() == 0:  # nothing is closed to root
        setpriv = shutil.which("setpriv")
        if setpriv is None:
            pytest.skip("needs setpriv to be a root that permissions hold for")
        before = [setpriv, "--bounding-set=-dac_override", "--inh-caps=-dac_override"]

    code, said = refused(tmp_path / "closed" / "store", before=before)

    assert code == ExitCode.FAILED
    assert said == f"forebay: store could not open: [Errno 13] Permission denied: '{tmp_path}/closed/store'\n"


@pytest.mark.slow
def test_an_address_that_is_taken_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        listen = f"127.0.0.1:{taken.getsockname()[1]}"

        code, said = refused(tmp_path / "store", listen)

    assert code == ExitCode.FAILED
    assert said == f"forebay: cannot listen on {listen}: Address already in use\n"


@pytest.mark.slow
@pytest.mark.parametrize("listen", ["192.0.2.1:7461", "no-such-host.invalid:7461"])
def test_an_address_that_is_not_ours_is_named_in_one_line(
    listen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREBAY_ALLOW_ANONYMOUS", "true")
    code, said = refused(tmp_path / "store", listen)

    assert code == ExitCode.FAILED
    assert said.startswith(f"forebay: cannot listen on {listen}: ")
    assert said.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("listen", ["127.0.0.1", "127.0.0.1:70000", ":7461", "nonsense"])
def test_an_address_of_a_wrong_form_is_a_wrong_setting_and_nothing_is_made(listen: str, tmp_path: Path) -> None:
    code, said = refused(tmp_path / "store", listen)

    assert code == ExitCode.USAGE
    assert said == f"forebay: listen = {listen!r}: must be HOST:PORT with a port of 0 to 65535\n"
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_a_start_that_was_refused_leaves_a_directory_that_can_be_used(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        refused(tmp_path / "store", f"127.0.0.1:{taken.getsockname()[1]}")

    with serve_command(tmp_path / "store") as broker:
        broker.ready()
        assert broker.terminate() == 0
