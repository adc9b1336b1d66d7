"""`forebay serve`: runs a broker in the foreground.

Options win over the environment (``FOREBAY_...``), the environment over the file, the file over the
defaults. The first line of standard output says where it listens, once it serves; the second where Prometheus
may ask, if it may.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, tell, write_json
from forebay.cli.report import CommandFailed
from forebay.text import log_to_stderr

DEFAULT_CONFIG: Final = Path("forebay.toml")
"""Read when it is there and no other file is named."""


class LogLevel(StrEnum):
    """How much is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def serve(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="A TOML file; else forebay.toml here, if there is one.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Where the data is; made if missing. Else forebay-data here.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where to listen; port 0 takes a free one. Else 127.0.0.1:7461."),
    ] = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where Prometheus may ask; port 0 takes a free one. Else nowhere."),
    ] = None,
    tls_server_cert_file: Annotated[
        str | None,
        typer.Option(
            "--tls-server-cert-file", metavar="PEM", help="The broker's certificate: it then speaks TLS only."
        ),
    ] = None,
    tls_server_key_file: Annotated[
        str | None, typer.Option("--tls-server-key-file", metavar="PEM", help="That certificate's private key.")
    ] = None,
    tls_client_ca_file: Annotated[
        str | None,
        typer.Option("--tls-client-ca-file", metavar="PEM", help="Demand a certificate of clients, by these."),
    ] = None,
    token_hashes_file: Annotated[
        str | None,
        typer.Option(
            "--token-hashes-file", help="Demand credentials of calls, and apply their rights; see `forebay token`."
        ),
    ] = None,
    tokens_without_tls: Annotated[
        bool | None,
        typer.Option("--tokens-without-tls", help="Take tokens over a network that encrypts by itself."),
    ] = None,
    allow_anonymous: Annotated[
        bool | None,
        typer.Option("--allow-anonymous", help="Listen beyond loopback although every caller may do everything."),
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="How much is logged, on standard error.")] = LogLevel.INFO,
    output: OutputForm = Output.TABLE,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C. Without any option it keeps its data in ./forebay-data.

    Changed certificates and credentials are read within seconds, and at once on SIGHUP.
    """
    with needed_for("a broker", "broker"):
        from forebay.broker.exporting import ExportingError
        from forebay.broker.server import serve as run
        from forebay.broker.settings import SettingsError, load
    if config is not None and not config.is_file():
        raise CommandFailed(f"{config}: there is no such file", ExitCode.NOT_FOUND)
    if config is None and DEFAULT_CONFIG.is_file():
        config = DEFAULT_CONFIG
    try:
        settings = load(
            config,
            data_dir=data_dir,
            listen=listen,
            metrics_listen=metrics_listen,
            tls_server_cert_file=tls_server_cert_file,
            tls_server_key_file=tls_server_key_file,
            tls_client_ca_file=tls_client_ca_file,
            token_hashes_file=token_hashes_file,
            tokens_without_tls=tokens_without_tls,
            allow_anonymous=allow_anonymous,
        )
    except SettingsError as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    log_to_stderr(log_level.upper(), "%(asctime)s %(levelname)s %(name)s %(message)s")

    metrics: list[str] = []

    def ready(endpoint: str) -> None:
        if output is Output.JSON:
            found = {"metrics": metrics[0]} if metrics else {}
            write_json({"endpoint": endpoint, "data_dir": settings.data_dir.resolve(), **found})
        else:
            for line in (f"listening on {endpoint}", *(f"metrics at {url}" for url in metrics)):
                tell(line)

    try:
        code = run(settings, on_ready=ready, on_metrics=metrics.append)
    except (ExportingError, SettingsError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    except OSError as error:
        raise CommandFailed(str(error)) from error
    raise typer.Exit(ExitCode.OK if code == 0 else ExitCode.FAILED)
