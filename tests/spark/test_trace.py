"""The trace of one record: from the commit of its micro-batch in Spark to its settlement, over an outage and a kill."""

from __future__ import annotations

from pathlib import Path

from tests.support.telemetry.otlp import receiving
from tests.support.telemetry.story import assert_one_story, lived


def test_the_trace_of_a_sampled_record_is_one_story_from_its_micro_batch_to_its_settlement(tmp_path: Path) -> None:
    with receiving() as receiver:
        story = lived(tmp_path, receiver.endpoint, receiver)

        assert_one_story(story, receiver)
