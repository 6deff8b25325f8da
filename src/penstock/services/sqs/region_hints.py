"""A hint in the log if a queue is asked for in one region and exists in another: the usual mistake of a new client.

Only the operator learns it, not the client. Looking for the queue costs a few questions to other shards, so that it
is done once a second at most, and once a minute for a queue.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.broker.other_shards import DefinitionQuestion
from penstock.errors import PenstockError
from penstock.limits import MINUTE, SECOND
from penstock.names import QueueName
from penstock.promise import run_detached

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.clock import Clock

log = logging.getLogger("penstock.sqs")

_HINTED_MAX = 1000
# Those that clients are set to most often; regions of queues in this process are tried as well.
_USUAL = (
    "us-east-1", "us-east-2", "us-west-1", "us-west-2", "eu-west-1", "eu-west-2", "eu-west-3", "eu-central-1",
    "eu-north-1", "ap-southeast-1", "ap-southeast-2", "ap-northeast-1", "ap-south-1", "ca-central-1", "sa-east-1",
)  # fmt: skip


class RegionHints:
    def __init__(self, broker: Broker, clock: Clock) -> None:
        self._broker = broker
        self._clock = clock
        self._next_ms = 0
        self._hinted: dict[QueueName, int] = {}  # when it was last looked for

    def missed(self, name: QueueName) -> None:
        """A client asked for a queue that does not exist."""
        now_ms = self._clock.now_ms()
        if now_ms < self._next_ms or now_ms < self._hinted.get(name, -MINUTE) + MINUTE:
            return
        self._next_ms = now_ms + SECOND
        if len(self._hinted) >= _HINTED_MAX:
            self._hinted.clear()
        self._hinted[name] = now_ms
        run_detached(self._look(name))

    async def _look(self, name: QueueName) -> None:
        regions = {each.region for each in self._broker.by_name if each.account == name.account}
        found = []
        for region in sorted({*regions, *_USUAL} - {name.region}):
            try:
                there = DefinitionQuestion(QueueName(name.account, region, name.name))
                if await self._broker.ask(there) is not None:
                    found.append(region)
            except PenstockError:
                continue  # its shard cannot be asked now
        if found:
            log.info(
                'queue "%s" was asked for in region %s, where it does not exist; it exists in %s: '
                "set the region of the client (AWS_REGION) to the same",
                name.name, name.region, ", ".join(found),
                extra={"queue": name.name, "account": name.account, "region": name.region},
            )  # fmt: skip
