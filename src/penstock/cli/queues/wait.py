"""``penstock wait``: for scripts that need a server, a queue or messages."""

from __future__ import annotations

import time

import click

from penstock.backoff import backoff
from penstock.cli.arguments import DURATION, QUEUE
from penstock.cli.failure import Breakdown
from penstock.cli.queues.facts import queue_facts
from penstock.cli.target import NoQueue, Target, with_target
from penstock.client.api import Unavailable

_PAUSE_S = 0.1
_PAUSE_S_MAX = 2.0


@click.command("wait")
@click.argument("queue", type=QUEUE, required=False)
@click.option(
    "--empty", is_flag=True, help="Until the queue has no messages, also none delayed or in flight."
)
@click.option("--messages", type=click.IntRange(1), metavar="N", help="Until N messages or more are visible.")
@click.option(
    "--timeout",
    type=DURATION,
    default="60s",
    show_default=True,
    metavar="TIME",
    help="How long to wait at most.",
)
@with_target
def command(target: Target, queue: str | None, empty: bool, messages: int | None, timeout: float) -> None:
    """Wait until a server is ready, or until a queue exists, is empty, or has messages.

    A server that does not answer yet is asked again. Exit code 0: the condition holds. 1: it did not hold within
    the timeout, or the server refused to answer. Counts of Amazon SQS are approximate: an empty queue may be
    reported a minute early.

    \b
    Examples:
      penstock wait --timeout 30s && penstock queue create orders
      penstock wait orders
      penstock wait orders --empty --timeout 10m
      penstock wait results --messages 100
    """
    if queue is None and (empty or messages):
        raise click.UsageError("--empty and --messages need a queue")
    if empty and messages:
        raise click.UsageError("--empty and --messages exclude each other")
    end, attempts = time.monotonic() + timeout, 0
    while (missing := _missing(target, queue, empty, messages)) is not None:
        left = end - time.monotonic()
        if left <= 0:
            raise Breakdown(f"{missing}, after {timeout:g} seconds")
        attempts += 1
        time.sleep(min(left, backoff(attempts, _PAUSE_S, _PAUSE_S_MAX, factor=1.5)))
    if target.out.as_json:
        target.out.json({"ready": True} if queue is None else {"name": queue, "ready": True})


def _missing(target: Target, queue: str | None, empty: bool, messages: int | None) -> str | None:
    """Returns why the condition does not hold yet; None if it does."""
    try:
        if queue is None:
            reason = target.session.why_not_ready()
            return None if reason is None else f"not ready: {reason}"
        if not (empty or messages):
            target.queue_url(queue, asked=True)
            return None
        facts = queue_facts(target, queue)
    except Unavailable as error:
        return str(error)
    except NoQueue as error:
        return error.message
    if messages:
        return None if facts["visible"] >= messages else f"{queue} has {facts['visible']} visible messages"
    counts = {name: facts[name] for name in ("visible", "in_flight", "delayed")}
    if not any(counts.values()):
        return None
    return f"{queue} has " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
