"""Checks of this machine and its Python environment; none of them needs a broker."""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib.metadata import PackageNotFoundError, metadata, requires, version
from importlib.util import find_spec
from typing import Final

from forebay.cli.doctor.check import Check, Grade
from forebay.cli.doctor.requirements import Requirement, by_extra
from forebay.packaging import NAME, install_command

DESCRIPTORS_MIN: Final = 4_096
"""Open files below which a busy broker runs out of them."""

JAVA_OF_SPARK_3: Final = 8
"""Minimum Java version of Spark 3.5."""

BUILDING: Final = frozenset({"dev", "docs", "test"})
"""Extras for work on Forebay itself."""

PREFIX: Final = "FOREBAY_"
OF_COMPOSE: Final = frozenset({"FOREBAY_TAG", "FOREBAY_PORT", "FOREBAY_CONSOLE_PORT"})
"""Variables of the compose file."""

OF_CLIENTS: Final = frozenset(
    {
        "FOREBAY_ENDPOINT",
        "FOREBAY_TLS",
        "FOREBAY_TLS_CA_FILE",
        "FOREBAY_TLS_CERT_FILE",
        "FOREBAY_TLS_KEY_FILE",
        "FOREBAY_TLS_SERVER_NAME",
        "FOREBAY_TOKEN",
        "FOREBAY_TOKEN_FILE",
        "FOREBAY_TOKEN_WITHOUT_TLS",
        "FOREBAY_UTC",
        "FOREBAY_WAIT",
    }
)
"""Variables of the client and the commands."""

Version = Callable[[str], str]
"""Returns the installed version of a distribution; raises ``PackageNotFoundError``."""


def package_checks() -> Iterator[Check]:
    """Yield the checks of Python, of this distribution and its extras, and of Spark."""
    python = ".".join(map(str, sys.version_info[:3]))
    needed = metadata(NAME)["Requires-Python"] or ""
    if Requirement("python", needed).is_met_by(python):
        yield Check("python", Grade.OK, f"{python} in {sys.prefix}")
    else:
        yield Check("python", Grade.PROBLEM, f"{python}: must be {needed}", "use a virtual environment of another one")
    yield Check("forebay", Grade.OK, version(NAME))
    yield from extra_checks(requires(NAME) or (), version)
    yield from spark_checks()


def extra_checks(requirements: Iterable[str], version_of: Version) -> Iterator[Check]:
    """Yield one check per extra: installed with its versions, partly installed, or not."""
    for extra, needed in by_extra(requirements, sys.platform).items():
        if extra in BUILDING:
            continue
        subject, have, missing = f"extra {extra}" if extra else "base", dict[str, str](), list[str]()
        for one in needed:
            try:
                have[one.name] = version_of(one.name)
            except PackageNotFoundError:
                missing.append(one.name)
        wrong = [
            f"{one.name} {have[one.name]} is not {one.bounds}"
            for one in needed
            if one.name in have and not one.is_met_by(have[one.name])
        ]
        command = install_command(extra) if extra else f"pip install --force-reinstall {NAME}"
        if wrong:
            yield Check(subject, Grade.PROBLEM if not missing else Grade.WARNING, "; ".join(wrong), command)
        elif missing and extra:
            yield Check(
                subject, Grade.OK, f"not installed: {', '.join(missing)} missing", f"if it is needed: {command}"
            )
        elif missing:
            yield Check(subject, Grade.PROBLEM, f"{', '.join(missing)} missing", command)
        else:
            yield Check(subject, Grade.OK, ", ".join(f"{name} {number}" for name, number in have.items()))


def spark_checks() -> Iterator[Check]:
    """Yield the check of Java, where PySpark is installed."""
    from forebay.cli.demo.processes.java import JAVA_VERSION_MIN, JavaMissing, require_java

    if find_spec("pyspark") is None:
        return
    spark = version("pyspark")
    try:
        java = require_java(JAVA_OF_SPARK_3 if spark.startswith("3.") else JAVA_VERSION_MIN)
    except JavaMissing as error:
        yield Check("java", Grade.PROBLEM, f"PySpark {spark} cannot start: {error}", "install it, or set JAVA_HOME")
        return
    except OSError as error:
        yield Check("java", Grade.PROBLEM, f"Java cannot be started: {error.strerror}", "set JAVA_HOME")
        return
    yield Check("java", Grade.OK, f"Java {java} fits PySpark {spark}")


def variable_checks(environment: Mapping[str, str] | None = None) -> Iterator[Check]:
    """Yield the checks of the environment variables: unknown names, and the values of the client."""
    from forebay.client import ClientSettings
    from forebay.client.errors import ForebayError

    found = os.environ if environment is None else environment
    given = sorted(name for name in found if name.startswith(PREFIX))
    known = sorted(OF_CLIENTS | OF_COMPOSE | _of_broker())
    for name in given:
        if name.partition("__")[0] not in known:
            near = get_close_matches(name, known, 1)
            yield Check("variables", Grade.WARNING, f"{name} is not known", f"did you mean {near[0]}?" if near else "")
    try:
        settings = ClientSettings.from_environment(found)
    except ForebayError as error:
        yield Check("variables", Grade.PROBLEM, str(error), "correct the variable")
        return
    tls = "TLS" if settings.tls else "no TLS"
    token = "a token" if settings.token or settings.token_file or settings.token_env else "no token"
    yield Check("variables", Grade.OK, f"{', '.join(given) or 'none'}: {tls}, {token}")


def machine_checks() -> Iterator[Check]:
    """Yield the checks of limits and of the terminal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= DESCRIPTORS_MIN:
        yield Check("open files", Grade.OK, "unlimited" if soft == resource.RLIM_INFINITY else f"up to {soft:,}")
    else:
        bound = "" if hard == resource.RLIM_INFINITY else f", up to {hard:,}"
        advice = f"for a broker with many connections: ulimit -n {DESCRIPTORS_MIN}{bound}, or LimitNOFILE= of systemd"
        yield Check("open files", Grade.WARNING, f"up to {soft:,}", advice)
    encoding = (sys.stdout.encoding or "ascii").lower()
    if encoding.replace("-", "") == "utf8":
        yield Check("terminal", Grade.OK, "UTF-8")
    else:
        advice = "set LANG to a UTF-8 locale, or PYTHONIOENCODING=utf-8"
        yield Check("terminal", Grade.WARNING, f"{encoding}: tables and payloads may not be printable", advice)


def _of_broker() -> set[str]:
    """Return the variables of the broker's settings, where the broker is installed."""
    if find_spec("pydantic_settings") is None:
        return set()
    from forebay.broker.settings import BrokerSettings

    return {f"{PREFIX}{name.upper()}" for name in BrokerSettings.model_fields}
