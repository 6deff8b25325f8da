"""Reads ElasticMQ's configuration: its addresses, its account, and the queues it creates at the start."""

from __future__ import annotations

import re
from math import ceil

from penstock.migrate.hocon import HoconError, Table, Value, read_hocon
from penstock.migrate.plan import EVERY_INTERFACE, ImportFailure, Plan, PlannedQueue

_DURATIONS = {
    "defaultVisibilityTimeout": "VisibilityTimeout",
    "delay": "DelaySeconds",
    "receiveMessageWait": "ReceiveMessageWaitTimeSeconds",
}
_UNITS_MS = {
    ("", "ms", "milli", "millis", "millisecond", "milliseconds"): 1.0,
    ("ns", "nano", "nanos", "nanosecond", "nanoseconds"): 1e-6,
    ("us", "micro", "micros", "microsecond", "microseconds"): 1e-3,
    ("s", "second", "seconds"): 1_000.0,
    ("m", "minute", "minutes"): 60_000.0,
    ("h", "hour", "hours"): 3_600_000.0,
    ("d", "day", "days"): 86_400_000.0,
}
_MS = {name: ms for names, ms in _UNITS_MS.items() for name in names}
_DURATION = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([a-z]*)")
_FORWARDING = {
    "copyTo": "sending a copy of each message to another queue is not supported",
    "moveTo": "moving each message to another queue is not supported",
}
_OTHERWISE = {
    "queues-storage": "queues are always stored, in the directory set by data",
    "messages-storage": "messages are always stored, in the directory set by data",
    "rest-stats": "GET /admin/v1/queues, /metrics and the page /console/ have the counters, on the port of SQS",
}
_LOCAL = ("localhost", "127.0.0.1", "")


def read_elasticmq(text: str) -> Plan:
    """Raises ImportFailure."""
    try:
        document = read_hocon(text)
    except HoconError as error:
        raise ImportFailure(str(error)) from None
    plan = Plan()
    plan.notes += [f"{include}: what it includes was not read" for include in document.includes]
    root = dict(document.root)
    _read_addresses(plan, _table(plan, root, "rest-sqs"), _table(plan, root, "node-address"), root)
    _read_account(plan, _table(plan, root, "aws"))
    queues = _table(plan, root, "queues")
    for name in root:
        reason = _OTHERWISE.get(name, "it has no meaning here")
        plan.notes.append(f"{name} was left out: {reason}")
    names = {name: _name(name, value) for name, value in queues.items()}
    for name, value in queues.items():
        _read_queue(plan, name, value, names)
    plan.validate()
    return plan


def _table(plan: Plan, root: Table, name: str) -> Table:
    value = root.pop(name, None)
    if value is None:
        return {}
    if not isinstance(value, dict):
        plan.notes.append(f"{name} = {_shown(value)} was left out: an object was expected")
        return {}
    return dict(value)


def _read_addresses(plan: Plan, bind: Table, node: Table, root: Table) -> None:
    generated = _is_true(root.pop("generate-node-address", None))
    for key, setting in (("bind-hostname", "host"), ("bind-port", "port")):
        value = bind.pop(key, None)
        if isinstance(value, str):
            plan.set(
                setting, int(value) if value.isdecimal() and len(value) < 10 else value, f"rest-sqs.{key}"
            )
    if "host" not in plan.settings:
        plan.notes.append(EVERY_INTERFACE)
    if not _is_true(bind.pop("enabled", "true")):
        plan.notes.append("rest-sqs.enabled = false was left out: SQS is always served")
    if bind.pop("sqs-limits", "strict") != "strict":
        plan.notes.append("rest-sqs.sqs-limits was left out: the limits are always those of SQS")
    plan.notes += [f"rest-sqs.{key} was left out: it has no meaning here" for key in bind]
    parts = {key: value for key, value in node.items() if isinstance(value, str)}
    host = parts.get("host", "*")
    if host == "*" or generated:
        return
    path = parts.get("context-path", "").strip("/")
    url = f"{parts.get('protocol', 'http')}://{host}:{parts.get('port', '9324')}" + (
        f"/{path}" if path else ""
    )
    if host in _LOCAL and not path:
        plan.notes.append(
            f"node-address was left out: queue URLs begin with the host that each request was sent to; "
            f'public_url = "{url}" would fix them'
        )
    else:
        plan.set("public_url", url, "node-address")


