"""A broker inside a test: in memory, in milliseconds, with a clock that the test advances.

The plugin for pytest (``penstock.testing.plugin``) has fixtures for it, and is found by pytest itself. Names are
imported when they are first used: pytest loads the plugin wherever Penstock is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.broker import BrokerClock as BrokerClock
    from penstock.testing.broker import InProcessBroker as Broker
    from penstock.testing.http_subscriber import HttpSubscriber as HttpSubscriber
    from penstock.testing.publications import PublicationSnapshot as PublicationSnapshot
    from penstock.testing.snapshots import MessageSnapshot as MessageSnapshot
    from penstock.testing.snapshots import QueueSnapshot as QueueSnapshot
    from penstock.testing.topics import FixtureTopic as FixtureTopic

__all__ = [
    "Broker",
    "BrokerClock",
    "FixtureTopic",
    "HttpSubscriber",
    "MessageSnapshot",
    "PublicationSnapshot",
    "QueueSnapshot",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from penstock.testing import broker, http_subscriber, publications, snapshots, topics

    found = {
        "Broker": broker.InProcessBroker,
        "BrokerClock": broker.BrokerClock,
        "FixtureTopic": topics.FixtureTopic,
        "HttpSubscriber": http_subscriber.HttpSubscriber,
        "PublicationSnapshot": publications.PublicationSnapshot,
        "MessageSnapshot": snapshots.MessageSnapshot,
        "QueueSnapshot": snapshots.QueueSnapshot,
    }
    globals().update(found)
    return found[name]
