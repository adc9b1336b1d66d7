"""Where TLS files and the token of a cluster stand, as options say it.

The options of a query stand in its plan, in the event log and on Spark's pages. So they name files and a variable, and
what is secret is read from there by each process that connects: the driver, its planners, and every task.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.values import OptionValues

TOKEN_VARIABLE: Final = "FOREBAY_TOKEN"
CREDENTIAL_OPTIONS: Final = (
    "tls",
    "tls_ca_file",
    "tls_cert_file",
    "tls_key_file",
    "tls_server_name",
    "token_env",
    "token_file",
    "token_without_tls",
)
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Credentials:
    """Names of files and of a variable; nothing of it is secret. Is pickled.

    A file is an absolute path, the same on every host, or a name without a folder, which Spark has given to every host.
    """

    tls: bool = False
    """Connections are encrypted."""

    ca_file: str = ""
    """Authorities of the broker's certificate; empty for those that gRPC brings."""

    cert_file: str = ""
    """Certificate to show to the broker."""

    key_file: str = ""
    """Its private key."""

    server_name: str = ""
    """Name that the broker's certificate has to have; empty for the host of the endpoint."""

    token_env: str = ""
    """Variable that has the token in every process; empty takes `FOREBAY_TOKEN` where it is set."""

    token_file: str = ""
    """File that has the token, instead of a variable."""

    token_without_tls: bool = False
    """The token may go unencrypted over a network that encrypts by itself."""


NO_CREDENTIALS: Final = Credentials()


def credentials_of(values: OptionValues, environment: Mapping[str, str]) -> Credentials:
    """Read what is given by options, or else by the driver's environment. Raises `ForebaySparkError`."""
    files = {name: _file(values, environment, name) for name in ("ca_file", "cert_file", "key_file")}
    server_name = values.text("tls_server_name") or environment.get("FOREBAY_TLS_SERVER_NAME", "").strip()
    if bool(files["cert_file"]) != bool(files["key_file"]):
        raise ForebaySparkError(
            "Only one of the options tls_cert_file and tls_key_file is set.", "Set both, or leave both out."
        )
    named = bool(server_name or any(files.values()))
    wanted = values.flag("tls", default=_flag(environment, "FOREBAY_TLS", default=named))
    token_env, token_file = _token_env(values), _token_file(values, environment)
    return Credentials(
        **files if wanted else {},
        tls=wanted,
        server_name=server_name if wanted else "",
        token_env=token_env,
        token_file="" if token_env else token_file,
        token_without_tls=values.flag(
            "token_without_tls", default=_flag(environment, "FOREBAY_TOKEN_WITHOUT_TLS", default=False)
        ),
    )


def is_file_of_spark(path: str) -> bool:
    """Whether it is a name that Spark knows, and no place on the disk."""
    return bool(path) and os.path.basename(path) == path


def _file(values: OptionValues, environment: Mapping[str, str], name: str) -> str:
    option = f"tls_{name}"
    return _path(option, values.text(option) or environment.get(f"FOREBAY_TLS_{name.upper()}", "").strip())


def _token_file(values: OptionValues, environment: Mapping[str, str]) -> str:
    given = values.text("token_file")
    if given is None and environment.get(TOKEN_VARIABLE, "").strip():
        return ""
    return _path("token_file", given or environment.get("FOREBAY_TOKEN_FILE", "").strip())


def _path(option: str, path: str) -> str:
    if "\n" in path or "-----BEGIN" in path:
        raise ForebaySparkError(
            f"Option {option} holds what should stand in a file: options stand in the plan of a query.",
            "Set it to the name of the file.",
        )
    if path and not os.path.isabs(path) and not is_file_of_spark(path):
        raise ForebaySparkError(
            f"Option {option} is {path!r}.",
            "Set it to an absolute path that every host has, or to the name alone of a file that Spark has given to "
            "every host: see forebay.spark.session.cluster_options.",
        )
    return path


def _token_env(values: OptionValues) -> str:
    name = values.text("token_env")
    if name is None:
        return ""
    if values.text("token_file") is not None:
        raise ForebaySparkError("Both token_env and token_file are set.", "Set one of them.")
    if not _NAME.fullmatch(name):  # not repeated: it may be the token
        raise ForebaySparkError(
            "Option token_env is not the name of an environment variable.",
            f"Set it to the variable that has the token in driver and executors, such as {TOKEN_VARIABLE}.",
        )
    return name


def _flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip().lower()
    if text not in {"", "true", "false"}:
        raise ForebaySparkError(f"The environment variable {name} is {text!r}.", "Set it to true or false.")
    return text == "true" if text else default
