"""Sessions of the web console that their users have ended.

A session is a token that the browser keeps, so the server has to remember those that were ended before their time.
All of one user are one record, in the shard that is their home. With every request of a page the owner of that shard
is asked: a sign-out holds at once, in all processes of a server and in all nodes of a cluster, and after a restart.
While nobody serves the shard, sessions with that home are refused with 503, as are queues of the shard.

A record stays small: beyond some sign-outs of one user it ends all sessions that the user has begun so far.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import msgspec

from penstock.auth.identity.sessions import Session
from penstock.broker.broker import Broker
from penstock.broker.partition import Partition
from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.names import Home
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home

SIGN_OUTS_MAX = 100  # that are remembered one by one, of a user
_SESSION_S_MAX = 36 * 3600  # the longest that STS issues


class SignOuts(msgspec.Struct, frozen=True):
    """Which sessions of a user have ended."""

    sessions: dict[str, int] = {}  # access keys, and when each session would end by itself
    all_until_s: int = 0  # all that began until then

    def ends(self, access_key: str, issued_s: int) -> bool:
        return access_key in self.sessions or issued_s <= self.all_until_s

    def plus(self, access_key: str, expires_s: int, now_s: int) -> SignOuts:
        """Adds a session, and leaves out those that have ended by themselves."""
        valid = {key: until_s for key, until_s in self.sessions.items() if until_s > now_s}
        valid[access_key] = expires_s
        return SignOuts(valid, self.all_until_s) if len(valid) <= SIGN_OUTS_MAX else SignOuts({}, now_s)

    def is_over(self, now_s: int) -> bool:
        return max(self.all_until_s + _SESSION_S_MAX, *self.sessions.values(), 0) <= now_s


SIGN_OUTS = RecordKind("sign_outs", SignOuts, by_home)


class SessionQuestion(ShardQuestion[bool], frozen=True):
    """Asks whether a session has ended."""

    kind: ClassVar[str] = "console-session"
    user: str
    access_key: str
    issued_s: int
    expires_s: int
    now_s: int
    ends: bool  # the session ends by this question

    @property
    def _home(self) -> Home:
        return Home.of("console sessions", self.user)

    def shards(self, count: int) -> Iterable[int]:
        return [self._home.shard(count)]

    async def answer(self, partition: Partition) -> bool:
        table, key = partition.part(ShardSignOuts).table, self._home.key(self.user)
        known = table.get(key) or SignOuts()
        has_ended = known.ends(self.access_key, self.issued_s)
        if not self.ends:
            return has_ended
        if not has_ended:
            for other, record in table:
                if record.is_over(self.now_s):
                    table.remove(other)
            table.put(key, known.plus(self.access_key, self.expires_s, self.now_s))
        await partition.shard.settled()
        return True


class ShardSignOuts(Part):
    """The records of one shard."""

    def __init__(self, partition: Partition) -> None:
        self.table = partition.shard.table(SIGN_OUTS)


class EndedSessions:
    """The ended sessions of the console, in all shards."""

    def __init__(self, broker: Broker) -> None:
        """This must be constructed before the first shard of the broker is opened."""
        self._broker = broker
        broker.extend(ShardSignOuts, [SessionQuestion])

    async def has(self, access_key: str, session: Session, now_s: int) -> bool:
        """Raises Unreachable."""
        return await self._ask(access_key, session, now_s, ends=False)

    async def add(self, access_key: str, session: Session, now_s: int) -> None:
        """Returns when the sign-out is durable. Raises Unreachable or StoreError."""
        await self._ask(access_key, session, now_s, ends=True)

    async def _ask(self, access_key: str, session: Session, now_s: int, *, ends: bool) -> bool:
        user = f"{session.account}/{session.kind}/{session.owner}"
        times = session.issued_s, session.expires_s, now_s
        return await self._broker.ask(SessionQuestion(user, access_key, *times, ends))
