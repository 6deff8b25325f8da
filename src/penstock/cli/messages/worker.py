"""``penstock worker``: handle messages with the functions of a Python application."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
import traceback
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import DURATION, QUEUE
from penstock.cli.failure import Failure
from penstock.cli.target import Target, with_target

if TYPE_CHECKING:
    from penstock.client.consumer.worker import Worker

_LEVELS = ("debug", "info", "warning", "error")
_SIGNALLED = 128  # and the number of the signal


@click.command("worker")
@click.argument("application", metavar="MODULE:APP")
@click.option(
    "--queue", "queues", type=QUEUE, multiple=True, metavar="QUEUE", help="Only this one. Can be repeated."
)
@click.option(
    "--concurrency", type=click.IntRange(1), metavar="N", help="Handlers at the same time, for each queue."
)
@click.option(
    "--stop-timeout",
    type=DURATION,
    metavar="TIME",
    help="How long handlers may take to end at a stop.  [30s]",
)
@click.option(
    "--until-empty", is_flag=True, help="Stop when the queues have no message that can be received."
)
@click.option("--reload", is_flag=True, help="Start again when a Python file below this directory changes.")
@click.option(
    "--log-level", type=click.Choice(_LEVELS), default="info", show_default=True, help="Least level logged."
)
@with_target
def command(
    target: Target,
    application: str,
    queues: tuple[str, ...],
    concurrency: int | None,
    stop_timeout: float | None,
    until_empty: bool,
    reload: bool,
    log_level: str,
) -> None:
    """Receive messages and pass them to the handlers of a Python application, until SIGTERM or SIGINT.

    MODULE is imported from this directory or from what is installed; APP is a penstock.client.Worker in it, "app" if
    it is left out. Flags take precedence over what the application says. Logs go to standard error, as lines of JSON
    with --json or if that is not a terminal.

    At a signal no more messages are received, those that wait are given back, and running handlers end within the
    stop timeout; a second signal interrupts them. Exit code 0: stopped. 1: the worker failed. 2: wrong usage, or a
    queue that does not exist. 130 or 143: interrupted by a second signal.

    \b
    Examples:
      penstock worker jobs:app
      penstock worker jobs:app --concurrency 20 --queue orders --queue bills
      penstock worker jobs:app --reload --log-level debug
      penstock worker jobs:app --until-empty --queue nightly
      penstock worker shop.jobs:worker --context prod --stop-timeout 2m --json
    """
    _set_up_logs(log_level, as_json=target.out.as_json)
    if reload:
        from penstock.cli.messages.reloading import run_reloading

        sys.exit(run_reloading([argument for argument in sys.argv[1:] if argument != "--reload"], Path.cwd()))
    _print_whole_lines()
    worker = _load(application)
    if stop_timeout is not None:
        worker.stop_timeout_s = stop_timeout
    from penstock.client.consumer.receiving import CannotStart
    from penstock.client.credentials import ProfileError
    from penstock.client.endpoint import EndpointError

    try:
        interrupted_by = worker.run(
            queues=queues, concurrency=concurrency, until_empty=until_empty, **target.client_options
        )
    except (CannotStart, EndpointError, ProfileError) as error:
        raise Failure(str(error)) from None
    _exit(0 if interrupted_by is None else _SIGNALLED + interrupted_by)


def _load(application: str) -> Worker:
    name, _, attribute = application.partition(":")
    attribute = attribute or "app"
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed_import(name, error) from None
        raise Failure(
            f'there is no module "{error.name}" in {Path.cwd()} or among what is installed'
        ) from None
    except Exception as error:
        raise _failed_import(name, error) from None
    from penstock.client.consumer.worker import Worker

    found = getattr(module, attribute, None)
    if not isinstance(found, Worker):
        kind = "nothing" if found is None else f"of the type {type(found).__name__}"
        raise Failure(f'"{attribute}" in the module "{name}" is {kind}: expected a penstock.client.Worker')
    return found


def _failed_import(name: str, error: Exception) -> Failure:
    traceback.print_exception(error)
    return Failure(f'the module "{name}" cannot be imported: {type(error).__name__}: {error}')


def _set_up_logs(level: str, *, as_json: bool) -> None:
    """Sets up all loggers, those of the application as well."""
    from penstock.server.logs import HumanFormatter, JsonFormatter

    handler = logging.StreamHandler(sys.stderr)
    is_human = sys.stderr.isatty() and not as_json
    handler.setFormatter(HumanFormatter() if is_human else JsonFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def _print_whole_lines() -> None:
    """What handlers print is seen at once, also in a pipe, and lines of several threads are not mixed."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _exit(code: int) -> None:
    """Handlers in threads that did not end must not keep the process."""
    logging.shutdown()
    sys.stdout.flush()
    if any(thread.name.startswith("penstock-handler") for thread in threading.enumerate()):
        os._exit(code)
    sys.exit(code)
