"""The actions of SNS over both networks, with answers as SNS was recorded to write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

import boto3
import pytest
from botocore.config import Config

from client.driver import KEYS, Driver
from client.fake_server import FakeServer, reply
from client.test_query import answer
from penstock.client import (
    Forbidden,
    MessageAttribute,
    PublishedMessage,
    PublishEntry,
    Retries,
    Subscription,
    SyncClient,
    Throttled,
    TopicDoesNotExist,
    Unavailable,
)
from penstock.client.actions import Actions
from penstock.client.api import ApiSession, run
from penstock.client.credentials import SigningKeys
from penstock.client.endpoint import find_endpoint, sns_url
from penstock.client.http.blocking import BlockingNetwork
from penstock.client.session import Session

ARN = "arn:aws:sns:eu-central-1:123456789012:orders"
SUBSCRIPTION = f"{ARN}:c7fe3a54-ab0e-4ec2-88e0-db410a0f2bee"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:kitchen"

_MESSAGE: dict[str, Any] = {
    "subject": "new order", "message_group_id": "g", "message_deduplication_id": "d",
    "message_attributes": {
        "text": "grün", "number": 1.5, "bytes": b"\x00\xff", "list": ["a", 1, True, None],
        "own": MessageAttribute("String.x", string_value="y"),
    },
}  # fmt: skip
_BOTO_MESSAGE = {
    "Subject": "new order", "MessageGroupId": "g", "MessageDeduplicationId": "d",
    "MessageAttributes": {
        "text": {"DataType": "String", "StringValue": "grün"}, "number": {"DataType": "Number", "StringValue": "1.5"},
        "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        "list": {"DataType": "String.Array", "StringValue": '["a", 1, true, null]'},
        "own": {"DataType": "String.x", "StringValue": "y"},
    },
}  # fmt: skip

# Method, arguments, options; the name in boto3 and its members; the result that the server answers with.
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any], str, dict[str, Any], str]] = [
    ("create_topic", ("orders", {"FifoTopic": True, "Policy": {"a": 1}}, {"k": "v"}), {}, "create_topic",
     {"Name": "orders", "Attributes": {"FifoTopic": "true", "Policy": '{"a": 1}'},
      "Tags": [{"Key": "k", "Value": "v"}]}, f"<TopicArn>{ARN}</TopicArn>"),
    ("delete_topic", (ARN,), {}, "delete_topic", {"TopicArn": ARN}, ""),
    ("list_topics", (), {"next_token": "n"}, "list_topics", {"NextToken": "n"}, "<Topics/>"),
    ("get_topic_attributes", (ARN,), {}, "get_topic_attributes", {"TopicArn": ARN}, "<Attributes/>"),
    ("set_topic_attributes", (ARN, "DisplayName", ""), {}, "set_topic_attributes",
     {"TopicArn": ARN, "AttributeName": "DisplayName", "AttributeValue": ""}, ""),
    ("subscribe", (ARN, "sqs", QUEUE), {"attributes": {"RawMessageDelivery": True, "FilterPolicy": {"a": ["b"]}}},
     "subscribe",
     {"TopicArn": ARN, "Protocol": "sqs", "Endpoint": QUEUE, "ReturnSubscriptionArn": True,
      "Attributes": {"RawMessageDelivery": "true", "FilterPolicy": '{"a": ["b"]}'}},
     f"<SubscriptionArn>{SUBSCRIPTION}</SubscriptionArn>"),
    ("confirm_subscription", (ARN, "token"), {"authenticate_on_unsubscribe": True}, "confirm_subscription",
     {"TopicArn": ARN, "Token": "token", "AuthenticateOnUnsubscribe": "true"},
     f"<SubscriptionArn>{SUBSCRIPTION}</SubscriptionArn>"),
    ("unsubscribe", (SUBSCRIPTION,), {}, "unsubscribe", {"SubscriptionArn": SUBSCRIPTION}, ""),
    ("get_subscription_attributes", (SUBSCRIPTION,), {}, "get_subscription_attributes",
     {"SubscriptionArn": SUBSCRIPTION}, "<Attributes/>"),
    ("set_subscription_attributes", (SUBSCRIPTION, "FilterPolicy", {"a": ["b"]}), {}, "set_subscription_attributes",
     {"SubscriptionArn": SUBSCRIPTION, "AttributeName": "FilterPolicy", "AttributeValue": '{"a": ["b"]}'}, ""),
    ("set_subscription_attributes", (SUBSCRIPTION, "RedrivePolicy"), {}, "set_subscription_attributes",
     {"SubscriptionArn": SUBSCRIPTION, "AttributeName": "RedrivePolicy"}, ""),
    ("list_subscriptions", (), {"next_token": "n"}, "list_subscriptions", {"NextToken": "n"}, "<Subscriptions/>"),
    ("list_subscriptions_by_topic", (ARN,), {}, "list_subscriptions_by_topic", {"TopicArn": ARN}, "<Subscriptions/>"),
    ("publish", (ARN, "grüße 🐌 &=+\n"), {"message_structure": "json", **_MESSAGE}, "publish",
     {"TopicArn": ARN, "Message": "grüße 🐌 &=+\n", "MessageStructure": "json", **_BOTO_MESSAGE},
     "<MessageId>m</MessageId>"),
    ("publish_batch", (ARN, [PublishEntry(message="a", **_MESSAGE), "b"]), {}, "publish_batch",
     {"TopicArn": ARN, "PublishBatchRequestEntries": [{"Id": "0", "Message": "a", **_BOTO_MESSAGE},
                                                      {"Id": "1", "Message": "b"}]},
     "<Failed/><Successful/>"),
    ("tag_topic", (ARN, {"a": "b"}), {}, "tag_resource",
     {"ResourceArn": ARN, "Tags": [{"Key": "a", "Value": "b"}]}, " "),
    ("untag_topic", (ARN, ["a"]), {}, "untag_resource", {"ResourceArn": ARN, "TagKeys": ["a"]}, " "),
    ("list_topic_tags", (ARN,), {}, "list_tags_for_resource", {"ResourceArn": ARN}, "<Tags/>"),
]  # fmt: skip


def fields(request: bytes) -> dict[str, str]:
    return dict(parse_qsl(request.partition(b"\r\n\r\n")[2].decode(), keep_blank_values=True))


def answering(result: str) -> Any:
    """Answers each action with the same result."""
    return lambda request: reply(body=answer(fields(request)["Action"], result))


@pytest.mark.parametrize(
    ("method", "arguments", "options", "boto_method", "members", "result"),
    CALLS,
    ids=[call[0] for call in CALLS],
)
def test_a_request_is_that_of_boto3(
    method: str, arguments: Any, options: Any, boto_method: str, members: dict[str, Any], result: str
) -> None:
    with FakeServer(answering(result)) as server:
        with SyncClient(endpoint_url=server.url, region="eu-central-1", credentials=KEYS) as client:
            getattr(client, method)(*arguments, **options)
        sns = boto3.client(
            "sns", endpoint_url=server.url, region_name="eu-central-1", aws_access_key_id=KEYS.access_key,
            aws_secret_access_key=KEYS.secret_key,
            config=Config(sigv4a_signing_region_set=None, retries={"total_max_attempts": 1}),
        )  # fmt: skip
        getattr(sns, boto_method)(**members)
        sns.close()
    own, boto = server.requests
    assert fields(own) == fields(boto)
    for line in (
        rb"POST / HTTP/1.1",
        rb"[Cc]ontent-[Tt]ype: application/x-www-form-urlencoded; charset=utf-8",
    ):
        assert re.search(line, own) and re.search(line, boto)
    scope = rb"Credential=\w+/\d+/eu-central-1/sns/aws4_request"
    assert re.search(scope, own) and re.search(scope, boto)


def test_results_are_typed(drive: Driver) -> None:
    member = (
        f"<SubscriptionArn>PendingConfirmation</SubscriptionArn><Owner>123456789012</Owner><Protocol>http</Protocol>"
        f"<Endpoint>http://h/</Endpoint><TopicArn>{ARN}</TopicArn>"
    )
    results = {
        "Publish": "<SequenceNumber>10000000000000003000</SequenceNumber><MessageId>m</MessageId>",
        "ListSubscriptions": f"<Subscriptions><member>{member}</member></Subscriptions><NextToken>n</NextToken>",
        "ListTagsForResource": "<Tags><member><Key>a</Key><Value>b</Value></member></Tags>",
    }

    async def steps(client: Actions) -> None:
        assert await client.publish(ARN, "x") == PublishedMessage("m", "10000000000000003000")
        page = await client.list_subscriptions()
        (subscription,) = page.subscriptions
        assert subscription == Subscription("PendingConfirmation", ARN, "http", "http://h/", "123456789012")
        assert not subscription.is_confirmed and page.next_token == "n"
        assert await client.list_topic_tags(ARN) == {"a": "b"}

    def of_action(request: bytes) -> bytes:
        action = fields(request)["Action"]
        return reply(body=answer(action, results[action]))

    with FakeServer(of_action) as server:
        drive(steps, server.url)


def test_a_name_becomes_the_arn_that_other_topics_show(drive: Driver) -> None:
    async def steps(client: Actions) -> None:
        await client.delete_topic("orders")
        await client.delete_topic("bills.fifo")

    first = f"<Topics><member><TopicArn>{ARN}-other</TopicArn></member></Topics>"
    with FakeServer(answering(first)) as server:
        drive(steps, server.url)
    asked = [(each["Action"], each.get("TopicArn")) for each in map(fields, server.requests)]
    bills = ARN.replace("orders", "bills.fifo")
    assert asked == [("ListTopics", None), ("DeleteTopic", ARN), ("DeleteTopic", bills)]


def test_a_name_where_there_are_no_topics(drive: Driver) -> None:
    with FakeServer(answering("<Topics/>")) as server, pytest.raises(TopicDoesNotExist, match="orders"):
        drive(lambda client: client.publish("orders", "x"), server.url)


def error(code: str, text: str) -> bytes:
    return (
        f'<ErrorResponse xmlns="http://sns.amazonaws.com/doc/2010-03-31/">\n  <Error>\n    <Type>Sender</Type>\n'
        f"    <Code>{code}</Code>\n    <Message>{text}</Message>\n  </Error>\n  <RequestId>r</RequestId>\n"
        "</ErrorResponse>\n"
    ).encode()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "NotFound", TopicDoesNotExist),
        (403, "AuthorizationError", Forbidden),
        (429, "Throttled", Throttled),
    ],
)
def test_an_error_has_its_class(drive: Driver, status: int, code: str, kind: type[Exception]) -> None:
    answers = reply(status, error(code, "a &quot;text&quot;"), x_amzn_RequestId="r-1")
    with FakeServer(answers) as server, pytest.raises(kind, match='a "text"') as raised:
        drive(lambda client: client.publish(ARN, "x"), server.url, retries=Retries(1))
    assert (raised.value.code, raised.value.request_id) == (code, "r-1")  # type: ignore[attr-defined]
    assert raised.value.is_denied == (code == "AuthorizationError")  # type: ignore[attr-defined]


@pytest.mark.parametrize(("options", "requests"), [({}, 1), ({"message_deduplication_id": "d"}, 2)])
def test_a_publication_of_unknown_outcome_is_repeated_if_that_is_safe(
    drive: Driver, options: dict[str, str], requests: int
) -> None:
    retries = Retries(2, backoff_s_max=0.01, repeats_unknown=False)
    with FakeServer(reply(500, b"")) as server, pytest.raises(Exception, match="HTTP 500"):
        drive(lambda client: client.publish(ARN, "x", **options), server.url, retries=retries)  # type: ignore[arg-type]
    assert len(server.requests) == requests


def test_another_server_is_not_taken_for_sns(drive: Driver) -> None:
    with FakeServer(reply(body=b"<html/>")) as server, pytest.raises(Unavailable):
        drive(lambda client: client.publish(ARN, "x"), server.url)


def test_a_message_is_a_text(drive: Driver) -> None:
    with FakeServer(reply()) as server:
        for message in (b"x", None):
            with pytest.raises(TypeError):
                drive(lambda client, given=message: client.publish(ARN, given), server.url)  # type: ignore[misc]
        with pytest.raises(TypeError, match="flag"):
            attributes: Any = {"flag": {"a": 1}}
            drive(lambda client: client.publish(ARN, "x", message_attributes=attributes), server.url)
    assert not server.requests


# -- which server ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sqs", "sns"),
    [
        ("https://sqs.eu-central-1.amazonaws.com", "https://sns.eu-central-1.amazonaws.com"),
        ("https://sqs.cn-north-1.amazonaws.com.cn", "https://sns.cn-north-1.amazonaws.com.cn"),
        ("https://sqs-fips.us-gov-west-1.amazonaws.com/", "https://sns-fips.us-gov-west-1.amazonaws.com"),
        ("https://broker.example.com", "https://broker.example.com"),
        ("http://sqs.eu-central-1.amazonaws.com", "http://sqs.eu-central-1.amazonaws.com"),
        (
            "https://sqs.eu-central-1.amazonaws.com.evil.example",
            "https://sqs.eu-central-1.amazonaws.com.evil.example",
        ),
    ],
)
def test_sns_is_where_sqs_is_except_at_amazon(sqs: str, sns: str) -> None:
    assert sns_url(sqs) == sns


@pytest.fixture
def environment(tmp_path: Any) -> Iterator[dict[str, str]]:
    yield {
        "XDG_CONFIG_HOME": str(tmp_path), "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "keys"),
    }  # fmt: skip


def test_a_variable_names_another_server_for_topics(environment: dict[str, str]) -> None:
    variables = {**environment, "AWS_ENDPOINT_URL_SQS": "http://a:1", "AWS_ENDPOINT_URL_SNS": "http://b:2"}
    assert find_endpoint(environment=variables).sns_url == "http://b:2"
    assert find_endpoint(environment=environment).sns_url is None
    # The variable is not about a server that was named in another way.
    assert find_endpoint(url="http://c:3", environment=variables).sns_url is None


def test_a_profile_names_another_server_for_topics(environment: dict[str, str], tmp_path: Any) -> None:
    (tmp_path / "config").write_text(
        "[profile p]\nservices = s\n[services s]\nsqs =\n  endpoint_url = http://a:1\nsns =\n"
        "  endpoint_url = http://b:2\n"
    )
    found = find_endpoint(profile="p", environment=environment)
    assert (found.url, found.sns_url) == ("http://a:1", "http://b:2")


def test_the_other_server_gets_the_topics_with_the_same_keys() -> None:
    with FakeServer(answering("<Topics/>")) as server:
        endpoint = find_endpoint(url="http://127.0.0.1:1", region="eu-central-1")._replace(
            sns_url=server.url, credentials=SigningKeys("AKID", "secret")
        )
        network = BlockingNetwork(1)
        session = Session(endpoint, network)
        assert session.topics is session.topics
        run(Actions(session).list_topics())
        run(session.close())
    assert b"Credential=AKID/" in server.requests[0]


def test_commands_have_plain_objects() -> None:
    topics = f"<Topics><member><TopicArn>{ARN}</TopicArn></member></Topics>"
    with FakeServer(answering(topics)) as server:
        session = ApiSession(server.url, "eu-central-1", KEYS)
        assert session.sns("ListTopics", NextToken="n") == {"Topics": [{"TopicArn": ARN}]}
        session.close()
    assert fields(server.requests[0])["NextToken"] == "n"
