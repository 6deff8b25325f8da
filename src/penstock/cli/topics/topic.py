"""``penstock topic``: look at topics. The commands that change them and publish are in modules of their own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import islice

import click

from penstock.cli.arguments import topic_argument
from penstock.cli.groups import CommandGroup
from penstock.cli.output import Cell, Output, Styled
from penstock.cli.target import Target, with_target
from penstock.cli.topics.changes import create, delete, set_
from penstock.cli.topics.facts import (
    about_topic,
    list_topics,
    shown_endpoint,
    subscription_facts,
    subscriptions_of,
)
from penstock.cli.topics.failing import failing
from penstock.cli.topics.filters import test_filter
from penstock.cli.topics.publish import publish
from penstock.cli.topics.subscriptions import (
    confirm,
    replay,
    set_subscription,
    subscribe,
    unsubscribe,
)
from penstock.cli.topics.waiting import outbox, waiting
from penstock.client.api import ApiError, Json
from penstock.client.objects import read_json
from penstock.client.queue_names import queue_name
from penstock.client.topic_names import topic_name

_COUNTS = {  # member: attribute
    "confirmed": "SubscriptionsConfirmed",
    "pending": "SubscriptionsPending",
    "deleted": "SubscriptionsDeleted",
}
_SHOWN_ELSEWHERE = (*_COUNTS.values(), "TopicArn", "Owner", "Policy", "EffectiveDeliveryPolicy", "FifoTopic")
_DEFAULT_ACTIONS = {
    "GetTopicAttributes", "SetTopicAttributes", "AddPermission", "RemovePermission", "DeleteTopic", "Subscribe",
    "ListSubscriptionsByTopic", "Publish",
}  # fmt: skip
_STATE_COLOURS = {"pending": "yellow", "deleted": "red"}


@click.group("topic", cls=CommandGroup)
def command() -> None:
    """List, create and change topics and their subscriptions, publish messages, and see what waits.

    A topic is given by its name or its ARN, an endpoint as queue:NAME, as a URL, as mailto:ADDRESS or sms:NUMBER.

    \b
    Examples:
      penstock topic create orders
      penstock topic subscribe orders queue:billing --filter '{"kind": ["invoice"]}'
      penstock topic publish orders 'hello' --attribute kind=invoice
      penstock topic show orders
      penstock topic waiting orders
    """


for _part in (
    create, set_, delete, publish, subscribe, unsubscribe, confirm, set_subscription, replay, test_filter,
    waiting, failing, outbox,
):  # fmt: skip
    command.add_command(_part)


@command.command("ls")
@click.argument("pattern", required=False)
@click.option("--kind", type=click.Choice(["standard", "fifo"]), help="Only topics of this kind.")
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Show at most this many topics.")
@click.option("--names", is_flag=True, help="Print names only.")
@with_target
def ls(target: Target, pattern: str | None, kind: str | None, limit: int | None, names: bool) -> None:
    """List topics with the number of their subscriptions.

    PATTERN is part of a name, or a whole name with * and ?. WAITING counts deliveries that wait, and FAILING the
    subscriptions that did not get a message. Amazon SNS tells names only.

    \b
    Examples:
      penstock topic ls
      penstock topic ls 'orders-*' --names
      penstock topic ls --kind fifo
      penstock topic ls --json | jq -r 'select(.pending > 0) | .name'
    """
    prefix, is_whole = "", bool(pattern and set("*?[") & set(pattern))
    if pattern and is_whole:
        prefix = pattern[: min(pattern.index(sign) for sign in "*?[" if sign in pattern)]
    wanted = (
        topic
        for topic in list_topics(target, prefix, None if pattern or kind else limit)
        if kind in (None, topic["kind"]) and _matches(topic["name"], pattern, is_whole)
    )
    topics = islice(wanted, limit)
    if target.out.as_json:
        target.out.json_lines({"name": topic["name"]} if names else topic for topic in topics)
    elif names:
        for topic in topics:
            target.out.line(topic["name"])
    else:
        _print_table(target.out, list(topics))


def _matches(name: str, pattern: str | None, is_whole: bool) -> bool:
    return pattern is None or (fnmatchcase(name, pattern) if is_whole else pattern in name)


def _print_table(out: Output, topics: Sequence[Json]) -> None:
    if not topics:
        out.note("no topics")
        return
    counted = "confirmed" in topics[0]
    counts = ["SUBSCRIPTIONS", "PENDING", "WAITING", "FAILING"] if counted else []
    out.table(["NAME", "KIND", *counts, "ARN"], (_row(topic, counted) for topic in topics))


def _row(topic: Json, counted: bool) -> list[Cell]:
    counts: list[Cell] = []
    if counted:
        pending, failures = topic["pending"], topic["failing"]
        counts = [
            topic["confirmed"],
            Styled(pending, "yellow") if pending else pending,
            topic["waiting"],
            Styled(failures, "red") if failures else failures,
        ]
    return [topic["name"], topic["kind"], *counts, topic["arn"]]


@command.command("show")
@topic_argument
@click.option("--policy", is_flag=True, help="Show the policy also if it is the default one.")
@with_target
def show(target: Target, topic: str, policy: bool) -> None:
    """Show everything about a topic: attributes, subscriptions with their filters, tags and policy.

    \b
    Examples:
      penstock topic show orders
      penstock topic show orders --policy
      penstock topic show arn:aws:sns:us-east-1:000000000000:orders
      penstock topic show orders --json | jq '.subscriptions[] | select(.state == "pending")'
    """
    attributes = about_topic(target, "GetTopicAttributes", topic).get("Attributes") or {}
    arn = attributes["TopicArn"]
    tags = target.sns("ListTagsForResource", ResourceArn=arn).get("Tags") or []
    name = topic_name(arn)
    facts = {
        "name": name,
        "arn": arn,
        "kind": "fifo" if name.endswith(".fifo") else "standard",
        "owner": attributes.get("Owner"),
        **{member: int(attributes.get(attribute, 0)) for member, attribute in _COUNTS.items()},
        "subscriptions": [_with_attributes(target, each) for each in subscriptions_of(target, arn)],
        "attributes": attributes,
        "tags": {tag["Key"]: tag.get("Value", "") for tag in tags},
    }
    if target.out.as_json:
        target.out.json(facts)
    else:
        _print(target.out, facts, shows_default=policy)
        _note_failing(target, name)


def _note_failing(target: Target, name: str) -> None:
    """Say that subscriptions do not get their messages, as far as the user may know."""
    if not target.uses_admin:
        return
    with suppress(ApiError):
        if any(target.admin_pages("/topics/failing", "subscriptions", {"topic": name, "limit": 1})):
            target.out.note(f"not all subscriptions get their messages: penstock topic failing {name}")


def _with_attributes(target: Target, subscription: Json) -> Json:
    """SNS shows the attributes of a subscription by its ARN, which it does not tell of one that is pending."""
    if "arn" not in subscription:
        return subscription
    return subscription | {"attributes": subscription_facts(target, subscription["arn"])}


def _print(out: Output, facts: Json, *, shows_default: bool) -> None:
    out.facts(
        [
            ("Topic", f"{facts['name']} ({facts['kind']})"),
            ("ARN", facts["arn"]),
            ("Owner", facts["owner"]),
            ("Subscriptions", "{confirmed} confirmed, {pending} pending, {deleted} deleted".format(**facts)),
        ]
    )
    if facts["subscriptions"]:
        out.line("\nSubscriptions", bold=True)
        columns = ["ENDPOINT", "STATE", "FORM", "DEAD LETTERS TO", "FILTER"]
        out.table(columns, [_subscription_row(each) for each in facts["subscriptions"]])
    attributes = facts["attributes"]
    _print_section(
        out, "Attributes",
        [(name, value) for name, value in sorted(attributes.items()) if name not in _SHOWN_ELSEWHERE and value],
    )  # fmt: skip
    _print_section(out, "Tags", sorted(facts["tags"].items()))
    if attributes.get("Policy"):
        out.line("\nPolicy", bold=True)
        is_default = not shows_default and _is_default_policy(attributes)
        out.line("the default policy (--policy shows it)" if is_default else _indented(attributes["Policy"]))


def _is_default_policy(attributes: Json) -> bool:
    """Whether the policy is the one that SNS gives every topic: it lets the account of the topic use it."""
    arn, owner = attributes["TopicArn"], attributes.get("Owner")
    try:
        (statement,) = read_json(attributes["Policy"])["Statement"]
        actions = {action.partition(":")[2] for action in statement["Action"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        return False
    others = {name: value for name, value in statement.items() if name != "Action"}
    return actions == _DEFAULT_ACTIONS and others == {
        "Sid": "__default_statement_ID",
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Resource": arn,
        "Condition": {"StringEquals": {"AWS:SourceOwner": owner}},
    }


def _subscription_row(subscription: Json) -> list[Cell]:
    attributes, state = subscription.get("attributes") or {}, subscription["state"]
    filter = attributes.get("FilterPolicy")
    if filter and attributes.get("FilterPolicyScope") == "MessageBody":
        filter = f"body: {filter}"
    return [
        shown_endpoint(subscription["protocol"], subscription["endpoint"]),
        Styled(state, _STATE_COLOURS[state]) if state in _STATE_COLOURS else state,
        ("raw" if attributes.get("RawMessageDelivery") == "true" else "envelope") if attributes else None,
        _dead_letter_queue(attributes.get("RedrivePolicy")),
        filter,
    ]


def _dead_letter_queue(policy: str | None) -> str | None:
    try:
        return queue_name(read_json(policy)["deadLetterTargetArn"]) if policy else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return policy


def _print_section(out: Output, title: str, pairs: Iterable[tuple[str, str]]) -> None:
    if pairs := list(pairs):
        out.line(f"\n{title}", bold=True)
        out.facts(pairs)


def _indented(document: str) -> str:
    try:
        return json.dumps(read_json(document), indent=2, ensure_ascii=False)
    except ValueError:
        return document
