"""Reads GoAWS's configuration: environments, each with an address, an account, queues and topics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.migrate.hocon import DEPTH_MAX
from penstock.migrate.plan import EVERY_INTERFACE, ImportFailure, Plan, PlannedQueue, PlannedTopic, Scalar
from penstock.services.sqs.attributes import SETTABLE

if TYPE_CHECKING:
    from yaml import Node

_DEFAULT = "Local"
_SIZE_MAX = 2 * 1024 * 1024
_OTHERWISE = {
    "SnsPort": "topics are served on the same port as queues",
    "EnableDuplicates": "FIFO queues always deduplicate for five minutes, as in SQS",
    "LogToFile": "logs go to standard error",
    "LogFile": "logs go to standard error",
    "LogMessages": "messages are never logged",
    "RandomLatency": "responses are not delayed on purpose",
}


def read_goaws(text: str, environment: str | None) -> Plan:
    """Raises ImportFailure."""
    name, chosen = _choose(_load(text), environment)
    plan = Plan()
    rest = dict(chosen)
    _read_address(plan, rest)
    for key, setting in (("AccountId", "account"), ("Region", "region")):
        if (value := rest.pop(key, None)) is not None:
            # YAML reads an account id without quotes as a number.
            plan.set(setting, f"{value:012}" if isinstance(value, int) else str(value), key)
    defaults = rest.pop("QueueAttributeDefaults", None)
    for entry in _entries(plan, rest, "Queues"):
        _read_queue(plan, entry, defaults if isinstance(defaults, dict) else {})
    for entry in _entries(plan, rest, "Topics"):
        _read_topic(plan, entry, defaults if isinstance(defaults, dict) else {})
    for key in rest:
        plan.notes.append(f"{key} was left out: {_OTHERWISE.get(str(key), 'it has no meaning here')}")
    plan.notes.insert(0, f'the environment "{name}" was read; {EVERY_INTERFACE}')
    plan.validate()
    return plan


def _load(text: str) -> Mapping[str, Any]:
    try:
        import yaml
    except ImportError:
        raise ImportFailure("a YAML file needs PyYAML: pip install 'penstock-mq[import]'") from None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        _check_extent(root)
        document = None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ImportFailure(f"it is not valid YAML: {' '.join(str(error).split())[:200]}") from None
    environments = {}
    if isinstance(document, dict):
        environments = {str(name): value for name, value in document.items() if isinstance(value, dict)}
    if not environments:
        raise ImportFailure("it has no environments: each is a name with Port, Queues and so on below it")
    return environments


class _Extent(NamedTuple):
    size: float  # characters and parts
    depth: float


_ENDLESS = _Extent(inf, inf)  # of a node that contains itself


def _check_extent(root: Node | None) -> None:
    """Nested aliases can expand a small file to any size."""
    if root is not None:
        size, depth = _extent(root, {})
        if size > _SIZE_MAX or depth > DEPTH_MAX:
            raise ImportFailure("with its aliases expanded it is too large or nested too deeply")


def _extent(node: Node, known: dict[int, _Extent]) -> _Extent:
    """Measures a node with its aliases expanded. Anchors come before their aliases, so each node is visited once."""
    if id(node) not in known:
        known[id(node)] = _ENDLESS
        if isinstance(node.value, str):
            known[id(node)] = _Extent(1 + len(node.value), 1)
        else:
            parts = [part for each in node.value for part in (each if isinstance(each, tuple) else (each,))]
            within = [_extent(part, known) for part in parts]
            known[id(node)] = _Extent(
                1 + sum(each.size for each in within), 1 + max((each.depth for each in within), default=0)
            )
    return known[id(node)]


def _choose(environments: Mapping[str, Any], wanted: str | None) -> tuple[str, Mapping[Any, Any]]:
    name = wanted or (_DEFAULT if _DEFAULT in environments else "")
    if not name and len(environments) == 1:
        (name,) = environments
    if name not in environments:
        there = ", ".join(sorted(environments)[:20])
        lacking = f'it has no environment "{name}"' if name else "it has several environments"
        raise ImportFailure(f"{lacking}: choose with --environment one of {there}")
    return name, environments[name]


def _read_address(plan: Plan, rest: dict[Any, Any]) -> None:
    sqs_port = rest.pop("SqsPort", None)
    port = rest.pop("Port", None) or sqs_port
    if port is not None:
        number = int(port) if str(port).isdecimal() and len(str(port)) < 10 else str(port)
        plan.set("port", number, "Port")
    host = rest.pop("Host", None)
    if host is not None:
        plan.notes.append(
            f"Host = {host} was left out: queue URLs begin with the host that each request was sent to; "
            f'public_url = "http://{host}:{plan.settings.get("port", 9324)}" would fix them'
        )


def _entries(plan: Plan, rest: dict[Any, Any], key: str) -> Iterator[Mapping[Any, Any]]:
    entries = rest.pop(key, None) or []
    for entry in entries if isinstance(entries, list) else [entries]:
        if isinstance(entry, dict) and isinstance(entry.get("Name"), (str, int)):
            yield entry
        else:
            plan.notes.append(f"an entry of {key} was left out: it has no Name")


def _read_queue(plan: Plan, entry: Mapping[Any, Any], defaults: Mapping[Any, Any]) -> PlannedQueue:
    name = str(entry["Name"])
    queue = plan.queues.setdefault(name, PlannedQueue(name))
    for key, value in {**defaults, **entry}.items():
        if key == "RedrivePolicy" and value:
            queue.read_redrive(value)
        elif key in SETTABLE and isinstance(value, (str, int, bool)):
            queue.attributes[key] = value
        elif key != "Name" and value:
            queue.notes.append(f"{key} = {value} was left out: it has no meaning here")
    return queue


def _read_topic(plan: Plan, entry: Mapping[Any, Any], defaults: Mapping[Any, Any]) -> None:
    name = str(entry["Name"])
    topic = plan.topics.setdefault(name, PlannedTopic(name))
    topic.notes += [
        f"{key} = {value} was left out: it has no meaning here"
        for key, value in entry.items()
        if key not in ("Name", "Subscriptions") and value
    ]
    subscriptions = entry.get("Subscriptions")
    for each in subscriptions if isinstance(subscriptions, list) else []:
        table = _subscriber(each) if isinstance(each, dict) else None
        if table is None:
            topic.notes.append("a subscription was left out: it has neither QueueName nor EndPoint")
            continue
        # GoAWS creates the queues that subscriptions name.
        if "queue" in table and table["queue"] not in plan.queues:
            _read_queue(plan, {"Name": table["queue"]}, defaults)
        if each.get("Raw"):
            table["raw"] = True
        policy = each.get("FilterPolicy")
        if policy:
            table["filter"] = policy if isinstance(policy, str) else json.dumps(policy, default=str)
        topic.subscriptions.append(table)


def _subscriber(entry: Mapping[Any, Any]) -> dict[str, Scalar] | None:
    """Returns the subscription as a table of the config file; None if it names no endpoint."""
    queue, endpoint = entry.get("QueueName"), entry.get("EndPoint") or entry.get("Endpoint")
    protocol = str(entry.get("Protocol") or ("sqs" if queue else "")).lower()
    if protocol in ("sqs", "") and isinstance(queue, (str, int)) and queue != "":
        return {"queue": str(queue)}
    if not isinstance(endpoint, str):
        return None
    if protocol == "sqs":
        return {"queue": endpoint.rstrip("/").rpartition("/" if "://" in endpoint else ":")[2]}
    found: dict[str, Scalar] = {"endpoint": endpoint}
    return found | ({"protocol": protocol} if protocol else {})
