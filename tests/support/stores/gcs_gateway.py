"""Gateway from the XML API of Google Cloud Storage, which `obstore` speaks, to the JSON API of fake-gcs-server.

    python -m tests.support.stores.gcs_gateway --port PORT --server PROGRAM --data FOLDER --key PUBLIC_KEY

It stores nothing and decides nothing about objects: a condition on a generation is passed on as the parameter of the
JSON API, and the server compares. Two things are done here, because the server lacks them. A request needs a token that
was signed with the key of the service account. The parts of a large upload are sent as one object when it is completed.

It starts the server and ends it. SIGTERM lets requests in flight end first: the server writes content and attributes of
an object one after the other, and a kill between them would lose an object that was acknowledged.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit
from xml.sax.saxutils import escape

from tests.support.stores.server import answers, free_port

TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Response to one request of the XML API."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


def failure(status: int, code: str) -> Answer:
    """Return an error as the XML API words it."""
    return Answer(status, f"<Error><Code>{code}</Code></Error>".encode(), {"Content-Type": "application/xml"})


@dataclass(frozen=True, slots=True)
class Upload:
    """Large upload that is not complete."""

    bucket: str
    name: str
    parts: dict[int, bytes] = field(default_factory=dict)


class Tokens:
    """Tokens of a service account: JSON web tokens that it signed itself, as RFC 7519 describes them."""

    def __init__(self, public_key: Path) -> None:
        self._public_key = public_key
        self._ends_at: dict[str, float] = {}

    def accepts(self, token: str) -> bool:
        """Return True if the account signed the token, and it has not expired."""
        if token not in self._ends_at and self._is_signed(token):
            self._ends_at[token] = float(json.loads(_decoded(token.split(".")[1]))["exp"])
        return time.time() < self._ends_at.get(token, 0.0)

    def _is_signed(self, token: str) -> bool:
        signed, _, signature = token.rpartition(".")
        with tempfile.NamedTemporaryFile() as file:
            file.write(_decoded(signature))
            file.flush()
            command = ["openssl", "dgst", "-sha256", "-verify", str(self._public_key), "-signature", file.name]
            return subprocess.run(command, input=signed.encode(), capture_output=True, check=False).returncode == 0


class InFlight:
    """Requests in flight, which a stop waits for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._stopped = False

    @contextmanager
    def request(self) -> Iterator[bool]:
        """Count a request; False after the stop."""
        with self._changed:
            is_allowed = not self._stopped
            self._count += is_allowed
        try:
            yield is_allowed
        finally:
            with self._changed:
                self._count -= is_allowed
                self._changed.notify_all()

    def stop(self) -> None:
        """Refuse what comes, and wait for what is in flight."""
        with self._changed:
            self._stopped = True
            self._changed.wait_for(lambda: self._count == 0)


