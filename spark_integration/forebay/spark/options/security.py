"""From the names of files and variables to what a client takes, in the process that connects.

Files that Spark has given to a host stand in another folder in every process, so they are looked for when a client is
made and never before it is pickled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from pyspark import SparkFiles

from forebay.client import ClientSettings, TlsSettings
from forebay.spark.options.credentials import TOKEN_VARIABLE, Credentials, is_file_of_spark


def secured(
    settings: ClientSettings,
    credentials: Credentials,
    environment: Mapping[str, str],
    *,
    locate: Callable[[str], str] = SparkFiles.get,
) -> ClientSettings:
    """Return the settings with TLS and token. The token itself is read by the client, with each call."""
    tls = TlsSettings(
        ca_file=_located(credentials.ca_file, locate),
        cert_file=_located(credentials.cert_file, locate),
        key_file=_located(credentials.key_file, locate),
        server_name=credentials.server_name,
    )
    token_env = credentials.token_env
    if not token_env and not credentials.token_file and environment.get(TOKEN_VARIABLE, "").strip():
        token_env = TOKEN_VARIABLE
    return replace(
        settings,
        tls=tls if credentials.tls else None,
        token_env=token_env,
        token_file=_located(credentials.token_file, locate),
        token_without_tls=credentials.token_without_tls,
    )


def _located(path: str, locate: Callable[[str], str]) -> str:
    if not is_file_of_spark(path):
        return path
    try:
        found = Path(locate(path))
    except (AssertionError, AttributeError):
        # There is no Spark in this process: the client then says of the name that it cannot be read.
        return path
    # The process that plans a stream is told a folder of its own below the one that has the files.
    above = found.parent.parent / path
    return str(above if not found.exists() and above.exists() else found)
