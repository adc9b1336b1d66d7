"""Shards and sinks as a client finds them, with brokers of the test."""

from __future__ import annotations

import pytest

from forebay.client.errors import AccessDenied, BrokerUnavailable, InvalidArgument, NotOwner, SinkNotFound
from forebay.client.shards.fleet import HOPS_MAX, Fleet
from forebay.client.shards.shard import Shard
from forebay.client.transport.operations import blocked
from forebay.errors.reasons import Reason
from forebay.shards.rendezvous import ranked

SINKS = [f"topic-{number}" for number in range(40)]
OF_B = next(name for name in SINKS if ranked(name, "ab")[0] == "b")
MOVED = next(name for name in SINKS if ranked(name, "abc") == ["c", "b", "a"])


class World:
    """Brokers by endpoint: the shard that each owns; and the directory that all of them have read."""

    def __init__(self, *shards: str) -> None:
        self.owners = {f"{shard}:1": shard for shard in shards}
        self.directory = {shard: Shard(shard, f"{shard}:1", 1) for shard in shards}
        self.sinks: dict[str, set[str]] = {}
        """Names by shard."""
        self.calls: list[str] = []

    def fleet(self, *members: str) -> Fleet:
        return Fleet(members, self._list, self._has)

    def take_over(self, shard: str, endpoint: str) -> None:
        """Replace the owner of a shard, which does not answer any more."""
        before = self.directory[shard]
        del self.owners[before.endpoint]
        self.owners[endpoint] = shard
        self.directory[shard] = Shard(shard, endpoint, before.owner_epoch + 1)

    def _at(self, endpoint: str) -> str:
        if endpoint not in self.owners:
            raise BrokerUnavailable(f"{endpoint} does not answer", reason=Reason.UNREACHABLE)
        return self.owners[endpoint]

    async def _list(self, endpoint: str) -> tuple[str, list[Shard]]:
        self.calls.append(f"list {endpoint}")
        return self._at(endpoint), [shard for _, shard in sorted(self.directory.items())]

    async def _has(self, endpoint: str, sink: str) -> bool:
        self.calls.append(f"has {endpoint} {sink}")
        return sink in self.sinks.get(self._at(endpoint), set())


def not_owner(endpoint: str, shard: str = "a") -> NotOwner:
    return NotOwner("elsewhere", facts={"endpoint": endpoint, "shard": shard})


def test_the_first_member_that_answers_lists_the_shards() -> None:
    world = World("a", "b")
    fleet = world.fleet("down:1", "b:1")

    assert [shard.name for shard in blocked(fleet.shards())] == ["a", "b"]
    assert world.calls == ["list down:1", "list b:1"]
    assert fleet.owners == ("a:1", "b:1")


def test_members_that_all_do_not_answer_are_named() -> None:
    fleet = World("a").fleet("x:1", "y:1")

    with pytest.raises(BrokerUnavailable, match="no member of forebay://x:1,y:1 answers"):
        blocked(fleet.locate("orders"))


def test_a_sink_is_looked_for_in_the_order_of_its_shards_and_remembered() -> None:
    world = World("a", "b", "c")
    world.sinks["b"] = {MOVED}
    fleet = world.fleet("a:1")

    assert blocked(fleet.locate(MOVED)) == "b:1"
    assert [call for call in world.calls if call.startswith("has")] == [f"has c:1 {MOVED}", f"has b:1 {MOVED}"]
    assert fleet.is_placed(MOVED)
    world.calls.clear()

    assert blocked(fleet.locate(MOVED)) == fleet.guess(MOVED) == "b:1"
    assert world.calls == []


def test_a_sink_that_no_shard_has_is_at_its_home_and_is_looked_for_again() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    assert blocked(fleet.locate(OF_B)) == "b:1"

    world.sinks["a"] = {OF_B}
    assert blocked(fleet.locate(OF_B)) == "a:1"


def test_the_only_shard_is_not_asked_for_a_sink() -> None:
    world = World("a")

    assert blocked(world.fleet("a:1").locate("orders")) == "a:1"
    assert world.calls == ["list a:1"]


def test_a_dead_letter_sink_is_where_its_origin_is() -> None:
    world = World("a", "b")
    world.sinks["a"] = {OF_B}
    fleet = world.fleet("a:1")

    assert blocked(fleet.locate(f"{OF_B}.dlq")) == "a:1"


