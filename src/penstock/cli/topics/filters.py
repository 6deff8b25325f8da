"""``penstock topic test-filter``: whether a message passes a filter, and why not."""

from __future__ import annotations

import sys
from typing import Any

import click

from penstock.cli.arguments import SUBSCRIBER, TOPIC
from penstock.cli.failure import Failure
from penstock.cli.messages.sending import read_attribute
from penstock.cli.output import Styled
from penstock.cli.target import Target, with_target
from penstock.cli.topics.facts import subscription_arn
from penstock.cli.topics.subscriptions import SCOPES, text_or_file
from penstock.client.api import Json
from penstock.client.topic_names import Subscriber

DOES_NOT_PASS = 1  # exit code


@click.command("test-filter")
@click.argument("topic", type=TOPIC, metavar="[TOPIC|SUBSCRIPTION]", required=False)
@click.argument("endpoint", type=SUBSCRIBER, metavar="[ENDPOINT]", required=False)
@click.option(
    "--policy", metavar="JSON", help="Filter policy to test, or @FILE, instead of a subscription's."
)
@click.option("--scope", type=click.Choice(list(SCOPES)), help="What --policy looks at.  [attributes]")
@click.option("--body", metavar="TEXT", help="Body of the message, or @FILE.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME[:TYPE]=VALUE",
    help="An attribute of the message; TYPE is String, Number, Binary or String.Array. Can be repeated.",
)  # fmt: skip
@with_target
def test_filter(
    target: Target,
    topic: str | None,
    endpoint: Subscriber | None,
    policy: str | None,
    scope: str | None,
    body: str | None,
    attributes: tuple[str, ...],
) -> None:
    """Tell whether a message passes a filter policy, with the reason for each condition.

    The policy is that of a subscription (a topic and an endpoint, or an ARN), or the one given with --policy. Nothing
    is published. Exit codes: 0 it passes, 1 it does not.

    \b
    Examples:
      penstock topic test-filter orders queue:billing --attribute kind=invoice
      penstock topic test-filter orders queue:vip --body '{"total": 1200}'
      penstock topic test-filter --policy '{"total": [{"numeric": [">", 1000]}]}' --attribute total:Number=99
      penstock topic test-filter --policy @filter.json --scope body --body @order.json && echo passes
    """
    target.need_penstock("topic test-filter")
    if (policy is None) == (topic is None):
        raise click.UsageError("give either a subscription (TOPIC and ENDPOINT) or --policy")
    if scope is not None and policy is None:
        raise click.UsageError("--scope goes with --policy: a subscription has its own scope")
    if policy is None:
        asked: Json = {"subscription": subscription_arn(target, str(topic), endpoint)}
    else:
        asked = {"policy": text_or_file(policy)} | ({} if scope is None else {"scope": SCOPES[scope]})
    if body is not None:
        asked["body"] = text_or_file(body)
    if attributes:
        asked["attributes"] = dict(map(_attribute, attributes))
    answer = target.admin("POST", "/topics/test-filter", body=asked)
    if target.out.as_json:
        target.out.json(answer)
    else:
        _print(target, answer)
    if not answer["matched"]:
        sys.exit(DOES_NOT_PASS)


def _attribute(text: str) -> tuple[str, dict[str, Any]]:
    name, members = read_attribute(text)
    if members["DataType"] == "Binary" and "BinaryValue" not in members:
        raise Failure(f'"{text}" has no value')
    return name, {
        "type": members["DataType"],
        "value": members.get("BinaryValue", members.get("StringValue", "")),
    }


def _print(target: Target, answer: Json) -> None:
    passes = answer["matched"]
    verdict = Styled("passes", "green") if passes else Styled("does not pass", "red")
    target.out.line("the message ", verdict, f": {answer['why']}")
    if answer["conditions"]:
        target.out.table(
            ["PASSES", "PATH", "CONDITION", "FOUND", "WHY"],
            [
                [
                    Styled("yes", "green") if each["passed"] else Styled("no", "red"),
                    each["path"], each["condition"], each.get("found"), each.get("why"),
                ]
                for each in answer["conditions"]
            ],
        )  # fmt: skip
