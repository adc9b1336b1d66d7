"""Positions in memory."""

from __future__ import annotations

import pytest

from forebay.client.positions.stores.memory import MemoryPositions
from tests.support.positions.conformance import Opened, PositionStoreConformance


class TestMemoryPositions(PositionStoreConformance):
    @pytest.fixture
    def opened(self) -> Opened:
        store = MemoryPositions()
        return lambda: store
