"""``penstock test``: control a server that has a test clock."""

from __future__ import annotations

import click

from penstock.cli.arguments import DURATION, short_duration, yes_option
from penstock.cli.groups import CommandGroup
from penstock.cli.target import Target, with_target
from penstock.client.api import Json

_CLOCK = "/test/clock"


_MISSING = {
    **dict.fromkeys(("ls", "show"), 'a server has one test clock, and "penstock test clock" shows it'),
    "create": 'start a server that has a test clock with "penstock serve --memory --test-clock"',
    "set": 'use "penstock test advance", "penstock test freeze", "penstock test run" or "penstock test reset"',
    "delete": '"penstock test clear" deletes everything in the server, and "penstock queue delete" a queue',
}


@click.group("test", cls=CommandGroup, missing=_MISSING)
def command() -> None:
    """Control a server that has a test clock: penstock serve --memory --test-clock.

    A server without credentials obeys programs on its own machine only. In a container, run these commands there, as
    with docker exec.

    \b
    Examples:
      penstock serve --memory --test-clock
      penstock test advance 15m
      penstock test freeze
      penstock test reset
      penstock test clear --yes
    """


@command.command("clock")
@with_target
def clock(target: Target) -> None:
    """Show what the test clock shows.

    \b
    Example:
      penstock test clock
    """
    _show(target, target.admin("GET", _CLOCK))


@command.command("advance")
@click.argument("duration", type=DURATION)
@with_target
def advance(target: Target, duration: float) -> None:
    """Let time pass. When the command ends, all that is due by then has happened.

    Messages become visible or expire, delays end, sends are no longer duplicates, and receives that wait get what
    became visible, or nothing if their time is over.

    \b
    Examples:
      penstock test advance 30s
      penstock test advance 14d
    """
    _show(target, target.admin("POST", f"{_CLOCK}/advance", body={"seconds": duration}))


@command.command("freeze")
@with_target
def freeze(target: Target) -> None:
    """Let time stand still until it is advanced.

    \b
    Example:
      penstock test freeze
    """
    _show(target, target.admin("PATCH", _CLOCK, body={"frozen": True}))


@command.command("run")
@with_target
def run(target: Target) -> None:
    """Let time run along with the real time again, from what the clock shows.

    \b
    Example:
      penstock test run
    """
    _show(target, target.admin("PATCH", _CLOCK, body={"frozen": False}))


@command.command("reset")
@with_target
def reset(target: Target) -> None:
    """Show the real time again, and run. What has happened is not undone.

    \b
    Example:
      penstock test reset
    """
    _show(target, target.admin("POST", f"{_CLOCK}/reset"))


@command.command("clear")
@click.option("--account", metavar="ID", help="Only the queues of this account, twelve digits.")
@yes_option
@with_target
def clear(target: Target, account: str | None, yes: bool) -> None:
    """Delete everything, so that the server is as after its start; or the queues of one account.

    Everything: queues and messages, metrics, alarms and dashboards of all accounts. Declared queues are created
    again. The clock stays as it is.

    \b
    Examples:
      penstock test clear --yes
      penstock test clear --account 123456789012 --yes
    """
    what = "everything" if account is None else f"all queues of account {account}"
    target.out.confirm(f"Delete {what}?", yes)
    answer = target.admin("POST", "/test/clear", body={} if account is None else {"account": account})
    if target.out.as_json:
        target.out.json(answer)
    else:
        target.out.line(f"queues deleted: {answer['deleted_queues']}")


def _show(target: Target, clock: Json) -> None:
    if target.out.as_json:
        target.out.json(clock)
        return
    ahead_s = round(clock["ahead_s"])
    difference = f"{short_duration(abs(ahead_s))} {'ahead' if ahead_s >= 0 else 'behind'}"
    target.out.line(f"{clock['now']}, {difference}, {'frozen' if clock['frozen'] else 'running'}")
