from functools import cache

from penstock.client import SyncClient, SyncProducer


@cache
def orders() -> SyncProducer:
    """One for all threads of the process."""
    return SyncProducer(SyncClient(), "orders")
