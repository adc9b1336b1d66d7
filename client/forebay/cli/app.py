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
from forebay.cli.manage.dead_letters import dlq_app
from forebay.cli.manage.positions import position_app
from forebay.cli.manage.realtime import realtime_app
from forebay.cli.manage.sinks import sink_app
from forebay.cli.manage.subscriptions import seek_sink, subscription_app
from forebay.cli.manage.targets import target_app
from forebay.cli.manage.token import token_app
from forebay.cli.operate.bench import bench
from forebay.cli.operate.config import config_app
from forebay.cli.operate.contract import contract
from forebay.cli.operate.deliver import deliver
from forebay.cli.operate.demo import demo
from forebay.cli.operate.directories import quarantine_app, repair, verify
from forebay.cli.operate.publish import publish
from forebay.cli.operate.quickstart import quickstart
from forebay.cli.operate.serve import serve
from forebay.cli.output import write_line
from forebay.cli.security import CaFile, CertFile, KeyFile, ServerName, Tls, TokenFile, TokenWithoutTls, set_options

app = Commands(
    name="forebay",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Durable buffer between Spark and slow or unavailable systems.",
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
    given = {
        "FOREBAY_TLS": tls,
        "FOREBAY_TLS_CA_FILE": tls_ca_file,
        "FOREBAY_TLS_CERT_FILE": tls_cert_file,
        "FOREBAY_TLS_KEY_FILE": tls_key_file,
        "FOREBAY_TLS_SERVER_NAME": tls_server_name,
        "FOREBAY_TOKEN_FILE": token_file,
        "FOREBAY_TOKEN_WITHOUT_TLS": token_without_tls,
    }
    set_options(given)


RUN, DATA, LOOK = "Run", "Records", "Look"
STORED = "Data directory"
app.command(rich_help_panel=RUN)(serve)
app.command(rich_help_panel=RUN)(deliver)
app.command(rich_help_panel=RUN)(quickstart)
app.command(rich_help_panel=RUN)(demo)
app.command(rich_help_panel=RUN)(bench)
app.command(rich_help_panel=RUN, example="forebay contract --endpoint broker.example:7461")(contract)
app.add_typer(token_app, name="token", rich_help_panel=RUN)
app.add_typer(config_app, name="config", rich_help_panel=RUN)
app.add_typer(target_app, name="target", rich_help_panel=RUN)
app.add_typer(sink_app, name="sink", rich_help_panel=LOOK)
app.add_typer(subscription_app, name="subscription", rich_help_panel=LOOK)
sink_app.command("seek")(seek_sink)
app.add_typer(position_app, name="position", rich_help_panel=LOOK)
app.add_typer(dlq_app, name="dlq", rich_help_panel=LOOK)
app.add_typer(realtime_app, name="realtime", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK, example="forebay status || echo 'look at the broker'")(status)
app.command(rich_help_panel=LOOK, example="forebay doctor --endpoint broker.example:7461")(doctor)
app.add_typer(schema_app, name="schema", rich_help_panel=LOOK)
app.add_typer(producers_app, name="producers", rich_help_panel=LOOK)
app.command(rich_help_panel=LOOK)(lag)
app.command(rich_help_panel=LOOK)(gaps)
app.command(rich_help_panel=LOOK)(explain)
app.command(rich_help_panel=LOOK)(connections)
app.command(rich_help_panel=LOOK)(info)
app.command(rich_help_panel=DATA)(publish)
app.command(rich_help_panel=DATA)(peek)
app.command(rich_help_panel=DATA)(tail)
app.command(rich_help_panel=DATA)(replay)
app.command(rich_help_panel=STORED)(verify)
app.command(rich_help_panel=STORED)(repair)
app.add_typer(backup_app, name="backup", rich_help_panel=STORED)
app.add_typer(quarantine_app, name="quarantine", rich_help_panel=STORED)
