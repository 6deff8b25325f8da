"""The tasks of the suite. Each run of one leaves a line in the file named by RUNS, for the test to read."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from celery import Celery, Task

app = Celery("suite", broker=os.environ["BROKER"])
app.conf.update(
    broker_transport_options={
        "region": "us-east-1",
        "is_secure": False,
        "visibility_timeout": 8,
        "wait_time_seconds": 2,
        "polling_interval": 0.1,
    },
    broker_connection_retry_on_startup=True,
    worker_prefetch_multiplier=1,
    worker_enable_remote_control=False,  # on SQS there is none
    task_acks_late=True,
)


def leave_line(name: str, task: Task, **more: Any) -> None:
    line = json.dumps({"name": name, "retries": task.request.retries, "at": time.time(), **more})
    with open(os.environ["RUNS"], "a") as runs:
        runs.write(line + "\n")


@app.task(bind=True)
def note(self: Task, name: str) -> None:
    leave_line(name, self)


@app.task(bind=True, max_retries=3)
def fail_twice(self: Task, name: str) -> None:
    leave_line(name, self)
    if self.request.retries < 2:
        raise self.retry(countdown=1)


@app.task(bind=True)
def take_long(self: Task, name: str, seconds: float) -> None:
    leave_line(name, self, worker=os.getppid())
    time.sleep(seconds)
    leave_line(f"{name} done", self, worker=os.getppid())
