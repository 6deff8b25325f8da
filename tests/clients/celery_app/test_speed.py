"""How quickly a worker with the settings of the recipe runs short tasks, beside a plain loop of boto3."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from support.documents import copy_example

TASKS = 60


def test_the_speed_of_the_example(
    celery_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed, without a limit: it depends on the machine and on the version of kombu."""
    plain = plain_loop(celery_run.client())
    folder = copy_example("celery", tmp_path, celery_run.server.port)
    send = f"from shop import charge\nfor order in range({TASKS}): charge.delay(order, 7777)"
    subprocess.run([sys.executable, "-c", send], cwd=folder, check=True, timeout=60)
    log, begun = celery_run.folder / "worker.log", list[float]()

    def done() -> int:
        count: int = log.read_text(errors="replace").count(": 7777 cents charged")
        if count and not begun:  # the start of the worker does not count
            begun.extend((time.perf_counter(), count))
        return count

    worker = celery_run.start_worker("shop", folder)
    celery_run.wait(lambda: done() >= TASKS)
    rate = (TASKS - begun[1]) / (time.perf_counter() - begun[0])
    celery_run.kill_worker(worker)
    with capsys.disabled():
        print(f"\n{rate:.0f} tasks a second, {rate / plain:.2f} of a loop of boto3")


def plain_loop(sqs: Any) -> float:
    """Messages a second that one program receives and deletes."""
    url = sqs.create_queue(QueueName="plain")["QueueUrl"]
    for _ in range(TASKS // 10):
        entries = [{"Id": str(number), "MessageBody": "x" * 500} for number in range(10)]
        sqs.send_message_batch(QueueUrl=url, Entries=entries)
    begun, count = time.perf_counter(), 0
    while count < TASKS:
        for message in sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", []):
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            count += 1
    return count / (time.perf_counter() - begun)
