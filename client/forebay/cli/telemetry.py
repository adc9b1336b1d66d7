"""Export of the client's spans and metrics as configured by the standard ``OTEL_...`` variables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.report import CommandFailed


@contextmanager
def exporting(service: str) -> Iterator[None]:
    """Export spans and metrics until the block ends, as the given ``service``.

    ``OTEL_SERVICE_NAME`` overrides ``service``. Does nothing if no variable enables export. Pending data is sent at the
    end, within 5 s. Raises `CommandFailed` for an invalid variable.
    """
    from forebay.broker.telemetry.exporter_selection import (
        ExporterSelection,
        ExporterSelectionInvalid,
        selected_exporters,
    )

    try:
        asked = selected_exporters(os.environ)
    except ExporterSelectionInvalid as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    if asked == ExporterSelection():
        yield
        return
    try:
        with needed_for("sending telemetry", "cli"):
            from opentelemetry import metrics, trace

            from forebay.broker.telemetry.exporters import export
        exporters = export(asked, service=service)
    except (ExporterSelectionInvalid, OSError) as error:
        raise CommandFailed(str(error), ExitCode.USAGE) from error
    trace.set_tracer_provider(exporters.tracers)
    metrics.set_meter_provider(exporters.meters)
    try:
        yield
    finally:
        exporters.close()
