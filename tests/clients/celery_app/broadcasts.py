"""A task that every worker runs: its exchange is a topic, and each worker has a queue of its own."""

from __future__ import annotations

import os

from celery import Celery, Task
from kombu.common import Broadcast
from tasks import app as suite
from tasks import leave_line

app = Celery("broadcasts", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={**suite.conf.broker_transport_options, "supports_fanout": True},
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    task_queues=(Broadcast("news"),),
    task_routes={"broadcasts.read": {"queue": "news", "exchange": "news"}},
)


@app.task(bind=True)
def read(self: Task, name: str) -> None:
    leave_line(name, self, worker=os.getppid())
