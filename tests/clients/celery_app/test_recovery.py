"""A Celery worker recovers from errors of the server, reset connections and a restart of the broker."""

from __future__ import annotations

import time
from typing import Any


def test_the_worker_recovers_from_503(celery_run: Any) -> None:
    fail_for_a_while(celery_run, "refuse")


def test_the_worker_recovers_from_reset_connections(celery_run: Any) -> None:
    fail_for_a_while(celery_run, "cut")


def fail_for_a_while(celery_run: Any, mode: str) -> None:
    celery_run.tasks.note.delay(f"{mode}-before")
    celery_run.wait(lambda: celery_run.names(f"{mode}-before"))
    # Celery keeps a message whose acknowledgement failed, and receives no other in its place: start without one.
    celery_run.wait(celery_run.is_idle)
    failures = celery_run.proxy.failures
    celery_run.proxy.behave(mode)
    try:
        celery_run.wait(lambda: celery_run.proxy.failures >= failures + 3)
    finally:
        celery_run.proxy.behave("pass")
    celery_run.tasks.note.delay(f"{mode}-after")
    celery_run.wait(lambda: celery_run.names(f"{mode}-after"))
    assert celery_run.workers[0].poll() is None


def test_the_worker_recovers_from_a_restart_of_the_broker(celery_run: Any) -> None:
    celery_run.tasks.note.apply_async(("restart-before",), countdown=4)
    celery_run.kill_server()
    time.sleep(1)  # polls fail meanwhile
    celery_run.restart_server()
    celery_run.tasks.note.delay("restart-after")
    celery_run.wait(lambda: celery_run.names("restart-") == {"restart-before", "restart-after"})
    assert celery_run.workers[0].poll() is None
