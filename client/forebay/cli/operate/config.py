"""`forebay config ...`: checks the configuration file of a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from forebay.cli.command import Commands
from forebay.cli.exits import ExitCode
from forebay.cli.extras import needed_for
from forebay.cli.manage.settings_text import setting_text
from forebay.cli.options import OutputForm
from forebay.cli.output import Output, write_json, write_line, write_table
from forebay.cli.report import CommandFailed

config_app = Commands(
    help="Check the configuration file of a broker.",
    example="forebay config check forebay.toml",
)

File = Annotated[
    Path, typer.Argument(metavar="FILE", help="TOML file, as for `forebay serve --config`.", show_default=False)
]


@config_app.command(example="forebay config check forebay.toml")
def check(file: File, output: OutputForm = Output.TABLE) -> None:
    """Check a configuration file: names, values, allowed ranges, files that it names. Starts no broker.

    Environment variables, which `forebay serve` reads too, do not count. Exit code 0 valid, 2 not.
    """
    with needed_for("the check", "broker"):
        from forebay.broker.configuration import allowed_values
        from forebay.broker.configuration import check as run
    try:
        settings, problems = run(file)
    except FileNotFoundError as error:
        raise CommandFailed(f"{file}: the file does not exist", ExitCode.NOT_FOUND) from error
    except OSError as error:
        raise CommandFailed(f"{file}: cannot be read: {error.strerror}") from error
    if output is Output.JSON:
        write_json({"file": file, "valid": not problems, "settings": settings, "problems": problems})
    elif problems:
        rows = [(one.setting, one.value, one.text, one.allowed) for one in problems]
        write_table(f"problems of {file}", ("setting", "value", "problem", "allowed"), rows)
    else:
        valid = [(name, value, allowed_values(name)) for name, value in _flat(settings)]
        write_table(f"settings of {file}", ("setting", "value", "allowed"), valid)
        write_line(f"{file} is valid")
    raise typer.Exit(ExitCode.USAGE if problems else ExitCode.OK)


def _flat(settings: dict[str, object], prefix: str = "") -> list[tuple[str, str]]:
    """Return names and values, those of tables with dots."""
    found: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{name}.")
        else:
            found.append((f"{prefix}{name}", setting_text(name, value)))
    return found
