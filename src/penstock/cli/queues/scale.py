"""``penstock queue scale``: how many workers a queue needs."""

from __future__ import annotations

import click

from penstock.cli.arguments import DURATION, queue_argument, short_duration
from penstock.cli.messages.admin_queue import AdminQueue
from penstock.cli.target import Target, with_target


@click.command("scale")
@queue_argument
@click.option(
    "--latency",
    type=DURATION,
    default="60s",
    metavar="TIME",
    show_default=True,
    help="Within which the backlog is to be worked off.",
)
@click.option(
    "--per-worker",
    type=click.IntRange(1),
    default=1,
    metavar="N",
    show_default=True,
    help="Messages that a worker holds at the same time.",
)
@click.option("--workers", type=click.IntRange(0), metavar="N", help="Workers that run now.")
@with_target
def scale(target: Target, queue: str, latency: float, per_worker: int, workers: int | None) -> None:
    """Show the backlog of a queue per worker, and how many workers would work it off in time.

    The time that a worker takes is measured, from a receive to the delete of the message, over the last five minutes.
    A worker that receives several messages at once and works on one after the other holds all of them: give
    --per-worker. Only Penstock tells this, not Amazon SQS.

    \b
    Examples:
      penstock queue scale orders
      penstock queue scale orders --latency 5m --per-worker 10
      penstock queue scale orders --json | jq .suggested_workers
    """
    query = {"latency_s": latency, "messages_per_worker": per_worker, "workers": workers}
    found = AdminQueue(target, queue).call("GET", "/scaling", query)
    if target.out.as_json:
        target.out.json(found)
        return
    processing_s = found.get("processing_time_s")
    target.out.facts(
        [
            ("Queue", found["queue"]),
            ("Messages", f"{found['backlog']} visible, {found['in_flight']} in flight"),
            ("Per second", f"{found['sent_rate']:.1f} sent, {found['deleted_rate']:.1f} deleted"),
            ("Processing time", None if processing_s is None else f"{processing_s:.3f} s"),
            ("Backlog per worker", f"{found['backlog_per_worker']:.1f}"),
            (
                "Suggested workers",
                f"{found['suggested_workers']} for a latency of {short_duration(int(latency))}",
            ),
        ]
    )
