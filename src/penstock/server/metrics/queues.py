"""The metrics of queues for Prometheus.

The number of queues that are shown is bounded, because each has some twenty time series. All other queues are summed
up.
"""

from __future__ import annotations

from collections.abc import AsyncIterable

from penstock.broker.queue_figures import QueueFigures
from penstock.broker.queue_metrics import SIZE_LIMITS, Totals
from penstock.limits import SECOND
from penstock.metrics.exposition import MetricFamily, bucket_samples, joined, labels
from penstock.names import QueueName
from penstock.server.metrics.shown import OTHERS, ShownNames

_STATES = ("visible", "in_flight", "delayed")


class QueueFamilies:
    def __init__(self) -> None:
        self.sent = _counter("penstock_sqs_messages_sent", "Messages that clients sent.")
        self.received = _counter("penstock_sqs_messages_received", "Messages returned by receives.")
        self.deleted = _counter("penstock_sqs_messages_deleted", "Deletes with a valid receipt handle.")
        self.empty = _counter("penstock_sqs_empty_receives", "Receives that returned no message.")
        self.duplicates = _counter(
            "penstock_sqs_duplicate_messages", "Sends to FIFO queues that were duplicates."
        )
        self.sizes = MetricFamily(
            "penstock_sqs_sent_message_bytes", "histogram", "Size of sent messages: body and attributes.", "bytes", []
        )  # fmt: skip
        self.processing = MetricFamily(
            "penstock_sqs_processing_seconds", "summary", "Time from a receive to the delete of the message.",
            "seconds", [],
        )  # fmt: skip
        self.messages = _gauge("penstock_sqs_messages", "Messages of a queue, by state.")
        self.age = _gauge("penstock_sqs_oldest_message_age_seconds", "Age of the oldest message.", "seconds")
        self.groups = _gauge(
            "penstock_sqs_groups_in_flight", "Message groups with messages in flight; FIFO queues."
        )
        self.noisy = _gauge("penstock_sqs_noisy_groups", "Message groups that hold up others in fair queues.")
        self.waiting = _gauge("penstock_sqs_waiting_receives", "Long polls that wait for messages.")
        self.queues = _gauge("penstock_sqs_queues", "Queues that exist.")

    def all(self) -> list[MetricFamily]:
        return list(vars(self).values())

    def add(self, figures: QueueFigures) -> None:
        name = figures.name
        about = labels(queue=name.name, account=name.account, region=name.region)
        self._add_totals(about, figures.totals, figures.size_counts)
        levels = figures.levels
        if levels is not None:
            for state, number in zip(
                _STATES, (levels.visible, levels.in_flight, levels.delayed), strict=True
            ):
                self.messages.samples.append(("", f'{about},state="{state}"', number))
            if levels.groups is not None:
                self.groups.samples.append(("", about, levels.groups))
                self.duplicates.samples.append(("", about, figures.totals.duplicates))
        if figures.age_ms is not None:
            self.age.samples.append(("", about, figures.age_ms / SECOND))
        if figures.noisy_groups is not None:
            self.noisy.samples.append(("", about, figures.noisy_groups))
        self.waiting.samples.append(("", about, figures.long_polls))

    def _add_totals(self, about: str, totals: Totals, size_counts: list[int]) -> None:
        self.sent.samples.append(("", about, totals.sent))
        self.received.samples.append(("", about, totals.received))
        self.deleted.samples.append(("", about, totals.deleted))
        self.empty.samples.append(("", about, totals.empty))
        if totals.sent:
            self.sizes.samples.extend(bucket_samples(SIZE_LIMITS, size_counts, totals.sent_bytes, about))
        if totals.processed:
            self.processing.samples.append(("_sum", about, totals.processing_ms / 1000))
            self.processing.samples.append(("_count", about, totals.processed))

    def add_others(self, others: list[QueueFigures], process: str) -> None:
        """Queues that have no time series of their own, summed up."""
        about = joined(labels(queue=OTHERS, account="", region=""), process)
        totals = Totals(*(sum(column) for column in zip(*(each.totals for each in others), strict=True)))
        sizes = [sum(column) for column in zip(*(each.size_counts for each in others), strict=True)]
        self._add_totals(about, totals, sizes)
        known = [each.levels for each in others if each.levels is not None]
        for place, state in enumerate(_STATES):
            self.messages.samples.append(
                ("", f'{about},state="{state}"', sum(each[place] or 0 for each in known))
            )
        ages = [each.age_ms / SECOND for each in others if each.age_ms is not None]
        if ages:
            self.age.samples.append(("", about, max(ages)))
        self.waiting.samples.append(("", about, sum(each.long_polls for each in others)))


async def queue_families(
    found: AsyncIterable[list[QueueFigures]], shown: ShownNames[QueueName], process: str
) -> list[MetricFamily]:
    """``process``: labels of the process whose queues these are."""
    figures = [each async for some in found for each in some]
    chosen = shown.choose({each.name: each.is_active for each in figures})
    families = QueueFamilies()
    families.queues.samples.append(("", process, len(figures)))
    for each in figures:
        if each.name in chosen:
            families.add(each)
    others = [each for each in figures if each.name not in chosen]
    if others:
        families.add_others(others, process)
    return families.all()


def _counter(name: str, help: str) -> MetricFamily:
    return MetricFamily(name, "counter", help, "", [])


def _gauge(name: str, help: str, unit: str = "") -> MetricFamily:
    return MetricFamily(name, "gauge", help, unit, [])
