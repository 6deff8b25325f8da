"""Libraries that check where messages come from: by the certificate that they fetch, over HTTPS.

They know the first version of signatures only; sns-validator for JavaScript knows both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import django
import pytest
import requests
from django.conf import settings
from sns_message_validator import SNSMessageValidator
from sns_message_validator.exceptions import SignatureVerificationFailureException

from support.certificates import write_certificate
from support.endpoints import Endpoint
from support.process import ServerProcess

TEXT = 'größer 水 🚰 <&>\n\t"quoted"'
IsGenuine = Callable[[dict[str, Any]], bool]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """It speaks HTTPS, with a certificate that the libraries trust."""
    files = write_certificate(tmp_path_factory.mktemp("tls"))
    flags = ("--tls-certificate", str(files.certificate), "--tls-key", str(files.key))
    with pytest.MonkeyPatch.context() as patch, ServerProcess("--memory", *flags) as running:
        patch.setenv("REQUESTS_CA_BUNDLE", str(files.authority))
        patch.setenv("AWS_CA_BUNDLE", str(files.authority))
        yield running
        assert running.stop() == 0


@pytest.fixture(scope="module")
def clients(server: ServerProcess) -> tuple[Any, Any]:
    reach = {
        "endpoint_url": f"https://127.0.0.1:{server.port}",
        "region_name": "us-east-1",
        "aws_access_key_id": "500000000000",
        "aws_secret_access_key": "any",
    }
    return boto3.client("sns", **reach), boto3.client("sqs", **reach)


def by_validator(message: dict[str, Any]) -> bool:
    try:
        SNSMessageValidator(cert_url_regex=r"^https://127\.0\.0\.1:\d+/").validate_message(message)
    except SignatureVerificationFailureException:
        return False
    return True


def by_django_ses(message: dict[str, Any]) -> bool:
    if not settings.configured:
        port = message["SigningCertURL"].split("/")[2]
        settings.configure(AWS_SNS_EVENT_CERT_TRUSTED_DOMAINS=[port])
        django.setup()
    from django_ses.utils import EventMessageVerifier

    return bool(EventMessageVerifier(message).is_verified())


LIBRARIES = pytest.mark.parametrize("is_genuine", [by_validator, by_django_ses])


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        yield made


@LIBRARIES
@pytest.mark.parametrize("subject", [None, "Öl & 水"])
def test_messages_in_queues_are_genuine(
    clients: tuple[Any, Any], is_genuine: IsGenuine, subject: str | None
) -> None:
    sns, sqs = clients
    topic = sns.create_topic(Name="queues")["TopicArn"]
    url = sqs.create_queue(QueueName="readers")["QueueUrl"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint="arn:aws:sqs:us-east-1:500000000000:readers")
    sns.publish(TopicArn=topic, Message=TEXT, **({"Subject": subject} if subject else {}))
    (got,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=got["ReceiptHandle"])
    message = json.loads(got["Body"])
    assert (message["Message"], message.get("Subject")) == (TEXT, subject)
    assert is_genuine(message)
    assert not is_genuine(message | {"Message": "forged"})
    assert not is_genuine(message | {"Subject": "forged"})
    assert not is_genuine(message | {"Timestamp": "2026-01-01T00:00:00.000Z"})


@LIBRARIES
def test_posts_of_every_kind_are_genuine(
    clients: tuple[Any, Any], endpoint: Endpoint, is_genuine: IsGenuine
) -> None:
    sns, _ = clients
    topic = sns.create_topic(Name=f"posts-{is_genuine.__name__}")["TopicArn"]
    sns.subscribe(TopicArn=topic, Protocol="http", Endpoint=endpoint.url)
    asked = endpoint.next("SubscriptionConfirmation")
    assert is_genuine(asked)
    assert not is_genuine(asked | {"SubscribeURL": "https://example.com/"})
    requests.get(asked["SubscribeURL"], timeout=30).raise_for_status()
    sns.publish(TopicArn=topic, Message=TEXT, Subject="s")
    message = endpoint.next("Notification")
    assert is_genuine(message)
    requests.get(message["UnsubscribeURL"], timeout=30).raise_for_status()
    ended = endpoint.next("UnsubscribeConfirmation")
    assert is_genuine(ended)
    assert not is_genuine(ended | {"Token": "0" * 256})
