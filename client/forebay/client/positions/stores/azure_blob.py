"""Store in Azure Blob Storage: ``azure-blob://CONTAINER/PREFIX``.

One blob per key. The ETag decides each write: the one that was expected, or none. The writer then takes a lease of the
blob, so that nothing else overwrites or deletes it, not even a tool that sends no condition. A consumer that takes over
breaks the lease of the one before it, under the condition of the same ETag.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from azure.core import MatchConditions
from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.blob import BlobClient, BlobLeaseClient, ContainerClient

from forebay.client.errors import PositionConflict, PositionStoreError, PositionStoreUnavailable
from forebay.client.positions.options import Credentials, options_of
from forebay.client.positions.store import StoreContext, Versioned, redacted
from forebay.client.settings import check, invalid_setting

CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
ACCOUNT: Final = "AZURE_STORAGE_ACCOUNT_NAME"
KEY: Final = "AZURE_STORAGE_ACCOUNT_KEY"
TOKEN: Final = "AZURE_STORAGE_SAS_TOKEN"

WRITE_TRIES: Final = 5
"""Tries of a write while leases change hands."""

_LEASED: Final = "LeaseIdMissing"
_LEASE_GONE: Final = frozenset(
    {
        "LeaseIdMismatchWithBlobOperation",
        "LeaseLost",
        "LeaseNotPresentWithBlobOperation",
        "LeaseIdMismatchWithLeaseOperation",
    }
)
_PASSING: Final = frozenset({408, 429})


@dataclass(frozen=True, slots=True)
class AzureBlobOptions:
    """Options of the URL."""

    lease_s: int = 60
    """Seconds of the lease of a blob, 15 to 60, renewed by the saves.

    0 takes none: the ETag alone decides then.
    """

    create: bool = True
    """Create the container where it is missing."""

    endpoint: str = ""
    """Address of the account; ``https://ACCOUNT.blob.core.windows.net`` by default."""

    credentials_file: str = ""
    """File of lines ``NAME=value`` with the variables of the credentials; the environment by default."""

    def __post_init__(self) -> None:
        """Reject a duration that the service does not know."""
        if self.lease_s:
            check("store.lease_s", self.lease_s, 15, 60)


@dataclass(frozen=True, slots=True)
class _Lease:
    id: str
    taken_at: float


