from __future__ import annotations

import dramatiq
from run_lines import leave_line, take_time

from penstock.client.adapters.dramatiq import DramatiqBroker

dramatiq.set_broker(DramatiqBroker(queue_prefix="app-"))


@dramatiq.actor
def work(name: str, seconds: float) -> None:
    take_time(name, seconds)


@dramatiq.actor(max_retries=2, min_backoff=1000, max_backoff=1000)
def fail(name: str) -> None:
    leave_line(name)
    raise ValueError("always")
