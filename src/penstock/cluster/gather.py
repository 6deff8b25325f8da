"""What this process asks about shards of other processes: one question to each owner, one answer from all.

An owner answers for exactly the shards that it was asked for, or says which of them it does not own. Then that is
asked again, of the next owner: shards move, and have no owner for a moment. An answer is complete, with every shard
in it once, or it is an error. Asking again is always safe: what was handed over before is not taken again, and
everything else only reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.backoff import backoff
from penstock.broker.questions import OwnedShards, ShardQuestion, answer_type
from penstock.cluster.accepting import LinkListener
from penstock.cluster.link import Peers
from penstock.cluster.owners import Owners
from penstock.errors import NotOwned, PenstockError, Unreachable
from penstock.promise import start

A = TypeVar("A")


class GatherLimits(NamedTuple):
    """How long an owner is looked for."""

    wait_s: float = 5.0
    pause_s_min: float = 0.02  # between two looks, doubled each time
    pause_s_max: float = 0.3


_encode = msgspec.msgpack.Encoder().encode


@cache
def _decode_answer(question: type[ShardQuestion[A]]) -> Callable[[bytes], A]:
    return msgspec.msgpack.Decoder(answer_type(question)).decode


def answer_others(
    listener: LinkListener, owned: OwnedShards, questions: Iterable[type[ShardQuestion[Any]]]
) -> None:
    """Answer what other processes ask about the shards of this one."""
    for question in questions:
        _answer_one(listener, owned, question)


def _answer_one(listener: LinkListener, owned: OwnedShards, question: type[ShardQuestion[Any]]) -> None:
    decode = msgspec.msgpack.Decoder(tuple[list[int], question]).decode  # type: ignore[valid-type]

    async def answer(payload: bytes) -> bytes:
        shards, asked = decode(payload)
        return _encode(await owned.answer(asked, shards))

    listener.handle(question.kind, answer)


class ClusterShards:
    """All shards of a store, whichever process owns them."""

    def __init__(
        self,
        address: str,
        owners: Callable[[], Owners],
        peers: Peers,
        owned: OwnedShards,
        limits: GatherLimits = GatherLimits(),  # noqa: B008  # it never changes
    ) -> None:
        """``address``: under which others reach this process. ``owners``: called when something is asked."""
        self._address = address
        self._owners = owners
        self._peers = peers
        self._owned = owned
        self._limits = limits

    async def ask(self, question: ShardQuestion[A], shards: Iterable[int] | None = None) -> A:
        asked = list(question.shards(self._owned.shards) if shards is None else shards)

        async def ask_all(piece: ShardQuestion[A]) -> A:
            return piece.merge(await self._gather(piece, asked))

        return await question.in_pieces(ask_all)

    async def _gather(self, question: ShardQuestion[A], shards: list[int]) -> list[A]:
        """The answers of all owners, which together are about each of these shards once. Raises Unreachable."""
        loop, limits, owners = asyncio.get_running_loop(), self._limits, self._owners()
        until = loop.time() + (limits.wait_s if question.waits else 0.0)
        looks = 0
        answers: list[A] = []
        missing = shards
        while True:
            asked = [
                (group, start(self._ask(question, owner, group)))
                for owner, group in self._by_owner(missing, owners).items()
            ]
            missing, why = [], None
            for group, answer in asked:
                try:
                    answers.append(await answer)
                except (NotOwned, Unreachable) as error:
                    missing += group
                    why = error
            if not missing:
                return answers
            if question.is_partial:
                return answers + [question.absent(shard) for shard in missing]
            for refreshed in [start(owners.refresh(shard)) for shard in missing]:
                with suppress(PenstockError):  # then what is known of the owners has to do
                    await refreshed
            if loop.time() >= until:
                text = "No node serves it at present." if isinstance(why, NotOwned) else str(why)
                raise Unreachable(f"Shard {missing[0]} cannot be asked. {text} Try again.")
            looks += 1
            await asyncio.sleep(backoff(looks, limits.pause_s_min, limits.pause_s_max))

    def _by_owner(self, shards: list[int], owners: Owners) -> dict[str | None, list[int]]:
        """Groups shards by the address of the owner; None stands for this process or an unknown owner."""
        groups: dict[str | None, list[int]] = {}
        for shard in shards:
            address = None if shard in self._owned else owners.address_of(shard)
            groups.setdefault(None if address == self._address else address, []).append(shard)
        return groups

    async def _ask(self, question: ShardQuestion[A], owner: str | None, shards: list[int]) -> A:
        if owner is None:
            return question.signed(await self._owned.answer(question, shards), self._address)
        answered = await self._peers.call(owner, question.kind, _encode((shards, question)))
        return question.signed(_decode_answer(type(question))(answered), owner)
