"""A Celery worker goes on after errors of the server, reset connections and a restart of the broker."""

from __future__ import annotations

import time
from typing import Any


def test_the_worker_goes_on_after_503(yard: Any) -> None:
    trouble(yard, "refuse")


def test_the_worker_goes_on_after_reset_connections(yard: Any) -> None:
    trouble(yard, "cut")


def trouble(yard: Any, mode: str) -> None:
    yard.tasks.note.delay(f"{mode}-before")
    yard.wait(lambda: yard.names(f"{mode}-before"))
    # Celery forgets no message whose acknowledgement failed, and takes no other in its place: begin without one.
    yard.wait(yard.is_idle)
    troubled = yard.proxy.troubled
    yard.proxy.behave(mode)
    try:
        yard.wait(lambda: yard.proxy.troubled >= troubled + 3)
    finally:
        yard.proxy.behave("pass")
    yard.tasks.note.delay(f"{mode}-after")
    yard.wait(lambda: yard.names(f"{mode}-after"))
    assert yard.workers[0].poll() is None


def test_the_worker_goes_on_after_a_restart_of_the_broker(yard: Any) -> None:
    yard.tasks.note.apply_async(("restart-before",), countdown=4)
    yard.kill_server()
    time.sleep(1)  # polls fail meanwhile
    yard.restart_server()
    yard.tasks.note.delay("restart-after")
    yard.wait(lambda: yard.names("restart-") == {"restart-before", "restart-after"})
    assert yard.workers[0].poll() is None
