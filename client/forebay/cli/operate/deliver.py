"""`forebay deliver`: runs a deliverer in the foreground until SIGTERM or Ctrl-C.

Both stop it gracefully: requests in progress are finished and settled. All other records stay in the buffer, without a
failed attempt. SIGHUP, such as from a closed terminal, does not stop it.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated
from urllib.parse import urljoin, urlsplit

import typer

from forebay.cli.completion import ADDRESSES, resend_options, target_names, target_options
from forebay.cli.contact import BrokerUnreachable, reach
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.operate.logs import LogFormatOption, start_log
from forebay.cli.operate.signals import Signals
from forebay.cli.operate.summary import SUMMARY_S, SummaryInterval, summarized, waiting_records
from forebay.cli.options import DEFAULT_ENDPOINT, Endpoint, OutputForm, SinkName, Subscription, connect
from forebay.cli.output import Output, write_json, write_message
from forebay.cli.quantities import duration, size
from forebay.cli.report import CommandFailed
from forebay.cli.telemetry import exporting
from forebay.process import tune
from forebay.text import LogFormat

_log = logging.getLogger("forebay.deliver")


def deliver(
    sink: SinkName,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="TARGET",
            help="Target: http, file, console, an address that begins with http://, https:// or postgresql://, "
            "the name of a registered target, or MODULE:ATTRIBUTE.",
            show_default=False,
            autocompletion=target_names,
        ),
    ],
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-O",
            metavar="NAME=VALUE",
            help="Option of the target. Repeatable.",
            autocompletion=target_options,
        ),
    ] = None,
    resend_to: Annotated[
        str | None,
        typer.Option(
            "--resend-to",
            metavar="TARGET",
            help="Target of redelivered records, as --to; /PATH is another path at the same address. "
            "It inherits the options of --to if it is of the same kind.",
            autocompletion=target_names,
        ),
    ] = None,
    resend_option: Annotated[
        list[str] | None,
        typer.Option(
            "--resend-option",
            "-R",
            metavar="NAME=VALUE",
            help="Option of the resend target. Repeatable.",
            autocompletion=resend_options,
        ),
    ] = None,
    subscription: Subscription = "default",
    concurrency: Annotated[int, typer.Option(help="Partitions delivered concurrently.", min=1, max=256)] = 8,
    batch_records: Annotated[
        int | None, typer.Option(help="Maximum records per request; default: the target's, or 500.", min=1)
    ] = None,
    batch_bytes: Annotated[
        int | None,
        typer.Option(
            metavar="SIZE", parser=size(1), help="Maximum size of a request; default: the target's, or 1 MiB."
        ),
    ] = None,
    batch_wait: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=duration(0, 3_600),
            help="Time that a smaller request waits for further records of its partition; default: the target's, or 0.",
        ),
    ] = None,
    credit_records: Annotated[
        int | None,
        typer.Option(help="Maximum records in flight; default: two batches of each thread, at least 20,000.", min=1),
    ] = None,
    summary_interval_s: SummaryInterval = SUMMARY_S,
    log_format: LogFormatOption = LogFormat.TEXT,
    endpoint: Endpoint = DEFAULT_ENDPOINT,
    output: OutputForm = Output.TABLE,
) -> None:
    """Deliver a sink to a remote system until stopped.

    A record is settled when the remote system has accepted it. Failed deliveries are retried as the sink is configured;
    a permanent rejection moves the record to the dead letters, or pauses the sink with the reason.
    """
    with needed_for("delivering", "deliver"):
        from forebay.deliver import BatchLimits, Deliverer, DelivererSettings
        from forebay.deliver.targets import registry as targets
    name, options = target_of(to, option or [])
    target = targets.create(name, options)
    second = None
    if resend_to is not None:
        second = targets.create(*resend_target_of(name, options, resend_to, resend_option or []))
    elif resend_option:
        raise CommandFailed("--resend-option requires --resend-to", ExitCode.USAGE)
    settings = DelivererSettings(
        subscription=subscription,
        batch=BatchLimits.given(batch_records, batch_bytes, batch_wait),
        concurrency=concurrency,
        credit_records=credit_records,
        target=name,
    )
    start_log(logging.INFO, "%(asctime)s %(levelname)s %(message)s", log_format)
    for chatty in ("httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    tune()
    with Signals() as signals, exporting("forebay-deliver"), connect(endpoint, is_needed=False) as client:
        try:
            reach(client, sink)
        except BrokerUnreachable as error:  # a deliverer outlives its broker; the log repeats it
            write_message(f"forebay: {error}; trying again until one does")
        deliverer = Deliverer(client, sink, target, resend_to=second, settings=settings)

        signals.handle(
            {
                signal.SIGTERM: deliverer.stop,
                signal.SIGINT: deliverer.stop,
                signal.SIGHUP: partial(
                    _log.info, "SIGHUP is ignored: certificates and token files are reloaded on use"
                ),
            }
        )
        if output is Output.JSON:
            write_json({"delivering": sink, "subscription": subscription, "to": name})
        else:
            write_message(f"delivering {sink} ({subscription}) to {_place(to)}; Ctrl-C stops")
        place = sink, subscription
        with summarized(lambda: {place: deliverer.totals}, waiting_records(client), interval_s=summary_interval_s):
            deliverer.run()


def target_of(to: str, pairs: Sequence[str]) -> tuple[str, Mapping[str, str]]:
    """Return the name of the target and its options.

    Raises `CommandFailed` for a pair that is not NAME=VALUE.
    """
    options = _options(pairs)
    for prefix, name in ADDRESSES.items():
        if to.startswith(prefix):
            return name, {"url": to, **options}
    return to, options


def _place(to: str) -> str:
    """Return a target for messages: an address without user, query and fragment, which may be secrets."""
    if "://" not in to:
        return to
    parts = urlsplit(to)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def resend_target_of(
    first: str, first_options: Mapping[str, str], to: str, pairs: Sequence[str]
) -> tuple[str, Mapping[str, str]]:
    """Return the resend target and its options, which extend those of a first target of its kind."""
    if to.startswith("/") and "url" in first_options:
        to = urljoin(first_options["url"], to)
    name, options = target_of(to, pairs)
    return name, {**first_options, **options} if name == first else options


def _options(pairs: Sequence[str]) -> dict[str, str]:
    options = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise CommandFailed(f"option {pair!r}: must be NAME=VALUE", ExitCode.USAGE)
        options[name] = text
    return options
