"""Accounts and regions are separate; queue URLs have the host that the client used."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest
from botocore.exceptions import ClientError

from support.process import ServerProcess
from support.raw import Raw
from support.sqs import sqs_client


def test_accounts_are_separate(server: ServerProcess, account: str) -> None:
    mine, theirs = sqs_client(server.url, account), sqs_client(server.url, "299999999999")
    url = mine.create_queue(QueueName="q")["QueueUrl"]
    assert url == f"{server.url}/{account}/q"
    assert "QueueUrls" not in theirs.list_queues(QueueNamePrefix="q")
    with pytest.raises(theirs.exceptions.QueueDoesNotExist):
        theirs.get_queue_url(QueueName="q")
    with pytest.raises(theirs.exceptions.QueueDoesNotExist):
        theirs.send_message(QueueUrl=url, MessageBody="b")
    with pytest.raises(ClientError) as refused:
        theirs.get_queue_url(QueueName="q", QueueOwnerAWSAccountId=account)
    assert refused.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"


def test_regions_are_separate(server: ServerProcess, account: str) -> None:
    east, west = (sqs_client(server.url, account, region) for region in ("us-east-1", "eu-west-1"))
    url = east.create_queue(QueueName="q")["QueueUrl"]
    assert west.create_queue(QueueName="q", Attributes={"VisibilityTimeout": "5"})["QueueUrl"] == url
    east.send_message(QueueUrl=url, MessageBody="east")
    assert "Messages" not in west.receive_message(QueueUrl=url)
    for client, region in ((east, "us-east-1"), (west, "eu-west-1")):
        attributes = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]
        assert attributes["QueueArn"] == f"arn:aws:sqs:{region}:{account}:q"


def test_an_access_key_that_is_no_account_uses_the_default_account(server: ServerProcess) -> None:
    client = sqs_client(server.url, "AKIAIOSFODNN7EXAMPLE")
    assert client.create_queue(QueueName="of-a-key")["QueueUrl"] == f"{server.url}/000000000000/of-a-key"
    client.delete_queue(QueueUrl="of-a-key")


def test_a_queue_url_has_the_host_of_the_request_and_any_host_works(
    server: ServerProcess, raw: Raw, account: str
) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    urls = []
    for host in ("queues.test:4566", "localhost", f"127.0.0.1:{server.port}", "[::1]:9324"):
        reply = raw.ask("GetQueueUrl", {"QueueName": "q"}, Host=host)
        assert reply.json()["QueueUrl"] == f"http://{host}/{account}/q"
        urls.append(reply.json()["QueueUrl"])
    for url in [
        *urls,
        f"https://sqs.us-east-1.amazonaws.com/{account}/q",
        f"https://queue.amazonaws.com/{account}/q",
        "q",
    ]:
        raw.done("SendMessage", {"QueueUrl": url, "MessageBody": url})
    received = raw.done("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 10})["Messages"]
    assert len(received) == len(urls) + 3


def test_a_forwarded_host_is_ignored_from_untrusted_clients(
    raw: Raw, server: ServerProcess, account: str
) -> None:
    raw.done("CreateQueue", {"QueueName": "q"})
    reply = raw.ask(
        "GetQueueUrl", {"QueueName": "q"}, X_Forwarded_Host="evil.example", X_Forwarded_Proto="https"
    )
    assert reply.json()["QueueUrl"] == f"http://127.0.0.1:{server.port}/{account}/q"


def test_a_public_url_wins_over_a_trusted_proxy() -> None:
    with ServerProcess("--memory", "--public-url", "https://queues.example.com") as server:
        raw = Raw(server.port, "200000000001")
        assert raw.done("CreateQueue", {"QueueName": "q"})["QueueUrl"] == (
            "https://queues.example.com/200000000001/q"
        )
        raw.close()
    with ServerProcess("--memory", "--trusted-proxies", "127.0.0.1/32") as server:
        raw = Raw(server.port, "200000000001")
        reply = raw.ask(
            "CreateQueue", {"QueueName": "q"}, X_Forwarded_Host="q.example.com", X_Forwarded_Proto="https"
        )
        assert reply.json()["QueueUrl"] == "https://q.example.com/200000000001/q"
        raw.close()


def test_queue_urls_of_regions_differ_if_the_public_url_names_the_region() -> None:
    account = "200000000002"
    with ServerProcess("--memory", "--public-url", "http://sqs.{region}.localhost:9324") as server:
        east, west = (sqs_client(server.url, account, region) for region in ("us-east-1", "eu-west-1"))
        urls = [client.create_queue(QueueName="q")["QueueUrl"] for client in (east, west)]
        assert urls == [
            f"http://sqs.{region}.localhost:9324/{account}/q" for region in ("us-east-1", "eu-west-1")
        ]
        east.send_message(QueueUrl=urls[1], MessageBody="west")
        assert "Messages" not in east.receive_message(QueueUrl=urls[0])
        (received,) = west.receive_message(QueueUrl="q")["Messages"]
        assert received["Body"] == "west"


def test_an_open_server_needs_no_signature(server: ServerProcess) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("POST", "/", b"{}", {"X-Amz-Target": "AmazonSQS.ListQueues"})
    assert connection.getresponse().status == 200
    connection.close()