def _read_account(plan: Plan, table: Table) -> None:
    for key, setting in (("accountId", "account"), ("region", "region")):
        value = table.pop(key, None)
        if isinstance(value, str):
            plan.set(setting, value, f"aws.{key}")
    plan.notes += [f"aws.{key} was left out: it has no meaning here" for key in table]


def _name(name: str, value: Value) -> str:
    # SQS: the name of a FIFO queue ends in .fifo. References to the queue are changed alike.
    wants_fifo = isinstance(value, dict) and _is_true(value.get("fifo"))
    return f"{name}.fifo" if wants_fifo and not name.endswith(".fifo") else name


def _read_queue(plan: Plan, written: str, value: Value, names: dict[str, str]) -> None:
    name = names[written]
    if not isinstance(value, dict):
        plan.notes.append(f'the queue "{written}" was left out: an object was expected')
        return
    if name in plan.queues or (name != written and name in names):
        plan.notes.append(f'the queue "{written}" was left out: another one is called "{name}" here')
        return
    queue = plan.queues[name] = PlannedQueue(name)
    if name != written:
        queue.notes.append(f'it was called "{written}": the name of a FIFO queue ends in .fifo')
    for key, each in value.items():
        _read_member(queue, key, each, names)


def _read_member(queue: PlannedQueue, key: str, value: Value, names: dict[str, str]) -> None:
    match key, value:
        case _, None:
            return
        case _, str() if key in _DURATIONS:
            _read_duration(queue, key, value)
        case "deadLettersQueue", {"name": str() as target, "maxReceiveCount": str() as count} if (
            count.isdecimal()
        ):
            queue.dead_letter = (names.get(target, target), int(count[:18]))
        case "fifo", str():
            if queue.fifo and not _is_true(value):
                queue.notes.append(
                    "fifo = false was left out: a queue whose name ends in .fifo is a FIFO queue"
                )
        case "contentBasedDeduplication", str():
            if queue.fifo:
                queue.attributes["ContentBasedDeduplication"] = _is_true(value)
            elif _is_true(value):
                queue.notes.append("contentBasedDeduplication was left out: only FIFO queues have it")
        case "tags", dict():
            _read_tags(queue, value)
        case _ if key in _FORWARDING:
            queue.notes.append(f"{key} = {_shown(value)} was left out: {_FORWARDING[key]}")
        case _:
            queue.notes.append(f"{key} = {_shown(value)} was left out: it has no meaning here")


def _read_duration(queue: PlannedQueue, key: str, text: str) -> None:
    found = _DURATION.fullmatch(text)
    if found is None or found[2] not in _MS:
        queue.notes.append(f"{key} = {text} was left out: it is not a duration such as 10 seconds")
        return
    seconds = float(found[1]) * _MS[found[2]] / 1000  # HOCON: a number without a unit is milliseconds
    whole = ceil(seconds)
    if whole != seconds:
        unit = "" if found[2] else ", a number of milliseconds,"
        queue.notes.append(f"{key} = {text}{unit} was rounded up to whole seconds, as in SQS")
    queue.attributes[_DURATIONS[key]] = whole


def _read_tags(queue: PlannedQueue, tags: Table) -> None:
    for key, value in tags.items():
        if isinstance(value, str):
            queue.tags[key] = value
        else:
            queue.notes.append(f'the tag "{key}" was left out: its value is not text')


def _is_true(value: Value) -> bool:
    return isinstance(value, str) and value.lower() in ("true", "yes", "on")


def _shown(value: Value) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key} = {_shown(each)}" for key, each in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_shown, value)) + "]"
    return str(value)
