"""Declared topics: the tables are read and checked, then topics and subscriptions are created or changed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.names import QueueName
from penstock.publishing.errors import TopicMissing
from penstock.publishing.shard_topics import ShardTopics
from penstock.server.settings.config import Config, ConfigError
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.load import load_config
from penstock.server.settings.topic_plans import missing_queues
from penstock.topics.names import TopicName
from support.composed import Server, serving
from support.rows import every_row
from support.texts import says

ARN = "arn:aws:sqs:us-east-1:000000000000:"
TWO = """
[topics.orders]
DisplayName = "Orders"
tags = {team = "shop"}

[[topics.orders.subscriptions]]
queue = "billing"
raw = true
filter = {kind = ["invoice"]}
dead_letter_queue = "lost"

[topics."payments.fifo"]
ContentBasedDeduplication = true

[[topics."payments.fifo".subscriptions]]
queue = "ledger.fifo"
"""


def declared(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "penstock.toml"
    file.write_text(text)
    return load_config({"config": str(file), "data": str(tmp_path / "data")}, {})


def subscribed(*members: str) -> str:
    return "\n".join(["[topics.t]", "[[topics.t.subscriptions]]", *members])


# -- reading -----------------------------------------------------------------------------------------------------


def test_tables_are_read(tmp_path: Path) -> None:
    orders, payments = declared(tmp_path, TWO).topics
    assert (orders.name, orders.attributes, orders.tags) == (
        "orders",
        {"DisplayName": "Orders"},
        {"team": "shop"},
    )
    assert payments.attributes == {"ContentBasedDeduplication": "true", "FifoTopic": "true"}
    (billing,) = orders.subscriptions
    space = declared(tmp_path, TWO).space
    assert billing.endpoint(space) == f"{ARN}billing"
    assert billing.all_attributes(space) == {
        "RawMessageDelivery": "true",
        "FilterPolicy": '{"kind": ["invoice"]}',
        "RedrivePolicy": json.dumps({"deadLetterTargetArn": f"{ARN}lost"}),
    }


@every_row(
    ("member", "subscriber"),
    [
        ('queue = "q"', ("sqs", "q")),
        (f'queue = "{ARN}q"', ("sqs", f"{ARN}q")),
        (f'endpoint = "{ARN}q"', ("sqs", f"{ARN}q")),
        ('endpoint = "https://example.com/x"', ("https", "https://example.com/x")),
        ('endpoint = "HTTP://example.com/x"', ("http", "HTTP://example.com/x")),
        ('endpoint = "mailto:a@example.com"', ("email", "a@example.com")),
        ('endpoint = "a@example.com"\nprotocol = "email-json"', ("email-json", "a@example.com")),
        ('endpoint = "mailto:a@example.com"\nprotocol = "email-json"', ("email-json", "a@example.com")),
        ('endpoint = "sms:+4912345"', ("sms", "+4912345")),
    ],
)
def test_endpoints_of_subscriptions(member: str, subscriber: tuple[str, str], tmp_path: Path) -> None:
    ((subscription,),) = (topic.subscriptions for topic in declared(tmp_path, subscribed(member)).topics)
    assert subscription.subscriber == subscriber


@every_row(
    ("text", "why"),
    [
        ("topics = 3", "topics expected table [topics.NAME]"),
        ("[topics]\na = 3", "topics.a expected table [topics.a]"),
        ("[topics.a]\nDisplayname = 3", 'unknown "Displayname" [topics.a] "DisplayName"'),
        ('[topics."a b"]', "topics.a b letters"),
        ("[topics.a]\nfifo = true", "topics.a FIFO topics .fifo"),
        ("[topics.a.fifo]", "topics.a.fifo quotes"),
        ("[topics.a]\nContentBasedDeduplication = true", "topics.a AttributeName"),
        ('[topics.a]\nTracingConfig = "no"', "topics.a tracing config no"),
        ("[topics.a]\ntags = {a = 1}", "topics.a.tags table of text"),
        ("[topics.a]\nDeliveryPolicy = 2026-01-01", "2026-01-01 topics.a.DeliveryPolicy expected text"),
        ("[topics.a]\nDeliveryPolicy = {a = 2026-01-01}", "topics.a.DeliveryPolicy dates"),
        ("[topics.a]\nsubscriptions = {}", "[[topics.a.subscriptions]]"),
        ("[topics.a]\nsubscriptions = [3]", "topics.a.subscriptions[1] table"),
        (subscribed(), "topics.t.subscriptions[1] queue or endpoint"),
        (subscribed('queue = "q"', 'endpoint = "x"'), "topics.t.subscriptions[1] either queue or endpoint"),
        (subscribed('endpoint = "nowhere"'), "nowhere topics.t.subscriptions[1].endpoint URL"),
        (subscribed('queue = "q"', "fliter = {}"), 'unknown "fliter" topics.t.subscriptions[1] "filter"'),
        (subscribed('queue = "q"', "filter = 3"), "topics.t.subscriptions[1].filter table JSON"),
        (subscribed('queue = "q"', "filter = {a = 1}"), "topics.t.subscriptions[1] FilterPolicy"),
        (subscribed('queue = "q"', "filter = {a = {b = [1]}}"), "topics.t.subscriptions[1] nested"),
        (subscribed('queue = "q"', "filter = {}", "FilterPolicy = {}"), "both filter and FilterPolicy"),
        (subscribed('queue = "q"', 'filter_scope = "all"'), 'filter_scope "attributes" "body"'),
        (subscribed('queue = "q"', "raw = 1"), "raw true or false"),
        (subscribed('queue = "q"', "dead_letter_queue = 1"), "dead_letter_queue name of a queue"),
        (subscribed('queue = "q.fifo"'), "topics.t.subscriptions[1] FIFO standard"),
        (subscribed('queue = "a b"'), "topics.t.subscriptions[1] SQS endpoint ARN"),
        (subscribed('endpoint = "sms:x"'), "topics.t.subscriptions[1] SMS endpoint"),
        (subscribed('endpoint = "x"', 'protocol = "ftp"'), "topics.t.subscriptions[1] ftp sqs"),
        (
            '[topics.t]\nMaximumMessageSize = 300000\n[[topics.t.subscriptions]]\nendpoint = "sms:+491"',
            "only queues",
        ),
        (
            subscribed('endpoint = "http://me:secret@example.com"'),
            "topics.t.subscriptions[1] HTTPS credentials",
        ),
        (subscribed('queue = "q"', "[[topics.t.subscriptions]]", 'queue = "q"'), "topics.t two queue q"),
        (
            '[topics."t.fifo"]\n[[topics."t.fifo".subscriptions]]\nendpoint = "mailto:a@b.c"',
            "t.fifo protocol email",
        ),
    ],
)
def test_an_error_names_the_table(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        declared(tmp_path, text)
    line = str(caught.value)
    assert "\n" not in line and str(tmp_path / "penstock.toml") in line
    says(line, *why.split())


def test_a_nested_filter_needs_the_scope_of_bodies(tmp_path: Path) -> None:
    text = subscribed('queue = "q"', 'filter_scope = "body"', "filter = {a = {b = [1]}}")
    (topic,) = declared(tmp_path, text).topics
    assert topic.subscriptions[0].attributes["FilterPolicyScope"] == "MessageBody"


def test_queues_that_do_not_exist_are_named(tmp_path: Path) -> None:
    config = declared(tmp_path, TWO)
    space = config.space
    existing = {QueueName(space.account, space.region, name): None for name in ("billing", "ledger.fifo")}
    (line,) = missing_queues(config.topics, space, existing)
    says(line, '"lost"', "topics.orders.subscriptions[1]")


# -- declaring ---------------------------------------------------------------------------------------------------


def shown(server: Server, name: str) -> dict[str, Any]:
    topic = TopicName("000000000000", "us-east-1", name)
    topics: ShardTopics = server.parts.publishing.at(topic)
    found = topics.find(topic)
    return {
        "attributes": found.attributes,
        "tags": found.tags,
        "subscriptions": {
            each.endpoint: (each.state.value, each.attributes, each.name.id)
            for each in topics.subscriptions_of(topic, "", 100)
        },
    }


def started(config: Config, *names: str) -> list[dict[str, Any]]:
    """What topics are after a start with these settings."""

    async def scenario() -> list[dict[str, Any]]:
        async with serving(config) as server:
            return [shown(server, name) for name in names]

    return asyncio.run(scenario())


def test_a_start_creates_topics_and_a_later_one_changes_what_differs(tmp_path: Path) -> None:
    orders, payments = started(declared(tmp_path, TWO), "orders", "payments.fifo")
    assert orders["attributes"] == {"DisplayName": "Orders"} and orders["tags"] == {"team": "shop"}
    assert payments["attributes"] == {"ContentBasedDeduplication": "true"}
    (state, attributes, id) = orders["subscriptions"][f"{ARN}billing"]
    assert state == "confirmed" and attributes["FilterPolicy"] == '{"kind":["invoice"]}'
    changed = TWO.replace('"invoice"', '"refund"').replace("raw = true", "raw = false").replace(
        'tags = {team = "shop"}', 'tags = {stage = "test"}'
    ).replace('DisplayName = "Orders"', 'SignatureVersion = "2"')  # fmt: skip
    for _ in range(2):
        (orders,) = started(declared(tmp_path, changed), "orders")
        assert orders["attributes"] == {"DisplayName": "Orders", "SignatureVersion": "2"}
        assert orders["tags"] == {"team": "shop", "stage": "test"}
        (state, attributes, same) = orders["subscriptions"][f"{ARN}billing"]
        assert (same, attributes["FilterPolicy"], attributes["RawMessageDelivery"]) == (
            id, '{"kind":["refund"]}', "false",
        )  # fmt: skip
    (orders,) = started(declared(tmp_path, ""), "orders")
    assert len(orders["subscriptions"]) == 1, "what is no longer declared is not deleted"


def test_nothing_is_written_if_nothing_differs(tmp_path: Path) -> None:
    config = declared(tmp_path, TWO)

    async def scenario() -> tuple[int, int]:
        async with serving(config) as server:
            return await server.parts.declare_topics(config), await server.parts.declare_queues(config)

    assert asyncio.run(scenario()) == (0, 0)


def test_an_endpoint_has_to_confirm(tmp_path: Path) -> None:
    text = subscribed('endpoint = "mailto:a@example.com"', "[[topics.t.subscriptions]]", f'queue = "{OTHER}"')
    (topic,) = started(declared(tmp_path, text), "t")
    assert [state for state, _, _ in topic["subscriptions"].values()] == ["pending", "pending"]


OTHER = "arn:aws:sqs:us-east-1:111111111111:q"


def test_a_topic_that_contradicts_the_one_that_exists_stops_the_start(tmp_path: Path) -> None:
    text = '[topics."t.fifo"]\nFifoThroughputScope = "{}"'
    started(declared(tmp_path, text.format("MessageGroup")), "t.fifo")
    with pytest.raises(DeclarationError, match=r"invalid topic topics\.t\.fifo: .*FifoThroughputScope"):
        started(declared(tmp_path, f"[topics.new]\n{text.format('Topic')}"))
    with pytest.raises(TopicMissing):
        started(declared(tmp_path, ""), "new")
