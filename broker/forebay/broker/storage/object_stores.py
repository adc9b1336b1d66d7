"""Object stores by their address: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, for backups and journals.

Credentials come from the environment, as the tools of each service take them: `AWS_…`, `GOOGLE_…`, `AZURE_…`.

A request to S3 is signed with the SHA-256 of its content, which takes longer than everything else that is done with it.
Over TLS the connection protects the content, and the signature is one of the request alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

SERVICES: Final[Mapping[str, tuple[Callable[..., ObjectStore], Mapping[str, str]]]] = {
    "s3": (S3Store, {"endpoint": "aws_endpoint_url_s3", "region": "region"}),  # above all variables of an endpoint
    "gs": (GCSStore, {"endpoint": "base_url"}),
    "az": (AzureStore, {"endpoint": "endpoint"}),
}
"""Service by scheme, and its settings by option of the address."""
TIMEOUT_S: Final = 60.0
"""Time limit of one request."""
RETRIES_MAX: Final = 5
CONTENT_UNSIGNED: Final = "AWS_UNSIGNED_PAYLOAD"
"""Variable with which an operator decides whether signatures leave the content out."""
S3_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_CAUSES: Final = (
    (
        re.compile(r"InvalidCertificate\(\s*(UnknownIssuer)"),
        "the certificate is not accepted ({}; SSL_CERT_FILE names trusted authorities)",
    ),
    (re.compile(r"InvalidCertificate\(\s*(?:Other\(\s*OtherError\(\s*)?(\w+)"), "the certificate is not accepted ({})"),
    (re.compile(r'Os \{[^}]*message: "([^"]+)"', re.DOTALL), "{}"),
    (re.compile(r'"dns error",.*?error: "([^"]+)"', re.DOTALL), "{}"),
    (re.compile(r"source: (TimedOut)"), "timed out"),
)
"""Causes of a request without an answer, and their texts."""
_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)


class AddressInvalid(ValueError):
    """Address that names no object store."""


def open_objects(text: str, *, timeout_s: float = TIMEOUT_S, retries_max: int = RETRIES_MAX) -> tuple[ObjectStore, str]:
    """Return the store of an address, and its bucket and prefix for messages; nothing is sent.

    ``timeout_s`` limits one request, and all of its repetitions together. Raises ``AddressInvalid``.
    """
    url = urlsplit(text)
    service, names = SERVICES[url.scheme]
    options = dict(parse_qsl(url.query))
    place = f"{url.scheme}://{url.netloc}{url.path}"
    unknown = sorted(options.keys() - names.keys())
    if unknown:
        raise AddressInvalid(f"{place}: the option {unknown[0]!r} is unknown; {', '.join(names)} are allowed")
    if not url.hostname or url.hostname != url.netloc:
        raise AddressInvalid(f"{text!r}: must be {url.scheme}://BUCKET/PREFIX, without credentials")
    config: dict[str, Any] = {names[name]: value for name, value in options.items()}
    endpoint = options.get("endpoint") or _endpoint_of_environment(url.scheme)
    has_tls = not endpoint.lower().startswith("http://")
    if url.scheme == "s3" and has_tls and not os.environ.get(CONTENT_UNSIGNED):
        config["unsigned_payload"] = "true"
    limit = timedelta(seconds=timeout_s)
    objects = service(
        url.hostname,
        prefix=url.path.strip("/") or None,
        config=config,
        client_options={"timeout": limit, "allow_http": not has_tls},
        retry_config={"max_retries": retries_max, "retry_timeout": limit},
    )
    return objects, place


def is_bucket_missing(error: Exception) -> bool:
    """Return whether a service answered that the bucket does not exist."""
    return _NO_BUCKET.search(str(error)) is not None


def reason(error: Exception) -> str:
    """Return the first line of an error of a service, with the cause if there was no answer."""
    text = str(error)
    first = text.partition("\n")[0]
    if not first.endswith("error sending request"):
        return first
    found = ((pattern.search(text), cause) for pattern, cause in _CAUSES)
    return next((f"{first}: {cause.format(match[1])}" for match, cause in found if match), first)


def _endpoint_of_environment(scheme: str) -> str:
    found = map(os.environ.get, S3_ENDPOINTS) if scheme == "s3" else ()
    return next((endpoint for endpoint in found if endpoint), "")
