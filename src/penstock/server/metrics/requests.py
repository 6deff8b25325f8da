"""How many requests there were of each action, with which outcome, and how long they took."""

from __future__ import annotations

from penstock.metrics.exposition import MetricFamily, Sample, histogram_samples, joined, labels
from penstock.metrics.histogram import Histogram
from penstock.wire.service import Action, Service

_CODES_MAX = 50  # of an action: there are fewer, unless a code is made from what a client sent


class ActionMeter:
    """Counts and times the requests of one action of a service."""

    __slots__ = ("_failed", "_labels", "succeeded")

    def __init__(self, service: str, action: str) -> None:
        self._labels = labels(service=service, action=action)
        self.succeeded = Histogram()
        self._failed: dict[str, Histogram] = {}

    def failed(self, code: str, seconds: float) -> None:
        if code not in self._failed and len(self._failed) >= _CODES_MAX:
            code = "Other"
        self._failed.setdefault(code, Histogram()).observe(seconds)

    def samples(self, more: str) -> list[Sample]:
        found: list[Sample] = []
        for code, histogram in (("OK", self.succeeded), *self._failed.items()):
            if histogram.count:
                found += histogram_samples(histogram, joined(self._labels, labels(code=code), more))
        return found


class RequestMeter:
    def __init__(self) -> None:
        self._actions: dict[tuple[str, str], ActionMeter] = {}
        self._refused: dict[str, int] = {}

    def of_action(self, service: Service, action: Action) -> ActionMeter:
        """The same for all protocols."""
        key = service.signing_name, action.name
        return self._actions.setdefault(key, ActionMeter(*key))

    def refused(self, code: str) -> None:
        """A request was refused before its action was looked for."""
        if code in self._refused or len(self._refused) < _CODES_MAX:
            self._refused[code] = self._refused.get(code, 0) + 1

    def families(self, more: str) -> list[MetricFamily]:
        """``more``: labels of the process."""
        served = [sample for meter in self._actions.values() for sample in meter.samples(more)]
        refused: list[Sample] = [
            ("", joined(labels(code=code), more), count) for code, count in self._refused.items()
        ]
        return [
            MetricFamily(
                "penstock_request_duration_seconds", "histogram",
                "Time from a request to its response. Long polls wait as long as their clients ask.",
                "seconds", served,
            ),
            MetricFamily(
                "penstock_requests_refused", "counter",
                "Requests refused before their action was known: signatures, rate limits.", "", refused,
            ),
        ]  # fmt: skip