class Gateway:
    """Translation of requests."""

    def __init__(self, server_port: int, tokens: Tokens) -> None:
        self._port = server_port
        self._tokens = tokens
        self._uploads: dict[str, Upload] = {}

    def answer(self, method: str, target: str, headers: dict[str, str], body: bytes) -> Answer:
        """Return the response to a request."""
        if not self._tokens.accepts(headers.get("authorization", "").removeprefix("Bearer ")):
            return failure(401, "AuthenticationRequired")
        url = urlsplit(target)
        bucket, _, name = (unquote(part) for part in url.path.removeprefix("/").partition("/"))
        query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        if self._call("GET", f"/storage/v1/b/{quote(bucket, safe='')}").status == 404:
            return failure(404, "NoSuchBucket")
        if not name:
            return self._list(bucket, query)
        if "uploadId" in query or "uploads" in query:
            return self._upload(method, bucket, name, query, body)
        if method == "PUT":
            return self._put(bucket, name, body, headers.get("x-goog-if-generation-match"))
        path = f"/storage/v1/b/{quote(bucket, safe='')}/o/{quote(name, safe='')}"
        if method == "DELETE":
            found = self._call("DELETE", path)
            return Answer(204) if found.status < 400 else failure(found.status, "NoSuchKey")
        found = self._call(method, f"{path}?alt=media", headers={"Range": headers.get("range", "")})
        return found if found.status < 400 else failure(found.status, "NoSuchKey")

    def _put(self, bucket: str, name: str, body: bytes, generation: str | None) -> Answer:
        query = {"uploadType": "media", "name": name}
        if generation is not None:
            query["ifGenerationMatch"] = generation
        path = f"/upload/storage/v1/b/{quote(bucket, safe='')}/o?{urlencode(query, quote_via=quote)}"
        found = self._call("POST", path, body, {"Content-Type": "application/octet-stream"})
        if found.status >= 400:
            return failure(found.status, "PreconditionFailed" if found.status == 412 else "InternalError")
        stored = json.loads(found.body)
        return Answer(headers={"ETag": f'"{stored["etag"]}"', "x-goog-generation": str(stored["generation"])})

    def _upload(self, method: str, bucket: str, name: str, query: dict[str, str], body: bytes) -> Answer:
        if "uploads" in query:
            upload = uuid.uuid4().hex
            self._uploads[upload] = Upload(bucket, name)
            return _xml("InitiateMultipartUploadResult", {"Bucket": bucket, "Key": name, "UploadId": upload})
        if (found := self._uploads.get(query["uploadId"])) is None:
            return failure(404, "NoSuchUpload")
        if method == "PUT":
            found.parts[int(query["partNumber"])] = body
            return Answer(headers={"ETag": f'"{query["partNumber"]}"'})
        del self._uploads[query["uploadId"]]
        if method == "DELETE":
            return Answer(204)
        wanted = [int(number) for number in re.findall(rb"<PartNumber>(\d+)</PartNumber>", body)]
        made = self._put(bucket, name, b"".join(found.parts[number] for number in wanted), None)
        if made.status >= 400:
            return made
        result = _xml("CompleteMultipartUploadResult", {"Bucket": bucket, "Key": name, "ETag": made.headers["ETag"]})
        return Answer(result.status, result.body, result.headers | made.headers)

    def _list(self, bucket: str, query: dict[str, str]) -> Answer:
        given = {"prefix": query.get("prefix", ""), "pageToken": query.get("continuation-token", "")}
        given |= {"maxResults": query.get("max-keys", "")}
        wanted = urlencode({key: value for key, value in given.items() if value})
        found = self._call("GET", f"/storage/v1/b/{quote(bucket, safe='')}/o?{wanted}")
        if found.status >= 400:
            return failure(found.status, "InternalError")
        page = json.loads(found.body)
        rows = "".join(
            f"<Contents><Key>{escape(one['name'])}</Key><Size>{one['size']}</Size><ETag>{escape(one['etag'])}</ETag>"
            f"<Generation>{one['generation']}</Generation><LastModified>{one['updated']}</LastModified></Contents>"
            for one in page.get("items", [])
        )
        following = page.get("nextPageToken", "")
        more = f"<NextContinuationToken>{escape(following)}</NextContinuationToken>" if following else ""
        return Answer(body=f"<ListBucketResult>{rows}{more}</ListBucketResult>".encode())

    def _call(self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answer:
        connection = HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        try:
            connection.request(method, path, body, {key: value for key, value in (headers or {}).items() if value})
            response = connection.getresponse()
            kept = {
                key: value
                for key, value in response.getheaders()
                if key.lower() in {"etag", "x-goog-generation", "last-modified", "content-range", "content-type"}
            }
            if method == "HEAD":
                kept["Content-Length"] = response.headers.get("Content-Length", "0")
            return Answer(response.status, response.read(), kept)
        finally:
            connection.close()


def _xml(root: str, values: dict[str, str]) -> Answer:
    inside = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in values.items())
    return Answer(body=f"<{root}>{inside}</{root}>".encode(), headers={"Content-Type": "application/xml"})


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def handler(gateway: Gateway, in_flight: InFlight) -> type[BaseHTTPRequestHandler]:
    """Return the class of the handlers of connections."""

    def handle(request: BaseHTTPRequestHandler) -> None:
        with in_flight.request() as is_allowed:
            if not is_allowed:
                request.close_connection = True
                return
            body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
            headers = {key.lower(): value for key, value in request.headers.items()}
            found = gateway.answer(request.command, request.path, headers, body)
            request.send_response(found.status)
            for key, value in ({"Content-Length": str(len(found.body))} | found.headers).items():
                request.send_header(key, value)
            request.end_headers()
            request.wfile.write(found.body)

    namespace: dict[str, Any] = {f"do_{method}": handle for method in ("GET", "HEAD", "PUT", "POST", "DELETE")}
    namespace |= {"protocol_version": "HTTP/1.1", "log_message": lambda *_: None}
    return type("Handler", (BaseHTTPRequestHandler,), namespace)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(prog="gcs_gateway")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--server", required=True, help="program of fake-gcs-server")
    parser.add_argument("--data", type=Path, required=True, help="folder of the server, with a folder for each bucket")
    parser.add_argument("--key", type=Path, required=True, help="public key of the service account")
    chosen = parser.parse_args(arguments)
    port = free_port()
    in_flight = InFlight()
    options = ("-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-filesystem-root", str(chosen.data))
    with subprocess.Popen([chosen.server, *options, "-backend", "filesystem", "-log-level", "error"]) as server:
        try:
            while not answers(port):
                if server.poll() is not None:
                    return 1
                time.sleep(0.05)
            gateway = Gateway(port, Tokens(chosen.key))
            with ThreadingHTTPServer(("127.0.0.1", chosen.port), handler(gateway, in_flight)) as listening:
                threading.Thread(target=listening.serve_forever, name="listener", daemon=True).start()
                signal.sigwait({signal.SIGTERM})
                listening.shutdown()
                in_flight.stop()
        finally:
            server.kill()
    return 0


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # before the threads, so that `sigwait` gets it
    sys.exit(main())
