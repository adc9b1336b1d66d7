"""Options of a saved position beside Spark's checkpoint, for streaming reads and writes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from forebay.spark.errors import ForebaySparkError
from forebay.spark.options.values import OptionValues

CHECKPOINT_OPTIONS: Final = ("checkpoint_store", "checkpoint_name", "checkpoint_namespace")
DEFAULT_NAMESPACE: Final = "spark"
NAME_MAX: Final = 120
"""Maximum length of a name: a consumer's name of 128 characters without the mark of a write."""
_NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_MAX - 1}}}(?<!\.write)")
"""No name ends in the mark of a write, ``WRITE_MARK`` in ``forebay.client.positions.position``."""


@dataclass(frozen=True, slots=True)
class CheckpointOptions:
    """Store of saved positions, and the place of a query in it. Pickled; holds no credentials."""

    store: str
    """URL of the store; credentials are in the environment, or in a file that it names."""

    name: str
    """Name of the query in the store: it outlives the query's checkpoint, and so its id."""

    namespace: str = DEFAULT_NAMESPACE


def checkpoint_options(values: OptionValues, *, is_stream: bool) -> CheckpointOptions | None:
    """Parse the options; None if no store is set. Raises `ForebaySparkError`."""
    store, name, namespace = (values.text(option) for option in CHECKPOINT_OPTIONS)
    if store is None:
        for option, value in (("checkpoint_name", name), ("checkpoint_namespace", namespace)):
            if value is not None:
                raise ForebaySparkError(
                    f"Option {option} is set, and checkpoint_store is not.",
                    'Set the store: .option("checkpoint_store", "broker:"), or leave both out.',
                )
        return None
    if not is_stream:
        raise ForebaySparkError("Option checkpoint_store is only for a stream.", "Leave it out.")
    if name is None:
        raise ForebaySparkError(
            "Option checkpoint_store is set, and checkpoint_name is not.",
            'Name the query: .option("checkpoint_name", "<name>"). It keeps that name when its checkpoint is lost.',
        )
    for option, value in (("checkpoint_name", name), ("checkpoint_namespace", namespace or DEFAULT_NAMESPACE)):
        if not _NAME.fullmatch(value):
            raise ForebaySparkError(
                f"Option {option} is {value!r}.",
                f"Set it to a letter or digit, then up to {NAME_MAX - 1} letters, digits, '.', '_' or '-', and not to "
                "a name that ends in '.write'.",
            )
    return CheckpointOptions(store, name, namespace or DEFAULT_NAMESPACE)
