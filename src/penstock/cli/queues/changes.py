"""``penstock queue create``, ``set``, ``purge`` and ``delete``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.cli.arguments import DURATION, QUEUE, queue_argument, read_pairs, yes_option
from penstock.cli.failure import Failure
from penstock.cli.output import counted_messages
from penstock.cli.queues.facts import messages_in, queue_arn, queue_facts
from penstock.cli.target import Target, with_target
from penstock.client.api import Json
from penstock.client.queue_names import queue_name

_SECONDS = {  # flag: attribute
    "visibility": "VisibilityTimeout",
    "delay": "DelaySeconds",
    "retention": "MessageRetentionPeriod",
    "wait": "ReceiveMessageWaitTimeSeconds",
}


def _with_attributes(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS = (
    click.option(
        "--visibility",
        type=DURATION,
        metavar="TIME",
        help="How long a received message is hidden: up to 12h.",
    ),
    click.option(
        "--delay", type=DURATION, metavar="TIME", help="How long a sent message is hidden: up to 15m."
    ),
    click.option("--retention", type=DURATION, metavar="TIME", help="How long a message is kept: 1m to 14d."),
    click.option(
        "--wait", type=DURATION, metavar="TIME", help="How long a receive waits for messages: up to 20s."
    ),
    click.option(
        "--dead-letter-queue", type=QUEUE, metavar="QUEUE", help="Where messages go that fail too often."
    ),
    click.option(
        "--max-receives", type=click.IntRange(1), metavar="N", help="How often one is received before."
    ),
    click.option(
        "--policy",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Policy of the queue (JSON).",
    ),
    click.option("--attribute", "-a", multiple=True, metavar="NAME=VALUE", help="Any attribute of SQS."),
    click.option("--tag", "-t", multiple=True, metavar="KEY=VALUE", help="A tag."),
)


@click.command("create")
@click.argument("name")
@click.option("--fifo", is_flag=True, help='A FIFO queue; ".fifo" is added to the name.')
@click.option("--content-based-deduplication", is_flag=True, help="FIFO: messages with equal bodies are one.")
@_with_attributes
@with_target
def create(target: Target, name: str, fifo: bool, content_based_deduplication: bool, **flags: Any) -> None:
    """Create a queue. One that exists with the same attributes is left as it is.

    \b
    Examples:
      penstock queue create orders-dlq --retention 14d
      penstock queue create orders --dead-letter-queue orders-dlq --max-receives 3 --visibility 2m
      penstock queue create payments --fifo --content-based-deduplication
      penstock queue create jobs --wait 20s --attribute MaximumMessageSize=65536 --tag team=core
    """
    if (flags["dead_letter_queue"] is None) != (flags["max_receives"] is None):
        raise click.UsageError("--dead-letter-queue and --max-receives are given together")
    attributes = _attributes(target, flags, {})
    if fifo or name.endswith(".fifo"):
        name = name if name.endswith(".fifo") else f"{name}.fifo"
        attributes["FifoQueue"] = "true"
    if content_based_deduplication:
        attributes["ContentBasedDeduplication"] = "true"
    tags = read_pairs(flags["tag"], "--tag")
    url = target.sqs("CreateQueue", QueueName=name, Attributes=attributes or None, tags=tags or None)[
        "QueueUrl"
    ]
    if target.out.as_json:
        target.out.json({"name": name, "url": url})
    else:
        target.out.line(url)


@click.command("set")
@queue_argument
@_with_attributes
@click.option("--no-dead-letter-queue", is_flag=True, help="Keep messages however often they fail.")
@click.option("--no-policy", is_flag=True, help="Remove the policy.")
@click.option("--untag", multiple=True, metavar="KEY", help="Remove a tag.")
@with_target
def set_(
    target: Target,
    queue: str,
    no_dead_letter_queue: bool,
    no_policy: bool,
    untag: tuple[str, ...],
    **flags: Any,
) -> None:
    """Change attributes and tags of a queue. What is not given stays as it is.

    \b
    Examples:
      penstock queue set orders --visibility 5m --retention 4d
      penstock queue set orders --dead-letter-queue orders-dlq --max-receives 5
      penstock queue set orders --max-receives 10
      penstock queue set orders --no-dead-letter-queue --tag team=core --untag owner
      penstock queue set orders --policy policy.json
    """
    if no_dead_letter_queue and (flags["dead_letter_queue"] or flags["max_receives"]):
        raise click.UsageError(
            "--no-dead-letter-queue goes with neither --dead-letter-queue nor --max-receives"
        )
    url = target.queue_url(queue)
    attributes = _attributes(target, flags, _redrive_policy(target, url, flags))
    attributes |= {"RedrivePolicy": ""} if no_dead_letter_queue else {}
    attributes |= {"Policy": ""} if no_policy else {}
    tags = read_pairs(flags["tag"], "--tag")
    if not (attributes or tags or untag):
        raise click.UsageError("nothing to change: give an attribute or a tag")
    if attributes:
        target.sqs("SetQueueAttributes", QueueUrl=url, Attributes=attributes)
    if tags:
        target.sqs("TagQueue", QueueUrl=url, Tags=tags)
    if untag:
        target.sqs("UntagQueue", QueueUrl=url, TagKeys=list(untag))
    if target.out.as_json:
        changed = {"name": queue_name(queue), "attributes": attributes, "tags": tags, "untagged": list(untag)}
        target.out.json(changed)
    else:
        target.out.facts([(name, value or "removed") for name, value in attributes.items()])
        target.out.facts(
            [(f"tag {key}", value) for key, value in (tags | dict.fromkeys(untag, "removed")).items()]
        )


def _attributes(target: Target, flags: Json, redrive: Json) -> dict[str, str]:
    """Returns the attributes by their names in SQS. ``redrive`` is the redrive policy so far."""
    found = {
        attribute: f"{flags[flag]:.0f}" for flag, attribute in _SECONDS.items() if flags[flag] is not None
    }
    if flags["dead_letter_queue"] is not None:
        redrive["deadLetterTargetArn"] = queue_arn(target, flags["dead_letter_queue"])
    if flags["max_receives"] is not None:
        redrive["maxReceiveCount"] = flags["max_receives"]
    if redrive:
        found["RedrivePolicy"] = json.dumps(redrive)
    if flags["policy"] is not None:
        found["Policy"] = flags["policy"].read_text(encoding="utf-8").strip()
    return found | read_pairs(flags["attribute"], "--attribute")


def _redrive_policy(target: Target, url: str, flags: Json) -> Json:
    """The present one, if one of its two parts is changed."""
    if (flags["dead_letter_queue"] is None) == (flags["max_receives"] is None):
        return {}
    answer = target.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["RedrivePolicy"])
    present: Json = json.loads((answer.get("Attributes") or {}).get("RedrivePolicy") or "{}")
    if not present:
        missing = "--max-receives" if flags["max_receives"] is None else "--dead-letter-queue"
        raise Failure(f"{queue_name(url)} has no dead-letter queue yet: give {missing}, too")
    return present


@click.command("purge")
@click.argument("queues", nargs=-1, required=True, type=QUEUE, metavar="QUEUE...")
@yes_option
@with_target
def purge(target: Target, queues: tuple[str, ...], yes: bool) -> None:
    """Delete all messages of queues: those that are visible, delayed and in flight.

    \b
    Examples:
      penstock queue purge orders-dlq
      penstock queue purge orders-dlq payments-dlq --yes
    """
    found = [queue_facts(target, queue) for queue in queues]
    counts = ", ".join(f"{_counted(queue)} of {queue['name']}" for queue in found)
    target.out.confirm(f"Delete {counts}?", yes)
    for queue in found:
        target.sqs("PurgeQueue", QueueUrl=queue["url"])
        _report(target, queue, "purged", _counted(queue))


@click.command("delete")
@click.argument("queues", nargs=-1, required=True, type=QUEUE, metavar="QUEUE...")
@yes_option
@with_target
def delete(target: Target, queues: tuple[str, ...], yes: bool) -> None:
    """Delete queues with all their messages.

    \b
    Examples:
      penstock queue delete orders-test
      penstock queue ls 'test-*' --names | xargs penstock queue delete --yes
    """
    found = [queue_facts(target, queue) for queue in queues]
    for queue in found:
        others = [name for name in queue["sources"] if name not in {each["name"] for each in found}]
        if others:
            target.out.note(f"{queue['name']} is the dead-letter queue of {', '.join(others)}")
    named = ", ".join(f"{queue['name']} with {_counted(queue)}" for queue in found)
    target.out.confirm(f"Delete {named}?", yes)
    for queue in found:
        target.sqs("DeleteQueue", QueueUrl=queue["url"])
        _report(target, queue, "deleted", f"{queue['name']} with {_counted(queue)}")


def _counted(queue: Json) -> str:
    return counted_messages(messages_in(queue))


def _report(target: Target, queue: Json, done: str, what: str) -> None:
    if target.out.as_json:
        counts = {name: queue[name] for name in ("visible", "in_flight", "delayed")}
        target.out.json_line({"name": queue["name"], done: True} | counts)
    else:
        of = f" of {queue['name']}" if done == "purged" else ""
        target.out.line(f"{done} {what}{of}")
