"""Encryption at rest: what the data directory holds, and what clients see when keys change."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from penstock.auth.encryption.root_key import read_root_key_file
from penstock.queues.deduplication import SendDigests, content_id
from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says

ACCOUNT = "000000000000"
SECRETS = [b"body-of-a-secret", b"SecretAttribute", b"value-of-a-secret", b"binary-secret"]
WITHIN_S = 20  # a running server takes changes up within seconds; a busy machine may be slow


class Installation:
    """A data directory, a root key, and the server that runs on them."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.root = folder / "root.key"
        self.penstock("key", "root", str(self.root))
        self.server: ServerProcess | None = None

    def start(self, *more: str, encrypted: bool = True) -> Any:
        arguments = ["--root-key-file", str(self.root)] if encrypted else []
        self.server = ServerProcess("--data", str(self.data), *arguments, *more)
        return sqs_client(self.server.url, ACCOUNT)

    def stop(self) -> None:
        assert self.server is not None
        assert self.server.stop() == 0

    def penstock(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "penstock", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout

    def key(self, *arguments: str) -> str:
        return self.penstock("key", *arguments, "--data", str(self.data), "--root-key-file", str(self.root))

    def secrets_found(self) -> list[bytes]:
        files = [path.read_bytes() for path in self.data.rglob("*") if path.is_file()]
        assert len(files) > 2
        return [secret for secret in SECRETS if any(secret in file for file in files)]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Installation]:
    place = Installation(tmp_path)
    yield place
    if place.server is not None and place.server.process.poll() is None:
        place.server.kill()


def send_secrets(sqs: Any, queue: str, count: int = 10) -> None:
    attributes = {
        "SecretAttribute": {"DataType": "String", "StringValue": "value-of-a-secret"},
        "Other": {"DataType": "Binary", "BinaryValue": b"binary-secret"},
    }
    for number in range(count):
        body = f"body-of-a-secret {number} " + "x" * 4000 * (number % 2)
        sqs.send_message(QueueUrl=queue, MessageBody=body, MessageAttributes=attributes)


def receive_all(sqs: Any, queue: str) -> set[int]:
    numbers: set[int] = set()
    asked = {"QueueUrl": queue, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
    while messages := sqs.receive_message(**asked).get("Messages"):
        for message in messages:
            assert message["MessageAttributes"]["Other"]["BinaryValue"] == b"binary-secret"
            numbers.add(int(message["Body"].split()[1]))
    return numbers


def code_of(call: Callable[[], object]) -> str | None:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return None


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("attributes", "encrypted", "found"),
    [
        ({}, True, []),
        ({"KmsMasterKeyId": "alias/aws/sqs"}, True, []),
        ({"SqsManagedSseEnabled": "false"}, True, SECRETS),
        ({}, False, SECRETS),
    ],
    ids=["managed", "kms", "none", "no-root-key"],
)
def test_no_file_of_the_data_directory_contains_a_message(
    place: Installation, attributes: dict[str, str], encrypted: bool, found: list[bytes]
) -> None:
    sqs = place.start(encrypted=encrypted)
    queue = sqs.create_queue(QueueName="q", Attributes=attributes)["QueueUrl"]
    send_secrets(sqs, queue)
    assert place.secrets_found() == found, "while it runs"
    place.stop()
    assert place.secrets_found() == found, "after a stop, which moves the log into the file"
    sqs = place.start(encrypted=encrypted)
    queue = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    assert receive_all(sqs, queue) == set(range(10))
    assert place.secrets_found() == found, "after a restart"


def test_a_key_is_disabled_and_enabled_under_a_running_server(place: Installation) -> None:
    sqs = place.start()
    place.key("create", "--alias", "alias/orders")
    queue = sqs.create_queue(QueueName="q", Attributes={"KmsMasterKeyId": "alias/orders"})["QueueUrl"]
    eventually(lambda: code_of(lambda: send_secrets(sqs, queue, 1)) is None)
    place.key("disable", "alias/orders")
    refused = "KMS.DisabledException"
    eventually(lambda: code_of(lambda: send_secrets(sqs, queue, 1)) == refused)
    assert code_of(lambda: receive_all(sqs, queue)) == refused
    place.key("enable", "alias/orders")
    eventually(lambda: code_of(lambda: send_secrets(sqs, queue, 1)) is None)
    assert receive_all(sqs, queue) == {0}


def test_a_missing_key_gives_the_error_of_kms(place: Installation) -> None:
    sqs = place.start()
    queue = sqs.create_queue(QueueName="q", Attributes={"KmsMasterKeyId": "testKeyId"})["QueueUrl"]
    with pytest.raises(sqs.exceptions.KmsNotFound) as caught:
        sqs.send_message(QueueUrl=queue, MessageBody="hello")
    error = caught.value.response["Error"]
    assert error["Code"] == "KMS.NotFoundException"
    assert error["Message"] == "Key 'arn:aws:kms:us-east-1:000000000000:key/testKeyId' does not exist"


