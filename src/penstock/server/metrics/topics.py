"""The metrics of topics for Prometheus. Topics have time series of their own as queues have, as many at most."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from penstock.broker.partition import Partition
from penstock.metrics.exposition import MetricFamily, joined, labels
from penstock.publishing.namespace import TopicTotals
from penstock.publishing.shard_topics import ShardTopics
from penstock.server.metrics.shown import OTHERS, ShownNames
from penstock.topics.names import TopicName

_TOPICS_PER_TURN = 200
_COUNTERS = (
    ("messages_published", "published", "Messages that were published."),
    ("notifications_delivered", "delivered", "Messages that a subscriber got."),
    ("notifications_failed", "failed", "Failed attempts of URLs, and messages that other subscribers do not get."),
    ("notifications_filtered_out", "filtered", "Messages that a filter kept from a subscriber."),
    ("notifications_redriven", "redriven", "Messages that a dead-letter queue got instead of a subscriber."),
)  # fmt: skip
"""Each with its attribute of the totals."""


async def topic_families(
    partitions: Iterable[Partition], shown: ShownNames[TopicName], process: str
) -> list[MetricFamily]:
    """``process``: labels of the process whose topics these are."""
    found = {name: totals async for name, totals in _all_totals(partitions)}
    chosen = shown.choose({name: totals.published > 0 for name, totals in found.items()})
    rows = [
        (labels(topic=name.name, account=name.account, region=name.region), found[name]) for name in sorted(chosen)
    ]  # fmt: skip
    if len(found) > len(chosen):
        others = TopicTotals()
        for name in found.keys() - chosen:
            others.add(found[name])
        rows.append((joined(labels(topic=OTHERS, account="", region=""), process), others))
    return [
        *(
            MetricFamily(
                f"penstock_sns_{name}", "counter", help, "",
                [("", about, getattr(totals, attribute)) for about, totals in rows],
            )
            for name, attribute, help in _COUNTERS
        ),
        MetricFamily("penstock_sns_topics", "gauge", "Topics that exist.", "", [("", process, len(found))]),
    ]  # fmt: skip


async def _all_totals(partitions: Iterable[Partition]) -> AsyncIterator[tuple[TopicName, TopicTotals]]:
    """Looks at some topics in each turn of the loop."""
    for partition in partitions:
        topics = partition.part(ShardTopics)
        for number, name in enumerate(topics.all_names(), 1):
            yield name, topics.publisher.metrics.totals(name)
            if number % _TOPICS_PER_TURN == 0:
                await partition.turn()
