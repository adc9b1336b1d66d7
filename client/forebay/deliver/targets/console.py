"""Console target: prints records to standard output, one line each, as envelopes.

The form is that of `forebay.deliver.targets.encoding`. Printed records are acked; to read a sink without consuming it,
use ``forebay peek`` or ``forebay tail``.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import BinaryIO

from forebay.deliver.batches.batch import Batch
from forebay.deliver.batches.limits import BatchLimits
from forebay.deliver.errors import TargetClosed
from forebay.deliver.outcome import Delivered, Outcome
from forebay.deliver.targets import encoding as encode
from forebay.deliver.targets.options import TargetDescription, described
from forebay.deliver.targets.target import TargetContext
from forebay.text import visible_json


class ConsoleTarget:
    """A `forebay.deliver.Target` that prints."""

    def __init__(self, stream: BinaryIO | None = None) -> None:
        """Print to ``stream``, by default standard output."""
        self._stream = stream or sys.stdout.buffer
        self._whole_batches = Lock()

    def open(self, context: TargetContext) -> BatchLimits | None:
        """Do nothing."""

    def send(self, batch: Batch) -> Outcome:
        """Print a whole batch. Raises `TargetClosed` after the output was closed."""
        # A tab in JSON is whitespace between values; control characters in strings are escaped.
        lines = (visible_json(line.decode().replace("\t", " ")) for line in encode.envelopes(batch))
        text = "".join(f"{line}\n" for line in lines).encode()
        with self._whole_batches:
            try:
                self._stream.write(text)
                self._stream.flush()
            except BrokenPipeError as error:
                raise TargetClosed("the output was closed by its reader") from error
        return Delivered()

    def close(self) -> None:
        """Leave the stream open, because the target does not own it."""


@described(TargetDescription("Prints records to standard output, one JSON envelope per line.", ()))
def console_target() -> ConsoleTarget:
    """Build the target; it has no options."""
    return ConsoleTarget()
