"""Sessions of the console that were ended: in all shards, after a crash, in another store, in bounded space."""

from __future__ import annotations

import pytest

from penstock.auth.identity.sessions import Session
from penstock.broker.broker import Broker
from penstock.errors import StoreError, Unreachable
from penstock.migrate.stores.mapping import ShardMapping
from penstock.migrate.stores.opened import OpenShard
from penstock.names import Home
from penstock.server.console_sign_outs import SIGN_OUTS, SIGN_OUTS_MAX, EndedSessions, ShardSignOuts
from penstock.testing.runtime import SimulatedRuntime
from support.shards import ShardsWorld
from support.world import FaultyStore

NOW_S, HOUR_S = 1_800_000_000, 3600


class SessionsWorld(ShardsWorld):
    def _open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.broker = Broker(self.limits, self.shards)
        self.ended = EndedSessions(self.broker)
        self.stores = {}
        for index in range(self.shards):
            self.open_shard(index)

    def sign_out(self, key: str, user: str = "alice", now_s: int = NOW_S) -> None:
        self.do(self.ended.add(key, session(user, now_s), now_s))

    def has_ended(self, key: str, user: str = "alice", now_s: int = NOW_S) -> bool:
        return self.do(self.ended.has(key, session(user, now_s), now_s))

    def records(self) -> dict[str, int]:
        """How many sessions each record names."""
        tables = [each.part(ShardSignOuts).table for each in self.broker.partitions]
        return {key: len(record.sessions) for table in tables for key, record in table}


def session(user: str, issued_s: int) -> Session:
    return Session(
        kind="user", account="000000000000", owner=user, owner_id=user, parent_key="AKIA", parent_id=user,
        issued_s=issued_s, expires_s=issued_s + HOUR_S,
    )  # fmt: skip


def test_a_sign_out_ends_one_session_and_is_remembered_through_a_crash() -> None:
    with SessionsWorld() as world:
        for user in ("alice", "bob", "carol"):
            assert not world.has_ended(f"first of {user}", user)
            world.sign_out(f"first of {user}", user)
            world.sign_out(f"first of {user}", user)
        world.crash()
        for user in ("alice", "bob", "carol"):
            assert world.has_ended(f"first of {user}", user)
            assert not world.has_ended(f"second of {user}", user)
        assert not world.has_ended("first of alice", "bob")


def test_a_sign_out_that_is_not_durable_is_an_error() -> None:
    with SessionsWorld(shards=1) as world:
        world.refuse_next_commit()
        with pytest.raises(StoreError):
            world.sign_out("key")
        assert not world.has_ended("key")


def test_while_nobody_serves_the_shard_nothing_is_known_about_its_sessions() -> None:
    with SessionsWorld() as world:
        for index in range(world.shards):
            world.close_shard(index)
        world.run()
        with pytest.raises(Unreachable):
            world.has_ended("key")


def test_what_is_remembered_ends_with_the_sessions_and_does_not_grow() -> None:
    with SessionsWorld(shards=1) as world:
        world.sign_out("another's", "bob")
        for number in range(SIGN_OUTS_MAX):
            world.sign_out(f"key {number}")
        assert sorted(world.records().values()) == [1, SIGN_OUTS_MAX]
        world.sign_out("one more", now_s=NOW_S + 1)
        assert world.has_ended("another key") and not world.has_ended("later", now_s=NOW_S + 2)
        assert all(world.has_ended(key) for key in ("key 0", "one more")), "with all that began until then"
        assert not world.has_ended("another key", "bob")
        later_s = NOW_S + HOUR_S + 1
        world.sign_out("much later", now_s=later_s)
        assert list(world.records().values()) == [1], "the record of the other user is gone"
        world.sign_out("last", now_s=later_s + HOUR_S)
        assert list(world.records().values()) == [1], "and so is a session that ended by itself"


def test_what_is_remembered_goes_to_the_shard_of_its_home_in_another_store() -> None:
    with SessionsWorld() as world:
        for number in range(10):
            world.sign_out("key", f"user {number}")
        for store in world.stores.values():
            store.close()
        opened = [FaultyStore(world._shard_directory(index)) for index in range(world.shards)]
        mapping = ShardMapping([OpenShard(store, store.open()) for store in opened], 5)
        moved = [each for source in range(world.shards) for each in mapping.records(source)]
        found = [(target, record.key) for target, record in moved if record.kind == SIGN_OUTS.name]
        assert len(found) == 10
        assert all(target == Home.of_key(key).shard(5) for target, key in found)
        for store in opened:
            store.close()
