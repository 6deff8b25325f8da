"""Queues as boto3 sees them: create, find, list, configure, tag, purge, delete."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from e2e.conftest import ON_SHARDS
from support.process import ServerProcess
from support.raw import Raw
from support.sqs import sqs_client

pytestmark = ON_SHARDS

ALWAYS = {
    "ApproximateNumberOfMessages": "0",
    "ApproximateNumberOfMessagesDelayed": "0",
    "ApproximateNumberOfMessagesNotVisible": "0",
    "DelaySeconds": "0",
    "MaximumMessageSize": "1048576",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "SqsManagedSseEnabled": "true",
    "VisibilityTimeout": "30",
}


def attributes(sqs: Any, url: str, *names: str) -> dict[str, str]:
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names) or ["All"])
    found: dict[str, str] = answer.get("Attributes", {})
    return found


def test_attributes_of_a_new_standard_queue(sqs: Any, account: str) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    shown = attributes(sqs, url)
    assert abs(int(shown.pop("CreatedTimestamp")) - time.time()) < 60, "in seconds"
    assert abs(int(shown.pop("LastModifiedTimestamp")) - time.time()) < 60
    assert shown == ALWAYS | {"QueueArn": f"arn:aws:sqs:us-east-1:{account}:q"}


def test_attributes_of_a_new_fifo_queue(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "True"})["QueueUrl"]
    shown = attributes(sqs, url)
    assert shown.keys() - ALWAYS.keys() - {"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn"} == {
        "FifoQueue", "ContentBasedDeduplication", "DeduplicationScope", "FifoThroughputLimit",
    }  # fmt: skip
    assert shown["FifoQueue"] == "true", "a boolean is taken in any case and shown in lower case"
    assert (shown["DeduplicationScope"], shown["FifoThroughputLimit"]) == ("queue", "perQueue")


def test_attributes_that_do_not_apply_are_omitted(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    assert attributes(sqs, url, "FifoQueue", "Policy", "VisibilityTimeout") == {"VisibilityTimeout": "30"}
    sqs.create_queue(QueueName="f.fifo", Attributes={"FifoQueue": "true"})
    sqs.set_queue_attributes(QueueUrl="f.fifo", Attributes={"FifoQueue": "true"})


def test_create_again_finds_the_queue_or_names_the_different_attribute(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "10"}, tags={"a": "1"})["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "20", "DelaySeconds": "3"})
    assert sqs.create_queue(QueueName="q")["QueueUrl"] == url
    assert sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "20"})["QueueUrl"] == url
    with pytest.raises(sqs.exceptions.QueueNameExists) as refused:
        sqs.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "10"})
    assert refused.value.response["Error"]["Message"].endswith(
        "a different value for attribute VisibilityTimeout"
    )


def test_a_queue_created_by_many_at_once_is_one_queue(server: ServerProcess, account: str) -> None:
    client = sqs_client(server.url, account)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client.create_queue(QueueName="q")["QueueUrl"], range(16)))
    assert len(set(answers)) == 1
    assert client.list_queues()["QueueUrls"] == [answers[0]]


def test_every_attribute_is_returned_as_it_was_set(sqs: Any, account: str) -> None:
    policy = '{ "Version" : "2012-10-17", "Statement" : [{"Effect":"Allow","Principal":"*",' \
        '"Action":"sqs:*", "Resource":"\'$sqs_queue_arn\'"}] }'  # fmt: skip
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    target = attributes(sqs, dead, "QueueArn")["QueueArn"]
    source = f"arn:aws:sqs:us-east-1:{account}:q"
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [source]}
    sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": json.dumps(allow)})
    assert attributes(sqs, dead, "RedriveAllowPolicy")["RedriveAllowPolicy"] == json.dumps(
        allow, separators=(",", ":")
    )
    given = {
        "DelaySeconds": "900", "MaximumMessageSize": "1024", "MessageRetentionPeriod": "1209600",
        "ReceiveMessageWaitTimeSeconds": "20", "VisibilityTimeout": "43200", "Policy": policy,
        "KmsMasterKeyId": "testKeyId", "KmsDataKeyReusePeriodSeconds": "60",
    }  # fmt: skip
    redrive = json.dumps({"maxReceiveCount": "1", "deadLetterTargetArn": target})
    url = sqs.create_queue(QueueName="q", Attributes={**given, "RedrivePolicy": redrive})["QueueUrl"]
    shown = attributes(sqs, url)
    assert shown.items() >= given.items(), "a policy byte for byte"
    assert shown["RedrivePolicy"] == f'{{"deadLetterTargetArn":"{target}","maxReceiveCount":1}}'
    assert shown["SqsManagedSseEnabled"] == "false", "one kind of encryption at a time"


def test_an_empty_value_removes_a_policy_or_key(sqs: Any) -> None:
    policy = json.dumps(
        {"Statement": [{"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": "*"}]}
    )
    url = sqs.create_queue(QueueName="q", Attributes={"Policy": policy, "KmsMasterKeyId": "k"})["QueueUrl"]
    target = attributes(sqs, url, "QueueArn")["QueueArn"]
    redrive = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 3})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": redrive})  # SQS: itself is fine
    gone = {"Policy", "RedrivePolicy", "KmsMasterKeyId"}
    assert gone <= attributes(sqs, url).keys()
    cleared = {name: "" for name in gone} | {"KmsDataKeyReusePeriodSeconds": "300"}
    sqs.set_queue_attributes(QueueUrl=url, Attributes=cleared)
    shown = attributes(sqs, url)
    assert not shown.keys() & (gone | {"KmsDataKeyReusePeriodSeconds"})
    assert shown["SqsManagedSseEnabled"] == "false", "it does not come back by itself"


def test_list_queues_by_prefix_and_in_pages(raw: Raw, account: str, sqs: Any) -> None:
    names = sorted(f"q{i:04}" for i in range(1500))
    for name in [*names, "other"]:
        raw.done("CreateQueue", {"QueueName": name})
    everything = sqs.list_queues()
    assert len(everything["QueueUrls"]) == 1000 and "NextToken" not in everything
    pages = sqs.get_paginator("list_queues").paginate(QueueNamePrefix="q", PaginationConfig={"PageSize": 400})
    found = [url.rpartition("/")[2] for page in pages for url in page["QueueUrls"]]
    assert found == names
    first = sqs.list_queues(MaxResults=1, QueueNamePrefix="q")
    with pytest.raises(ClientError, match="you must not change the other request parameters"):
        sqs.list_queues(MaxResults=1, QueueNamePrefix="o", NextToken=first["NextToken"])
    assert "NextToken" not in sqs.list_queues(MaxResults=1, QueueNamePrefix="other"), "nothing remains"


def test_tags(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q", tags={"a": "1", "A": ""})["QueueUrl"]
    sqs.tag_queue(QueueUrl=url, Tags={"a": "2", "ключ": "з"})
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"a": "2", "A": "", "ключ": "з"}
    sqs.untag_queue(QueueUrl=url, TagKeys=["a", "never"])
    assert sqs.list_queue_tags(QueueUrl=url)["Tags"] == {"A": "", "ключ": "з"}


def test_purge_removes_all_messages_and_the_deduplication_memory(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    for delay in (0, 0, 600):
        sqs.send_message(QueueUrl=url, MessageBody="b", DelaySeconds=delay)
    handle = sqs.receive_message(QueueUrl=url)["Messages"][0]["ReceiptHandle"]
    sqs.purge_queue(QueueUrl=url)
    assert attributes(sqs, url).items() >= ALWAYS.items()
    sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
    with pytest.raises(sqs.exceptions.PurgeQueueInProgress):
        sqs.purge_queue(QueueUrl=url)
    fifo = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    send = {"QueueUrl": fifo, "MessageBody": "b", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    first = sqs.send_message(**send)["MessageId"]
    sqs.purge_queue(QueueUrl=fifo)
    assert sqs.send_message(**send)["MessageId"] != first
    assert len(sqs.receive_message(QueueUrl=fifo)["Messages"]) == 1


def test_delete_queue_is_not_idempotent_and_its_name_cannot_be_used_at_once(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="b")
    sqs.delete_queue(QueueUrl=url)
    assert "QueueUrls" not in sqs.list_queues()
    for call in (sqs.delete_queue, sqs.receive_message, sqs.purge_queue):
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            call(QueueUrl=url)
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        sqs.send_message(QueueUrl=url, MessageBody="b")
    with pytest.raises(sqs.exceptions.QueueDeletedRecently):
        sqs.create_queue(QueueName="q")


def test_the_three_counters_are_disjoint_and_always_present(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    for delay in (0, 0, 0, 600, 600):
        sqs.send_message(QueueUrl=url, MessageBody="b", DelaySeconds=delay)
    sqs.receive_message(QueueUrl=url)
    names = [name for name in ALWAYS if name.startswith("Approx")]
    assert list(attributes(sqs, url, *names).values()).count("2") == 2
    assert attributes(sqs, url, *names) == {
        "ApproximateNumberOfMessages": "2",
        "ApproximateNumberOfMessagesNotVisible": "1",
        "ApproximateNumberOfMessagesDelayed": "2",
    }
