"""What a user's mistake, or a broker that is away, looks like: one sentence and an exit code, never a
stack trace.

What is not in `known_errors` is a defect of ours and keeps its trace. The optional parts are looked at
only if they were imported: what was not imported cannot have raised.
"""

from __future__ import annotations

import sys
from types import ModuleType

from forebay.cli.exits import ExitCode
from forebay.cli.extras import MissingExtra


class CommandFailed(Exception):
    """A command cannot go on, for a reason that the message gives whole."""

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED) -> None:
        super().__init__(message)
        self.code = code


def known_errors() -> tuple[type[BaseException], ...]:
    """The errors that are told in one sentence. To be asked when something was raised, not before."""
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
    """The exit code for one of the `known_errors`."""
    if isinstance(error, CommandFailed):
        return error.code
    if isinstance(error, MissingExtra):
        return ExitCode.LACKING
    client = sys.modules.get("forebay.client.errors")
    if client is not None and isinstance(error, client.ForebayError):
        return _client_exit_code(error, client)
    if _is_one_of(error, "forebay.broker.storage.errors", "StoreLocked"):
        return ExitCode.REFUSED
    wrong = ("UnknownTarget", "TargetUnusable", "InvalidOption")
    return ExitCode.USAGE if _is_one_of(error, "forebay.deliver.errors", *wrong) else ExitCode.FAILED


def sentence(error: BaseException) -> str:
    """What is said about ``error``: its text, and the broker's reason where there is one."""
    reason = getattr(error, "reason", "")
    text = str(error) or type(error).__name__
    named = isinstance(reason, str) and reason and reason not in text
    return f"forebay: {text} ({reason})" if named else f"forebay: {text}"


def _client_exit_code(error: BaseException, errors: ModuleType) -> ExitCode:
    """One table from the client's tree; what comes first wins."""
    table: tuple[tuple[tuple[type[BaseException], ...], ExitCode], ...] = (
        ((errors.InvalidArgument,), ExitCode.USAGE),
        ((errors.NotFound,), ExitCode.NOT_FOUND),
        ((errors.ArrowNotInstalled,), ExitCode.LACKING),
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
    """Whether ``error`` is of a class of ``module``, which may not have been imported."""
    found = sys.modules.get(module)
    return found is not None and isinstance(error, tuple(getattr(found, name) for name in names))