def test_a_rotation_reencrypts_stored_messages(place: Installation) -> None:
    sqs = place.start()
    queue = sqs.create_queue(QueueName="q")["QueueUrl"]
    send_secrets(sqs, queue, 50)
    place.key("rotate", "alias/penstock/sqs-managed")
    eventually(lambda: "100%, 50 checked, 50 encrypted" in place.key("list"))
    assert receive_all(sqs, queue) == set(range(50))
    assert place.secrets_found() == []


def test_a_rotation_reencrypts_the_messages_of_all_shards(place: Installation) -> None:
    sqs = place.start("--shards", "4")
    queues = [sqs.create_queue(QueueName=f"q{i}")["QueueUrl"] for i in range(12)]
    for queue in queues:
        send_secrets(sqs, queue, 2)
    place.key("rotate", "alias/penstock/sqs-managed")
    eventually(lambda: "100%, 24 checked, 24 encrypted" in place.key("list"))
    assert [receive_all(sqs, queue) for queue in queues] == [{0, 1}] * 12
    assert place.secrets_found() == []


def test_what_was_stored_before_there_was_a_root_key_is_encrypted(place: Installation) -> None:
    sqs = place.start(encrypted=False)
    send_secrets(sqs, sqs.create_queue(QueueName="q")["QueueUrl"])
    place.stop()
    sqs = place.start()
    eventually(lambda: "100%, 10 checked, 10 encrypted" in place.key("list"))
    assert receive_all(sqs, sqs.get_queue_url(QueueName="q")["QueueUrl"]) == set(range(10))


def refusal(place: Installation, *arguments: str) -> str:
    """Why the server does not start."""
    command = [
        sys.executable,
        "-m",
        "penstock",
        "serve",
        "--port",
        "0",
        "--data",
        str(place.data),
        *arguments,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    return ended.stderr.splitlines()[-1]


def test_a_start_without_the_root_key_is_refused(place: Installation) -> None:
    place.start()
    place.stop()
    says(refusal(place), "root key", "--root-key-file")


def test_a_restore_that_forgot_the_keyring_is_refused_until_it_is_there(place: Installation) -> None:
    sqs = place.start()
    send_secrets(sqs, sqs.create_queue(QueueName="q")["QueueUrl"])
    place.stop()
    ring = place.data / "penstock-keys.json"
    kept = ring.rename(place.data.parent / "kept")
    for arguments in ([], ["--root-key-file", str(place.root)]):
        assert f"{ring}" in refusal(place, *arguments)
        assert not ring.exists()
    kept.rename(ring)
    sqs = place.start()
    assert receive_all(sqs, sqs.get_queue_url(QueueName="q")["QueueUrl"]) == set(range(10))


def test_a_receive_under_a_disabled_key_fails_until_it_is_enabled(place: Installation) -> None:
    """The queue is a dead-letter queue: the key of the queue that a message came from is disabled."""
    sqs = place.start()
    place.key("create", "--alias", "alias/orders")
    dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
    redrive = json.dumps(
        {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:dead", "maxReceiveCount": "1"}
    )
    queue = sqs.create_queue(
        QueueName="q",
        Attributes={"KmsMasterKeyId": "alias/orders", "RedrivePolicy": redrive, "VisibilityTimeout": "0"},
    )["QueueUrl"]
    eventually(lambda: code_of(lambda: sqs.send_message(QueueUrl=queue, MessageBody="shut")) is None)
    for _ in range(3):
        sqs.receive_message(QueueUrl=queue)
    sqs.send_message(QueueUrl=dead, MessageBody="open")
    place.key("disable", "alias/orders")
    eventually(lambda: code_of(lambda: sqs.receive_message(QueueUrl=queue)) == "KMS.DisabledException")
    for _ in range(2):
        assert code_of(lambda: sqs.receive_message(QueueUrl=dead)) == "KMS.DisabledException"
    place.key("enable", "alias/orders")
    eventually(lambda: code_of(lambda: sqs.receive_message(QueueUrl=queue)) is None)
    received = sqs.receive_message(QueueUrl=dead, MaxNumberOfMessages=10, AttributeNames=["All"])["Messages"]
    assert sorted(message["Body"] for message in received) == ["open", "shut"]


@pytest.mark.parametrize("encrypted", [True, False])
def test_deduplication_digests_cannot_be_guessed_without_the_key(
    place: Installation, encrypted: bool
) -> None:
    sqs = place.start(encrypted=encrypted)
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    queue = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
    pin = {"QueueUrl": queue, "MessageBody": "PIN 4711", "MessageGroupId": "g"}
    first = sqs.send_message(**pin)["MessageId"]
    place.stop()
    with sqlite3.connect(place.data / "penstock.db") as database:
        ((stored,),) = database.execute("SELECT digest FROM dedup")
        ((secret,),) = database.execute("SELECT secret FROM shard")
    key = read_root_key_file(place.root).derive(b"dedup") if encrypted else secret
    assert stored == SendDigests(key)(content_id("PIN 4711"), None)
    assert (stored == SendDigests(secret)(content_id("PIN 4711"), None)) is not encrypted
    sqs = place.start(encrypted=encrypted)
    assert (
        sqs.send_message(**pin | {"QueueUrl": sqs.get_queue_url(QueueName="q.fifo")["QueueUrl"]})["MessageId"]
        == first
    )
    place.stop()
