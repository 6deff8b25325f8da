"""A real server whose root key is exchanged: its clients go on with their keys, and find their messages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penstock.auth.encryption.root_key import read_root_key_file
from support.secured import Secured, client, refusal

NEW = ("--new-root-key-file", "new.key")


@pytest.fixture
def accounts(tmp_path: Path) -> Secured:
    secured = Secured(tmp_path)
    secured.add("alice", "sqs-full-access")
    secured.penstock("key", "root", "new.key")
    return secured


def ended(accounts: Secured, *arguments: str) -> tuple[int, str]:
    """How a command ends that must, and the last that it says."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", *arguments, "--data", str(accounts.folder / "data"), *accounts.files],
        capture_output=True, text=True, timeout=60, cwd=accounts.folder,
    )  # fmt: skip
    return done.returncode, (done.stderr or done.stdout).splitlines()[-1]


def session_of(accounts: Secured, name: str) -> dict[str, Any]:
    issued = accounts.client(name, "sts").get_session_token()["Credentials"]
    return {
        "aws_access_key_id": issued["AccessKeyId"],
        "aws_secret_access_key": issued["SecretAccessKey"],
        "aws_session_token": issued["SessionToken"],
    }


def bodies(sqs: Any) -> list[str]:
    queue = sqs.get_queue_url(QueueName="q")["QueueUrl"]
    found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=0).get(
        "Messages", []
    )
    return sorted(message["Body"] for message in found)


def test_the_root_key_of_a_server_is_exchanged(accounts: Secured) -> None:
    with accounts.running() as server:
        sqs = accounts.client("alice")
        queue = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="from before")
        session = session_of(accounts, "alice")
        assert bodies(client(server.url, **session)) == ["from before"]
        code, line = ended(accounts, "key", "replace-root", *NEW)
        assert (code, "stop it first" in line) == (2, True), line
        assert bodies(sqs) == ["from before"]
        assert server.stop() == 0

    assert ended(accounts, "key", "replace-root", *NEW)[0] == 0
    old, new = (read_root_key_file(accounts.folder / name) for name in ("penstock-root.key", "new.key"))
    code, line = ended(accounts, "serve", "--port", "0")
    assert (code, "another root key" in line) == (2, True), line

    with accounts.running("--root-key-file", str(accounts.folder / "new.key")) as server:
        sqs = accounts.client("alice")
        assert bodies(sqs) == ["from before"]
        queue = sqs.get_queue_url(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="from after")
        refused = refusal(client(server.url, **session).get_queue_url, QueueName="q")
        assert refused[:2] == (403, "InvalidClientTokenId"), "sessions have ended"
        assert bodies(client(server.url, **session_of(accounts, "alice"))) == ["from after", "from before"]
        assert ended(accounts, "key", "rotate", "--all", "--root-key-file", "new.key")[0] == 0
        assert server.stop() == 0
    ring = (accounts.folder / "data/penstock-keys.json").read_text()
    assert new.fingerprint in ring and old.fingerprint not in ring

    with accounts.running("--root-key-file", str(accounts.folder / "new.key")) as server:
        assert bodies(accounts.client("alice")) == ["from after", "from before"]
        assert server.stop() == 0


def test_a_fifo_send_from_before_is_not_known_as_a_duplicate(accounts: Secured) -> None:
    """Its digest is keyed with the root key. So the command says, and no more than that is lost."""
    send = {"MessageBody": "once", "MessageGroupId": "g", "MessageDeduplicationId": "d"}
    with accounts.running() as server:
        sqs = accounts.client("alice")
        queue = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        first = sqs.send_message(QueueUrl=queue, **send)["MessageId"]
        assert sqs.send_message(QueueUrl=queue, **send)["MessageId"] == first
        assert server.stop() == 0
    assert ended(accounts, "key", "replace-root", *NEW)[0] == 0
    with accounts.running("--root-key-file", str(accounts.folder / "new.key")):
        sqs = accounts.client("alice")
        queue = sqs.get_queue_url(QueueName="q.fifo")["QueueUrl"]
        second = sqs.send_message(QueueUrl=queue, **send)["MessageId"]
        assert second != first
        assert sqs.send_message(QueueUrl=queue, **send)["MessageId"] == second


def test_a_server_starts_with_neither_key_until_the_exchange_is_finished(accounts: Secured) -> None:
    with accounts.running() as server:
        sqs = accounts.client("alice")
        sqs.send_message(QueueUrl=sqs.create_queue(QueueName="q")["QueueUrl"], MessageBody="kept")
        assert server.stop() == 0
    credentials = accounts.folder / "credentials.toml"
    before = credentials.read_bytes()
    assert ended(accounts, "key", "replace-root", *NEW)[0] == 0
    credentials.write_bytes(before)  # as if it had been killed before it came to this file
    for root in ("penstock-root.key", "new.key"):
        code, line = ended(accounts, "serve", "--port", "0", "--root-key-file", root)
        assert (code, "penstock key replace-root" in line) == (2, True), line
    assert ended(accounts, "key", "replace-root", *NEW)[0] == 0
    with accounts.running("--root-key-file", str(accounts.folder / "new.key")) as server:
        assert bodies(accounts.client("alice")) == ["kept"]
        assert server.stop() == 0
