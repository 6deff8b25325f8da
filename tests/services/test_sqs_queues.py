"""Queue actions: names, idempotent creation, lists in pages, URLs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.errors import PurgedRecently, QueueDeletedRecently
from penstock.names import Space
from penstock.services.sqs import ACTIONS, SERVICE, Sqs
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from support.http_requests import json_request
from support.rows import every_row

BAD_NAME = "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
BAD_FIFO_NAME = (
    "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, "
    "must end with .fifo suffix and be 1 to 80 in length."
)
GONE = ("AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")


@every_row(
    ("members", "code", "message"),
    [
        (
            {},
            "InvalidParameterValue",
            "Value for parameter QueueName is invalid. Reason: Must specify a queue name.",
        ),
        ({"QueueName": ""}, "InvalidParameterValue", "Queue name cannot be empty"),
        ({"QueueName": "a b"}, "InvalidParameterValue", BAD_NAME),
        ({"QueueName": "a\n"}, "InvalidParameterValue", BAD_NAME),
        ({"QueueName": "a" * 81}, "InvalidParameterValue", BAD_NAME),
        ({"QueueName": "a.fifo"}, "InvalidParameterValue", BAD_NAME),
        (
            {"QueueName": "a.fifo", "Attributes": {"FifoQueue": "false"}},
            "InvalidParameterValue",
            BAD_NAME,
        ),
        ({"QueueName": "a", "Attributes": {"FifoQueue": "true"}}, "InvalidParameterValue", BAD_FIFO_NAME),
        (
            {"QueueName": "a" * 76 + ".fifo", "Attributes": {"FifoQueue": "true"}},
            "InvalidParameterValue",
            BAD_FIFO_NAME,
        ),
        (
            {"QueueName": ".fifo", "Attributes": {"FifoQueue": "true"}},
            "InvalidParameterValue",
            BAD_FIFO_NAME,
        ),
        (
            {"QueueName": "a", "Attributes": {"FifoQueue": "false"}},
            "InvalidAttributeName",
            "Unknown Attribute FifoQueue.",
        ),
        (
            {"QueueName": "a", "tags": {"": "x"}},
            "InvalidParameterValue",
            "Tag keys must be between 1 and 128 characters in length.",
        ),
    ],
)
def test_create_refuses(sqs: Any, members: dict[str, Any], code: str, message: str) -> None:
    reply = sqs("CreateQueue", **members)
    assert reply.error == (code, message)
    assert not sqs.broker.queues


def test_create_accepts_the_longest_names(sqs: Any) -> None:
    assert sqs.make("a" * 80).endswith("/123456789012/" + "a" * 80)
    sqs.make("a" * 75 + ".fifo")


def test_the_url_is_built_from_the_host_the_caller_used(sqs: Any) -> None:
    assert sqs.make("a") == "http://localhost:9324/123456789012/a"
    sqs.base_url = "https://queues.example"
    reply = sqs("GetQueueUrl", QueueName="a")
    assert reply.body == {"QueueUrl": "https://queues.example/123456789012/a"}


def test_create_again_compares_only_given_attributes_with_current_values(sqs: Any) -> None:
    url = sqs.make("a", VisibilityTimeout="31", SqsManagedSseEnabled="True")
    assert sqs.make("a") == url
    assert sqs.make("a", VisibilityTimeout="31", SqsManagedSseEnabled="true") == url
    assert sqs.make("a", DelaySeconds="0") == url
    sqs("SetQueueAttributes", QueueUrl=url, Attributes={"VisibilityTimeout": "32"})
    assert sqs.make("a", VisibilityTimeout="32") == url
    reply = sqs("CreateQueue", QueueName="a", Attributes={"DelaySeconds": "0", "VisibilityTimeout": "31"})
    assert reply.status == 400
    assert reply.body["__type"] == "com.amazonaws.sqs#QueueNameExists"
    assert reply.error == (
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute VisibilityTimeout",
    )


def test_create_again_accepts_a_fifo_queue_with_or_without_its_type(sqs: Any) -> None:
    url = sqs.make("a.fifo", ContentBasedDeduplication="true")
    assert sqs.make("a.fifo") == url
    assert sqs("CreateQueue", QueueName="a.fifo").body == {"QueueUrl": url}
    assert sqs("CreateQueue", QueueName="a.fifo", tags={"not": "compared"}).status == 200


def test_create_after_delete_has_to_wait(sqs: Any) -> None:
    sqs.broker.raises = QueueDeletedRecently()
    assert sqs("CreateQueue", QueueName="a").error == (
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "You must wait 60 seconds after deleting a queue before you can create another with the same name.",
    )


def test_purge_again_has_to_wait_and_is_403(sqs: Any) -> None:
    sqs.make("a")
    assert sqs("PurgeQueue", QueueUrl="a").raw == b""
    sqs.broker.raises = PurgedRecently("a")
    reply = sqs("PurgeQueue", QueueUrl="a")
    assert reply.status == 403
    assert reply.error == (
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "Only one PurgeQueue operation on a is allowed every 60 seconds.",
    )


def test_get_queue_url_refuses(sqs: Any) -> None:
    sqs.make("a")
    assert sqs("GetQueueUrl").code == "InvalidParameterValue"
    assert sqs("GetQueueUrl", QueueName="A").error == GONE
    foreign = sqs("GetQueueUrl", QueueName="a", QueueOwnerAWSAccountId="999999999999")
    assert foreign.error == (
        GONE[0],
        "The specified queue does not exist or you do not have access to it.",
    )
    assert sqs("GetQueueUrl", QueueName="a", QueueOwnerAWSAccountId="123456789012").status == 200


@every_row(
    "url",
    [
        "a",
        "http://localhost:9324/123456789012/a",
        "https://sqs.eu-west-1.amazonaws.com/123456789012/a",
        "https://eu-west-1.queue.amazonaws.com/123456789012/a",
        "https://sqs.us-east-1.amazonaws.com/123456789012/a",
        "http://[::1]:9324/123456789012/a",
        "https://proxy.example/sqs/123456789012/a",
        "/123456789012/a",
        "http://localhost:9324/queue/a",
        "/queue/a",
    ],
)
def test_any_host_path_style_and_a_bare_name_find_the_queue(sqs: Any, url: str) -> None:
    sqs.make("a")
    assert sqs("GetQueueAttributes", QueueUrl=url).status == 200


def test_the_host_of_a_queue_url_may_name_the_region(sqs: Any) -> None:
    context = Sqs(sqs.broker, ACTIONS, "sqs.{region}.localhost")
    dispatcher = Dispatcher([SERVICE.with_context(context)])
    sqs.make("a")
    sqs.space = Space("123456789012", "us-east-1")
    sqs.make("b")

    def found(url: str, region: str) -> bool:
        answers: list[Response] = []
        space = Space("123456789012", region)
        call = Call(request_id="r", space=space, sender="s", base_url="http://h")
        body = json.dumps({"QueueUrl": url}).encode()
        dispatcher.answer(json_request("AmazonSQS.ListQueueTags", body), call, answers.append)
        return answers[0].status == 200

    for region in ("eu-west-1", "us-east-1"):
        assert found("http://sqs.eu-west-1.localhost:9324/123456789012/a", region)
        assert not found("http://sqs.us-east-1.localhost:9324/123456789012/a", region)
        assert found("http://sqs.us-east-1.localhost:9324/queue/b", region)
        assert found("http://localhost:9324/123456789012/b", region) == (region == "us-east-1")


@every_row(
    "url",
    [
        None,
        "",
        "A",
        "http://whatever",
        "http://whatever/",
        "http://host/a",
        "http://host/123456789012/A",
        "http://host/123456789012/a/",
        "http://host/999999999999/a",
        "https://sqs.eu-west-1.amazonaws.com/999999999999/a",
        "https://sqs.us-east-1.amazonaws.com.evil.example/999999999999/a",
        "http://host/123456789012/" + "a" * 2000,
        "////",
        "http://",
        "\x00/\x00",
    ],
)
def test_urls_that_name_no_queue_of_the_caller(sqs: Any, url: str | None) -> None:
    sqs.make("a")
    for action in ("SendMessage", "ReceiveMessage", "GetQueueAttributes", "DeleteQueue", "ListQueueTags"):
        reply = sqs(action, QueueUrl=url)
        assert reply.body["__type"] == "com.amazonaws.sqs#QueueDoesNotExist"
        assert reply.error == GONE


@pytest.mark.parametrize("host", ["sqs.us-east-1", "us-west-2.queue", "queue"])
def test_another_region_and_account_is_an_invalid_address(sqs: Any, host: str) -> None:
    reply = sqs("SendMessage", QueueUrl=f"https://{host}.amazonaws.com/999999999999/a")
    assert reply.status == 404
    assert reply.error == (
        "InvalidAddress",
        f"The address https://{host}.amazonaws.com/ is not valid for this endpoint.",
    )


def test_delete_queue_is_not_idempotent(sqs: Any) -> None:
    sqs.make("a")
    assert sqs("DeleteQueue", QueueUrl="a").raw == b""
    assert sqs("DeleteQueue", QueueUrl="a").error == GONE


def test_list_queues_without_match_is_an_empty_object(sqs: Any) -> None:
    sqs.make("a")
    assert sqs("ListQueues", QueueNamePrefix="b").raw == b"{}"


def test_list_queues_pages_with_tokens_only_when_asked(sqs: Any) -> None:
    for number in range(1005):
        sqs.make(f"q-{number:04}")
    whole = sqs("ListQueues").body
    assert len(whole["QueueUrls"]) == 1000
    assert "NextToken" not in whole
    seen: list[str] = []
    page = sqs("ListQueues", MaxResults=335)
    while True:
        seen += page.body["QueueUrls"]
        if "NextToken" not in page.body:
            break
        page = sqs("ListQueues", MaxResults=335, NextToken=page.body["NextToken"])
    assert len(seen) == len(set(seen)) == 1005
    assert "NextToken" not in sqs("ListQueues", MaxResults=1000, QueueNamePrefix="q-0").body


def test_a_token_continues_although_its_queue_was_deleted(sqs: Any) -> None:
    for name in "abc":
        sqs.make(name)
    token = sqs("ListQueues", MaxResults=1).body["NextToken"]
    sqs("DeleteQueue", QueueUrl="a")
    assert sqs("ListQueues", MaxResults=1, NextToken=token).body["QueueUrls"][0].endswith("/b")


def test_list_queues_refuses_wrong_pages(sqs: Any) -> None:
    for name in "abc":
        sqs.make(name)
    token = sqs("ListQueues", MaxResults=1).body["NextToken"]
    too_many = (
        "Value for parameter MaxResults is invalid. Reason: MaxResults must be an integer between 1 and 1000."
    )
    changed = (
        "Invalid NextToken value. If you are passing in NextToken, "
        "you must not change the other request parameters."
    )
    for members, message in (
        ({"MaxResults": 0}, too_many),
        ({"MaxResults": 1001}, too_many),
        ({"NextToken": token}, "MaxResults is a mandatory parameter when you provide a value for NextToken."),
        ({"MaxResults": 1, "NextToken": "garbage"}, "Invalid NextToken value."),
        ({"MaxResults": 1, "NextToken": "é"}, "Invalid NextToken value."),
        ({"MaxResults": 1, "NextToken": token, "QueueNamePrefix": "a"}, changed),
    ):
        assert sqs("ListQueues", **members).error == ("InvalidParameterValue", message), members


def test_the_size_of_a_page_may_change_from_one_to_the_next(sqs: Any, arn: Any) -> None:
    sqs.make("dlq")
    policy = f'{{"deadLetterTargetArn":"{arn("dlq")}","maxReceiveCount":3}}'
    for name in "abcde":
        sqs.make(name, RedrivePolicy=policy)
    for action, members, key in (
        ("ListQueues", {}, "QueueUrls"),
        ("ListDeadLetterSourceQueues", {"QueueUrl": "dlq"}, "queueUrls"),
    ):
        first = sqs(action, MaxResults=2, **members).body
        rest = sqs(action, MaxResults=10, NextToken=first["NextToken"], **members)
        assert rest.status == 200, rest.body
        assert rest.body[key][0].endswith("/c") and "NextToken" not in rest.body


def test_dead_letter_sources_page_under_their_own_name(sqs: Any, arn: Any) -> None:
    sqs.make("dlq")
    assert sqs("ListDeadLetterSourceQueues", QueueUrl="dlq").raw == b"{}"
    policy = f'{{"deadLetterTargetArn":"{arn("dlq")}","maxReceiveCount":3}}'
    for name in "ab":
        sqs.make(name, RedrivePolicy=policy)
    first = sqs("ListDeadLetterSourceQueues", QueueUrl="dlq", MaxResults=1).body
    assert first["queueUrls"] == ["http://localhost:9324/123456789012/a"]
    token = first["NextToken"]
    second = sqs("ListDeadLetterSourceQueues", QueueUrl="dlq", MaxResults=1, NextToken=token).body
    assert second == {"queueUrls": ["http://localhost:9324/123456789012/b"]}
    wrong = sqs("ListDeadLetterSourceQueues", QueueUrl="a", MaxResults=1, NextToken=token)
    assert wrong.error == ("InvalidParameterValue", "Invalid or expired next token.")
