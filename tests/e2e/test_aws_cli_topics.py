"""Topics from the command line of the AWS CLI, with its JSON, text and pages."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.test_aws_cli import Cli
from support.process import ServerProcess


@pytest.fixture
def aws(server: ServerProcess, account: str) -> Cli:
    return Cli(server.url, account, "sns")


@pytest.fixture
def queue(sqs: Any, account: str) -> tuple[str, str]:
    """The URL and the ARN of a queue."""
    return sqs.create_queue(QueueName="orders")["QueueUrl"], f"arn:aws:sqs:us-east-1:{account}:orders"


def test_publish_to_a_queue_from_the_command_line(
    aws: Cli, sqs: Any, queue: tuple[str, str], account: str
) -> None:
    url, arn = queue
    topic = aws("create-topic", "--name", "news", "--tags", "Key=team,Value=shop")["TopicArn"]
    assert topic == f"arn:aws:sns:us-east-1:{account}:news"
    policy = json.dumps({"kind": ["sport"]})
    subscription = aws(
        "subscribe", "--topic-arn", topic, "--protocol", "sqs", "--notification-endpoint", arn,
        "--attributes", json.dumps({"RawMessageDelivery": "true", "FilterPolicy": policy}),
    )["SubscriptionArn"]  # fmt: skip
    shown = aws("get-subscription-attributes", "--subscription-arn", subscription)["Attributes"]
    assert (shown["RawMessageDelivery"], json.loads(shown["FilterPolicy"])) == ("true", {"kind": ["sport"]})
    listed = aws("list-subscriptions-by-topic", "--topic-arn", topic)["Subscriptions"]
    assert listed == [
        {
            "SubscriptionArn": subscription,
            "Owner": account,
            "Protocol": "sqs",
            "Endpoint": arn,
            "TopicArn": topic,
        }
    ]
    attributes = {"kind": {"DataType": "String", "StringValue": "sport"}}
    sent = aws(
        "publish",
        "--topic-arn",
        topic,
        "--message",
        "Größe: 水",
        "--message-attributes",
        json.dumps(attributes),
    )
    assert sent.keys() == {"MessageId"}
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5, MessageAttributeNames=["All"])["Messages"]
    assert (got["Body"], got["MessageAttributes"]) == ("Größe: 水", attributes)
    assert aws("unsubscribe", "--subscription-arn", subscription) is None
    assert aws("list-subscriptions") == {"Subscriptions": []}


def test_batches_and_changes_from_the_command_line(aws: Cli) -> None:
    topic = aws(
        "create-topic", "--name", "news.fifo", "--attributes", "FifoTopic=true,ContentBasedDeduplication=true"
    )["TopicArn"]
    entries = [{"Id": str(place), "Message": str(place), "MessageGroupId": "g"} for place in range(3)]
    done = aws("publish-batch", "--topic-arn", topic, "--publish-batch-request-entries", json.dumps(entries))
    assert [entry["Id"] for entry in done["Successful"]] == ["0", "1", "2"]
    assert done["Failed"] == []
    assert len({entry["SequenceNumber"] for entry in done["Successful"]}) == 3
    change = ("--topic-arn", topic, "--attribute-name", "DisplayName", "--attribute-value", "News")
    assert aws("set-topic-attributes", *change) is None
    shown = aws("get-topic-attributes", "--topic-arn", topic)["Attributes"]
    assert (shown["DisplayName"], shown["FifoTopic"]) == ("News", "true")
    assert aws("delete-topic", "--topic-arn", topic) is None
    refused = aws.run("publish", "--topic-arn", topic, "--message", "x", "--message-group-id", "g")
    assert refused.returncode != 0
    assert "(NotFound) when calling the Publish operation: Topic does not exist" in refused.stderr


def test_pages_from_the_command_line(aws: Cli, sns: Any) -> None:
    """The CLI puts all pages together, or gives a token to go on with."""
    topics = [sns.create_topic(Name=f"t{number:03}")["TopicArn"] for number in range(101)]
    assert sorted(topic["TopicArn"] for topic in aws("list-topics")["Topics"]) == topics
    first = aws("list-topics", "--max-items", "60")
    second = aws("list-topics", "--starting-token", first["NextToken"])
    assert len(first["Topics"]) == 60
    assert sorted(topic["TopicArn"] for topic in first["Topics"] + second["Topics"]) == topics
