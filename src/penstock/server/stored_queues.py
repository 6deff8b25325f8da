"""The queues in the store of a server, read beside it: for a check before a start."""

from __future__ import annotations

import msgspec

from penstock.broker.catalogue import QUEUES
from penstock.names import QueueName
from penstock.queues.settings import QueueRecord
from penstock.server.settings.config import Config
from penstock.store.sqlite.site import SqliteSite


def stored_queues(config: Config) -> dict[QueueName, QueueRecord] | None:
    """Returns the queues of the store; None if they cannot be known here, as with a database. Raises StoreRefused."""
    if config.store is not None:
        return None
    site = SqliteSite(config.data)
    if config.memory or not site.exists():
        return {}
    try:
        records = [QUEUES.decode(data) for data in site.stored_records(QUEUES.name)]
    except msgspec.MsgspecError:
        return None  # of an older format: a start migrates it
    return {record.name: record for record in records if not record.internal}
