from __future__ import annotations

from run_lines import take_time

from penstock.client.adapters.taskiq import TaskiqBroker

broker = TaskiqBroker("tasks")


@broker.task
def work(name: str, seconds: float) -> None:
    take_time(name, seconds)
