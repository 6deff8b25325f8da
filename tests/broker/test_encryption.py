"""Encrypted queues in the broker: keys that cannot be used, messages that change queues, and re-encryption."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from broker.encrypted_world import KMS, OTHER, EncryptedWorld
from penstock.auth.encryption.envelope import NoEncryption
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.broker.encryption import SCARCE_BYTES, ReencryptionProgress
from penstock.broker.move_tasks import MoveFailure, MoveStatus
from penstock.errors import KeyDisabled, KeyMissing, StoreBroken, StoreError
from penstock.limits import MINUTE, SECOND
from penstock.promise import run_detached
from penstock.queues.settings import QueueSettings
from penstock.store.port import StoreStatus
from support.texts import says
from support.world import ROOMY, TINY, World, outgoing


@pytest.fixture(params=[ROOMY, TINY], ids=["roomy", "tiny"])
def world(request: pytest.FixtureRequest) -> Iterator[EncryptedWorld]:
    with EncryptedWorld(request.param) as world:
        yield world


@pytest.mark.parametrize("settings", [{}, KMS], ids=["managed", "kms"])
def test_messages_come_back_after_a_restart_and_a_rotation(
    world: EncryptedWorld, settings: dict[str, Any]
) -> None:
    world.create("orders", **settings)
    bodies = [f"secret-{n}" for n in range(40)]
    world.send_all("orders", *bodies)
    assert b"secret-" not in world.files()
    world.rotate("alias/orders")
    world.restart()
    world.send_all("orders", "secret-after")
    assert b"secret-" not in world.files()
    assert sorted(world.drain("orders")) == sorted([*bodies, "secret-after"])


def test_a_key_that_is_disabled_stops_sends_and_receives(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.create("free")
    world.send_all("orders", *map(str, range(30)))
    world.enable("alias/orders", False)
    for attempt in range(2):
        with pytest.raises(KeyDisabled):
            world.send("orders", "more")
        with pytest.raises(KeyDisabled):
            world.receive("orders")
        world.send("free", "goes on")
        if not attempt:
            world.restart()
    assert world.counts("orders") == (30, 0, 0)
    world.enable("alias/orders", True)
    assert sorted(world.drain("orders"), key=int) == list(map(str, range(30)))


def test_a_key_that_is_not_there_stops_sends_and_receives(world: EncryptedWorld) -> None:
    world.create("orders", managed_key=False, encryption_key="testKeyId")
    with pytest.raises(KeyMissing):
        world.send("orders", "message")
    with pytest.raises(KeyMissing):
        world.receive("orders")


def test_a_waiting_receive_fails_when_the_key_is_disabled(world: EncryptedWorld) -> None:
    """It waits for a delayed message, so that nothing is sent after the key was disabled."""
    world.create("orders", **KMS)
    world.send("orders", "late", delay_ms=10 * SECOND)
    poll = world.poll("orders", wait_ms=20 * SECOND)
    world.enable("alias/orders", False)
    world.advance(11 * SECOND)
    assert poll.done
    with pytest.raises(KeyDisabled):
        poll.answer.result()
    assert world.counts("orders") == (1, 0, 0), "it is given back"


def test_messages_under_a_key_of_former_times_are_given_back(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.send("orders", "old")
    world.configure("orders", **OTHER)
    world.enable("alias/orders", False)
    world.restart()
    with pytest.raises(KeyDisabled):
        world.receive("orders")
    world.enable("alias/orders", True)
    assert world.counts("orders") == (1, 0, 0)
    assert [(message.content.body, message.receives) for message in world.receive("orders")] == [("old", 1)]


def test_a_damaged_message_does_not_hold_up_the_others(world: EncryptedWorld) -> None:
    world.create("dead")
    world.create("orders", dead_letters=("dead", 1), visibility_ms=SECOND)
    world.send_all("orders", "good", "bad", "fine")
    with closing(sqlite3.connect(world._directory / "penstock.db")) as database, database:
        (seq,) = database.execute("SELECT seq FROM entries ORDER BY seq LIMIT 1 OFFSET 1").fetchone()
        database.execute("UPDATE entries SET content = content || x'00' WHERE seq = ?", (seq,))
    world.crash()
    assert sorted(world.drain("orders")) == ["fine", "good"]
    world.advance(2 * SECOND)
    world.drain("orders")
    assert world.counts("orders")[0] == 0, "it was dead-lettered as any message that is received too often"


def test_a_dead_letter_is_readable_under_the_other_queues_key(world: EncryptedWorld) -> None:
    world.create("dead", **OTHER)
    world.create("orders", dead_letters=("dead", 1), visibility_ms=SECOND, **KMS)
    world.send("orders", "letter")
    world.restart()
    assert world.bodies("orders") == ["letter"]
    world.advance(2 * SECOND)
    assert world.bodies("orders") == []
    world.restart()
    assert world.bodies("dead") == ["letter"]


def test_a_move_task_encrypts_under_the_destinations_key(world: EncryptedWorld) -> None:
    world.create("dead", **OTHER)
    world.create("orders", dead_letters=("dead", 1), **KMS)
    world.send_all("dead", *map(str, range(25)))
    world.restart()
    world.start_move("dead", "orders")
    world.advance(10 * SECOND)
    assert world.move_task("dead").status == "COMPLETED"
    world.enable("alias/other", False)
    world.restart()
    assert sorted(world.drain("orders"), key=int) == list(map(str, range(25)))


@pytest.mark.parametrize("disabled", ["alias/other", "alias/orders"], ids=["source", "destination"])
def test_a_move_task_fails_when_a_key_cannot_be_used(world: EncryptedWorld, disabled: str) -> None:
    world.create("dead", **OTHER)
    world.create("orders", dead_letters=("dead", 1), **KMS)
    world.send_all("dead", "one", "two")
    world.restart()
    world.enable(disabled, False)
    world.start_move("dead", "orders")
    world.advance(10 * SECOND)
    task = world.move_task("dead")
    assert (task.status, task.failure, task.moved) == (MoveStatus.FAILED, MoveFailure.KEY_DISABLED, 0)
    world.enable(disabled, True)
    assert sorted(world.drain("dead")) == ["one", "two"], "they were given back"


def test_a_commit_does_not_fail_because_a_key_was_disabled_meanwhile(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.create("free")
    world.hold_commits()
    sends = [world.sending(queue, outgoing(queue)) for queue in ("orders", "free")]
    world.enable("alias/orders", False)
    world.release_commits()
    assert all(send.result() for send in sends)
    assert world.bodies("free") == ["free"]


def test_without_a_root_key_a_secured_server_refuses_queues_with_a_key() -> None:
    with World(keys=NoEncryption()) as world:
        world.create("orders", **KMS)
        world.create("free")
        with pytest.raises(KeyMissing):
            world.send("orders", "message")
        world.send("free", "message")


# -- re-encryption -----------------------------------------------------------------------------------------


def test_stored_definitions_have_the_names_of_earlier_versions() -> None:
    settings = QueueSettings(managed_key=False, encryption_key="alias/orders", data_key_reuse_ms=MINUTE)
    stored = msgspec.json.encode(settings)
    assert stored == b'{"sse_managed":false,"kms_key":"alias/orders","kms_reuse_ms":60000}'
    assert msgspec.json.decode(stored, type=QueueSettings) == settings


def reencrypt(world: EncryptedWorld) -> ReencryptionProgress:
    world.reencryption.wake()
    world.run()
    for _ in range(1000):
        if world.progress is not None and world.progress.done:
            break
        world.advance(50)
    assert world.progress is not None
    return world.progress


def test_the_first_round_encrypts_what_was_stored_before() -> None:
    with EncryptedWorld() as world:
        world.create("orders", managed_key=False)
        world.send_all("orders", *map(str, range(10)))
        world.configure("orders", managed_key=True)
        assert world.versions() == [0] * 10
        progress = reencrypt(world)
        assert (progress.checked, progress.reencrypted, progress.percent) == (10, 10, 100)
        assert world.versions() == [1] * 10
        world.restart()
        assert len(world.drain("orders")) == 10


def test_messages_of_another_keyring_are_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The keyring is another one, as after a restore that forgot it."""
    with EncryptedWorld() as world:
        world.create("orders")
        world.send_all("orders", "one", "two")
        world.ring = Keyring(tmp_path / "another.json", RootKey(bytes(32)), world.clock)
        world.crash()
        world._log.addHandler(caplog.handler)
        assert reencrypt(world).unreadable == 2
        says(caplog.text, "2 stored messages", "decrypted")
        with pytest.raises(KeyMissing):
            world.receive("orders")


