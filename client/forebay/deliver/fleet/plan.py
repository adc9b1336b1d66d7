"""Plan of deliveries, read from a TOML file.

    [targets.crm]
    to = "https://example.org/orders"
    concurrency = 4
    options = { envelope = true, authorization_env = "CRM_TOKEN" }

    [deliveries.orders]
    target = "crm"

All problems of a file are found at once. Values are compared to find the deliveries that a changed file changes.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from forebay.deliver.batches.limits import WAIT_MAX_S, BatchLimits
from forebay.deliver.errors import PlanInvalid
from forebay.deliver.fleet.secret import Sources, check_literal
from forebay.deliver.settings import DelivererSettings
from forebay.text.quantities import bytes_of, seconds_of

DELIVERIES_MAX: Final = 256
"""Most deliveries of one process: each has threads of its own."""

CONCURRENCY_MAX: Final = 1_024
"""Most sends at a time of all deliveries to a target."""

_TARGET_KEYS: Final = frozenset({"to", "options", "concurrency", "batch_records", "batch_bytes", "batch_wait"})
_DELIVERY_KEYS: Final = frozenset(
    {"sink", "subscription", "target", "resend_to", "concurrency", "credit_records", "credit_bytes"}
)


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """Target of deliveries, with the limits that all of them share."""

    name: str
    kind: str
    """Name of the target in the registry."""

    options: tuple[tuple[str, str], ...] = field(repr=False)
    """Options with resolved secrets, sorted; not part of any text."""

    concurrency: int | None = None
    """Sends at the same time, of all deliveries together; None for no common limit."""

    batch: BatchLimits | None = None
    """Upper bounds of a batch; None for those of the target."""


@dataclass(frozen=True, slots=True)
class DeliveryPlan:
    """One delivery."""

    name: str
    sink: str
    target: TargetPlan
    resend_to: TargetPlan | None
    """Target of redelivered records; None for the same."""

    settings: DelivererSettings


@dataclass(frozen=True, slots=True)
class Plan:
    """Deliveries of one file, by name."""

    deliveries: Mapping[str, DeliveryPlan]

    @property
    def targets(self) -> list[TargetPlan]:
        """Targets that a delivery uses, by name."""
        used = {one for each in self.deliveries.values() for one in (each.target, each.resend_to) if one is not None}
        return sorted(used, key=lambda target: target.name)


def read_plan(path: Path, environment: Mapping[str, str]) -> Plan:
    """Read a file of deliveries; nothing is opened but files with secrets. Raises `PlanInvalid`."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise PlanInvalid(str(path), [f"cannot be read: {error.strerror}"]) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlanInvalid(str(path), [f"is no TOML file: {error}"]) from error
    reader = _Reader(Sources(environment, path.resolve().parent))
    plan = reader.plan(document)
    if reader.problems:
        raise PlanInvalid(str(path), reader.problems)
    return plan


