"""The JSON of a page has all that its values have, also what they compute."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import IntEnum

from forebay.broker.console.pages.plain import plain
from forebay.v1 import buffer_service_pb2 as pb


class Rank(IntEnum):
    """Rank of something."""

    VERY_HIGH = 3


@dataclass(frozen=True, slots=True)
class Pair:
    """Two numbers."""

    left: int
    right: int
    rank: Rank = Rank.VERY_HIGH

    @property
    def total(self) -> int:
        """Sum of both."""
        return self.left + self.right

    def method(self) -> int:
        """Return no figure."""
        return 7


def test_computed_figures_are_in_the_json_and_methods_are_not() -> None:
    assert plain(Pair(1, 2)) == {"left": 1, "right": 2, "rank": "very_high", "total": 3}


def test_values_within_others_are_converted() -> None:
    found = plain({"pairs": (Pair(1, 2),), "days": {"orders": []}, "name": "orders", "none": None})

    assert found["pairs"][0]["total"] == 3
    assert (found["days"], found["name"], found["none"]) == ({"orders": []}, "orders", None)


def test_messages_have_the_names_of_the_proto_and_their_defaults() -> None:
    answer = pb.PeekResponse(records=[pb.PeekedRecord(offset=5)])

    assert plain(answer.records)[0]["offset"] == "5"
    assert plain(answer)["gaps"] == []
    assert json.loads(json.dumps(plain(answer.records)))[0]["value_bytes"] == "0"
