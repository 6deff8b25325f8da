"""Measures what a broker in a test costs, and prints the table of docs/testing.md: processor time, of the test and of
the broker, which depends less on what else the machine does.

.venv/bin/python tests/testing/speed.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from penstock.testing import Broker

IMPORT = "import time, pytest; t = time.process_time(); import {}; print(time.process_time() - t)"


def timed(action: Callable[[], object], times: int) -> float:
    """The median, in milliseconds."""
    took = []
    for _ in range(times):
        begin = time.process_time()
        action()
        took.append(time.process_time() - begin)
    return statistics.median(took) * 1000


def imported(module: str, times: int = 10) -> float:
    """The same for an import, in new processes that find everything compiled."""
    command = [sys.executable, "-c", IMPORT.format(module)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    took = [subprocess.check_output(command, text=True, env=environment) for _ in range(times + 1)]
    return statistics.median(map(float, took[1:])) * 1000


def started_and_stopped() -> None:
    with Broker():
        pass


def measured() -> list[tuple[str, float]]:
    rows = [
        ("load the plugin, where it is not used", imported("penstock.testing.plugin")),
        ("import the server, once in a process", imported("penstock.testing.server")),
    ]
    started_and_stopped()
    rows.append(("start and stop a `Broker`", timed(started_and_stopped, 20)))
    with Broker() as broker:
        broker.boto3_client().close()
        rows.append(("make a client of boto3", timed(lambda: broker.boto3_client().close(), 50)))
        with broker.client() as client:

            def one_test() -> None:
                queue = client.create_queue("orders")
                client.send_message(queue, "one espresso")
                (message,) = client.receive_message(queue)
                client.delete_message(queue, message.receipt_handle)
                broker.assert_deleted("orders", "one espresso", count=1)
                broker.reset()

            rows.append(("a test with four requests, an assertion and the reset", timed(one_test, 200)))
        rows.append(("advance by 15 minutes", timed(lambda: broker.clock.advance(minutes=15), 50)))
        rows.append(("advance by 14 days", timed(lambda: broker.clock.advance(days=14), 5)))
    return rows


if __name__ == "__main__":
    print("| | ms |\n|---|--:|")
    for what, ms in measured():
        print(f"| {what} | {ms:.1f} |")
