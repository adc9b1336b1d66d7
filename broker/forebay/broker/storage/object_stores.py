"""Object stores by their address: `s3://BUCKET/PREFIX`, `gs://…`, `az://…`, for backups and journals.

Credentials come from the environment, as the tools of each service take them: `AWS_…`, `GOOGLE_…`, `AZURE_…`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

SERVICES: Final[Mapping[str, tuple[Callable[..., ObjectStore], Mapping[str, str]]]] = {
    "s3": (S3Store, {"endpoint": "endpoint", "region": "region"}),
    "gs": (GCSStore, {"endpoint": "base_url"}),
    "az": (AzureStore, {"endpoint": "endpoint"}),
}
"""Service by scheme, and its settings by option of the address."""
TIMEOUT_S: Final = 60.0
"""Time limit of one request."""
RETRIES_MAX: Final = 5


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
    limit = timedelta(seconds=timeout_s)
    objects = service(
        url.hostname,
        prefix=url.path.strip("/") or None,
        config=config,
        client_options={"timeout": limit, "allow_http": options.get("endpoint", "").startswith("http://")},
        retry_config={"max_retries": retries_max, "retry_timeout": limit},
    )
    return objects, place
