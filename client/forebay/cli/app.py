"""Tree of commands. Imports no modules of the commands; these import them when they run."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from forebay.cli.backup.commands import backup_app
from forebay.cli.command import Commands
from forebay.cli.inspect.connections import connections
from forebay.cli.inspect.doctor import doctor
from forebay.cli.inspect.explain import explain
from forebay.cli.inspect.gaps import gaps
from forebay.cli.inspect.info import info
from forebay.cli.inspect.lag import lag
from forebay.cli.inspect.peek import peek
from forebay.cli.inspect.producers import producers_app
from forebay.cli.inspect.replay import replay
from forebay.cli.inspect.schemas import schema_app
from forebay.cli.inspect.status import status
from forebay.cli.inspect.tail import tail
from forebay.cli.journal.commands import journal_app
from forebay.cli.journal.removal import remove
from forebay.cli.manage.dead_letters import dlq_app
from forebay.cli.manage.positions import position_app
from forebay.cli.manage.realtime import realtime_app
from forebay.cli.manage.shards import shard_app
from forebay.cli.manage.sinks import sink_app
from forebay.cli.manage.subscriptions import seek_sink, subscription_app
from forebay.cli.manage.targets import target_app
from forebay.cli.manage.token import token_app
from forebay.cli.operate.bench import bench
from forebay.cli.operate.config import config_app
from forebay.cli.operate.contract import contract
from forebay.cli.operate.deliver import deliver
from forebay.cli.operate.deliveries import run_deliveries
from forebay.cli.operate.demo import demo
from forebay.cli.operate.directories import quarantine_app, repair, verify
from forebay.cli.operate.publish import publish
from forebay.cli.operate.quickstart import quickstart
from forebay.cli.operate.serve import serve
from forebay.cli.output import write_line
from forebay.cli.security import (
    OPTIONS,
    CaFile,
    CertFile,
    KeyFile,
    ServerName,
    Tls,
    TokenFile,
    TokenWithoutTls,
    set_options,
    variables_of,
)
from forebay.cli.top.command import top

app = Commands(
    name="forebay",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable buffer between Spark and slow or unavailable systems.",
    example="forebay quickstart\n"
    "forebay serve --data-dir forebay-data\n"
    "forebay publish orders hello\n"
    "forebay status --endpoint broker.example:7461",
    epilog=(
        "Exit codes: 0 done, 1 failed or inconsistent, 2 wrong usage, 3 not found, 4 broker unavailable, "
        "5 rejected by the broker, 6 missing dependency, 130 interrupted."
    ),
)


def _show_version(wanted: bool) -> None:
    if wanted:
        write_line(version("forebay"))
        raise typer.Exit


@app.callback()
def _root(
    version_wanted: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    tls: Tls = None,
    tls_ca_file: CaFile = None,
    tls_cert_file: CertFile = None,
    tls_key_file: KeyFile = None,
    tls_server_name: ServerName = None,
    token_file: TokenFile = None,
    token_without_tls: TokenWithoutTls = None,
) -> None:
    given = (tls, tls_ca_file, tls_cert_file, tls_key_file, tls_server_name, token_file, token_without_tls)
    set_options(variables_of(dict(zip(OPTIONS, given, strict=True))))


RUN, DATA, LOOK = "Run", "Records", "Look"
STORED = "Data directory"
app.command(rich_help_panel=RUN, example="forebay serve --data-dir forebay-data --set tail_bytes=1GiB")(serve)
app.command(
    rich_help_panel=RUN,
    example="forebay deliver orders --to https://example.org/in\nforebay deliver orders --to file -O path=orders.jsonl",
)(deliver)
app.command(
    "run", rich_help_panel=RUN, example="forebay run deliveries.toml\nforebay run deliveries.toml --check --open"
)(run_deliveries)
app.command(rich_help_panel=RUN, example="forebay quickstart")(quickstart)
app.command(rich_help_panel=RUN, example="forebay demo")(demo)
app.command(rich_help_panel=RUN, example="forebay bench")(bench)
app.command(rich_help_panel=RUN, example="forebay contract --endpoint broker.example:7461")(contract)
app.add_typer(token_app, name="token", rich_help_panel=RUN)
app.add_typer(config_app, name="config", rich_help_panel=RUN)
app.add_typer(target_app, name="target", rich_help_panel=RUN)
app.add_typer(sink_app, name="sink", rich_help_panel=LOOK)
app.add_typer(subscription_app, name="subscription", rich_help_panel=LOOK)
sink_app.command("seek", example="forebay sink seek orders --to latest --dry-run")(seek_sink)
app.add_typer(position_app, name="position", rich_help_panel=LOOK)
app.add_typer(dlq_app, name="dlq", rich_help_panel=LOOK)
app.add_typer(realtime_app, name="realtime", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK, example="forebay status --strict -o json")(status)
app.command(rich_help_panel=LOOK, example="forebay top --interval 1s")(top)
app.command(rich_help_panel=LOOK, example="forebay doctor --endpoint broker.example:7461")(doctor)
app.add_typer(shard_app, name="shard", rich_help_panel=LOOK)
shard_app.command("remove", example="forebay shard remove b --journal s3://bucket/fleet --dry-run")(remove)
app.add_typer(schema_app, name="schema", rich_help_panel=LOOK)
app.add_typer(producers_app, name="producers", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK, example="forebay lag\nforebay lag orders --watch --interval 5s")(lag)
app.command(rich_help_panel=LOOK, example="forebay gaps orders")(gaps)
app.command(rich_help_panel=LOOK, example="forebay explain orders 4711 --partition 2")(explain)
app.command(rich_help_panel=LOOK, example="forebay connections")(connections)
app.command(rich_help_panel=LOOK, example="forebay info")(info)
app.command(rich_help_panel=DATA, example="forebay publish orders hello --key 7")(publish)
app.command(rich_help_panel=DATA, example="forebay peek orders --count 3")(peek)
app.command(rich_help_panel=DATA, example="forebay tail orders\nforebay tail orders --count 0 --follow")(tail)
app.command(rich_help_panel=DATA, example="forebay replay orders --start-time 1h")(replay)
app.command(rich_help_panel=STORED, example="forebay verify --data-dir forebay-data")(verify)
app.command(rich_help_panel=STORED, example="forebay repair --data-dir forebay-data --into repaired")(repair)
app.add_typer(backup_app, name="backup", rich_help_panel=STORED)
app.add_typer(journal_app, name="journal", rich_help_panel=STORED)
app.add_typer(quarantine_app, name="quarantine", rich_help_panel=STORED)
