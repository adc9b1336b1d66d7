"""Conversion of credential options to client settings, in the process that connects.

Spark distributes files to a different folder in every process. Therefore paths are resolved when a client is created,
never before pickling.
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
    """Return the settings with TLS and token. The client reads the token for each call."""
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
        # Without Spark in this process, the client reports that the file cannot be read.
        return path
    # In the process that plans a stream, SparkFiles is a folder below the one with the files.
    above = found.parent.parent / path
    return str(above if not found.exists() and above.exists() else found)
