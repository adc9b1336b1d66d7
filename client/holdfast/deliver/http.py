"""Sends batches to an HTTP(S) address.

Every request carries ``Idempotency-Key`` (for a batch ``<incarnation>-<partition>-<first>-<last>``, for a
single record ``<incarnation>-<partition>-<offset>``), ``Holdfast-Sink``, ``Holdfast-Incarnation``,
``Holdfast-Partition``, ``Holdfast-First-Offset``, ``Holdfast-Last-Offset`` the W3C trace context, and
``Holdfast-Resend: true`` when some of the records were delivered before. A second delivery may cut its
batches differently, so a target that is to take each record once remembers the keys of records: those of
the envelopes, or of single records. The status alone decides what the answer means
(`holdfast.deliver.classify.status`); a redirect is not followed.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

import httpx2
from opentelemetry import propagate

from holdfast.deliver import classify, encode
from holdfast.deliver.batch import BatchLimits
from holdfast.deliver.errors import InvalidOption
from holdfast.deliver.http_settings import Format, HttpSettings
from holdfast.deliver.outcome import Delivered, Outcome, Reject, Retry

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.deliver.batch import Batch
    from holdfast.deliver.target import TargetContext

_ANSWER_BYTES_MAX: Final = 64 << 10
_TITLE_CHARACTERS_MAX: Final = 200


class HttpTarget:
    """A `holdfast.deliver.Target` that speaks HTTP/1.1 over a pool of kept connections."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._settings = settings
        self._now = now
        self._clock = clock
        self._place = settings.place
        self._client: httpx2.Client | None = None

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Make the pool; connects to nothing yet. `InvalidOption` if a certificate or variable cannot be
        used.
        """
        settings = self._settings
        self._client = httpx2.Client(
            headers=self._headers(),
            verify=settings.tls(),
            timeout=httpx2.Timeout(settings.timeout_s, connect=settings.connect_timeout_s),
            limits=httpx2.Limits(
                max_connections=context.concurrency,
                max_keepalive_connections=context.concurrency,
                keepalive_expiry=30.0,
            ),
            proxy=settings.proxy,
            follow_redirects=False,
            trust_env=False,
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
        if self._client is not None:
            self._client.close()

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
        headers = {
            "Idempotency-Key": key,
            "Holdfast-Sink": batch.sink,
            "Holdfast-Incarnation": batch.incarnation,
            "Holdfast-Partition": str(batch.partition),
            "Holdfast-First-Offset": str(batch.first_offset),
            "Holdfast-Last-Offset": str(batch.last_offset),
        }
        if batch.resend:
            headers["Holdfast-Resend"] = "true"
        propagate.inject(headers)
        if self._client is None:
            raise RuntimeError("the target has not been opened")
        settings = self._settings
        try:
            with self._client.stream(settings.method, settings.url, content=body, headers=headers) as response:
                # Once the status is there the fate is known: what goes wrong with the rest changes nothing.
                answer = self._answer(response)
                return classify.status(
                    response.status_code,
                    place=self._place,
                    detail=_title(response.headers.get("content-type", ""), answer),
                    retry_after_s=classify.retry_after(
                        response.headers.get("retry-after"),
                        now=self._now(),
                        delay_max_s=settings.retry_after_max_s,
                    ),
                )
        except httpx2.HTTPError as error:
            return classify.transport(error, place=self._place)

    def _answer(self, response: httpx2.Response) -> bytes:
        """Read the answer within bounds of size and time, so that the connection can be kept; what is
        beyond is left.
        """
        until = self._clock() + self._settings.timeout_s
        answer = b""
        try:
            for chunk in response.iter_raw():
                answer += chunk
                if len(answer) > _ANSWER_BYTES_MAX or self._clock() > until:
                    break
        except httpx2.HTTPError:
            return b""
        return answer

    def _headers(self) -> dict[str, str]:
        settings = self._settings
        form = "application/json" if settings.envelope else "application/octet-stream"
        default = {
            Format.NDJSON: "application/x-ndjson",
            Format.JSON_ARRAY: "application/json",
            Format.SINGLE: form,
        }
        headers = {
            "Accept-Encoding": "identity",
            "User-Agent": "holdfast",
            "Content-Type": settings.content_type or default[settings.format],
            **dict(settings.headers),
        }
        if settings.authorization_env:
            value = os.environ.get(settings.authorization_env, "").strip()
            if not value:
                raise InvalidOption(
                    "http",
                    "authorization_env",
                    f"the environment variable {settings.authorization_env} is not set",
                )
            headers["Authorization"] = value
        return headers


def http_target(**options: str) -> HttpTarget:
    """Build the target from options as a command line has them, the fields of `HttpSettings`."""
    return HttpTarget(HttpSettings.from_options(options))


def _title(content_type: str, answer: bytes) -> str:
    """Return the title of a problem document (RFC 9457), which names the kind of problem and quotes no
    request.
    """
    if content_type.split(";", maxsplit=1)[0].strip().lower() != "application/problem+json":
        return ""
    try:
        problem = json.loads(answer)
    except (ValueError, RecursionError):
        return ""
    title = problem.get("title") if isinstance(problem, dict) else None
    return title[:_TITLE_CHARACTERS_MAX] if isinstance(title, str) else ""
