"""TLS and token of commands that call a broker: global options or environment variables.

A token is never an option, because options are visible in the process list and the shell history.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from forebay.client import ClientSettings

PANEL: Final = "TLS and token, before the command"
OPTIONS: Final = (
    *("tls", "tls_ca_file", "tls_cert_file", "tls_key_file", "tls_server_name"),
    *("token_file", "token_without_tls"),
)
"""Parameters of the program; the variable of each is ``FOREBAY_`` and its name."""

_given: Final[ContextVar[Mapping[str, str]]] = ContextVar("forebay_security")
"""Given options of the command line, by their environment variable."""


def _option(name: str, variable: str, text: str, metavar: str | None = None) -> object:
    return typer.Option(name, metavar=metavar, help=f"{text} [{variable}]", rich_help_panel=PANEL, show_default=False)


Tls = Annotated[
    bool | None,
    _option("--tls/--no-tls", "FOREBAY_TLS", "Use TLS, by default with the certificate authorities of gRPC."),
]
CaFile = Annotated[
    Path | None,
    _option("--tls-ca-file", "FOREBAY_TLS_CA_FILE", "Certificate authorities for the broker's certificate.", "PEM"),
]
CertFile = Annotated[Path | None, _option("--tls-cert-file", "FOREBAY_TLS_CERT_FILE", "Client certificate.", "PEM")]
KeyFile = Annotated[
    Path | None, _option("--tls-key-file", "FOREBAY_TLS_KEY_FILE", "Private key of the client certificate.", "PEM")
]
ServerName = Annotated[
    str | None,
    _option("--tls-server-name", "FOREBAY_TLS_SERVER_NAME", "Expected name in the broker's certificate.", "NAME"),
]
TokenFile = Annotated[
    Path | None,
    _option("--token-file", "FOREBAY_TOKEN_FILE", "File with the token; alternatively, set FOREBAY_TOKEN."),
]
TokenWithoutTls = Annotated[
    bool | None,
    _option("--token-without-tls", "FOREBAY_TOKEN_WITHOUT_TLS", "Send the token without TLS, for encrypted networks."),
]


def set_options(given: Mapping[str, object]) -> None:
    """Store the options for the command that follows; ``given`` is by environment variable."""
    wanted = {name: _text(value) for name, value in given.items() if value is not None}
    if "FOREBAY_TOKEN_FILE" in wanted:
        wanted["FOREBAY_TOKEN"] = ""
    _given.set(wanted)


def variables_of(parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the options before the command, parameters of the program, by environment variable."""
    return {f"FOREBAY_{name.upper()}": parameters.get(name) for name in OPTIONS}


def client_settings() -> ClientSettings:
    """Return client settings from options and environment. Raises ``INVALID_SETTING``."""
    from forebay.client import ClientSettings

    return ClientSettings.from_environment({**os.environ, **_given.get({})})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
