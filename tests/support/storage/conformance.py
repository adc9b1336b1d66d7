"""Contract of ``Store``: one suite, run on each implementation.

A test module derives from ``StoreConformance`` and says with a ``Host`` how its store is opened again
and broken.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Literal, Protocol

import pytest

from forebay.broker.storage.errors import StoreClosed, StoreCorrupt, StoreFailed
from forebay.broker.storage.store.contract import Delete, DeleteRange, Family, Put, PutAll, WriteStall

if TYPE_CHECKING:
    from forebay.broker.storage.store.contract import Operation, Store

Change = Literal["write", "sync", "ingest"]
EVERYTHING = (b"", b"\xff" * 32)


class Host(Protocol):
    """Location of a store."""

    store: Store

    def reopen(self) -> Store:
        """End the store without a sync and open it again, as the next process does."""
        ...

    def break_next(self, change: Change) -> None:
        """Make the next ``change`` fail."""
        ...

    def damage(self, family: Family, key: bytes) -> None:
        """Make the value of ``key`` unreadable; the store may be opened again for it."""
        ...


def page_key(partition: int, number: int) -> bytes:
    """A key as the broker makes them: 16 bytes, sorted by partition, then number."""
    return (1).to_bytes(4, "big") + partition.to_bytes(4, "big") + number.to_bytes(8, "big")


def noise(size: int) -> bytes:
    """Bytes that no compression changes, so that they are found on disk; the same for the same size."""
    return random.Random(size).randbytes(size)


def entries(store: Store, family: Family) -> list[tuple[bytes, bytes]]:
    return store.scan(family, *EVERYTHING, 1_000)


class StoreConformance:
    """Derive from it and provide the fixture ``host``."""

    @pytest.fixture
    def host(self) -> Host:
        raise NotImplementedError

    @pytest.fixture
    def store(self, host: Host) -> Store:
        return host.store

    # --- commit -----------------------------------------------------------------------------------

    def test_a_commit_adds_bulk_values_and_a_batch_that_outlast_a_crash(self, host: Host) -> None:
        host.store.commit([(page_key(1, 1), b"page")], [Put(Family.INDEX, b"entry", b"1")])

        host.reopen()

        assert entries(host.store, Family.BULK) == [(page_key(1, 1), b"page")]
        assert entries(host.store, Family.INDEX) == [(b"entry", b"1")]

    def test_a_commit_without_a_sync_is_seen_and_durable_with_a_later_one(self, host: Host) -> None:
        host.store.commit([], [Put(Family.META, b"a", b"1")], sync=False)
        assert entries(host.store, Family.META) == [(b"a", b"1")]

        host.store.commit([], [Put(Family.META, b"b", b"2")])
        host.reopen()

        assert entries(host.store, Family.META) == [(b"a", b"1"), (b"b", b"2")]

    def test_a_commit_whose_bulk_is_refused_changes_nothing(self, store: Store) -> None:
        store.commit([(page_key(1, 2), b"page")], [])

        with pytest.raises(ValueError, match="not above"):
            store.commit([(page_key(1, 1), b"page")], [Put(Family.INDEX, b"entry", b"1")])

        assert entries(store, Family.INDEX) == []

    # --- write ------------------------------------------------------------------------------------

    def test_a_write_is_seen_before_the_sync(self, store: Store) -> None:
        store.write([Put(Family.META, b"a", b"1")])

        assert store.get_many(Family.META, [b"a"]) == [b"1"]

    def test_of_two_operations_of_a_batch_the_later_wins(self, store: Store) -> None:
        store.write([Put(Family.META, b"kept", b"old"), Put(Family.META, b"gone", b"x")])

        store.write(
            [
                DeleteRange(Family.META, b"a", b"z"),
                Put(Family.META, b"kept", b"new"),
                Put(Family.META, b"again", b"1"),
                Put(Family.META, b"again", b"2"),
                Put(Family.META, b"never", b"x"),
                Delete(Family.META, b"never"),
            ]
        )

        assert entries(store, Family.META) == [(b"again", b"2"), (b"kept", b"new")]

    def test_many_keys_that_are_set_together_are_those_that_are_set_one_by_one(self, store: Store) -> None:
        store.write(
            [
                Put(Family.INDEX, b"before", b"1"),
                PutAll(Family.INDEX, [b"before", b"again", b"again", b"after"], [b"2", b"1", b"2", b"1"]),
                Delete(Family.INDEX, b"after"),
                PutAll(Family.META, [], []),
            ]
        )

        assert entries(store, Family.INDEX) == [(b"again", b"2"), (b"before", b"2")]
        with pytest.raises(ValueError, match="ingest"):
            PutAll(Family.BULK, [b"a"], [b"b"])

    def test_a_batch_spans_families_and_families_do_not_mix(self, store: Store) -> None:
        families = [Family.SMALL, Family.INDEX, Family.META]
        store.write([Put(family, b"key", family.encode()) for family in families])
        store.ingest([(b"key", b"bulk")])

        for family in Family:
            assert entries(store, family) == [(b"key", family.encode())]

    def test_deleting_absent_keys_has_no_effect(self, store: Store) -> None:
        store.write([Delete(Family.INDEX, b"a"), DeleteRange(Family.INDEX, b"a", b"z")])

        assert entries(store, Family.INDEX) == []

    def test_a_range_is_deleted_from_its_first_key_up_to_its_end(self, store: Store) -> None:
        store.write([Put(Family.INDEX, page_key(1, number), b"") for number in range(10)])

        store.write([DeleteRange(Family.INDEX, page_key(1, 3), page_key(1, 7))])

        left = [page_key(1, number) for number in (0, 1, 2, 7, 8, 9)]
        assert [key for key, _ in entries(store, Family.INDEX)] == left

    def test_an_empty_range_deletes_nothing(self, store: Store) -> None:
        store.write([Put(Family.INDEX, b"a", b""), DeleteRange(Family.INDEX, b"a", b"a")])

        assert entries(store, Family.INDEX) == [(b"a", b"")]

    def test_no_operations_are_a_batch_too(self, store: Store) -> None:
        store.write([])
        store.sync()

        assert entries(store, Family.META) == []

    # --- ingest -----------------------------------------------------------------------------------

    def test_ingested_items_are_read_back_and_outlast_a_reopen_without_a_sync(self, host: Host) -> None:
        items = [(page_key(1, number), bytes([number]) * 5_000) for number in range(16)]
        host.store.ingest(items)

        assert host.store.get_many(Family.BULK, [key for key, _ in items]) == [value for _, value in items]
        assert entries(host.reopen(), Family.BULK) == items

    @pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"], [b"a", b"c", b"b"]])
    def test_keys_that_do_not_rise_are_refused_and_harm_nothing(self, store: Store, keys: list[bytes]) -> None:
        with pytest.raises(ValueError, match="is not above"):
            store.ingest([(key, b"") for key in keys])

        store.ingest([(b"a", b"1")])
        assert entries(store, Family.BULK) == [(b"a", b"1")]

    @pytest.mark.parametrize("key", [b"a", b"b", b"c"])
    def test_keys_that_are_not_above_those_of_every_file_are_refused(self, store: Store, key: bytes) -> None:
        store.ingest([(b"b", b"1"), (b"c", b"2")])

        with pytest.raises(ValueError, match="is not above"):
            store.ingest([(key, b"")])

        store.ingest([(b"d", b"3")])
        assert [each for each, _ in entries(store, Family.BULK)] == [b"b", b"c", b"d"]

    def test_a_value_may_come_in_pieces(self, host: Host) -> None:
        host.store.ingest([(b"a", (b"head", memoryview(b"-body-")[1:5])), (b"b", ()), (b"c", b"whole")])

        expected = [(b"a", b"headbody"), (b"b", b""), (b"c", b"whole")]
        assert entries(host.store, Family.BULK) == expected
        assert entries(host.reopen(), Family.BULK) == expected

    def test_no_items_make_no_file(self, store: Store) -> None:
        store.ingest([])

        assert store.highest_keys() == []

    def test_ingesting_beside_deleted_ranges_keeps_both_apart(self, store: Store) -> None:
        for partition in (1, 2, 3):
            store.ingest([(page_key(partition, number), b"old") for number in range(4)])
        store.write([DeleteRange(Family.BULK, page_key(partition, 0), page_key(partition, 4)) for partition in (1, 3)])

        store.ingest([(page_key(3, number), b"new") for number in range(4, 8)])
        store.ingest([(page_key(4, number), b"new") for number in range(4, 8)])

        expected = [(page_key(2, number), b"old") for number in range(4)]
        expected += [(page_key(partition, number), b"new") for partition in (3, 4) for number in range(4, 8)]
        assert entries(store, Family.BULK) == expected

    def test_a_range_that_was_deleted_beyond_the_last_file_is_open_to_new_keys(self, host: Host) -> None:
        host.store.ingest([(b"a", b"old")])
        host.store.write([DeleteRange(Family.BULK, b"a", b"e")])
        host.store.write([DeleteRange(Family.BULK, b"c", b"e")])

        host.store.ingest([(b"d", b"new")])

        assert entries(host.store, Family.BULK) == [(b"d", b"new")]
        assert entries(host.reopen(), Family.BULK) == [(b"d", b"new")]

    def test_keys_of_bulk_are_listed_without_their_values(self, host: Host) -> None:
        host.store.ingest([(page_key(1, number), b"x") for number in range(6)])
        host.store.ingest([(page_key(2, number), b"x") for number in range(3)])
        host.store.write([DeleteRange(Family.BULK, page_key(1, 1), page_key(1, 4))])

        expected = [page_key(1, 0), page_key(1, 4), page_key(1, 5), page_key(2, 0)]
        assert host.store.bulk_keys(page_key(1, 0), page_key(2, 2), 4) == expected
        assert host.reopen().bulk_keys(page_key(1, 0), page_key(2, 2), 4) == expected

    def test_single_pages_of_bulk_can_be_deleted(self, store: Store) -> None:
        store.ingest([(b"a", b"1"), (b"b", b"2"), (b"c", b"3")])

        store.write([Delete(Family.BULK, b"b")])

        assert store.get_many(Family.BULK, [b"a", b"b", b"c"]) == [b"1", None, b"3"]

    def test_a_prefetch_changes_no_bulk_value_and_skips_absent_keys(self, store: Store) -> None:
        values = [(b"%03d" % number, bytes([number]) * 100_000) for number in range(9)]
        store.ingest(values[:5])
        store.ingest(values[5:])
        store.write([Delete(Family.BULK, b"003")])

        store.prefetch([b"none", *(key for key, _ in values), b"999"])

        found = store.get_many(Family.BULK, [key for key, _ in values])
        assert found == [None if key == b"003" else value for key, value in values]
        store.prefetch([])
        store.close()
        with pytest.raises(StoreClosed):
            store.prefetch([b"000"])

    def test_the_highest_key_of_each_file_is_known(self, host: Host) -> None:
        host.store.write([Put(Family.INDEX, page_key(9, 9), b"")])
        host.store.ingest([(page_key(1, number), b"x") for number in (3, 5, 8)])
        host.store.ingest([(page_key(2, number), b"x") for number in (4, 6)])
        host.store.ingest([(b"\x7f [7:\xff", b"x")])

        expected = sorted([page_key(1, 8), page_key(2, 6), b"\x7f [7:\xff"])
        assert sorted(host.store.highest_keys()) == expected
        assert sorted(host.reopen().highest_keys()) == expected

    def test_the_highest_keys_forget_a_file_once_it_is_deleted_and_compacted(self, host: Host) -> None:
        host.store.ingest([(page_key(1, number), b"x") for number in range(4)])
        host.store.ingest([(page_key(2, number), b"x") for number in range(4)])
        host.store.write([DeleteRange(Family.BULK, page_key(1, 0), page_key(1, 4))])
        host.store.sync()

        host.store.compact(Family.BULK, page_key(1, 0), page_key(1, 4))

        assert host.store.highest_keys() == [page_key(2, 3)]
        assert host.reopen().highest_keys() == [page_key(2, 3)]

    # --- reads ------------------------------------------------------------------------------------

    def test_values_come_in_the_order_they_were_asked_for(self, store: Store) -> None:
        store.write([Put(Family.SMALL, bytes([byte]), b"%d" % byte) for byte in range(5)])

        found = store.get_many(Family.SMALL, [b"\x03", b"none", b"\x00", b"\x03", b""])

        assert found == [b"3", None, b"0", b"3", None]
        assert store.get_many(Family.SMALL, []) == []

    def test_empty_values_are_not_missing(self, store: Store) -> None:
        store.write([Put(Family.META, b"a", b"")])

        assert store.get_many(Family.META, [b"a", b"b"]) == [b"", None]
        assert entries(store, Family.META) == [(b"a", b"")]

    @pytest.mark.parametrize(
        ("first", "end", "limit", "reverse", "expected"),
        [
            (0, 10, 100, False, [0, 2, 4, 6, 8]),
            (0, 10, 100, True, [8, 6, 4, 2, 0]),
            (2, 8, 100, False, [2, 4, 6]),
            (2, 8, 100, True, [6, 4, 2]),
            (1, 7, 100, False, [2, 4, 6]),
            (1, 7, 100, True, [6, 4, 2]),
            (0, 10, 2, False, [0, 2]),
            (0, 10, 2, True, [8, 6]),
            (2, 3, 1, True, [2]),
            (3, 4, 9, False, []),
            (3, 4, 9, True, []),
            (4, 4, 9, False, []),
            (4, 4, 9, True, []),
            (9, 99, 9, False, []),
            (9, 99, 9, True, []),
        ],
    )
    def test_a_scan_keeps_to_its_range_and_limit(
        self, store: Store, first: int, end: int, limit: int, reverse: bool, expected: list[int]
    ) -> None:
        store.write([Put(Family.INDEX, page_key(1, number), b"%d" % number) for number in range(0, 10, 2)])
        store.write([Put(Family.INDEX, page_key(partition, 0), b"beside") for partition in (0, 2)])

        found = store.scan(Family.INDEX, page_key(1, first), page_key(1, end), limit, reverse=reverse)

        assert found == [(page_key(1, number), b"%d" % number) for number in expected]

    def test_a_scan_skips_deleted_keys_in_both_directions(self, store: Store) -> None:
        store.write([Put(Family.INDEX, page_key(1, number), b"") for number in range(300)])
        store.write([Delete(Family.INDEX, page_key(1, number)) for number in range(100)])
        store.write([DeleteRange(Family.INDEX, page_key(1, 200), page_key(1, 300))])

        forward = store.scan(Family.INDEX, page_key(1, 0), page_key(2, 0), 1_000)
        backward = store.scan(Family.INDEX, page_key(1, 0), page_key(2, 0), 1_000, reverse=True)

        assert [key for key, _ in forward] == [page_key(1, number) for number in range(100, 200)]
        assert backward == forward[::-1]

    def test_a_scan_continues_where_the_last_one_ended(self, store: Store) -> None:
        store.write([Put(Family.INDEX, page_key(1, number), b"") for number in range(25)])
        first, end = page_key(1, 0), page_key(2, 0)
        forward: list[bytes] = []
        while slice_ := store.scan(Family.INDEX, first, end, 10):
            forward += [key for key, _ in slice_]
            first = forward[-1] + b"\0"
        backward: list[bytes] = []
        first = page_key(1, 0)
        while slice_ := store.scan(Family.INDEX, first, end, 10, reverse=True):
            backward += [key for key, _ in slice_]
            end = backward[-1]

        assert forward == [page_key(1, number) for number in range(25)]
        assert backward == forward[::-1]

    def test_a_scan_without_a_bound_or_backwards_is_a_mistake(self, store: Store) -> None:
        with pytest.raises(ValueError, match="limit is 0"):
            store.scan(Family.INDEX, b"a", b"b", 0)
        with pytest.raises(ValueError, match="below its first key"):
            store.scan(Family.INDEX, b"b", b"a", 1)

    @pytest.mark.parametrize("family", [Family.BULK, Family.SMALL])
    def test_a_damaged_page_is_read_as_it_is_found(self, host: Host, family: Family) -> None:
        pages = [(b"a", noise(20_000)), (b"b", noise(20_001)), (b"c", noise(20_002))]
        if family is Family.BULK:
            host.store.ingest(pages)
        else:
            host.store.write([Put(family, key, value) for key, value in pages])

        host.damage(family, b"b")

        first, damaged, last = host.store.get_many(family, [b"a", b"b", b"c"])
        assert (first, last) == (pages[0][1], pages[2][1])
        assert damaged is not None
        assert damaged != pages[1][1]
        assert len(damaged) == 20_001

    def test_damage_elsewhere_names_the_key_and_leaves_the_rest_readable(self, host: Host) -> None:
        values = {b"a": noise(20_000), b"b": noise(20_001), b"c": noise(20_002)}
        host.store.write([Put(Family.INDEX, key, value) for key, value in values.items()])

        host.damage(Family.INDEX, b"b")

        with pytest.raises(StoreCorrupt) as caught:
            host.store.get_many(Family.INDEX, [b"a", b"b", b"c"])
        assert (caught.value.family, caught.value.key) == (Family.INDEX, b"b")
        assert host.store.get_many(Family.INDEX, [b"a", b"c"]) == [values[b"a"], values[b"c"]]
        host.store.write([Put(Family.INDEX, b"b", b"rebuilt")])
        assert host.store.get_many(Family.INDEX, [b"b"]) == [b"rebuilt"]

    def test_a_rewritten_family_lacks_exactly_the_ranges_that_could_not_be_read(self, host: Host) -> None:
        names = [b"%05d" % number for number in range(300)]
        host.store.write([Put(Family.INDEX, key, noise(500 + index)) for index, key in enumerate(names)])
        host.store.compact(Family.INDEX, *EVERYTHING)
        host.damage(Family.INDEX, names[150])

        lost = host.store.rewrite(Family.INDEX)

        gone = {key for key in names if any(first <= key < end for first, end in lost)}
        assert {key for key, _ in entries(host.store, Family.INDEX)} == set(names) - gone
        assert names[150] in gone
        assert len(gone) < 60
        host.store.write([Put(Family.INDEX, names[150], b"again")])
        host.store.sync()
        assert host.reopen().get_many(Family.INDEX, [names[150]]) == [b"again"]
        assert host.store.rewrite(Family.INDEX) == []

    def test_numbers_kept_beside_the_log_are_those_of_the_last_sync(self, host: Host) -> None:
        assert host.store.marked() == (0, 0)
        host.store.mark((3, 4))
        host.store.sync()
        host.store.mark((5, 6))

        assert host.reopen().marked() == (3, 4)

    @pytest.mark.parametrize("reverse", [False, True])
    def test_a_scan_that_meets_damage_does_not_end_in_silence(self, host: Host, reverse: bool) -> None:
        host.store.write([Put(Family.INDEX, b"%03d" % number, noise(20_000 + number)) for number in range(9)])
        host.store.sync()

        host.damage(Family.INDEX, b"004")

        with pytest.raises(StoreCorrupt):
            host.store.scan(Family.INDEX, b"0", b"1", 100, reverse=reverse)
        assert len(host.store.scan(Family.INDEX, b"006", b"1", 100, reverse=reverse)) == 3

    # --- space ------------------------------------------------------------------------------------

    def test_deleted_bulk_takes_no_space_once_it_is_compacted(self, store: Store) -> None:
        store.ingest([(page_key(1, number), b"x" * 100_000) for number in range(10)])
        store.ingest([(page_key(2, number), b"y" * 100_000) for number in range(10)])
        full = store.live_bytes()
        store.write([DeleteRange(Family.BULK, page_key(1, 0), page_key(1, 10))])
        store.sync()

        assert full - store.live_bytes() < 100_000
        store.compact(Family.BULK, page_key(1, 0), page_key(1, 10))
        assert full - store.live_bytes() > 900_000
        assert len(entries(store, Family.BULK)) == 10

    def test_compacting_empty_ranges_has_no_effect(self, store: Store) -> None:
        for family in Family:
            store.compact(family, b"a", b"z")
            store.compact(family, b"a", b"a")

        assert entries(store, Family.BULK) == []

    # --- fencing and closing ----------------------------------------------------------------------

    @pytest.mark.parametrize("change", ["write", "sync", "ingest"])
    def test_after_a_failed_change_none_is_tried_again(self, host: Host, change: Change) -> None:
        store = host.store
        store.write([Put(Family.META, b"before", b"1")])
        store.sync()
        host.break_next(change)

        with pytest.raises(StoreFailed):
            _do(store, change)

        for later in ("write", "sync", "ingest"):
            with pytest.raises(StoreFailed, match="fenced") as caught:
                _do(store, later)
            assert caught.value.action == later
        with pytest.raises(StoreFailed, match="fenced"):
            store.compact(Family.META, b"a", b"z")
        assert store.get_many(Family.META, [b"before", b"later"]) == [b"1", None]
        assert entries(store, Family.BULK) == []

    @pytest.mark.parametrize("change", ["write", "sync", "ingest"])
    def test_a_fenced_store_can_be_opened_again_with_all_that_was_synced(self, host: Host, change: Change) -> None:
        host.store.write([Put(Family.META, b"before", b"1")])
        host.store.sync()
        host.break_next(change)
        with pytest.raises(StoreFailed):
            _do(host.store, change)

        store = host.reopen()

        assert store.get_many(Family.META, [b"before"]) == [b"1"]
        store.write([Put(Family.META, b"after", b"2")])
        store.sync()
        assert store.get_many(Family.META, [b"after"]) == [b"2"]

    def test_a_mistake_of_the_caller_does_not_fence(self, store: Store) -> None:
        with pytest.raises(ValueError, match="is not above"):
            store.ingest([(b"b", b""), (b"a", b"")])

        store.write([Put(Family.META, b"a", b"1")])
        store.sync()

    def test_a_closed_store_refuses_every_call(self, store: Store) -> None:
        store.close()
        store.close()

        for change in ("write", "sync", "ingest"):
            with pytest.raises(StoreClosed):
                _do(store, change)
        with pytest.raises(StoreClosed):
            store.get_many(Family.META, [b"a"])
        with pytest.raises(StoreClosed):
            entries(store, Family.META)
        with pytest.raises(StoreClosed):
            store.compact(Family.META, b"a", b"b")
        with pytest.raises(StoreClosed):
            store.highest_keys()
        with pytest.raises(StoreClosed):
            store.live_bytes()
        with pytest.raises(StoreClosed):
            store.write_stall()
        with pytest.raises(StoreClosed):
            store.write_stall_s()

    def test_a_store_that_keeps_up_with_its_writes_has_held_none_back(self, store: Store) -> None:
        store.write([Put(Family.META, b"k", b"v")])
        store.sync()

        assert store.write_stall() is WriteStall.NONE
        assert store.write_stall_s() == 0.0

    def test_synced_and_unsynced_writes_survive_a_reopen(self, host: Host) -> None:
        written: list[Operation] = [Put(Family.INDEX, page_key(1, number), b"%d" % number) for number in range(5)]
        host.store.write(written)
        host.store.sync()
        host.store.write([Delete(Family.INDEX, page_key(1, 0)), Put(Family.META, b"unsynced", b"1")])

        store = host.reopen()

        assert entries(store, Family.INDEX) == [(page_key(1, number), b"%d" % number) for number in range(1, 5)]
        assert entries(store, Family.META) == [(b"unsynced", b"1")]


def _do(store: Store, change: str) -> None:
    match change:
        case "write":
            store.write([Put(Family.META, b"later", b"x")])
        case "sync":
            store.sync()
        case "ingest":
            store.ingest([(b"later", b"x")])