class AzureBlobPositions:
    """Documents as blobs below a prefix."""

    def __init__(
        self,
        container: ContainerClient,
        prefix: str,
        options: AzureBlobOptions,
        place: str,
        rw_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._container = container
        self._prefix = prefix
        self._options = options
        self._place = place
        self._rw_timeout_s = rw_timeout_s
        self._clock = clock
        self._leases: dict[str, _Lease] = {}

    def read(self, key: str) -> Versioned | None:
        """See ``PositionStore``."""
        with self._failures():
            return self._read(self._blob(key), self._ends_at())

    def compare_and_write(self, key: str, document: bytes, expected: str | None) -> str:
        """See ``PositionStore``."""
        blob, ends_at = self._blob(key), self._ends_at()
        with self._failures():
            for _ in range(WRITE_TRIES):
                try:
                    version = self._upload(blob, key, document, expected, ends_at)
                except ResourceNotFoundError as error:
                    if _code(error) != "ContainerNotFound" or not self._options.create:
                        raise _conflict(key) if _code(error) == "BlobNotFound" else error from error
                    self._create(ends_at)
                except HttpResponseError as error:
                    if _code(error) in _LEASE_GONE:
                        self._leases.pop(key, None)
                    elif _code(error) == _LEASED and expected is not None:
                        self._break_lease(blob, expected, ends_at)
                    elif error.status_code in {409, 412}:
                        return self._own_version(blob, key, document, ends_at)
                    else:
                        raise
                else:
                    self._hold_lease(blob, key, version, ends_at)
                    return version
            raise PositionStoreUnavailable(f"the lease of {key} changed hands {WRITE_TRIES} times")

    def delete(self, key: str) -> None:
        """See ``PositionStore``."""
        blob, ends_at = self._blob(key), self._ends_at()
        with self._failures(), suppress(ResourceNotFoundError):
            if self._options.lease_s:
                self._break_lease(blob, None, ends_at)
            blob.delete_blob(**self._limits(ends_at))
        self._leases.pop(key, None)

    def list(self, prefix: str) -> Iterator[str]:
        """See ``PositionStore``."""
        with self._failures():
            try:
                found = [
                    name.removeprefix(self._prefix)
                    for name in self._container.list_blob_names(
                        name_starts_with=self._prefix + prefix, **self._limits(self._ends_at())
                    )
                ]
            except ResourceNotFoundError:
                if not self._options.create:
                    raise
                found = []
        return iter(sorted(found))

    def close(self) -> None:
        """See ``PositionStore``; leases end by themselves."""
        self._container.close()

    def __repr__(self) -> str:
        """Return the place, never credentials."""
        return f"<AzureBlobPositions {self._place}>"

    # -- requests

    def _blob(self, key: str) -> BlobClient:
        return self._container.get_blob_client(self._prefix + key)

    def _ends_at(self) -> float:
        return self._clock() + self._rw_timeout_s

    def _limits(self, ends_at: float) -> dict[str, Any]:
        """Return the time limits of a request: it is tried twice, and each try connects and reads."""
        phase_s = max(0.05, (ends_at - self._clock()) / 4)
        return {"connection_timeout": phase_s, "read_timeout": phase_s}

    def _read(self, blob: BlobClient, ends_at: float) -> Versioned | None:
        try:
            found = blob.download_blob(**self._limits(ends_at))
            return Versioned(found.readall(), found.properties.etag)
        except ResourceNotFoundError as error:
            if _code(error) == "ContainerNotFound" and not self._options.create:
                raise
            return None

    def _upload(self, blob: BlobClient, key: str, document: bytes, expected: str | None, ends_at: float) -> str:
        """Write under the condition of an ETag, and of the lease if one is held; returns the new ETag."""
        condition: dict[str, Any] = {"overwrite": False}
        if expected is not None:
            condition = {"overwrite": True, "etag": expected, "match_condition": MatchConditions.IfNotModified}
        if (lease := self._leases.get(key)) is not None:
            condition["lease"] = lease.id
        return str(blob.upload_blob(document, **condition, **self._limits(ends_at))["etag"])

    def _own_version(self, blob: BlobClient, key: str, document: bytes, ends_at: float) -> str:
        """Return the version of this write, if the library sent it twice and the first one took effect."""
        found = self._read(blob, ends_at)
        if found is None or found.document != document:
            raise _conflict(key)
        return found.version

    def _hold_lease(self, blob: BlobClient, key: str, version: str, ends_at: float) -> None:
        """Take or renew the lease.

        The write is durable already: after a failure the ETag is the only fence until the next write.
        """
        held, now = self._leases.get(key), self._clock()
        if not self._options.lease_s or (held is not None and now - held.taken_at < self._options.lease_s / 2):
            return
        lease = BlobLeaseClient(blob, lease_id=held.id if held is not None else None)
        try:
            if held is not None:
                lease.renew(**self._limits(ends_at))
            else:
                lease.acquire(
                    lease_duration=self._options.lease_s,
                    etag=version,
                    match_condition=MatchConditions.IfNotModified,
                    **self._limits(ends_at),
                )
        except AzureError:
            self._leases.pop(key, None)
        else:
            self._leases[key] = _Lease(lease.id, now)

    def _break_lease(self, blob: BlobClient, expected: str | None, ends_at: float) -> None:
        """End the lease of another writer at once, if the blob is still ``expected``."""
        condition: dict[str, Any] = {}
        if expected is not None:
            condition = {"etag": expected, "match_condition": MatchConditions.IfNotModified}
        try:
            BlobLeaseClient(blob).break_lease(lease_break_period=0, **condition, **self._limits(ends_at))
        except HttpResponseError as error:
            # No lease any more; or another ETag, of which the write will tell.
            if error.status_code not in {409, 412}:
                raise

    def _create(self, ends_at: float) -> None:
        with suppress(ResourceExistsError):
            self._container.create_container(**self._limits(ends_at))

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise the errors of the library as those of a store."""
        try:
            yield
        except ClientAuthenticationError as error:
            raise self._refused(f"the credentials are refused ({_code(error)})") from error
        except HttpResponseError as error:
            status = error.status_code or 0
            problem = f"the service answered {status} {_code(error) or error.reason}"
            if 400 <= status < 500 and status not in _PASSING:
                raise self._refused(problem) from error
            raise PositionStoreUnavailable(f"the position store {self._place}: {problem}") from error
        except AzureError as error:
            cause = type(error.inner_exception or error).__name__
            raise PositionStoreUnavailable(f"the position store {self._place} does not answer: {cause}") from error

    def _refused(self, problem: str) -> PositionStoreError:
        return PositionStoreError(f"the position store {self._place}: {problem}")


def _code(error: HttpResponseError) -> str:
    """Return the code of the service; the library adds it to its errors without declaring it."""
    code = getattr(error, "error_code", None)
    return str(getattr(code, "value", code) or "")


def _conflict(key: str) -> PositionConflict:
    return PositionConflict(f"the position {key} was written concurrently", facts={"key": key})


def open_store(context: StoreContext) -> AzureBlobPositions:
    """Return the store of a container and a prefix; nothing is sent before the first use."""
    url, options = context.url, options_of(AzureBlobOptions, context.url)
    if not url.hostname or url.hostname != url.netloc:
        raise invalid_setting("store", redacted(url), "azure-blob://CONTAINER/PREFIX")
    found = Credentials(options.credentials_file)
    settings: dict[str, Any] = {"retry_total": 1, "initial_backoff": 0, "increment_base": 0, "random_jitter_range": 0}
    account, connection = found.get(ACCOUNT), found.get(CONNECTION)
    try:
        if connection is not None:
            container = ContainerClient.from_connection_string(connection, url.hostname, **settings)
        else:
            if account is None and not options.endpoint:
                raise PositionStoreError(
                    f"no account of Azure Storage is named: set {CONNECTION}, or {ACCOUNT} and {KEY}"
                )
            key, token = found.get(KEY), found.get(TOKEN)
            credential = {"account_name": account, "account_key": key} if account and key else token
            container = ContainerClient(
                options.endpoint or f"https://{account}.blob.core.windows.net", url.hostname, credential, **settings
            )
    except ValueError:
        raise PositionStoreError(
            f"the credentials of Azure Storage have another form than their variables ({CONNECTION}, {KEY}) say"
        ) from None
    prefix = url.path.strip("/")
    return AzureBlobPositions(container, f"{prefix}/" if prefix else "", options, redacted(url), context.rw_timeout_s)
