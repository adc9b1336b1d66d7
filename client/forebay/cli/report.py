"""Reporting of expected errors: one sentence and an exit code instead of a stack trace.

An error that is not in `known_errors` is a defect and keeps its stack trace. Optional modules are checked only if they
are imported, because only those can have raised.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TypedDict

from forebay.cli.exits import ExitCode
from forebay.cli.extras import MissingExtra


class Problem(TypedDict):
    """Error of a command, as ``-o json`` writes it to standard error."""

    reason: str
    """Reason of the table of errors, that of `store_problem`, otherwise the name of the exit code."""

    message: str
    facts: Mapping[str, str]
    advice: str
    exit_code: int


class CommandFailed(Exception):
    """Failure of a command; the message is complete."""

    def __init__(
        self,
        message: str,
        code: ExitCode = ExitCode.FAILED,
        *,
        reason: str = "",
        facts: Mapping[str, str] | None = None,
        advice: str = "",
        lines: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        """Reason for programs; empty if the exit code says enough."""
        self.facts = dict(facts or {})
        self.advice = advice
        """Recommended reaction; a part of the sentence."""
        self.lines = tuple(lines)
        """Further lines below the sentence, such as the end of a log; each is escaped by itself."""


def known_errors() -> tuple[type[BaseException], ...]:
    """Return the error classes that are reported in one sentence. Call it after an error was raised."""
    kinds: list[type[BaseException]] = [CommandFailed, MissingExtra]
    for module, name in (
        ("forebay.client.errors", "ForebayError"),
        ("forebay.deliver.errors", "DeliverError"),
        ("forebay.broker.storage.errors", "StoreError"),
    ):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return tuple(kinds)


def exit_code(error: BaseException) -> ExitCode:
    """Return the exit code for one of the `known_errors`."""
    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, MissingExtra):
        return ExitCode.MISSING
    client = sys.modules.get("forebay.client.errors")
    if client is not None and isinstance(error, client.ForebayError):
        return _client_exit_code(error, client)
    if _is_one_of(error, "forebay.broker.storage.errors", "StoreLocked"):
        return ExitCode.REFUSED
    if _is_one_of(error, "forebay.broker.storage.backup.errors", "TargetMissing"):
        return ExitCode.NOT_FOUND
    wrong = ("UnknownTarget", "TargetUnusable", "InvalidOption", "PlanInvalid")
    return ExitCode.USAGE if _is_one_of(error, "forebay.deliver.errors", *wrong) else ExitCode.FAILED


def problem(error: BaseException) -> Problem:
    """Return ``error`` for programs. ``error`` is one of the `known_errors`, or wrong usage of a command."""
    if isinstance(error, (CommandFailed, MissingExtra)) or not hasattr(error, "exit_code"):
        code = exit_code(error)
        reason, facts, advice = (getattr(error, name, "") for name in ("reason", "facts", "advice"))
        if _is_one_of(error, "forebay.broker.storage.errors", "StoreError"):
            reason, facts = store_problem(error)
        message = "\n".join([str(error) or type(error).__name__, *further_lines(error)])
    else:  # the classes of Typer
        code, facts = ExitCode(error.exit_code), {}
        reason, advice = "", _help_of(getattr(error, "ctx", None))
        message = error.format_message() if hasattr(error, "format_message") else str(error)
    return {
        "reason": reason if isinstance(reason, str) and reason else code.name,
        "message": message,
        "facts": dict(facts) if isinstance(facts, Mapping) else {},
        "advice": advice if isinstance(advice, str) else "",
        "exit_code": int(code),
    }


def store_problem(error: BaseException) -> tuple[str, dict[str, str]]:
    """Return reason and facts of an error of a store, a backup or a journal.

    The reason is the class, as in ``STORE_LOCKED``; the text of the operating system or of RocksDB is the fact
    ``cause``.
    """
    reason = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()
    known = {name: value for name, value in vars(error).items() if value not in (None, "")}
    return reason, {
        "cause" if name == "reason" else name: _fact_text(value)
        for name, value in known.items()
        if not name.startswith("_")  # Typer adds one
    }


def _fact_text(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return "; ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def store_failed(error: BaseException, code: ExitCode) -> CommandFailed:
    """Return an error of a store with another exit code."""
    reason, facts = store_problem(error)
    return CommandFailed(str(error), code, reason=reason, facts=facts)


def further_lines(error: BaseException) -> tuple[str, ...]:
    """Return the lines that follow the sentence about ``error``."""
    return error.lines if isinstance(error, CommandFailed) else ()


def _help_of(context: Any) -> str:
    """Return the advice for wrong usage of a command."""
    return f"see {getattr(context, 'command_path', 'forebay')} --help"


def sentence(error: BaseException) -> str:
    """Return the sentence about ``error``: its text, and the broker's reason if there is one."""
    reason = getattr(error, "reason", "")
    text = str(error) or type(error).__name__
    if isinstance(error, CommandFailed):
        return f"forebay: {text}; {error.advice}" if error.advice else f"forebay: {text}"
    named = isinstance(reason, str) and reason and reason not in text
    return f"forebay: {text} ({reason})" if named else f"forebay: {text}"


def _client_exit_code(error: BaseException, errors: ModuleType) -> ExitCode:
    """Return the exit code for an error of the client; the first matching class wins."""
    table: tuple[tuple[tuple[type[BaseException], ...], ExitCode], ...] = (
        ((errors.InvalidArgument,), ExitCode.USAGE),
        ((errors.NotFound,), ExitCode.NOT_FOUND),
        ((errors.ArrowNotInstalled,), ExitCode.MISSING),
        (
            (errors.BrokerUnavailable, errors.DeadlineExceeded, errors.DeliveryTimeout, errors.FlushTimeout),
            ExitCode.UNAVAILABLE,
        ),
        (
            (
                errors.AlreadyExists,
                errors.FailedPrecondition,
                errors.ResourceExhausted,
                errors.OutOfRange,
                errors.Superseded,
                errors.AccessDenied,
            ),
            ExitCode.REFUSED,
        ),
    )
    return next((code for kinds, code in table if isinstance(error, kinds)), ExitCode.FAILED)


def _is_one_of(error: BaseException, module: str, *names: str) -> bool:
    """Return True if ``error`` is of a class of ``module``, which may not be imported."""
    found = sys.modules.get(module)
    return found is not None and isinstance(error, tuple(getattr(found, name) for name in names))
