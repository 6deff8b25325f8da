from __future__ import annotations

import asyncio
import os

from faststream import AckPolicy, FastStream
from pydantic import BaseModel
from run_lines import leave_line

from penstock.client.adapters.faststream import FastStreamBroker
from penstock.client.consumer.retry import Constant, RetryPolicy

broker = FastStreamBroker()
app = FastStream(broker)


class Work(BaseModel):
    name: str
    seconds: float = 0


@broker.subscriber("tasks", concurrency=int(os.environ.get("CONCURRENCY", "1")), prefetch=0)
async def work(task: Work) -> None:
    leave_line(task.name)
    await asyncio.sleep(task.seconds)
    leave_line(f"{task.name} done")


@broker.subscriber("failing", retry=RetryPolicy(Constant(1), attempts_max=3))
async def fail(task: Work) -> None:
    leave_line(task.name)
    raise ValueError("always")


@broker.subscriber("rejecting", ack_policy=AckPolicy.REJECT_ON_ERROR)
async def reject(task: Work) -> None:
    leave_line(task.name)
    raise ValueError("always")


@broker.subscriber("asking")
@broker.publisher("answers")
async def answer(task: Work) -> dict[str, str]:
    return {"answer": task.name}
