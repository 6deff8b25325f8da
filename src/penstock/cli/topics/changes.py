"""``penstock topic create``, ``set`` and ``delete``."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from penstock.cli.arguments import TOPIC, read_pairs, topic_argument, yes_option
from penstock.cli.target import Target, with_target
from penstock.cli.topics.facts import about_topic, topic_arn
from penstock.client.api import Json
from penstock.client.topic_names import topic_name

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--display-name", metavar="TEXT", help="Name of the sender of emails."),
    click.option("--policy", type=_FILE, metavar="FILE", help="Policy of the topic (JSON)."),
    click.option(
        "--delivery-policy", type=_FILE, metavar="FILE", help="How deliveries to URLs are retried (JSON)."
    ),
    click.option(
        "--archive", type=click.IntRange(1, 365), metavar="DAYS",
        help="FIFO: keep messages this long, so that subscriptions can replay them.",
    ),
    click.option("--signature-version", type=click.Choice(["1", "2"]), help="1: SHA-1, 2: SHA-256."),
    click.option("--attribute", "-a", multiple=True, metavar="NAME=VALUE", help="Any attribute of SNS."),
    click.option("--tag", "-t", multiple=True, metavar="KEY=VALUE", help="A tag."),
)  # fmt: skip


def _with_attributes(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command("create")
@click.argument("name")
@click.option("--fifo", is_flag=True, help='A FIFO topic; ".fifo" is added to the name.')
@click.option("--content-based-deduplication", is_flag=True, help="FIFO: messages with equal bodies are one.")
@_with_attributes
@with_target
def create(target: Target, name: str, fifo: bool, content_based_deduplication: bool, **flags: Any) -> None:
    """Create a topic. One that exists with the same attributes is left as it is.

    \b
    Examples:
      penstock topic create orders
      penstock topic create payments --fifo --content-based-deduplication --archive 30
      penstock topic create alerts --display-name 'Shop alerts' --tag team=core
    """
    attributes = _attributes(flags)
    if fifo or name.endswith(".fifo"):
        name = name if name.endswith(".fifo") else f"{name}.fifo"
        attributes["FifoTopic"] = "true"
    if content_based_deduplication:
        attributes["ContentBasedDeduplication"] = "true"
    tags = _tag_list(read_pairs(flags["tag"], "--tag"))
    arn = target.sns("CreateTopic", Name=name, Attributes=attributes or None, Tags=tags or None)["TopicArn"]
    target.out.result(arn, name=name, arn=arn)


@click.command("set")
@topic_argument
@_with_attributes
@click.option(
    "--content-based-deduplication/--no-content-based-deduplication",
    default=None,
    help="FIFO: messages with equal bodies are one.",
)
@click.option("--no-archive", is_flag=True, help="Forget the archived messages, and archive no more.")
@click.option("--no-delivery-policy", is_flag=True, help="Retry deliveries as SNS does by default.")
@click.option("--untag", multiple=True, metavar="KEY", help="Remove a tag.")
@with_target
def set_(
    target: Target,
    topic: str,
    content_based_deduplication: bool | None,
    no_archive: bool,
    no_delivery_policy: bool,
    untag: tuple[str, ...],
    **flags: Any,
) -> None:
    """Change attributes and tags of a topic. What is not given stays as it is.

    SNS changes one attribute at a time, in the order in which they are printed.

    \b
    Examples:
      penstock topic set orders --display-name Orders --tag team=core --untag owner
      penstock topic set orders --delivery-policy retries.json
      penstock topic set payments.fifo --no-archive
      penstock topic set orders --attribute TracingConfig=Active
    """  # fmt: skip
    for flag, clears in (("archive", no_archive), ("delivery_policy", no_delivery_policy)):
        if clears and flags[flag] is not None:
            name = flag.replace("_", "-")
            raise click.UsageError(f"--no-{name} does not go with --{name}")
    attributes = _attributes(flags)
    if content_based_deduplication is not None:
        attributes["ContentBasedDeduplication"] = "true" if content_based_deduplication else "false"
    attributes |= {"ArchivePolicy": "{}"} if no_archive else {}
    attributes |= {"DeliveryPolicy": ""} if no_delivery_policy else {}
    tags = read_pairs(flags["tag"], "--tag")
    if not (attributes or tags or untag):
        raise click.UsageError("nothing to change: give an attribute or a tag")
    arn = topic_arn(target, topic)
    for name, value in attributes.items():
        about_topic(target, "SetTopicAttributes", arn, AttributeName=name, AttributeValue=value)
    if tags:
        target.sns("TagResource", ResourceArn=arn, Tags=_tag_list(tags))
    if untag:
        target.sns("UntagResource", ResourceArn=arn, TagKeys=list(untag))
    if target.out.as_json:
        changed = {"name": topic_name(arn), "attributes": attributes, "tags": tags, "untagged": list(untag)}
        target.out.json(changed)
    else:
        target.out.facts([(name, value or "removed") for name, value in attributes.items()])
        shown = tags | dict.fromkeys(untag, "removed")
        target.out.facts([(f"tag {key}", value) for key, value in shown.items()])


def _attributes(flags: Json) -> dict[str, str]:
    """Returns the attributes by their names in SNS."""
    found: dict[str, str] = {}
    if flags["display_name"] is not None:
        found["DisplayName"] = flags["display_name"]
    for flag, attribute in (("policy", "Policy"), ("delivery_policy", "DeliveryPolicy")):
        if flags[flag] is not None:
            found[attribute] = flags[flag].read_text(encoding="utf-8").strip()
    if flags["archive"] is not None:
        found["ArchivePolicy"] = json.dumps({"MessageRetentionPeriod": str(flags["archive"])})
    if flags["signature_version"] is not None:
        found["SignatureVersion"] = flags["signature_version"]
    return found | read_pairs(flags["attribute"], "--attribute")


def _tag_list(tags: dict[str, str]) -> list[dict[str, str]]:
    return [{"Key": key, "Value": value} for key, value in tags.items()]


@click.command("delete")
@click.argument("topics", nargs=-1, required=True, type=TOPIC, metavar="TOPIC...")
@yes_option
@with_target
def delete(target: Target, topics: tuple[str, ...], yes: bool) -> None:
    """Delete topics with their subscriptions. What waits for URLs and addresses ends with them; messages on their way
    to queues still arrive.

    \b
    Examples:
      penstock topic delete orders
      penstock topic ls 'test-*' --names | xargs penstock topic delete --yes
    """
    found = [_facts(target, topic) for topic in topics]
    target.out.confirm(f"Delete {', '.join(map(_described, found))}?", yes)
    for topic in found:
        target.sns("DeleteTopic", TopicArn=topic["arn"])
        if target.out.as_json:
            target.out.json_line({**topic, "deleted": True})
        else:
            target.out.line(f"deleted {_described(topic)}")


def _facts(target: Target, topic: str) -> Json:
    attributes = about_topic(target, "GetTopicAttributes", topic)["Attributes"]
    counts = ("SubscriptionsConfirmed", "SubscriptionsPending")
    number = sum(int(attributes.get(each, 0)) for each in counts)
    return {
        "name": topic_name(attributes["TopicArn"]),
        "arn": attributes["TopicArn"],
        "subscriptions": number,
    }


def _described(topic: Json) -> str:
    number = topic["subscriptions"]
    return f"{topic['name']} with {number} {'subscription' if number == 1 else 'subscriptions'}"
