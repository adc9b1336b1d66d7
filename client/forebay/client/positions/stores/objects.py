"""Store of objects: ``s3://BUCKET/PREFIX``, ``gs://BUCKET/PREFIX`` and ``az://CONTAINER/PREFIX``.

One object per key, written under the condition that it has the expected ETag (S3, Azure) or generation (Google), or is
not there. The service must honour these conditions, also of concurrent writers: S3, Google Cloud Storage, Azure and
MinIO do; a service that ignores them would let two consumers write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, ObjectStore, S3Store

from forebay.client.errors import PositionConflict, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.options import Credentials, options_of
from forebay.client.positions.store import StoreContext, Versioned, redacted
from forebay.client.settings import invalid_setting

CREDENTIALS: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "access_key_id": "AWS_ACCESS_KEY_ID",
        "secret_access_key": "AWS_SECRET_ACCESS_KEY",
        "session_token": "AWS_SESSION_TOKEN",
    },
    "gs": {"service_account": "GOOGLE_SERVICE_ACCOUNT", "service_account_key": "GOOGLE_SERVICE_ACCOUNT_KEY"},
    "az": {
        "account_name": "AZURE_STORAGE_ACCOUNT_NAME",
        "account_key": "AZURE_STORAGE_ACCOUNT_KEY",
        "sas_key": "AZURE_STORAGE_SAS_TOKEN",
        "client_id": "AZURE_STORAGE_CLIENT_ID",
        "client_secret": "AZURE_STORAGE_CLIENT_SECRET",
        "tenant_id": "AZURE_STORAGE_TENANT_ID",
    },
}
"""Variables of the credentials, by scheme; the library reads others from the environment itself."""

SERVICES: Final[Mapping[str, tuple[Callable[..., ObjectStore], Mapping[str, str]]]] = {
    "s3": (S3Store, {"endpoint": "endpoint", "region": "region"}),
    "gs": (GCSStore, {"endpoint": "base_url"}),
    "az": (AzureStore, {"endpoint": "endpoint"}),
}
"""Service by scheme, and its settings by option."""

RETRIES_MAX: Final = 3
"""Tries after a broken connection or an answer of 5xx, within half of the time limit."""

_NO_BUCKET: Final = re.compile(r"NoSuchBucket|ContainerNotFound|bucket does not exist", re.IGNORECASE)
_STATUS: Final = re.compile(r"status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z]+)</Code>")
_PASSING: Final = frozenset({"408", "409", "429"})


@dataclass(frozen=True, slots=True)
class ObjectOptions:
    """Options of the URL."""

    endpoint: str = ""
    """Address of a service other than that of the cloud: ``https://HOST:PORT``."""

    region: str = ""
    """Region of a bucket in S3; ``AWS_REGION`` by default."""

    credentials_file: str = ""
    """File of lines ``NAME=value`` with the variables of the credentials; the environment by default."""


class ObjectPositions:
    """Documents as objects below a prefix."""

    def __init__(self, objects: ObjectStore, place: str) -> None:
        self._objects = objects
        self._place = place

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        with self._failures():
            try:
                found = obstore.get(self._objects, key)
                return Versioned(bytes(found.bytes()), _version(found.meta))
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise
                return None

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        try:
            with self._failures():
                mode: Any = "create" if expected is None else json.loads(expected)
                return _version(obstore.put(self._objects, key, document, mode=mode, use_multipart=False))
        except PositionConflict:
            found = self.read(key)  # the library may have sent this write twice, and the first one took effect
            if found is None or found.document != document:
                raise PositionConflict(f"the position {key} was written concurrently", facts={"key": key}) from None
            return found.version

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        with self._failures():
            try:
                obstore.delete(self._objects, key)
            except FileNotFoundError as error:
                if _NO_BUCKET.search(str(error)):
                    raise

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        folder = prefix.rpartition("/")[0]  # the service lists by whole segments of a path
        with self._failures():
            found = [one["path"] for page in obstore.list(self._objects, folder or None) for one in page]
        return iter(sorted(key for key in found if key.startswith(prefix)))

    def close(self) -> None:
        """See ``PositionStore``; the library closes idle connections."""

    def __repr__(self) -> str:
        """Return the place, never credentials."""
        return f"<ObjectPositions {self._place}>"

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of the library as those of a store."""
        try:
            yield
        except (AlreadyExistsError, PreconditionError) as error:
            raise PositionConflict("the object was written concurrently") from error
        except FileNotFoundError as error:
            raise PositionStoreError(f"the position store {self._place}: the bucket does not exist") from error
        except (PermissionDeniedError, UnauthenticatedError) as error:
            problem = f"the credentials are refused ({_cause(error)})"
            raise PositionStoreError(f"the position store {self._place}: {problem}") from error
        except (BaseError, OSError) as error:
            status = _STATUS.search(str(error))
            is_refused = status is not None and status[1].startswith("4") and status[1] not in _PASSING
            kind = PositionStoreError if is_refused else PositionStoreUnavailable
            raise kind(f"the position store {self._place}: {_cause(error)}") from error


def _version(found: Mapping[str, Any]) -> str:
    """Return the version of an object: all that the services compare."""
    return json.dumps({name: value for name in ("e_tag", "version") if (value := found[name]) is not None})


def _cause(error: Exception) -> str:
    """Return the first line of an error, without the answer's body, of which only the code is of use."""
    line, code = str(error).partition("\n")[0].partition("<")[0].rstrip(" :"), _CODE.search(str(error))
    return f"{line}: {code[1]}" if code is not None else line


def open_store(context: StoreContext) -> ObjectPositions:
    """Return the store of a bucket and a prefix; nothing is sent before the first use."""
    url, options = context.url, options_of(ObjectOptions, context.url)
    if not url.hostname or url.hostname != url.netloc:
        raise invalid_setting("store", redacted(url), f"{url.scheme}://BUCKET/PREFIX")
    config: dict[str, Any] = Credentials(options.credentials_file).some(CREDENTIALS[url.scheme])
    # A request that begins at the end of the tries may take as long as they did: half of the limit each.
    limit = timedelta(seconds=context.rw_timeout_s / 2)
    arguments: dict[str, Any] = {
        "prefix": url.path.strip("/") or None,
        "client_options": {
            "timeout": limit,
            "connect_timeout": limit,
            "allow_http": options.endpoint.startswith("http://"),
        },
        "retry_config": {"max_retries": RETRIES_MAX, "retry_timeout": limit},
    }
    service, names = SERVICES[url.scheme]
    if options.region and "region" not in names:
        raise invalid_setting("store.region", options.region, "named for s3: only")
    config |= {name: value for option, name in names.items() if (value := getattr(options, option))}
    return ObjectPositions(service(url.hostname, config=config, **arguments), redacted(url))
