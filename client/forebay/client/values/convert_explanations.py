"""Conversion of the explanation of a record."""

from __future__ import annotations

from forebay.client.values.convert import value
from forebay.client.values.explanations import Explanation
from forebay.v1 import sink_service_pb2 as pb


def explanation(partition: int, offset: int, message: pb.ExplainRecordResponse) -> Explanation:
    """Return the explanation of a message."""
    page = (message.page_first_offset, message.page_last_offset) if message.HasField("page_first_offset") else None
    return value(Explanation, message, partition=partition, offset=offset, page=page)