def test_a_creation_goes_to_the_home_or_the_shard_that_is_demanded_and_asks_every_shard_before() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")

    assert blocked(fleet.locate(OF_B, creates_in="")) == "b:1"
    assert blocked(fleet.locate(OF_B, creates_in="a")) == "a:1"
    assert world.calls.count(f"has a:1 {OF_B}") == 2


def test_no_sink_is_created_while_a_shard_does_not_answer_unless_another_one_has_it() -> None:
    world = World("a", "b")
    fleet = world.fleet("b:1")
    blocked(fleet.shards())
    del world.owners["a:1"]

    with pytest.raises(BrokerUnavailable):
        blocked(fleet.locate(OF_B, creates_in=""))
    world.sinks["b"] = {OF_B}
    assert blocked(fleet.locate(OF_B, creates_in="")) == "b:1"


def test_a_shard_is_followed_to_its_next_owner() -> None:
    world = World("a", "b")
    world.sinks["b"] = {OF_B}
    fleet = world.fleet("a:1", "b:1", "b:2")
    assert blocked(fleet.locate(OF_B)) == "b:1"
    world.take_over("b", "b:2")

    lost = BrokerUnavailable("gone", reason=Reason.UNREACHABLE)
    assert not fleet.misplaced(OF_B, "b:1", lost, 0)
    assert blocked(fleet.locate(OF_B)) == "b:2"


def test_an_older_hint_does_not_replace_a_later_owner() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    world.take_over("b", "b:2")
    blocked(fleet.shards())
    world.directory["b"] = Shard("b", "b:1", 1)

    assert [shard.endpoint for shard in blocked(fleet.shards(again=True))] == ["a:1", "b:2"]


def test_the_owner_of_a_shard_that_was_recreated_replaces_that_of_the_former_one() -> None:
    world = World("a", "b")
    world.directory["b"] = Shard("b", "former:1", 9, "gone")
    world.owners["former:1"] = "b"
    fleet = world.fleet("a:1")
    assert blocked(fleet.locate(OF_B)) == "former:1"
    del world.owners["former:1"]
    world.directory["b"] = Shard("b", "b:1", 1, "new")

    assert not fleet.misplaced(OF_B, "former:1", BrokerUnavailable("gone", reason=Reason.UNREACHABLE), 0)
    assert blocked(fleet.locate(OF_B)) == "b:1"
    assert blocked(fleet.shards(again=True))[1] == Shard("b", "b:1", 1, "new")


def test_a_broker_that_owns_another_shard_than_the_hint_says_is_not_asked_for_sinks() -> None:
    world = World("a", "b")
    world.directory["b"] = Shard("b", "a:1", 1)
    fleet = world.fleet("a:1")

    with pytest.raises(BrokerUnavailable, match="the directory is out of date"):
        blocked(fleet.locate(OF_B))
    world.directory["b"] = Shard("b", "b:1", 1)
    assert blocked(fleet.locate(OF_B)) == "b:1"


def test_an_owner_that_a_broker_names_is_followed_once_and_then_the_shards_are_read_again() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    blocked(fleet.locate(OF_B))
    world.calls.clear()

    assert fleet.misplaced(OF_B, "b:1", not_owner("c:1"), 0)
    assert blocked(fleet.locate(OF_B)) == "c:1"
    assert world.calls == []
    assert fleet.misplaced(OF_B, "c:1", not_owner("b:1"), 1)
    assert blocked(fleet.locate(OF_B)) == "b:1"
    assert "list a:1" in world.calls
    assert not fleet.misplaced(OF_B, "b:1", not_owner("c:1"), HOPS_MAX)


def test_a_sink_that_its_shard_does_not_have_any_more_is_looked_for_again() -> None:
    world = World("a", "b")
    world.sinks["b"] = {OF_B}
    fleet = world.fleet("a:1")
    blocked(fleet.locate(OF_B))
    world.sinks = {"a": {OF_B}}

    assert not fleet.misplaced(OF_B, "b:1", SinkNotFound("gone"), 0)
    assert blocked(fleet.locate(OF_B)) == "a:1"


def test_a_sink_that_an_owner_has_listed_is_there() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    blocked(fleet.shards())

    fleet.note(OF_B, "a:1")

    assert fleet.guess(OF_B) == "a:1"
    assert fleet.shard_of(OF_B) == "a"


