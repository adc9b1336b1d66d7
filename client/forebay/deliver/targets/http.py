"""HTTP target: sends batches to an HTTP(S) address.

Every request carries ``Idempotency-Key`` (for a batch ``<incarnation>-<partition>-<first>-<last>``, for a
single record ``<incarnation>-<partition>-<offset>``), ``Forebay-Sink``, ``Forebay-Incarnation``,
``Forebay-Partition``, ``Forebay-First-Offset``, ``Forebay-Last-Offset`` the W3C trace context, and
``Forebay-Resend: true`` when some of the records were delivered before. A second delivery may cut its
batches differently, so a target that is to take each record once remembers the keys of records: those of
the envelopes, or of single records. The status alone decides what the answer means
(`forebay.deliver.classification.status`), from its line on; a redirect is not followed. A request has
``timeout_s`` from its beginning to the end of its answer (`forebay.deliver.targets.http_exchange`).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import Final

import httpcore2
from opentelemetry import propagate
from opentelemetry.trace import Span, TracerProvider

from forebay.credentials import CredentialReport
from forebay.deliver import classification
from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import InvalidOption
from forebay.deliver.outcome import Delivered, Outcome, Reject, Retry
from forebay.deliver.targets import encoding as encode
from forebay.deliver.targets.client_span import client_span, failed
from forebay.deliver.targets.http_exchange import Network
from forebay.deliver.targets.http_headers import Secrets, merged, problem_of_value, secret_names
from forebay.deliver.targets.http_options import DESCRIPTION
from forebay.deliver.targets.http_pool import RenewablePool
from forebay.deliver.targets.http_settings import Format, HttpSettings
from forebay.deliver.targets.options import described
from forebay.deliver.targets.target import TargetContext
from forebay.text import visible

_log = logging.getLogger("forebay.deliver")
_ERRORS: Final = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.ProxyError,
    httpcore2.UnsupportedProtocol,
)
_QUOTING: Final = (httpcore2.ProtocolError, httpcore2.ProxyError, httpcore2.UnsupportedProtocol)
"""Errors whose text may quote a header or received data."""
_ERROR_STATUS_MIN: Final = 400
"""Lowest status that makes the span of a client a failed one."""
_ANSWER_BYTES_MAX: Final = 64 << 10
_TITLE_CHARACTERS_MAX: Final = 200


class HttpTarget:
    """A `forebay.deliver.Target` that uses HTTP/1.1 over a pool of persistent connections."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = monotonic,
        tracers: TracerProvider | None = None,
    ) -> None:
        self._settings = settings
        self._tracers = tracers
        self._now = now
        self._place = settings.place
        self._clock = clock
        self._network = Network(clock)
        self._report = CredentialReport(settings.credential_files, log=_log, clock=clock, now=now)
        self._pool: RenewablePool | None = None
        self._default_headers: dict[str, str] = {}
        self._secrets = Secrets(())
        """Values of headers that by their name hold a secret: they are in no text at all."""
        self._configured = Secrets(())
        """Values of all headers that the user has set: they are in no text of the receiver."""

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Create the pool without connecting. Raises `InvalidOption` for an unusable certificate or variable."""
        settings = self._settings
        self._default_headers = self._headers()
        secret = secret_names(self._default_headers)
        credentials = [self._default_headers[name] for name in secret]
        self._secrets = Secrets(credentials)
        self._configured = Secrets([*credentials, *(value for _, value in settings.headers)])
        if secret and settings.is_plain:
            _log.warning(
                "credentials go unencrypted over the network sink=%s target=%s headers=%s; use an https:// address",
                *(context.sink, self._place, ",".join(secret)),
            )
        self._report.check()
        self._pool = RenewablePool(
            partial(settings.pool, context.concurrency, self._network),
            [file.path for file in settings.credential_files if file.path],
            place=self._place,
            clock=self._clock,
        )
        return BatchLimits(records_max=1) if settings.format is Format.SINGLE else None

    def send(self, batch: Batch) -> Outcome:
        """Send a batch in one request, or record by record in the single format."""
        settings = self._settings
        if settings.format is Format.SINGLE:
            return self._send_singly(batch)
        lines = encode.envelopes(batch) if settings.envelope else (encode.bare(r.value) for r in batch.records)
        if settings.format is Format.NDJSON:
            body = b"".join(line + b"\n" for line in lines)
        else:
            body = b"[" + b",\n".join(lines) + b"]"
        return self._request(batch, batch.key, body)

    def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            self._pool.close()

    def _send_singly(self, batch: Batch) -> Outcome:
        for index, record in enumerate(batch.records):
            one = batch.only(index)
            body = next(encode.envelopes(one)) if self._settings.envelope else record.value
            match self._request(one, one.record_key(record.offset), body):
                case Delivered():
                    continue
                case Retry() as retry:
                    return Retry(retry.reason, delay_s=retry.delay_s, delivered=index)
                case Reject() as reject:
                    return Reject(reject.reason, delivered=index, exact=True)
        return Delivered()

    def _request(self, batch: Batch, key: str, body: bytes) -> Outcome:
        own = {
            "Idempotency-Key": key,
            "Forebay-Sink": batch.sink,
            "Forebay-Incarnation": batch.incarnation,
            "Forebay-Partition": str(batch.partition),
            "Forebay-First-Offset": str(batch.first_offset),
            "Forebay-Last-Offset": str(batch.last_offset),
        }
        if batch.resend:
            own["Forebay-Resend"] = "true"
        with client_span(self._settings.method, self._settings.span_attributes, self._tracers) as span:
            trace: dict[str, str] = {}
            propagate.inject(trace)
            headers = merged(self._default_headers.items(), own.items(), trace.items())
            return self._exchange(headers, body, span)

    def _exchange(self, headers: dict[str, str], body: bytes, span: Span) -> Outcome:
        if self._pool is None:
            raise RuntimeError("the target is not open")
        self._report.check()
        with self._pool.used() as pool:
            return self._exchange_over(pool, headers, body, span)

    def _exchange_over(
        self, pool: httpcore2.ConnectionPool, headers: dict[str, str], body: bytes, span: Span
    ) -> Outcome:
        settings = self._settings
        exchange = self._network.begin(settings.timeout_s, settings.tls_layers)
        try:
            with pool.stream(
                settings.method,
                settings.target_url,
                headers=list(headers.items()),
                content=body,
                extensions={"timeout": settings.timeouts},
            ) as response:
                # The status determines the outcome: a later failure of the answer has no effect.
                _answered(span, response.status)
                return self._outcome(response.status, response.headers, _answer(response))
        except _ERRORS as error:
            status = exchange.status
            if status is not None:
                _answered(span, status)
                return self._outcome(status, (), b"")
            failed(span, type(error).__name__)
            return self._redacted(
                classification.transport(error, place=self._place, quotes=isinstance(error, _QUOTING))
            )

    def _outcome(self, status: int, headers: Iterable[tuple[bytes, bytes]], answer: bytes) -> Outcome:
        found = {name.lower().decode("latin-1"): value.decode("latin-1") for name, value in headers}
        title = self._configured.removed_from(_title(found.get("content-type", ""), answer))  # whole: before it is cut
        outcome = classification.status(
            status,
            place=self._place,
            detail=visible(title[:_TITLE_CHARACTERS_MAX]),
            retry_after_s=classification.retry_after(
                found.get("retry-after"), now=self._now(), delay_max_s=self._settings.retry_after_max_s
            ),
        )
        return self._redacted(outcome)

    def _redacted(self, outcome: Outcome) -> Outcome:
        """Return an outcome without credentials in its reason, which a target may have sent back."""
        if isinstance(outcome, Delivered):
            return outcome
        return replace(outcome, reason=self._secrets.removed_from(outcome.reason))

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        form = "application/json" if settings.envelope else "application/octet-stream"
        default = {
            Format.NDJSON: "application/x-ndjson",
            Format.JSON_ARRAY: "application/json",
            Format.SINGLE: form,
        }
        own = {
            "Accept-Encoding": "identity",
            "User-Agent": "forebay",
            "Content-Type": settings.content_type or default[settings.format],
        }
        headers = merged(own.items(), settings.headers)
        if settings.authorization_env:
            value = os.environ.get(settings.authorization_env, "").strip()
            where = f"the environment variable {settings.authorization_env}"
            if not value:
                raise InvalidOption("http", "authorization_env", f"{where} is not set")
            if problem := problem_of_value(value):
                raise InvalidOption("http", "authorization_env", f"the value of {where} {problem}")
            headers["Authorization"] = value
        return headers


def _answered(span: Span, status: int) -> None:
    span.set_attribute("http.response.status_code", status)
    if status >= _ERROR_STATUS_MIN:
        failed(span, str(status))


def _answer(response: httpcore2.Response) -> bytes:
    """Read the answer within bounds of size and time, to reuse the connection; the rest is left unread."""
    answer = b""
    try:
        for chunk in response.iter_stream():
            answer += chunk
            if len(answer) > _ANSWER_BYTES_MAX:
                break
    except _ERRORS:
        return b""
    return answer


@described(DESCRIPTION)
def http_target(**options: str) -> HttpTarget:
    """Build the target from command-line options, the fields of `HttpSettings`."""
    return HttpTarget(HttpSettings.from_options(options))


def _title(content_type: str, answer: bytes) -> str:
    """Return the title of a problem document (RFC 9457), which names its kind and should quote no request."""
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/problem+json":
        return ""
    try:
        problem = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    title = problem.get("title") if isinstance(problem, dict) else None
    return title if isinstance(title, str) else ""
