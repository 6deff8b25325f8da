"""``penstock topic subscribe``, ``unsubscribe``, ``confirm``, ``set-subscription`` and ``replay``."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click

from penstock.cli.arguments import QUEUE, SUBSCRIBER, TOPIC, read_pairs, topic_argument, yes_option
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.queues.facts import queue_arn
from penstock.cli.target import Target, with_target
from penstock.cli.topics import queue_policies
from penstock.cli.topics.facts import (
    about_topic,
    check_topic,
    endpoint_of,
    shown_endpoint,
    subscription_arn,
    subscription_facts,
    topic_arn,
    unsubscribe_signed,
)
from penstock.cli.topics.pending import is_pending, note_pending
from penstock.cli.topics.queue_policies import allow_option
from penstock.client.api import ApiError, Json
from penstock.client.topic_names import Subscriber, topic_name
from penstock.clock import real_utc
from penstock.quantities import SECONDS, parse_quantity

_IS_DIFFERENT = "already exists with different attributes"  # in the text of SNS
_MAY_NOT_BE_CALLED = "Unreachable Endpoint"
SCOPES = {"attributes": "MessageAttributes", "body": "MessageBody"}
_OPTIONS = (
    click.option("--filter", metavar="JSON", help="Filter policy, or @FILE: which messages are delivered."),
    click.option("--filter-scope", type=click.Choice(list(SCOPES)), help="What the filter looks at."),
    click.option("--raw/--no-raw", default=None, help="Deliver the message itself, without an envelope."),
    click.option("--dlq", type=QUEUE, metavar="QUEUE", help="Queue for messages that cannot be delivered."),
    click.option(
        "--delivery-policy", metavar="JSON", help="How deliveries to a URL are retried, or @FILE."
    ),
    click.option("--attribute", "-a", multiple=True, metavar="NAME=VALUE", help="Any attribute of SNS."),
)  # fmt: skip


def _with_attributes(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_ENDPOINT = click.argument("endpoint", type=SUBSCRIBER, metavar="ENDPOINT")
_ENDPOINT_OPTIONAL = click.argument("endpoint", type=SUBSCRIBER, metavar="[ENDPOINT]", required=False)


@click.command("subscribe")
@topic_argument
@_ENDPOINT
@_with_attributes
@allow_option
@click.option("--email-json", is_flag=True, help="Send emails with the JSON envelope.")
@with_target
def subscribe(
    target: Target, topic: str, endpoint: Subscriber, allow: bool, email_json: bool, **flags: Any
) -> None:
    """Subscribe a queue, a URL or an address to a topic, and print the ARN of the subscription.

    ENDPOINT is queue:NAME, a URL, mailto:ADDRESS, sms:NUMBER or an ARN. URLs and addresses get a link with which
    their owner confirms the subscription; until then it is pending. On a server with credentials the policy of a
    queue has to allow the topic to send, and that of its dead-letter queue: --allow adds a statement.

    \b
    Examples:
      penstock topic subscribe orders queue:billing --raw --allow
      penstock topic subscribe orders queue:vip --filter '{"total": [{"numeric": [">", 1000]}]}' --filter-scope body
      penstock topic subscribe orders https://example.com/orders --dlq orders-undelivered
      penstock topic subscribe alerts mailto:oncall@example.com
    """
    if email_json:
        if endpoint.protocol != "email":
            raise click.UsageError("--email-json is for an endpoint mailto:ADDRESS")
        endpoint = endpoint._replace(protocol="email-json")
    attributes = _attributes(target, flags)
    address = endpoint_of(target, endpoint)
    arn = topic_arn(target, topic)
    queues = [address] if endpoint.protocol == "sqs" else []
    queues += [queue_arn(target, flags["dlq"])] if flags["dlq"] else []
    if allow:
        check_topic(target, topic, arn)
        queue_policies.allow(target, queues, arn)
    subscription = _subscribe(target, topic, arn, endpoint._replace(endpoint=address), attributes)
    pending = is_pending(target, subscription, endpoint.protocol)
    target.out.result(subscription, arn=subscription, topic=arn, endpoint=address, pending=pending)
    if pending:
        note_pending(target, arn, endpoint._replace(endpoint=address))
    if not allow:
        again = f"penstock topic subscribe {topic_name(arn)} {shown_endpoint(*endpoint)}"
        queue_policies.hint(target, queues, arn, again)


def _subscribe(target: Target, topic: str, arn: str, to: Subscriber, attributes: dict[str, str]) -> str:
    """Returns the ARN of the subscription."""
    try:
        answer = about_topic(
            target, "Subscribe", topic, arn,
            Protocol=to.protocol, Endpoint=to.endpoint, Attributes=attributes or None, ReturnSubscriptionArn=True,
        )  # fmt: skip
    except ApiError as error:
        if _MAY_NOT_BE_CALLED in error.message and target.uses_admin:
            raise Breakdown(
                f"{error}. The address of its host is private or reserved: the setting topic_private_endpoints of the"
                " server says which private ones may be called"
            ) from None
        if _IS_DIFFERENT not in error.message:
            raise
        raise Breakdown(
            f"{shown_endpoint(*to)} is subscribed already, with different attributes: change them with"
            f' "penstock topic set-subscription {topic_name(arn)} {shown_endpoint(*to)}"'
        ) from None
    return str(answer["SubscriptionArn"])


def _attributes(target: Target, flags: Json) -> dict[str, str]:
    """Returns the attributes by their names in SNS."""
    found: dict[str, str] = {}
    if flags["raw"] is not None:
        found["RawMessageDelivery"] = "true" if flags["raw"] else "false"
    # SNS: the scope comes first, because it decides what the policy may be.
    if flags["filter_scope"] is not None:
        found["FilterPolicyScope"] = SCOPES[flags["filter_scope"]]
    if flags["filter"] is not None:
        found["FilterPolicy"] = text_or_file(flags["filter"])
    if flags["dlq"] is not None:
        found["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": queue_arn(target, flags["dlq"])})
    if flags["delivery_policy"] is not None:
        found["DeliveryPolicy"] = text_or_file(flags["delivery_policy"])
    return found | read_pairs(flags["attribute"], "--attribute")


def text_or_file(given: str) -> str:
    """Reads a text that is given itself, or as @FILE."""
    if not given.startswith("@"):
        return given
    return Path(given[1:]).read_text(encoding="utf-8").strip()


@click.command("unsubscribe")
@click.argument("topic", type=TOPIC, metavar="TOPIC|SUBSCRIPTION")
@_ENDPOINT_OPTIONAL
@yes_option
@with_target
def unsubscribe(target: Target, topic: str, endpoint: Subscriber | None, yes: bool) -> None:
    """End a subscription: give a topic and an endpoint, or the ARN of the subscription.

    \b
    Examples:
      penstock topic unsubscribe orders queue:billing
      penstock topic unsubscribe arn:aws:sns:us-east-1:000000000000:orders:b1a7… --yes
    """
    arn = subscription_arn(target, topic, endpoint)
    facts = subscription_facts(target, arn)
    what = f"{shown_endpoint(facts['Protocol'], facts['Endpoint'])} from {topic_name(arn)}"
    target.out.confirm(f"Unsubscribe {what}?", yes)
    unsubscribe_signed(target, arn)
    target.out.result(f"unsubscribed {what}", arn=arn, unsubscribed=True)


@click.command("confirm")
@click.argument("topic", type=TOPIC, metavar="TOPIC|URL")
@click.argument("token", required=False)
@click.option("--protect", is_flag=True, help="Only an authorized caller can end the subscription.")
@with_target
def confirm(target: Target, topic: str, token: str | None, protect: bool) -> None:
    """Confirm a subscription with the token, or with the SubscribeURL, that its endpoint was sent.

    \b
    Examples:
      penstock topic confirm orders 2336412f37fb687f5d51…
      penstock topic confirm 'http://127.0.0.1:9324/?Action=ConfirmSubscription&TopicArn=…&Token=…'
    """
    if "://" in topic:
        if token is not None:
            raise click.UsageError("give either a topic and a token, or the URL")
        given = parse_qs(urlsplit(topic).query)
        if not ("TopicArn" in given and "Token" in given):
            raise Failure("this is not a SubscribeURL: it has no TopicArn or no Token")
        topic, token = given["TopicArn"][0], given["Token"][0]
    elif token is None:
        raise click.UsageError("the token is missing: give TOPIC and TOKEN, or the SubscribeURL")
    authenticate = "true" if protect else None
    answer = about_topic(
        target, "ConfirmSubscription", topic, Token=token, AuthenticateOnUnsubscribe=authenticate
    )
    arn = answer["SubscriptionArn"]
    target.out.result(arn, arn=arn, confirmed=True)


@click.command("set-subscription")
@click.argument("topic", type=TOPIC, metavar="TOPIC|SUBSCRIPTION")
@_ENDPOINT_OPTIONAL
@_with_attributes
@click.option("--no-filter", is_flag=True, help="Deliver all messages.")
@click.option("--no-dlq", is_flag=True, help="Drop messages that cannot be delivered.")
@allow_option
@with_target
def set_subscription(
    target: Target,
    topic: str,
    endpoint: Subscriber | None,
    no_filter: bool,
    no_dlq: bool,
    allow: bool,
    **flags: Any,
) -> None:
    """Change the attributes of a subscription: filter, form, dead-letter queue, delivery policy.

    Give a topic and an endpoint, or the ARN of the subscription. What is not given stays as it is. On a server with
    credentials the policy of a dead-letter queue has to allow the topic to send: --allow adds a statement.

    \b
    Examples:
      penstock topic set-subscription orders queue:billing --filter '{"kind": ["invoice", "refund"]}'
      penstock topic set-subscription orders queue:billing --no-filter --raw
      penstock topic set-subscription orders https://example.com/orders --dlq orders-undelivered --allow
    """
    for flag, clears in (("filter", no_filter), ("dlq", no_dlq)):
        if clears and flags[flag] is not None:
            raise click.UsageError(f"--no-{flag} does not go with --{flag}")
    attributes: dict[str, str | None] = {**_attributes(target, flags)}
    attributes |= {"FilterPolicy": "{}"} if no_filter else {}
    attributes |= {"RedrivePolicy": None} if no_dlq else {}  # SNS: it is removed by leaving out its value
    if not attributes and not allow:
        raise click.UsageError("nothing to change: give an attribute")
    arn = subscription_arn(target, topic, endpoint)
    facts = subscription_facts(target, arn)
    dead_letters = [queue_arn(target, flags["dlq"])] if flags["dlq"] else []
    if allow:
        own = [facts["Endpoint"]] if facts["Protocol"] == "sqs" else []
        kept = [] if dead_letters or no_dlq else _dead_letter_queues(facts)
        queue_policies.allow(target, own + dead_letters + kept, facts["TopicArn"])
    for name, value in attributes.items():
        target.sns("SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName=name, AttributeValue=value)
    if target.out.as_json:
        target.out.json({"arn": arn, "attributes": attributes})
    else:
        target.out.facts(
            [(name, "removed" if value in (None, "{}") else value) for name, value in attributes.items()]
        )
    if not allow:
        shown = shown_endpoint(facts["Protocol"], facts["Endpoint"])
        again = f"penstock topic set-subscription {topic_name(arn)} {shown} --dlq {flags['dlq']}"
        queue_policies.hint(target, dead_letters, facts["TopicArn"], again)


def _dead_letter_queues(facts: dict[str, str]) -> list[str]:
    """The ARN of the dead-letter queue that a subscription has, if it has one."""
    policy = facts.get("RedrivePolicy")
    return [json.loads(policy)["deadLetterTargetArn"]] if policy else []


@click.command("replay")
@click.argument("topic", type=TOPIC, metavar="TOPIC|SUBSCRIPTION")
@_ENDPOINT_OPTIONAL
@click.option(
    "--since", metavar="TIME", help="From this time on: 2026-01-31T12:00Z, or an age such as 15m, 2h."
)
@click.option("--until", metavar="TIME", help="Up to this time.")
@click.option("--stop", is_flag=True, help="End a replay.")
@with_target
def replay(
    target: Target, topic: str, endpoint: Subscriber | None, since: str | None, until: str | None, stop: bool
) -> None:
    """Deliver archived messages of a FIFO topic again, to one subscription; or show how far that is.

    The topic needs an archive: "penstock topic set TOPIC --archive DAYS". What --since names before its begin is left
    out. Times without a zone are in UTC.

    \b
    Examples:
      penstock topic replay payments.fifo queue:ledger.fifo --since 2h
      penstock topic replay payments.fifo queue:ledger.fifo --since 2026-01-31T12:00Z --until 2026-01-31T13:00Z
      penstock topic replay payments.fifo queue:ledger.fifo
      penstock topic replay payments.fifo queue:ledger.fifo --stop
    """
    if stop and (since or until):
        raise click.UsageError("--stop does not go with --since or --until")
    if until and not since:
        raise click.UsageError("--until needs --since")
    start = _time("--since", since) if since else None
    end = _time("--until", until) if until else None
    arn = subscription_arn(target, topic, endpoint)
    policy = None
    if start is not None:
        start = max(start, _archive_begin(target, arn))
        policy = {"PointType": "Timestamp", "StartingPoint": start} | ({"EndingPoint": end} if end else {})
    if stop or policy:
        target.sns(
            "SetSubscriptionAttributes", SubscriptionArn=arn, AttributeName="ReplayPolicy",
            AttributeValue=json.dumps(policy or {}),
        )  # fmt: skip
    facts = subscription_facts(target, arn)
    status = facts.get("ReplayStatus") or "none"
    target.out.result(f"replay: {status}", arn=arn, status=status, policy=facts.get("ReplayPolicy"))


def _archive_begin(target: Target, subscription: str) -> str:
    """SNS refuses an earlier time. An empty text: the topic has no archive, which SNS says itself."""
    answer = target.sns("GetTopicAttributes", TopicArn=subscription.rpartition(":")[0])
    return str((answer.get("Attributes") or {}).get("BeginningArchiveTime", ""))


def _time(flag: str, text: str) -> str:
    try:
        at = real_utc() - timedelta(seconds=parse_quantity(text, SECONDS))
    except (ValueError, OverflowError):
        try:
            at = datetime.fromisoformat(text)
        except ValueError:
            raise Failure(
                f'invalid value "{text}" for {flag}: expected a time such as 2026-01-31T12:00Z or 15m'
            ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