def test_a_rotation_is_taken_up_and_done_once(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    for start in range(0, 1200, 300):
        world.send_all("orders", *map(str, range(start, start + 300)))
    assert reencrypt(world).reencrypted == 0
    world.rotate("alias/orders")
    world.progress = None
    assert reencrypt(world).reencrypted == 1200
    assert set(world.versions()) == {2}
    kept = world.kept
    world.reencryption.wake()
    world.advance(MINUTE)
    assert world.kept == kept, "there is nothing left to do"
    assert len(world.drain("orders")) == 1200


def test_a_restart_goes_on_where_it_was(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    for _ in range(4):
        world.send_all("orders", *map(str, range(400)))
    world.rotate("alias/orders")
    world.reencryption.wake()
    world.run()
    assert world.progress is not None
    assert not world.progress.done
    before = world.progress
    world.restart()
    progress = reencrypt(world)
    assert progress.done
    assert progress.checked == 1600, "what was done is not done again"
    assert progress.upto == before.upto
    assert set(world.versions()) == {2}


def test_messages_may_go_during_reencryption(world: EncryptedWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are deleted between the reading of a bite and its writing."""
    world.create("orders", **KMS)
    world.send_all("orders", *map(str, range(20)))
    world.rotate("alias/orders")
    going = world.receive("orders", 3)
    outdated = world.encrypted.outdated

    def delete_meanwhile(*asked: int) -> object:
        found = outdated(*asked)
        if going:
            handles = [message.handle for message in going]
            world.runtime.soon(lambda: run_detached(world.queue("orders").delete(handles)))
            world.runtime.writer.paused = True
            going.clear()
        return found

    monkeypatch.setattr(world.encrypted, "outdated", delete_meanwhile)
    world.reencryption.wake()
    world.run()
    world.release_commits()
    assert reencrypt(world).reencrypted == 20
    assert world.versions() == [2] * 17
    assert len(world.drain("orders")) == 17


def test_a_batch_under_way_is_not_missed(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.hold_commits()
    send = world.sending("orders", outgoing("early"))
    world.run()
    world.rotate("alias/orders")
    world.reencryption.wake()
    world.release_commits()
    reencrypt(world)
    assert send.done
    assert world.versions() == [2]


def test_a_refused_commit_is_tried_again(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.send("orders", "message")
    world.rotate("alias/orders")
    world.refuse_next_commit(StoreError("no space"))
    world.reencryption.wake()
    world.advance(SECOND)
    assert world.versions() == [1]
    world.advance(MINUTE)
    assert world.versions() == [2]


def test_the_last_of_the_space_is_left_to_clients(
    world: EncryptedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create("orders", **KMS)
    world.send("orders", "message")
    world.rotate("alias/orders")
    monkeypatch.setattr(world.encrypted, "status", lambda: StoreStatus(free_bytes=SCARCE_BYTES))
    world.reencryption.wake()
    world.advance(10 * MINUTE)
    assert world.versions() == [1]
    monkeypatch.setattr(world.encrypted, "status", lambda: StoreStatus(free_bytes=SCARCE_BYTES + 1))
    world.advance(MINUTE)
    assert world.versions() == [2]


def test_a_store_that_is_broken_ends_the_shard(world: EncryptedWorld) -> None:
    world.create("orders", **KMS)
    world.send("orders", "message")
    world.rotate("alias/orders")
    world.refuse_next_commit(StoreBroken("fsync failed"))
    world.reencryption.wake()
    world.advance(MINUTE)
    assert [type(error) for error in world.fatal] == [StoreBroken]
