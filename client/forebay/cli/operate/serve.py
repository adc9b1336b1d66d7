"""`forebay serve`: runs a broker in the foreground.

Options override environment variables (``FOREBAY_...``), which override the configuration file, which overrides the
defaults. The first line of standard output has the address once the broker serves; the second has the metrics address,
if enabled.
"""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from forebay.cli.completion import broker_settings
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.manage.settings_text import nested_texts
from forebay.cli.operate.logs import start_log
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_json, write_line
from forebay.cli.report import CommandFailed
from forebay.text import LogFormat

DEFAULT_CONFIG: Final = Path("forebay.toml")
"""Default configuration file, read if it exists."""


class LogLevel(StrEnum):
    """Log level."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="TOML file; default: ./forebay.toml, if it exists.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Data directory; created if missing. Default: ./forebay-data.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Address of the broker; port 0 is a free port. Default: 127.0.0.1:7461."
        ),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of Prometheus metrics; port 0 is a free port. Default: off."),
    ] = None,
    console_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address of the web console; port 0 is a free port. Default: off."),
    ] = None,
    console_write: Annotated[
        bool | None,
        typer.Option("--console-write", help="Enable the actions of the console, such as pausing a sink."),
    ] = None,
    tls_server_cert_file: Annotated[
        str | None,
        typer.Option(
            "--tls-server-cert-file", metavar="PEM", help="Certificate of the broker; enables TLS for all calls."
        ),
    ] = None,
    tls_server_key_file: Annotated[
        str | None, typer.Option("--tls-server-key-file", metavar="PEM", help="Private key of the certificate.")
    ] = None,
    tls_client_ca_file: Annotated[
        str | None,
        typer.Option(
            "--tls-client-ca-file", metavar="PEM", help="Require client certificates signed by these authorities."
        ),
    ] = None,
    token_hashes_file: Annotated[
        str | None,
        typer.Option("--token-hashes-file", help="Require credentials and enforce their rights; see `forebay token`."),
    ] = None,
    tokens_without_tls: Annotated[
        bool | None,
        typer.Option("--tokens-without-tls", help="Accept tokens without TLS, for encrypted networks."),
    ] = None,
    allow_anonymous: Annotated[
        bool | None,
        typer.Option(
            "--allow-anonymous", help="Listen beyond loopback without credentials: every caller has all rights."
        ),
    ] = None,
    assigned: Annotated[
        list[str] | None,
        typer.Option(
            *("--set", "-s"),
            metavar="NAME=VALUE",
            help="Any setting, for example tail_bytes=1GiB or sink_defaults.partitions=4. Repeatable.",
            autocompletion=broker_settings,
        ),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="Log level; the log is on standard error.")] = LogLevel.INFO,
    log_format: Annotated[
        LogFormat | None, typer.Option(help="Format of the log; the setting log_format. Default: text.")
    ] = None,
    output: OutputForm = Output.TABLE,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Without options, its data is in ./forebay-data.

    Changed certificates and credentials are loaded within seconds, and immediately on SIGHUP.
    """
    with needed_for("a broker", "broker"):
        from forebay.broker.serve import serve as run
        from forebay.broker.settings import SettingsError, load
        from forebay.broker.telemetry.exporter_selection import ExporterSelectionInvalid
    if config is not None and not config.is_file():
        raise CommandFailed(f"{config}: the file does not exist", ExitCode.NOT_FOUND)
    if config is None and DEFAULT_CONFIG.is_file():
        config = DEFAULT_CONFIG
    try:
        options = {
            "data_dir": data_dir,
            "listen": listen,
            "metrics_listen": metrics_listen,
            "console_listen": console_listen,
            "console_write": console_write,
            "tls_server_cert_file": tls_server_cert_file,
            "tls_server_key_file": tls_server_key_file,
            "tls_client_ca_file": tls_client_ca_file,
            "token_hashes_file": token_hashes_file,
            "tokens_without_tls": tokens_without_tls,
            "allow_anonymous": allow_anonymous,
            "log_format": log_format,
        }
        chosen = {name: value for name, value in options.items() if value is not None}
        settings = load(config, **{**nested_texts(assigned or []), **chosen})
    except SettingsError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    start_log(log_level.upper(), "%(asctime)s %(levelname)s %(name)s %(message)s", LogFormat(settings.log_format))

    beside: dict[str, str] = {}

    def ready(endpoint: str) -> None:
        if output is Output.JSON:
            write_json({"endpoint": endpoint, "data_dir": settings.data_dir.resolve(), **beside})
        else:
            for line in (f"listening on {endpoint}", *(f"{what} at {url}" for what, url in beside.items())):
                write_line(line)

    try:
        code = run(
            settings,
            on_ready=ready,
            on_metrics=partial(beside.__setitem__, "metrics"),
            on_console=partial(beside.__setitem__, "console"),
        )
    except (ExporterSelectionInvalid, SettingsError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    except OSError as error:
        raise CommandFailed(str(error)) from error
    raise typer.Exit(ExitCode.OK if code == 0 else ExitCode.FAILED)
