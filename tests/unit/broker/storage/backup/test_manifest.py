from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Final

import pytest

from forebay.broker.storage.backup.errors import BackupError
from forebay.broker.storage.backup.manifest import (
    FORMAT,
    Manifest,
    PartitionAccount,
    Piece,
    SinkAccount,
    decode_manifest,
)

MANIFEST: Final = Manifest(
    id="b",
    store_id="s",
    version="1.2.3",
    data_format=3,
    start_count=4,
    taken_at_us=5,
    pieces=(
        Piece("db/1.sst", 10, 11, "a", modified_ns=13),
        Piece("bulk/x.pages", 4_096, 12, "b", ((0, 100), (1_000, 24))),
    ),
    sinks=(SinkAccount("orders", "i", (PartitionAccount(1, 9, 8),), {"default": 3}, {"query": 7}),),
    positions=2,
    parent="a",
    seconds=1.5,
)


def test_a_manifest_round_trips() -> None:
    assert decode_manifest(MANIFEST.encode(), backup="b") == MANIFEST


def test_holes_are_neither_stored_nor_counted() -> None:
    assert MANIFEST.size == 10 + 124
    assert MANIFEST.transferred_bytes == 124


@pytest.mark.parametrize("cut", [0, 1, 20, -1, -3])
def test_a_manifest_that_was_cut_off_is_damaged(cut: int) -> None:
    content = MANIFEST.encode()

    with pytest.raises(BackupError, match="manifest of backup b is damaged"):
        decode_manifest(content[: cut if cut >= 0 else cut - 1], backup="b")


def test_a_flipped_bit_is_found() -> None:
    content = bytearray(MANIFEST.encode())
    content[30] ^= 1

    with pytest.raises(BackupError, match="checksum"):
        decode_manifest(bytes(content), backup="b")


def test_a_newer_format_is_refused_with_the_version_that_wrote_it() -> None:
    content = replace(MANIFEST, format=FORMAT + 1, version="9.0").encode()

    with pytest.raises(BackupError, match=r"format 2 and was written by Forebay 9\.0"):
        decode_manifest(content, backup="b")


@pytest.mark.parametrize(
    ("path", "held_by"),
    [
        ("../outside", "a"),
        ("/etc/passwd", "a"),
        ("db/../../outside", "a"),
        ("", "a"),
        ("db/1.sst", "../a"),
        ("db/", "a"),
    ],
)
def test_a_file_outside_of_a_data_directory_or_of_the_target_is_refused(path: str, held_by: str) -> None:
    content = replace(MANIFEST, pieces=(Piece(path, 1, 1, held_by),)).encode()

    with pytest.raises(BackupError, match="names a file that no data directory has"):
        decode_manifest(content, backup="b")


def test_names_that_a_later_version_adds_are_left_out() -> None:
    found = json.loads(MANIFEST.encode().partition(b"\n")[0])
    line = json.dumps({**found, "something": 1}).encode()

    assert decode_manifest(b"%b\n%08x\n" % (line, zlib.crc32(line)), backup="b") == MANIFEST
