"""Pages of the actions: the preview, and the result after the confirmation."""

from __future__ import annotations

import shlex
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

from forebay.broker.console.actions.confirmation import Confirmations
from forebay.broker.console.actions.table import ACTIONS, Action, Entered
from forebay.broker.console.pages.page import Page, PageSource, query, refused
from forebay.broker.core.access.principal import Principal
from forebay.broker.core.errors import BrokerError
from forebay.broker.rpc.access.audit import Audit, Caller
from forebay.broker.rpc.access.rules import RULES

PATH: Final = "/sinks/{sink}/actions/{action}"

FORM_BYTES_MAX: Final = 64 << 10
"""Size of a confirmation; larger ones are refused before they are read."""

ENTERED_MAX: Final = 1_024
"""Characters of an entered text."""


class Actions:
    """Actions of one console. Used on the loop of the broker."""

    def __init__(self, source: PageSource) -> None:
        self._source = source
        clock = source.broker.clock.monotonic
        self._confirmations = Confirmations(clock)
        self._audit = Audit(clock)

    async def preview(self, request: Request) -> Page:
        """Return what an action would do, with the form that confirms it. Raises ``HTTPException``."""
        name, word, action = self._named(request)
        entered = Entered(
            request.query_params.get("text", "")[:ENTERED_MAX],
            is_exact=bool(action.exact_option) and request.query_params.get("match") == "exact",
        )
        try:
            found = await action.preview(self._source.broker, self._source.broker.sinks[name], entered)
        except BrokerError as error:
            raise refused(error) from error
        principal: Principal = request.state.principal
        data = {"sink": name, "action": word, "sentence": found.sentence, "does_something": found.does_something}
        shown = {
            **data,
            "title": action.title,
            "entered": action.entered,
            "text": entered.text,
            "is_destructive": action.is_destructive,
            "confirmation": self._confirmations.sealed(
                principal.name, _of(word, name), found.request.SerializeToString(deterministic=True)
            ),
        }
        return self._page(name, word, action, data, shown, entered)

    async def confirm(self, request: Request) -> Page:
        """Do what was previewed, and return the result. Raises ``HTTPException``."""
        name, word, action = self._named(request)
        _check_origin(request)
        principal: Principal = request.state.principal
        fields = parse_qs((await _body(request)).decode("ascii", "replace"))
        confirmation = fields.get("confirmation", [""])[0]
        content = self._confirmations.opened(principal.name, _of(word, name), confirmation)
        if content is None:
            raise HTTPException(
                403, "This is not a confirmation of a preview of the last ten minutes: preview it again."
            )
        message = action.request_type.FromString(content)
        caller = Caller(principal.name, f"console:{request.client.host if request.client is not None else ''}")
        try:
            result = await action.run(self._source.broker, message)
        except BrokerError as error:
            self._audit.managed(caller, action.method, [name], error.reason.name)
            raise refused(error) from error
        self._audit.managed(caller, action.method, [name], "OK")
        data = {"sink": name, "action": word, "sentence": result}
        return self._page(name, word, action, data, {**data, "title": action.title, "confirmation": ""}, Entered(""))

    def _named(self, request: Request) -> tuple[str, str, Action]:
        word: str = request.path_params["action"]
        action = ACTIONS.get(word)
        if action is None:
            raise HTTPException(404, f"There is no action {word!r}: {', '.join(ACTIONS)}.")
        return self._source.named(request, RULES[action.method].right), word, action

    @staticmethod
    def _page(name: str, word: str, action: Action, data: Any, shown: Any, entered: Entered) -> Page:
        command = action.command.format(sink=name)
        if entered.is_exact:
            command += f" {action.exact_option} {shlex.quote(entered.text)}"
        elif entered.text:
            command += f" {action.entered_option} {shlex.quote(entered.text)}"
        elif action.unfiltered_option:
            command += f" {action.unfiltered_option}"
        return Page(
            "action.html",
            f"{action.title} of {name}",
            data,
            command,
            f"/sinks/{name}/actions/{word}",
            query(text=entered.text, match="exact" if entered.is_exact else ""),
            shown,
        )


def _of(word: str, name: str) -> str:
    return f"{word} {name}"


def _check_origin(request: Request) -> None:
    """Raise ``HTTPException`` if a form of another site sent a request."""
    origin = request.headers.get("origin", "")
    same = not origin or urlsplit(origin).netloc.lower() == request.headers.get("host", "").lower()
    if not same or request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        raise HTTPException(403, "The form of another site cannot change anything here.")


async def _body(request: Request) -> bytes:
    content = bytearray()
    async for part in request.stream():
        content += part
        if len(content) > FORM_BYTES_MAX:
            raise HTTPException(413, f"A confirmation has at most {FORM_BYTES_MAX:,} bytes.")
    return bytes(content)
