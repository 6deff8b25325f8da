"""A backend for tasks of Django, which are part of Django 6 and the package ``django-tasks`` before::

    TASKS = {"default": {"BACKEND": "penstock.client.adapters.django_tasks.TasksBackend"}}

and a worker for it, in a module that ``penstock worker`` runs::

    django.setup()
    app = worker()

A task that fails is retried as the worker's retry policy says, and is a dead letter in the end. Results are not kept.
"""

from __future__ import annotations

import traceback
from datetime import datetime
from importlib import import_module
from typing import Any

import msgspec

from penstock.client.adapters import needs
from penstock.client.adapters.queues import DelayEarlyMessages, UsedQueues, delay_options, ensure_queue
from penstock.client.client import Client
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.retry import GiveUp
from penstock.client.consumer.worker import Worker
from penstock.client.sync import SyncClient

with needs("django"):
    from django.conf import settings
    from django.db import close_old_connections
    from django.utils import timezone
    from django.utils.crypto import get_random_string
    from django.utils.module_loading import import_string

    # Both can be installed; an application uses one of them.
    _package = "django_tasks" if "django_tasks" in settings.INSTALLED_APPS else "django.tasks"
    _tasks: Any = import_module(_package)
    _base: Any = import_module(f"{_package}.base")
    _signals: Any = import_module(f"{_package}.signals")
    _BaseTaskBackend: Any = import_module(f"{_package}.backends.base").BaseTaskBackend

_PREFIX = "queue_prefix"


class TaskCall(msgspec.Struct):
    """The body of a message."""

    id: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    enqueued_at: datetime


class TasksBackend(_BaseTaskBackend):
    """A backend of Django's tasks whose queues are on Penstock or Amazon SQS.

    ``OPTIONS`` can have ``queue_prefix``, which comes before the names of all queues, and the parameters of
    :class:`~penstock.client.Client`. Missing queues are created, with a dead-letter queue each:

        TASKS = {"default": {
            "BACKEND": "penstock.client.adapters.django_tasks.TasksBackend",
            "OPTIONS": {"endpoint_url": "http://localhost:9324"},
        }}
    """

    supports_defer = True
    supports_async_task = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        super().__init__(alias, params)
        self.client_options = {name: value for name, value in self.options.items() if name != _PREFIX}
        self._prefix: str = self.options.get(_PREFIX, "")
        self._client = SyncClient(**self.client_options)
        self._urls: dict[str, str] = {}

    def queue_for(self, name: str) -> str:
        """The name of the queue in SQS."""
        return self._prefix + name

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        self.validate_task(task)
        now = timezone.now()
        call = TaskCall(get_random_string(32), task.module_path, list(args), dict(kwargs), _aware(now))
        result = _result(task, call, self.alias)
        delay_s = (task.run_after - now).total_seconds() if task.run_after is not None else 0.0
        body = msgspec.json.encode(call).decode()
        self._client.send_message(self._url(task.queue_name), body, **delay_options(delay_s))
        _signals.task_enqueued.send(type(self), task_result=result)
        return result

    def _url(self, queue_name: str) -> str:
        if queue_name not in self._urls:
            self._urls[queue_name] = ensure_queue(self._client, self.queue_for(queue_name))
        return self._urls[queue_name]


def worker(alias: str = "default", **options: Any) -> Worker:
    """Makes the worker for the queues of a backend.

    :param alias: The name of the backend in ``TASKS``; ``"default"`` by default.
    :param options: Parameters of :class:`~penstock.client.Worker`, such as ``concurrency`` and ``retry``.
    :returns: The worker, which ``penstock worker`` can run.
    """
    backend = _tasks.task_backends[alias]
    app = Worker(
        client=Client(**backend.client_options),
        middleware=[DelayEarlyMessages(lambda: app.client)],
        **options,
    )
    queues = sorted(map(backend.queue_for, backend.queues))
    used = UsedQueues(backend.client_options)

    @app.on_start
    async def create_queues() -> None:
        for queue in queues:
            await used.url(queue)

    def handle(call: TaskCall, context: MessageContext) -> None:
        run_task(call, context, alias)

    for queue in queues:
        app.handler(queue)(handle)
    return app


def run_task(call: TaskCall, context: MessageContext, alias: str) -> None:
    """Raises what the task raises, and ImportError if there is no such task."""
    task = import_string(call.task)
    if not isinstance(task, _base.Task):
        raise GiveUp(f"{call.task} is not a task")
    result = _result(task, call, alias)
    result.worker_ids.extend([context.worker] * context.attempt)
    now = timezone.now()
    _set(result, status=_base.TaskResultStatus.RUNNING, started_at=now, last_attempted_at=now)
    sender = type(_tasks.task_backends[alias])
    _signals.task_started.send(sender, task_result=result)
    before = [_base.TaskContext(task_result=result)] if task.takes_context else []
    close_old_connections()
    try:
        task.call(*before, *result.args, **result.kwargs)
    except BaseException as error:
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        text = "".join(traceback.format_exception(error))
        result.errors.append(_base.TaskError(exception_class_path=kind, traceback=text))
        _set(result, status=_base.TaskResultStatus.FAILED, finished_at=timezone.now())
        raise
    else:
        _set(result, status=_base.TaskResultStatus.SUCCESSFUL, finished_at=timezone.now())
    finally:
        close_old_connections()
        _signals.task_finished.send(sender, task_result=result)


def _result(task: Any, call: TaskCall, alias: str) -> Any:
    """Raises TypeError for arguments that JSON cannot hold."""
    result = _base.TaskResult(
        task=task, id=call.id, status=_base.TaskResultStatus.READY, enqueued_at=call.enqueued_at, started_at=None,
        last_attempted_at=None, finished_at=None, args=call.args, kwargs=call.kwargs, backend=alias, errors=[],
        worker_ids=[],
    )  # fmt: skip
    call.args, call.kwargs = result.args, result.kwargs  # normalized
    return result


def _set(result: Any, **values: Any) -> None:
    """Set fields of a result, which is frozen for everyone but backends."""
    for name, value in values.items():
        object.__setattr__(result, name, value)


def _aware(moment: datetime) -> datetime:
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
