"""TLS and token of the commands that talk to a broker: options of `forebay` itself, or the environment.

A token is never an option: it would stand in the list of processes and in the history of the shell.
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
_given: Final[ContextVar[Mapping[str, str]]] = ContextVar("forebay_security")
"""The options of the command line that runs, by the variable that each stands for."""


def _option(name: str, variable: str, text: str, metavar: str | None = None) -> object:
    return typer.Option(name, metavar=metavar, help=f"{text} [{variable}]", rich_help_panel=PANEL, show_default=False)


Tls = Annotated[
    bool | None,
    _option(
        "--tls/--no-tls", "FOREBAY_TLS", "Speak TLS, with the authorities that gRPC brings unless others are named."
    ),
]
CaFile = Annotated[
    Path | None, _option("--tls-ca-file", "FOREBAY_TLS_CA_FILE", "Authorities of the broker's certificate.", "PEM")
]
CertFile = Annotated[
    Path | None, _option("--tls-cert-file", "FOREBAY_TLS_CERT_FILE", "Certificate to show to the broker.", "PEM")
]
KeyFile = Annotated[Path | None, _option("--tls-key-file", "FOREBAY_TLS_KEY_FILE", "Its private key.", "PEM")]
ServerName = Annotated[
    str | None,
    _option("--tls-server-name", "FOREBAY_TLS_SERVER_NAME", "Name that the broker's certificate has to have.", "NAME"),
]
TokenFile = Annotated[
    Path | None,
    _option("--token-file", "FOREBAY_TOKEN_FILE", "File that has the token, which may also stand in FOREBAY_TOKEN."),
]
TokenWithoutTls = Annotated[
    bool | None,
    _option("--token-without-tls", "FOREBAY_TOKEN_WITHOUT_TLS", "Send it over a network that encrypts by itself."),
]


def remember(given: Mapping[str, object]) -> None:
    """Keep the options for the command that follows; ``given`` is by the variable that an option stands for."""
    wanted = {name: _text(value) for name, value in given.items() if value is not None}
    if "FOREBAY_TOKEN_FILE" in wanted:
        wanted["FOREBAY_TOKEN"] = ""
    _given.set(wanted)


def client_settings() -> ClientSettings:
    """Return the settings of a client as options and environment say. Raises ``InvalidSetting``."""
    from forebay.client import ClientSettings

    return ClientSettings.from_environment({**os.environ, **_given.get({})})


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
