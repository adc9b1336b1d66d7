"""Table of the allowed imports, and the check of the source code against it.

    spark -> client -> page -> v1 <- broker.rpc -> broker.runtime -> broker.core <- broker.storage
    contract -> client       the wire contract as checks, which cli runs
    deliver -> client        cli -> all of them        broker.server builds everything
    page, the format of pages, is imported by all; by the broker's inner layers for its constants only
    state.numbers, which writes numbers with their nouns, is imported by all but v1 and page
    errors, the table of reasons, is imported by broker.core, broker.runtime, broker.rpc, client and spark
    process, for those that run one, is imported by broker.server and cli
    text, which makes foreign text safe to show, is imported by client, deliver, cli and broker's own modules
    credentials, which warns of files, by client, deliver and broker's own modules
    arrow, with pyarrow, is imported by spark, and by client and broker.rpc where there are rows of it

Imports are read from the syntax tree, never executed; those under ``TYPE_CHECKING`` and inside functions
count too, and so does ``importlib.import_module`` with a literal name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ANY: Final = None
FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


@dataclass(frozen=True, slots=True)
class Rule:
    """Allowed imports of one package. Prefixes are dotted names and cover everything below them."""

    forebay: frozenset[str]
    """Parts of Forebay that may be imported; the package itself always may."""

    lazily: frozenset[str] = frozenset()
    """Parts that may be imported inside a function only."""

    third_party: frozenset[str] | None = frozenset()
    """Distributions that may be imported, or ANY."""

    never: frozenset[str] = frozenset()
    """Exceptions: prefixes that must not be imported although the fields above allow them."""

    calls_never: frozenset[str] = frozenset()
    """Calls that may not be written, as they read in the source."""


WIRE: Final = frozenset({"grpc", "forebay.v1"})
CLOCKS_AND_CHANCE: Final = frozenset({"time", "random", "secrets", "uuid", "sched"})
INPUT_AND_OUTPUT: Final = frozenset(
    {
        "io",
        "logging",
        "os",
        "pathlib",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "subprocess",
        "tempfile",
        "urllib",
    }
)
IMPORTING_CALLS: Final = frozenset({"importlib.import_module", "import_module", "__import__"})
CONCURRENCY: Final = frozenset(
    {"_thread", "asyncio", "concurrent", "contextvars", "multiprocessing", "queue", "selectors", "threading"}
)

RULES: Final[dict[str, Rule]] = {
    "forebay.v1": Rule(frozenset(), third_party=frozenset({"google", "grpc"})),
    # The table of reasons, for every part that raises or handles errors.
    "forebay.errors": Rule(frozenset()),
    # Words for the state of sinks, and numbers as people read them, for every part that shows them.
    "forebay.state": Rule(frozenset()),
    # The shard of a sink, for brokers and clients.
    "forebay.shards": Rule(frozenset()),
    # The page format, for every part that reads or writes pages.
    "forebay.page": Rule(frozenset({"forebay.v1"}), third_party=frozenset({"google"})),
    "forebay.page.format": Rule(frozenset()),
    "forebay.broker.core": Rule(
        frozenset({"forebay.errors", "forebay.page.format", "forebay.state.numbers"}),
        never=CLOCKS_AND_CHANCE | INPUT_AND_OUTPUT | CONCURRENCY,
        calls_never=frozenset(
            {"open", "print", "input", "datetime.now", "datetime.utcnow", "datetime.today", "date.today"}
        ),
    ),
    "forebay.broker.storage": Rule(frozenset({"forebay.broker.core", "forebay.page.format", "forebay.state.numbers"})),
    "forebay.broker.storage.records.header": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage", "forebay.page.crc32", "forebay.state.numbers"})
    ),
    **{
        f"forebay.broker.storage.{module}": Rule(
            frozenset({"forebay.broker.core", "forebay.broker.storage", "forebay.page.crc32", "forebay.state.numbers"})
        )
        for module in (
            "backup.restores.files",
            "backup.transfer",
            "replication.checkpoints.job",
            "replication.checkpoints.loading",
        )
    },
    "forebay.broker.storage.replication.batch": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage", "forebay.page.crc32", "forebay.state.numbers"})
    ),
    "forebay.broker.storage.replication.pieces": Rule(
        frozenset({"forebay.broker.storage", "forebay.page.crc32"}), third_party=frozenset({"isal"})
    ),
    "forebay.broker.storage.replication.record": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage", "forebay.page.crc32", "forebay.state.numbers"})
    ),
    "forebay.broker.storage.store.rocks": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage"}), third_party=frozenset({"rocksdict"})
    ),
    "forebay.broker.storage.backup.object_target": Rule(
        frozenset({"forebay.broker.storage"}), third_party=frozenset({"obstore"})
    ),
    "forebay.broker.storage.object_stores": Rule(
        frozenset({"forebay.broker.storage"}), third_party=frozenset({"obstore"})
    ),
    "forebay.broker.storage.replication.engines.bucket": Rule(
        frozenset({"forebay.broker.storage"}), third_party=frozenset({"obstore"})
    ),
    **{
        f"forebay.broker.storage.replication.engines.kafka.connection.{module}": Rule(
            frozenset({"forebay.broker.storage", "forebay.state.numbers"}), third_party=frozenset({"confluent_kafka"})
        )
        for module in ("access", "cursors", "sender", "topic", "topic_log", "trouble")
    },
    # Its reports are for people.
    "forebay.broker.storage.repair": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage", "forebay.page.format", "forebay.state"})
    ),
    "forebay.broker.storage.repair.inspection": Rule(
        frozenset({"forebay.broker.core", "forebay.broker.storage"}), third_party=frozenset({"rocksdict"})
    ),
    "forebay.broker.runtime": Rule(
        frozenset({"forebay.broker.core", "forebay.errors", "forebay.page.format", "forebay.shards", "forebay.state"}),
        third_party=frozenset({"opentelemetry"}),
        never=frozenset({"opentelemetry.sdk", "opentelemetry.exporter"}),
    ),
    # For every process that moves pages in bulk.
    "forebay.process": Rule(frozenset()),
    # For modules that show or log text from other parties.
    "forebay.text": Rule(frozenset()),
    # For modules that name a missing extra.
    "forebay.packaging": Rule(frozenset()),
    # For modules that use files of certificates and secrets.
    "forebay.credentials": Rule(frozenset()),
    # Connections to a database, for positions and deliveries.
    "forebay.postgresql": Rule(frozenset(), third_party=frozenset({"psycopg"})),
    # Rows with a schema, for modules that handle them: needs pyarrow and nothing else.
    "forebay.arrow": Rule(frozenset(), third_party=frozenset({"pyarrow"})),
    "forebay.broker.rpc": Rule(
        frozenset(
            {
                "forebay.broker.core",
                "forebay.broker.runtime",
                "forebay.errors",
                "forebay.page",
                "forebay.state.numbers",
                "forebay.v1",
            }
        ),
        lazily=frozenset({"forebay.arrow"}),
        third_party=frozenset({"google", "grpc", "grpc_health", "grpc_reflection", "opentelemetry"}),
        never=frozenset({"opentelemetry.sdk", "opentelemetry.exporter"}),
    ),
    # Web pages, from the same state and the same calls as the services.
    "forebay.broker.console": Rule(
        frozenset(
            {
                "forebay.broker.core",
                "forebay.broker.rpc",
                "forebay.broker.runtime",
                "forebay.broker.settings",
                "forebay.state",
                "forebay.text",
                "forebay.v1",
            }
        ),
        lazily=frozenset({"forebay.arrow"}),
        third_party=frozenset({"google", "jinja2", "markupsafe", "starlette", "uvicorn"}),
    ),
    # The composition root, and the only other place with grpc.
    "forebay.broker.server": Rule(
        frozenset({"forebay.broker", "forebay.credentials", "forebay.packaging", "forebay.process", "forebay.v1"}),
        third_party=ANY,
        never=frozenset({"rocksdict"}),
    ),
    # The composition root in a process.
    "forebay.broker.serve": Rule(
        frozenset({"forebay.broker", "forebay.process"}), third_party=frozenset({"uvloop"}), never=WIRE | {"rocksdict"}
    ),
    # The composition root in a thread.
    "forebay.broker.embedded": Rule(frozenset({"forebay.broker"}), never=WIRE | {"rocksdict"}),
    # settings.py and the other modules beside it, and telemetry.
    "forebay.broker": Rule(
        frozenset({"forebay.credentials", "forebay.text"}),
        third_party=ANY,
        never=WIRE | {"rocksdict", "forebay.broker.server"},
    ),
    "forebay.client": Rule(
        frozenset(
            {
                "forebay.credentials",
                "forebay.errors",
                "forebay.packaging",
                "forebay.page",
                "forebay.shards",
                "forebay.state",
                "forebay.text",
                "forebay.v1",
            }
        ),
        lazily=frozenset({"forebay.arrow"}),
        third_party=frozenset({"google", "grpc", "opentelemetry"}),
        never=frozenset({"opentelemetry.sdk", "opentelemetry.exporter"}),
    ),
    # Faster where it is there, and works where it is not.
    "forebay.page.crc32": Rule(frozenset(), third_party=frozenset({"isal"})),
    # For users of Arrow, who import it themselves.
    "forebay.client.arrow": Rule(
        frozenset({"forebay.arrow", "forebay.client", "forebay.errors", "forebay.page"}),
        third_party=frozenset({"pyarrow"}),
    ),
    # Stores of positions behind extras: each has the library of its own.
    **{
        f"forebay.client.positions.stores.{store}": Rule(
            frozenset({"forebay.client", "forebay.errors", "forebay.postgresql"}), third_party=frozenset({library})
        )
        for store, library in (
            ("azure_blob", "azure"),
            ("cassandra", "cassandra"),
            ("objects", "obstore"),
            ("postgresql", "psycopg"),
        )
    },
    # The in-process broker for users' tests: needs the broker only when it is called.
    "forebay.client.testing": Rule(
        frozenset({"forebay.client", "forebay.v1"}),
        lazily=frozenset({"forebay.broker.embedded", "forebay.broker.settings"}),
        third_party=frozenset({"google", "grpc", "opentelemetry"}),
    ),
    # The wire contract as checks: plain calls, for a broker of any making.
    "forebay.contract": Rule(
        frozenset({"forebay.client", "forebay.errors", "forebay.v1"}), third_party=frozenset({"google", "grpc"})
    ),
    "forebay.deliver": Rule(
        frozenset({"forebay.client", "forebay.credentials", "forebay.packaging", "forebay.postgresql", "forebay.text"}),
        third_party=ANY,
        never=WIRE | {"pyspark", "rocksdict"},
    ),
    **{
        f"forebay.deliver.targets.postgresql.{module}": Rule(
            frozenset({"forebay.arrow", "forebay.client", "forebay.deliver"}), third_party=frozenset({"pyarrow"})
        )
        for module in ("binary_fields", "schema_rows")  # imported where there are rows
    },
    "forebay.spark": Rule(
        frozenset({"forebay.arrow", "forebay.client", "forebay.errors", "forebay.page"}),
        third_party=frozenset({"numpy", "opentelemetry", "pandas", "py4j", "pyarrow", "pyspark"}),
        never=frozenset({"forebay.client.testing", "opentelemetry.sdk", "opentelemetry.exporter"}),
    ),
    "pyspark_forebay": Rule(frozenset({"forebay.spark"}), third_party=frozenset({"pyspark"})),
    # What a command writes passes its module for output, which escapes it.
    "forebay.cli": Rule(
        frozenset({"forebay"}), third_party=ANY, calls_never=frozenset({"print", "typer.echo", "logging.basicConfig"})
    ),
    "forebay.cli.output": Rule(frozenset({"forebay"}), third_party=ANY),
    "forebay.cli.demo": Rule(frozenset({"forebay"}), third_party=ANY),
}


@dataclass(frozen=True, slots=True)
class Import:
    """One imported name: a module, or a name inside one."""

    name: str
    line: int
    lazy: bool


def covers(prefixes: frozenset[str], name: str) -> bool:
    """Return whether ``name`` is one of ``prefixes`` or below one."""
    return any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes)


def rule_of(module: str) -> tuple[str, Rule]:
    """Return the package whose rule holds for ``module``: the longest that covers it."""
    packages = [package for package in RULES if covers(frozenset({package}), module)]
    if not packages:
        raise LookupError(f"no import rule covers {module}; add a line to RULES")
    package = max(packages, key=len)
    return package, RULES[package]


def imports(tree: ast.AST, module: str, *, is_package: bool) -> Iterator[Import]:
    """Yield every import below ``tree``, relative ones resolved against ``module``."""
    waiting = [(tree, False)]
    while waiting:
        node, lazy = waiting.pop()
        inside = lazy or isinstance(node, FUNCTIONS)
        waiting += [(child, inside) for child in ast.iter_child_nodes(node)]
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, lazy)
        elif isinstance(node, ast.ImportFrom):
            parts = module.split(".")
            base = parts[: len(parts) - node.level + is_package] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield Import(f"{source}.{alias.name}", node.lineno, lazy)
        elif isinstance(node, ast.Call) and called(node) in IMPORTING_CALLS:
            match node.args:
                case [ast.Constant(value=str(name)), *_]:
                    yield Import(name, node.lineno, lazy)


def called(call: ast.Call) -> str:
    """Return the called name as it reads in the source."""
    match call.func:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            return f"{name}.{attribute}"
    return ast.unparse(call.func)


def is_among(calls: frozenset[str], name: str) -> bool:
    """Return whether ``name`` is one of ``calls``; a dotted one is also found after its module's name."""
    return name in calls or any("." in call and name.endswith(f".{call}") for call in calls)


