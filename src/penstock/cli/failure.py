"""How a command fails: one line on standard error, a status, no traceback."""

from __future__ import annotations

from typing import IO, Any

import click


class Failure(click.ClickException):
    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"penstock: {self.message}", err=True, file=file)


class Breakdown(Failure):
    """It ran, and could not go on."""

    exit_code = 1
