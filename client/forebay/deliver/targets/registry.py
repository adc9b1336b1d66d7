"""Registry of targets by name.

Four targets are built in. Packages add targets with the entry-point group ``forebay.targets``, and any importable
object is available as ``module:attribute``. The target is called with the options as keywords, all of them text.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from forebay.deliver.errors import InvalidOption, TargetUnusable, UnknownTarget
from forebay.deliver.targets.target import Target
from forebay.packaging import install_command
from forebay.text.quantities import plain

GROUP: Final = "forebay.targets"
"""Entry-point group of targets."""

_BUILT_IN: Final = {
    "console": ("forebay.deliver.targets.console:console_target", "deliver"),
    "file": ("forebay.deliver.targets.file:file_target", "deliver"),
    "http": ("forebay.deliver.targets.http:http_target", "deliver"),
    "postgresql": ("forebay.deliver.targets.postgresql.target:postgresql_target", "postgresql"),
}
"""Factory, and the extra that it needs, by name."""


def names() -> tuple[str, ...]:
    """Return the names of all available targets, sorted."""
    return tuple(sorted({*_BUILT_IN, *(found.name for found in entry_points(group=GROUP))}))


def load(name: str) -> Callable[..., Target]:
    """Return the factory of target ``name``: built-in, entry point, or ``module:attribute``.

    Raises `UnknownTarget` with the available names, or `TargetUnusable` with the problem.
    """
    registered = {found.name: found for found in entry_points(group=GROUP)}
    if name in _BUILT_IN:
        entry = EntryPoint(name, _BUILT_IN[name][0], GROUP)
    elif name in registered:
        entry = registered[name]
    elif ":" in name:
        entry = EntryPoint(name, name, GROUP)
    else:
        raise UnknownTarget(name, names())
    factory = _resolve(entry)
    if not callable(factory):
        raise TargetUnusable(name, "it is not callable: must be a class, or a function that returns a target")
    return factory


def origin(name: str) -> str:
    """Return the source of target ``name``: ``built in``, the package that registers it, or ``import``."""
    if name in _BUILT_IN:
        return "built in"
    found = next((one for one in entry_points(group=GROUP) if one.name == name), None)
    return "import" if found is None else found.dist.name if found.dist is not None else "unknown"


def create(name: str, options: Mapping[str, str]) -> Target:
    """Build the target ``name`` with ``options``.

    Sizes and durations of options with a unit in their name become plain numbers: ``timeout_s=2m``. Raises
    `InvalidOption` for an unknown or missing option, and `TargetUnusable` if the result is not a target.
    """
    factory = load(name)
    options = {option: _plain(name, option, text) for option, text in options.items()}
    try:
        inspect.signature(factory).bind(**options)
    except TypeError as error:
        raise InvalidOption(name, ", ".join(options) or "(none)", str(error)) from error
    target = factory(**options)
    if not isinstance(target, Target):
        raise TargetUnusable(name, f"a {type(target).__qualname__} lacks open, send or close")
    return target


def _plain(target: str, option: str, text: str) -> str:
    if "." in option:  # a free name, such as that of a header, has no unit
        return text
    try:
        return plain(option, text)
    except ValueError as error:
        raise InvalidOption(target, option, str(error)) from error


def _resolve(entry: EntryPoint) -> Callable[..., Target]:
    module, _, attribute = entry.value.partition(":")
    try:
        found: object = importlib.import_module(module.strip())
    except ModuleNotFoundError as error:
        hint = f": {install_command(_BUILT_IN[entry.name][1])}" if entry.name in _BUILT_IN else ""
        raise TargetUnusable(entry.name, f"the module {error.name} does not exist{hint}") from error
    except (ImportError, ValueError) as error:
        raise TargetUnusable(entry.name, str(error)) from error
    for part in attribute.split("[")[0].strip().split("."):
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise TargetUnusable(entry.name, f"module {module} has no {attribute}") from error
    return found  # type: ignore[return-value]  # checked by the caller, which calls it