def violations(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Return one line per import or call in ``source`` that the rule of ``module`` forbids."""
    package, rule = rule_of(module)
    tree = ast.parse(source, filename=module)
    found = []
    for item in imports(tree, module, is_package=is_package):
        problem = problem_of(item, package, rule)
        if problem is not None:
            found.append(f"{module}:{item.line}: {package} may not import {item.name}{problem}")
    for node in ast.walk(tree) if rule.calls_never else ():
        if isinstance(node, ast.Call) and is_among(rule.calls_never, called(node)):
            found.append(f"{module}:{node.lineno}: {package} may not call {called(node)}")
    return found


def problem_of(item: Import, package: str, rule: Rule) -> str | None:
    """Return what is wrong with ``item``, ready to follow its name, or None."""
    top = item.name.split(".")[0]
    if covers(rule.never, item.name):
        return ""
    if covers(rule.lazily, item.name):
        return None if item.lazy else " outside a function"
    if top in {"forebay", "pyspark_forebay"}:
        return None if covers(rule.forebay | {package}, item.name) else ""
    if top in sys.stdlib_module_names or rule.third_party is ANY:
        return None
    return None if top in rule.third_party else ""


def modules(root: Path) -> Iterator[tuple[str, bool, Path]]:
    """Yield the dotted name of every module below a source root, whether it is a package, and its file."""
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] in {"forebay", "pyspark_forebay"}:
            is_package = parts[-1] == "__init__"
            yield ".".join(parts[:-1] if is_package else parts), is_package, path
