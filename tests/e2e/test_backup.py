"""``penstock backup`` while a server works, and ``penstock restore`` into a new data directory."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.names import QueueName, shard_of
from support.process import ServerProcess
from support.sqs import sqs_client
from support.texts import says
from support.waiting import until

ACCOUNT = "000000000000"
SERVERS = pytest.mark.parametrize("served", [(), ("--processes", "2")], ids=["one process", "two processes"])


def penstock(*arguments: object, code: int = 0) -> str:
    """What it prints: on standard error if it fails."""
    command = [sys.executable, "-m", "penstock", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


def held(sqs: Any, *queues: str) -> int:
    counters = ("", "NotVisible", "Delayed")
    names = [f"ApproximateNumberOfMessages{each}" for each in counters]
    return sum(
        int(value)
        for queue in queues
        for value in sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"].values()
    )


def holds(sqs: Any, queue: str, count: int) -> bool:
    return held(sqs, queue) == count


@SERVERS
def test_a_backup_of_a_working_server_is_restored(tmp_path: Path, served: tuple[str, ...]) -> None:
    data, archive, restored = tmp_path / "data", tmp_path / "backup.tar", tmp_path / "restored"
    with ServerProcess("--data", str(data), *served) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        queues = [sqs.create_queue(QueueName=f"orders-{number}")["QueueUrl"] for number in range(5)]
        for queue in queues:
            sqs.send_message(QueueUrl=queue, MessageBody="before")
        printed = penstock("backup", archive, "--data", data, "--verify")
        says(printed, str(archive), "read back", "in order")
        sqs.send_message(QueueUrl=queues[0], MessageBody="after")  # the server goes on
        assert server.stop() == 0
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()].count("backup.tar") == 1
    assert not list(tmp_path.glob(".penstock-backup-*")), "copies stay behind"

    assert "restored into" in penstock("restore", archive, "--data", restored)
    assert stat.S_IMODE(restored.stat().st_mode) == 0o700
    with ServerProcess("--data", str(restored), *served) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        for number in range(5):
            queue = sqs.get_queue_url(QueueName=f"orders-{number}")["QueueUrl"]
            (message,) = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
            assert message["Body"] == "before"
        assert server.stop() == 0


@SERVERS
def test_messages_on_their_way_between_shards_are_in_a_backup_once(
    tmp_path: Path, served: tuple[str, ...]
) -> None:
    """Copies of different moments would have some of them twice, or not at all."""
    data, messages = tmp_path / "data", 500
    dead = next(
        name
        for name in (f"dead-{number}" for number in range(100))
        if _shard(name) % 2 != _shard("orders") % 2  # of another shard, and of another process
    )
    with ServerProcess("--data", str(data), "--shards", "8", *served) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        dead_url = sqs.create_queue(QueueName=dead)["QueueUrl"]
        policy = {"deadLetterTargetArn": _arn(dead), "maxReceiveCount": 1}
        sqs.create_queue(QueueName="orders", Attributes={"RedrivePolicy": json.dumps(policy)})
        for start in range(0, messages, 10):
            entries = [{"Id": str(n), "MessageBody": str(n)} for n in range(start, start + 10)]
            sqs.send_message_batch(QueueUrl=dead_url, Entries=entries)
        sqs.start_message_move_task(
            SourceArn=_arn(dead), DestinationArn=_arn("orders"), MaxNumberOfMessagesPerSecond=100
        )
        until(lambda: held(sqs, dead_url) < messages - 20, "the task moves messages")
        for number in range(2):
            penstock("backup", tmp_path / f"{number}.tar", "--data", data)
        assert held(sqs, dead_url) > 0, "the task was complete too early: nothing was tested"
        assert server.stop() == 0
    for number in range(2):
        restored = tmp_path / f"restored-{number}"
        penstock("restore", tmp_path / f"{number}.tar", "--data", restored)
        with ServerProcess("--data", str(restored), *served) as server:
            sqs = sqs_client(server.url, ACCOUNT)
            urls = [sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in (dead, "orders")]
            until(partial(holds, sqs, urls[0], 0), "the task goes on and ends")
            until(partial(holds, sqs, urls[1], messages), "every message arrives once")
            server.stop()


def _shard(name: str) -> int:
    return shard_of(QueueName(ACCOUNT, "us-east-1", name), 8)


def _arn(name: str) -> str:
    return f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"


def test_the_keyring_is_part_of_a_backup_and_the_root_key_is_not(tmp_path: Path) -> None:
    root, data, archive = tmp_path / "root.key", tmp_path / "data", tmp_path / "backup.tar"
    penstock("key", "root", root)
    secured = ("--root-key-file", str(root))
    with ServerProcess("--data", str(data), *secured) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        queue = sqs.create_queue(QueueName="secret", Attributes={"SqsManagedSseEnabled": "true"})["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="body-of-a-secret")
        penstock("backup", archive, "--data", data)
        server.stop()
    content = archive.read_bytes()
    assert b"body-of-a-secret" not in content
    assert root.read_bytes().strip() not in content
    penstock("restore", archive, "--data", tmp_path / "restored")
    assert stat.S_IMODE((tmp_path / "restored" / "penstock-keys.json").stat().st_mode) == 0o600
    with ServerProcess("--data", str(tmp_path / "restored"), *secured) as server:
        (message,) = sqs_client(server.url, ACCOUNT).receive_message(
            QueueUrl=f"{server.url}/{ACCOUNT}/secret"
        )["Messages"]
        assert message["Body"] == "body-of-a-secret"
        server.stop()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """The archive of a server with two shards and one message."""
    with ServerProcess("--data", str(tmp_path / "data"), "--shards", "2") as server:
        sqs = sqs_client(server.url, ACCOUNT)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 5000)
        penstock("backup", tmp_path / "backup.tar", "--data", tmp_path / "data")
        server.stop()
    return tmp_path / "backup.tar"


def test_what_a_backup_holds_can_be_read_as_json(archive: Path) -> None:
    contents = json.loads(penstock("restore", archive, "--check", "--json"))
    assert (contents["shards"], contents["queues"], contents["messages"]) == (2, 1, 1)
    assert [each["name"] for each in contents["files"]] == [
        "shard-0000/penstock.db", "shard-0001/penstock.db", "penstock.shards",
    ]  # fmt: skip
    says(penstock("restore", archive, "--check"), "backup", "in order")


def test_a_damaged_backup_is_refused_and_nothing_is_left(archive: Path, tmp_path: Path) -> None:
    content = archive.read_bytes()
    at = content.index(b"x" * 4000)
    archive.write_bytes(content[:at] + b"y" + content[at + 1 :])
    target = tmp_path / "restored"
    refused = penstock("restore", archive, "--data", target, code=2)
    assert "is damaged: shard-000" in refused and refused.count("\n") == 1
    assert not target.exists()
    archive.write_bytes(content[: len(content) // 2])
    assert penstock("restore", archive, "--check", code=2).count("\n") == 1


def test_a_backup_with_the_databases_of_another_is_refused(archive: Path, tmp_path: Path) -> None:
    """An archive that someone has put together: each name is one that a backup has."""
    evil = tmp_path / "evil.tar"
    with tarfile.open(evil, "w") as tar:
        tar.add(archive, "../outside")
    says(penstock("restore", evil, "--data", tmp_path / "r", code=2), "outside", "not a part")
    assert not (tmp_path / "r").exists() and not (tmp_path / "outside").exists()


def test_a_directory_with_files_and_an_existing_backup_are_kept(archive: Path, tmp_path: Path) -> None:
    assert "is not empty" in penstock("restore", archive, "--data", tmp_path / "data", code=2)
    before = archive.read_bytes()
    assert "exists" in penstock("backup", archive, "--data", tmp_path / "data", code=2)
    assert archive.read_bytes() == before
    penstock("backup", archive, "--data", tmp_path / "data", "--replace")
    empty = tmp_path / "empty"
    empty.mkdir(mode=0o755)
    penstock("restore", archive, "--data", empty)
    assert stat.S_IMODE(empty.stat().st_mode) == 0o700


def test_what_cannot_be_backed_up_is_said_in_one_line(tmp_path: Path) -> None:
    database = penstock("backup", tmp_path / "b", "--store", "postgresql://penstock:secret@db/p", code=2)
    assert "pg_dump" in database and "secret" not in database
    says(penstock("backup", tmp_path / "b", "--data", tmp_path / "none", code=2), "no store")
    nowhere = tmp_path / "no" / "b"
    data = tmp_path / "data"
    with ServerProcess("--data", str(data)) as server:
        server.stop()
    assert "No such file or directory" in penstock("backup", nowhere, "--data", data, code=1)
    assert "Give either" in penstock("restore", tmp_path / "b", code=2)
    shutil.rmtree(data)


@SERVERS
def test_a_backup_over_the_network(tmp_path: Path, served: tuple[str, ...]) -> None:
    archive = tmp_path / "backup.tar"
    with ServerProcess("--data", str(tmp_path / "data"), *served) as server:
        sqs = sqs_client(server.url, ACCOUNT)
        for number in range(5):
            queue = sqs.create_queue(QueueName=f"orders-{number}")["QueueUrl"]
            sqs.send_message(QueueUrl=queue, MessageBody="x" * 100_000)
        printed = penstock("backup", archive, "--endpoint-url", server.url)
        says(printed, str(archive), "read back", "in order")
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        before = archive.read_bytes()
        assert "exists" in penstock("backup", archive, "--endpoint-url", server.url, code=2)
        server.stop()
    nothing = penstock("backup", archive, "--endpoint-url", server.url, "--replace", code=1)
    assert nothing.count("\n") == 1 and "Is the broker running?" in nothing
    assert archive.read_bytes() == before and not list(tmp_path.glob(".backup*"))
    contents = json.loads(penstock("restore", archive, "--data", tmp_path / "restored", "--json"))
    assert (contents["queues"], contents["messages"]) == (5, 5)


def test_a_server_in_memory_has_no_backup(tmp_path: Path) -> None:
    with ServerProcess("--memory") as server:
        refused = penstock("backup", tmp_path / "b", "--endpoint-url", server.url, code=1)
        assert refused.count("\n") == 1
        says(refused, "memory", "nothing is stored")
        server.stop()
