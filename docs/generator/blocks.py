"""Generated blocks: a line ``<!-- generated: NAME -->`` of a page is replaced by what the code says."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from docs.generator import (
    broker_settings,
    command_line,
    consumer_settings,
    errors,
    metrics,
    retries,
    sink_settings,
    start_table,
    stored_values,
    wire_contract,
)

BLOCKS: Final[Mapping[str, Callable[[], str]]] = {
    "broker-settings": broker_settings.markdown,
    "client-errors": errors.client_errors,
    "command-line": command_line.markdown,
    "consumer-settings": consumer_settings.markdown,
    "metrics": metrics.markdown,
    "reasons": errors.reasons,
    "retries": retries.markdown,
    "sink-guarantees": sink_settings.guarantees,
    "sink-settings": sink_settings.markdown,
    "start-table": start_table.markdown,
    "stored-values": stored_values.markdown,
    "wire-messages": wire_contract.messages,
    "wire-services": wire_contract.services,
}
_MARK: Final = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.M)


def fill(markdown: str) -> str:
    """Return ``markdown`` with its generated blocks; an unknown name is a ``KeyError``."""
    return _MARK.sub(lambda mark: BLOCKS[mark[1]](), markdown)