def test_of_several_owners_that_have_listed_a_name_the_first_of_its_order_counts() -> None:
    fleet = World("a", "b").fleet("a:1")
    blocked(fleet.shards())

    for endpoint in ("a:1", "b:1", "a:1"):
        fleet.note(OF_B, endpoint)

    assert fleet.shard_of(OF_B) == "b"


def test_a_broker_without_a_journal_is_a_fleet_only_by_itself() -> None:
    async def alone(endpoint: str) -> tuple[str, list[Shard]]:
        return "", []

    async def has(endpoint: str, sink: str) -> bool:
        raise AssertionError("the only broker has every sink")

    assert blocked(Fleet(["one:1"], alone, has).locate("orders")) == "one:1"
    with pytest.raises(InvalidArgument, match="has no journal"):
        blocked(Fleet(["one:1", "two:1"], alone, has).locate("orders"))


def test_the_only_owner_of_a_journal_without_names_is_where_it_answers() -> None:
    async def unnamed(endpoint: str) -> tuple[str, list[Shard]]:
        if endpoint == "down:1":
            raise BrokerUnavailable("it does not answer", reason=Reason.UNREACHABLE)
        return "", [Shard("", "0.0.0.0:7461", 4)]

    async def has(endpoint: str, sink: str) -> bool:
        raise AssertionError("the only broker has every sink")

    assert blocked(Fleet(["down:1", "two:1"], unnamed, has).locate("orders")) == "two:1"


def test_a_refused_credential_is_no_silence() -> None:
    async def refuse(endpoint: str) -> tuple[str, list[Shard]]:
        raise AccessDenied("no", reason=Reason.TOKEN_REFUSED)

    async def has(endpoint: str, sink: str) -> bool:
        return False

    with pytest.raises(AccessDenied):
        blocked(Fleet(["one:1", "two:1"], refuse, has).shards())


def added(world: World, shard: str) -> None:
    """Add a shard that the client has not read yet."""
    world.owners[f"{shard}:1"] = shard
    world.directory[shard] = Shard(shard, f"{shard}:1", 1)


def test_a_creation_asks_also_a_shard_that_was_added_since() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    blocked(fleet.shards())
    added(world, "c")
    world.sinks["c"] = {OF_B}

    assert blocked(fleet.locate(OF_B, creates_in="")) == "c:1"


def test_a_sink_in_a_shard_that_was_added_since_is_found() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    blocked(fleet.shards())
    added(world, "c")
    world.sinks["c"] = {OF_B}

    assert blocked(fleet.locate(OF_B)) == "c:1"


def test_a_shard_that_a_broker_names_and_the_client_does_not_know_is_read() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1")
    blocked(fleet.shards())
    added(world, "x")

    assert fleet.misplaced(OF_B, "b:1", not_owner("x:1", "x"), 0)
    assert blocked(fleet.locate(OF_B)) == "x:1"
    assert "x:1" in fleet.owners


def test_a_call_to_an_owner_that_does_not_answer_leads_to_the_next_one() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1", "b:1")
    blocked(fleet.shards())
    world.take_over("b", "b:2")

    fleet.note_failure("b:1", BrokerUnavailable("no answer"))
    blocked(fleet.shards())

    assert fleet.owners == ("a:1", "b:2")


def test_an_owner_that_was_silent_is_not_asked_again_while_another_member_answers() -> None:
    world = World("a", "b")
    fleet = world.fleet("a:1", "b:1")
    blocked(fleet.shards())
    fleet.note_failure("b:1", BrokerUnavailable("no answer"))
    world.calls.clear()

    blocked(fleet.shards())

    assert world.calls == ["list a:1"]


def test_a_member_that_refuses_the_call_does_not_hide_the_others() -> None:
    world = World("a", "b")
    refused = AccessDenied("no", reason=Reason.TOKEN_REFUSED)

    async def list_shards(endpoint: str) -> tuple[str, list[Shard]]:
        if endpoint == "x:1":
            raise refused
        return await world._list(endpoint)

    async def has(endpoint: str, sink: str) -> bool:
        return False

    assert len(blocked(Fleet(["x:1", "a:1"], list_shards, has).shards())) == 2
    with pytest.raises(AccessDenied):
        blocked(Fleet(["x:1"], list_shards, has).shards())
