from __future__ import annotations

import asyncio
from typing import Any

import django
from run_lines import leave_line, take_time

if django.VERSION < (6,):
    from django_tasks import task
else:
    from django.tasks import task


@task
def work(name: str, seconds: float) -> None:
    take_time(name, seconds)


@task(takes_context=True)
def fail_twice(context: Any, name: str) -> None:
    leave_line(f"{name} attempt {context.attempt}")
    if context.attempt < 3:
        raise ValueError("not yet")


@task(queue_name="urgent")
async def work_async(name: str) -> None:
    await asyncio.sleep(0)
    leave_line(name)
