"""Description of the HTTP target. A test compares the options with `HttpSettings`."""

from __future__ import annotations

from typing import Final

from forebay.deliver.targets.http_settings import METHODS, RETRY_AFTER_S, TIMEOUT_S, Format
from forebay.deliver.targets.options import TargetDescription, TargetOption

_TIME: Final = f"{TIMEOUT_S[0]:g} to {TIMEOUT_S[1]:g}"

DESCRIPTION: Final = TargetDescription(
    "Sends records to an HTTP(S) address.",
    (
        TargetOption("url", "text", None, "http:// or https://, without user and password", "Address."),
        TargetOption("format", "choice", "ndjson", ", ".join(Format), "Content of one request."),
        TargetOption("envelope", "boolean", "false", "true, false", "Wrap records with key, position and time."),
        TargetOption("method", "choice", "POST", ", ".join(METHODS), "Method of a request."),
        TargetOption("content_type", "text", "", "", "Content type instead of the format's own."),
        TargetOption("header.NAME", "text", "", "no secret", "Additional header. Repeatable."),
        TargetOption("authorization_env", "text", "", "", "Environment variable with the authorization header."),
        TargetOption("connect_timeout_s", "duration", "5", _TIME, "Time limit of connecting, within timeout_s."),
        TargetOption("timeout_s", "duration", "20", _TIME, "Time limit of a request; below the ack deadline."),
        TargetOption(
            *("retry_after_max_s", "duration", "3600", f"{RETRY_AFTER_S[0]:g} to {RETRY_AFTER_S[1]:g}"),
            "Longest Retry-After that is honoured.",
        ),
        TargetOption("ca_file", "text", "", "a PEM file", "Trusted certificate authorities."),
        TargetOption("cert_file", "text", "", "a PEM file", "Client certificate."),
        TargetOption("key_file", "text", "", "a PEM file; requires cert_file", "Private key of the certificate."),
        TargetOption("proxy", "text", "", "http, https, socks5 or socks5h URL", "Proxy to use."),
    ),
)
