"""Options for TLS files and the token of a cluster.

The options of a query are visible in its plan, in the event log and in Spark's web UI. Therefore they name files and a
variable. Each process that connects (the driver, its planners, and every task) reads the secrets from there.
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
    """Names of TLS and token files and of a token variable, without secrets. Pickled.

    A file is an absolute path that is the same on every host, or a plain name of a file that Spark distributes to every
    host.
    """

    tls: bool = False
    """Connections use TLS."""

    ca_file: str = ""
    """Certificate authorities for the broker's certificate; empty uses gRPC's default."""

    cert_file: str = ""
    """Client certificate."""

    key_file: str = ""
    """Private key of the client certificate."""

    server_name: str = ""
    """Expected name in the broker's certificate; empty expects the host of the endpoint."""

    token_env: str = ""
    """Environment variable with the token in every process; empty uses `FOREBAY_TOKEN` if it is set."""

    token_file: str = ""
    """File with the token, instead of a variable."""

    token_without_tls: bool = False
    """Allow the token without TLS, for encrypted networks."""


NO_CREDENTIALS: Final = Credentials()


def credentials_of(values: OptionValues, environment: Mapping[str, str]) -> Credentials:
    """Return the credentials of the options, or of the driver's environment. Raises `ForebaySparkError`."""
    files = {name: _file(values, environment, name) for name in ("ca_file", "cert_file", "key_file")}
    server_name = values.text("tls_server_name") or environment.get("FOREBAY_TLS_SERVER_NAME", "").strip()
    if bool(files["cert_file"]) != bool(files["key_file"]):
        raise ForebaySparkError(
            "Only one of the options tls_cert_file and tls_key_file is set.", "Set both, or none of them."
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
    """Return True for a plain file name, which Spark resolves, and False for a path."""
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
            f"Option {option} contains the contents of a file, and options are visible in the plan of a query.",
            "Set it to the name of the file.",
        )
    if path and not os.path.isabs(path) and not is_file_of_spark(path):
        raise ForebaySparkError(
            f"Option {option} is {path!r}.",
            "Set it to an absolute path that exists on every host, or to the plain name of a file that Spark sent to "
            "every host: see forebay.spark.session.cluster_options.",
        )
    return path


def _token_env(values: OptionValues) -> str:
    name = values.text("token_env")
    if name is None:
        return ""
    if values.text("token_file") is not None:
        raise ForebaySparkError("Both token_env and token_file are set.", "Set one of them.")
    if not _NAME.fullmatch(name):  # not quoted: it may be the token
        raise ForebaySparkError(
            "Option token_env is not the name of an environment variable.",
            f"Set it to the variable with the token in driver and executors, such as {TOKEN_VARIABLE}.",
        )
    return name


def _flag(environment: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = environment.get(name, "").strip().lower()
    if text not in {"", "true", "false"}:
        raise ForebaySparkError(f"The environment variable {name} is {text!r}.", "Set it to true or false.")
    return text == "true" if text else default