class _Reader:
    """Reading of one document; collects the problems on its way."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self.problems: list[str] = []

    def plan(self, document: Mapping[str, Any]) -> Plan:
        """Return the plan; it is complete if there are no problems."""
        self._known(document, frozenset({"targets", "deliveries"}), "")
        targets = {name: self._target(name, table) for name, table in self._tables(document, "targets")}
        deliveries: dict[str, DeliveryPlan] = {}
        for name, table in self._tables(document, "deliveries"):
            found = self._delivery(name, table, targets)
            if found is not None:
                deliveries[name] = found
        named = document.get("deliveries", {})
        if isinstance(named, dict) and not 1 <= len(named) <= DELIVERIES_MAX:
            self.problems.append(f"deliveries: must be 1 to {DELIVERIES_MAX}")
        self._check_readers(deliveries)
        return Plan(deliveries)

    def _tables(self, document: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        tables = document.get(key, {})
        if not isinstance(tables, dict):
            self.problems.append(f"{key}: must be tables [{key}.NAME]")
            return
        for name, table in tables.items():
            if isinstance(table, dict):
                yield name, table
            else:
                self.problems.append(f"{key}.{name}: must be a table")

    def _target(self, name: str, table: Mapping[str, Any]) -> TargetPlan | None:
        place = f"targets.{name}"
        before = len(self.problems)
        self._known(table, _TARGET_KEYS, place)
        to = self._text_or_secret(f"{place}.to", table.get("to"))
        concurrency = self._number(table, "concurrency", place, 1, CONCURRENCY_MAX)
        batch = self._batch(table, place)
        options = dict(self._options(f"{place}.options", table.get("options", {})))
        if len(self.problems) > before:
            return None
        kind = to
        if to.startswith(("http://", "https://")):
            kind, options = "http", {"url": to, **options}
        elif to.startswith(("postgresql://", "postgres://")):
            kind, options = "postgresql", {"url": to, **options}
        return TargetPlan(name, kind, tuple(sorted(options.items())), concurrency, batch)

    def _delivery(
        self, name: str, table: Mapping[str, Any], targets: Mapping[str, TargetPlan | None]
    ) -> DeliveryPlan | None:
        place = f"deliveries.{name}"
        before = len(self.problems)
        self._known(table, _DELIVERY_KEYS, place)
        usual = DelivererSettings()
        sink = self._text(table, "sink", place, name)
        subscription = self._text(table, "subscription", place, usual.subscription)
        target = self._named(table, "target", place, targets)
        resend_to = self._named(table, "resend_to", place, targets) if "resend_to" in table else None
        settings = {
            "concurrency": self._number(table, "concurrency", place, 1, 256),
            "credit_records": self._number(table, "credit_records", place, 1, 10_000_000),
            "credit_bytes": self._number(table, "credit_bytes", place, 1, 1 << 30, read=bytes_of),
        }
        if len(self.problems) > before or target is None:
            return None
        given: dict[str, Any] = {key: value for key, value in settings.items() if value is not None}
        if resend_to is not None:  # without limits it has its own, not those of the first target
            given["resend_batch"] = resend_to.batch or BatchLimits.of_target()
        return DeliveryPlan(
            name, sink, target, resend_to, DelivererSettings(subscription=subscription, batch=target.batch, **given)
        )

    def _check_readers(self, deliveries: Mapping[str, DeliveryPlan]) -> None:
        """Note two deliveries of one subscription, of which each would get a part of the records."""
        readers: dict[tuple[str, str], str] = {}
        for name, one in deliveries.items():
            key = one.sink, one.settings.subscription
            other = readers.setdefault(key, name)
            if other != name:
                self.problems.append(
                    f"deliveries.{name}: subscription {key[1]!r} of sink {key[0]!r} is that of deliveries.{other}"
                )

    # -- values

    def _known(self, table: Mapping[str, Any], keys: frozenset[str], place: str) -> None:
        self.problems += [
            f"{place}.{key}: unknown; must be one of {', '.join(sorted(keys))}".removeprefix(".")
            for key in table
            if key not in keys
        ]

    def _named(
        self, table: Mapping[str, Any], key: str, place: str, targets: Mapping[str, TargetPlan | None]
    ) -> TargetPlan | None:
        name = table.get(key)
        if not isinstance(name, str) or name not in targets:
            said = f" = {name!r}" if name is not None else ""
            known = ", ".join(targets) or "which has none"
            self.problems.append(f"{place}.{key}{said}: must be the name of a table in [targets]: {known}")
            return None
        return targets[name]

    def _text(self, table: Mapping[str, Any], key: str, place: str, default: str) -> str:
        value = table.get(key, default)
        if not isinstance(value, str) or not value:
            self.problems.append(f"{place}.{key} = {value!r}: must be text")
        return str(value)

    def _number(
        self,
        table: Mapping[str, Any],
        key: str,
        place: str,
        low: int,
        high: int,
        *,
        read: Callable[[str], int] = int,
    ) -> int | None:
        value = table.get(key)
        if value is None:
            return None
        number = -1
        if not isinstance(value, bool) and isinstance(value, int | str):
            try:
                number = read(str(value))
            except ValueError:
                number = -1
        if not low <= number <= high:
            self.problems.append(f"{place}.{key} = {value!r}: must be {low} to {high}")
        return number

    def _batch(self, table: Mapping[str, Any], place: str) -> BatchLimits | None:
        records = self._number(table, "batch_records", place, 1, 1 << 30)
        size = self._number(table, "batch_bytes", place, 1, 1 << 30, read=bytes_of)
        wait_s = self._wait(table, place)
        # A wrong number is a problem that is reported.
        records, size = (None if one is None else max(1, one) for one in (records, size))
        return BatchLimits.given(records, size, wait_s)

    def _wait(self, table: Mapping[str, Any], place: str) -> float | None:
        value = table.get("batch_wait")
        if value is None:
            return None
        wait_s = -1.0
        if not isinstance(value, bool) and isinstance(value, int | float | str):
            with suppress(ValueError):
                wait_s = seconds_of(str(value))
        if 0 <= wait_s <= WAIT_MAX_S:
            return wait_s
        self.problems.append(
            f"{place}.batch_wait = {value!r}: must be 0 to {WAIT_MAX_S:g} seconds, such as 5 or '500ms'"
        )
        return None

    def _options(self, place: str, table: object) -> Iterator[tuple[str, str]]:
        if not isinstance(table, dict):
            self.problems.append(f"{place}: must be a table")
            return
        for name, value in _flat(table):
            yield name, self._text_or_secret(f"{place}.{name}", value)

    def _text_or_secret(self, place: str, value: object) -> str:
        """Return the text of a value; its problem never quotes it, since it may be a secret."""
        try:
            if isinstance(value, dict):
                return self._sources.resolve(value)
            if not isinstance(value, str | int | float) or value == "":
                raise ValueError("must be text, a number, true or false")
            text = str(value).lower() if isinstance(value, bool) else str(value)
            check_literal(place, text)
        except ValueError as error:
            self.problems.append(f"{place}: {error}")
            return ""
        return text


def _flat(table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield options; those of a table in them, such as ``header.x-region``, with the names joined by dots."""
    for name, value in table.items():
        if isinstance(value, dict) and not value.keys() & {"env", "file"}:
            yield from ((f"{name}.{inner}", each) for inner, each in _flat(value))
        else:
            yield name, value
