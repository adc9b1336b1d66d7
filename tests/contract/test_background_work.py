"""Background work is supervised, and no loop awaits over a collection that may change meanwhile."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

BROKER: Final = Path(__file__).resolve().parents[2] / "broker" / "forebay" / "broker"

OWN_TASKS: Final = {
    "console/listener.py": "its end ends the supervised server; a TLS handshake belongs to one connection",
    "telemetry/exporters.py": "ends the exporters at a stop, for 5 s at most",
    "rpc/buffer/service.py": "belongs to one call, which waits for it",
    "rpc/buffer/deliver_stream.py": "belongs to one stream, which ends with the first of them",
    "rpc/transport/interceptor.py": "sends the headers of one stream, which waits for it",
    "rpc/buffer/publish_stream.py": "belongs to one stream, which ends with the first of them",
    "rpc/buffer/replay_stream.py": "belongs to one stream, which ends with the first of them",
    "rpc/transport/health.py": "belongs to one watch, which ends with the first of them",
    "storage/replication/engines/kafka/connection/sender.py": "takes confirmations; a later append fails the store",
    "storage/store/bulk/remote.py": "readers fetch for themselves what it has not fetched",
    "runtime/fleet.py": "one read of the directory, which its callers wait for",
    "runtime/sinks.py": "a deletion: its caller waits for it, and a failure is counted",
    "runtime/backups/backups.py": "its end is logged, counted, and returned to the caller",
    "runtime/backups/checkpoints.py": "its end is logged, and a failed one is made again",
    "runtime/commit/committer.py": "its end fences the store",
    "runtime/dead_letters/mover.py": "moves what was rejected; what it leaves behind is given back",
    "runtime/epochs/commits.py": "one commit: its caller waits for it",
    "runtime/read/read_ahead.py": "belongs to one replay",
    "runtime/epochs/staging.py": "discards staged pages: its callers get the failure, and a stop waits for it",
    "runtime/delivery/subscription.py": "the answer to one ack, which its stream waits for",
    "runtime/resources/supervision.py": "the supervisor",
    "embedded.py": "the thread of an embedded broker, which reports its own failure",
    "serve.py": "the wait of the process for a signal, and the time limit of a follower's stop",
    "server.py": "the end of an outage of the journal at a stop, which cancels it",
}
"""Files that start tasks or threads without the supervisor, and what handles their end."""

STARTERS: Final = {"create_task", "ensure_future", "Thread", "detached"}
LIVE: Final = {"values", "items", "keys"}
"""Methods that show a dictionary as it changes."""


def test_every_start_of_a_task_is_supervised_or_names_what_notices_its_end() -> None:
    found = {path for path, tree in _modules("|".join(STARTERS)) for node in ast.walk(tree) if _starts(node)}

    assert found == set(OWN_TASKS)


def test_no_loop_awaits_over_a_dictionary_or_set_that_others_may_change() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, tree in _modules(rf"\.(?:{'|'.join(LIVE)})\(\)")
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and _is_live(node.iter) and any(_waits(each) for each in node.body)
    ]

    assert found == []


def _modules(content: str) -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules whose text matches ``content``: parsing all of them takes longer than most tests."""
    for path in sorted(BROKER.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if re.search(content, source):
            yield str(path.relative_to(BROKER)), ast.parse(source)


def _starts(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in STARTERS


def _is_live(iterated: ast.expr) -> bool:
    """``x.values()``, ``x.items()``, ``x.keys()`` of something that is no local name."""
    return (
        isinstance(iterated, ast.Call)
        and isinstance(iterated.func, ast.Attribute)
        and iterated.func.attr in LIVE
        and isinstance(iterated.func.value, ast.Attribute)
    )


def _waits(node: ast.AST) -> bool:
    return any(isinstance(each, (ast.Await, ast.AsyncFor, ast.AsyncWith)) for each in ast.walk(node))
