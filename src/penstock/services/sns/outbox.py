"""Messages for phones and devices: they cannot leave this machine, and go to the outbox of what was not sent."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from penstock.broker.questions import ShardQuestion
from penstock.names import Space
from penstock.publishing.unsent import Unsent, UnsentMessage, unsent_home

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition


class UnsentAddition(ShardQuestion[str], frozen=True):
    """Puts a message into the outbox of its account. Asked again, it changes nothing more. The answer is the id of
    the message, when it is durable."""

    kind: ClassVar[str] = "topic-unsent-addition"
    message: UnsentMessage

    def shards(self, count: int) -> Iterable[int]:
        return (unsent_home(self.message.account, self.message.region).shard(count),)

    async def answer(self, partition: Partition) -> str:
        message = self.message
        partition.shard.check_owned()
        partition.shard.check_sends()
        partition.part(Unsent).add(unsent_home(message.account, message.region), message)
        await partition.shard.settled()
        return message.message_id


async def put_unsent(
    broker: Broker, space: Space, protocol: str, destination: str, text: str, subject: str = ""
) -> str:
    """Returns the id of the message. Raises StoreError or Unreachable."""
    message = UnsentMessage(
        account=space.account,
        region=space.region,
        at_ms=broker.wall_ms(),
        protocol=protocol,
        destination=destination,
        message_id=str(UUID(bytes=secrets.token_bytes(16), version=5)),
        text=text,
        subject=subject,
    )
    return await broker.ask(UnsentAddition(message))
