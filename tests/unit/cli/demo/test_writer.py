"""The publisher of the quickstart writes each file of the folder once, in order."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from forebay.cli.demo.source.records import InputFolder, SourceRecord
from forebay.cli.demo.writer import write_new
from forebay.client import ReplayedRecord, testing

AT = datetime(2026, 11, 23, 12, 0, tzinfo=UTC)


def publish(folder: InputFolder, *numbers: int) -> None:
    """Publish a file with these records."""
    records = [SourceRecord("live", number, "meter", AT, {"n": number}) for number in numbers]
    folder.publish(folder.stage(records, f"{numbers[0]}"))


def test_each_file_is_written_once_with_its_keys_and_times(tmp_path: Path) -> None:
    folder = InputFolder(tmp_path)
    with testing.broker() as broker, broker.client() as client:
        client.sinks.create("demo")
        with client.publisher("demo") as publisher:
            publish(folder, 0, 1)
            folder.stage([SourceRecord("live", 9, "meter", AT, {})], "hidden")
            last = write_new(tmp_path, publisher, "")
            publish(folder, 2)
            assert write_new(tmp_path, publisher, last) == "00000001.json"
            assert write_new(tmp_path, publisher, "00000001.json") == "00000001.json"
        found = [record for record in client.replay("demo", partition=0) if isinstance(record, ReplayedRecord)]

    lines = [line for path in sorted(tmp_path.glob("0*.json")) for line in path.read_bytes().splitlines()]
    assert [record.key for record in found] == [b"meter"] * 3
    assert [record.value for record in found] == lines
    assert {record.event_time for record in found} == {AT}
