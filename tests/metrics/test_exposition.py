"""The text for Prometheus, read back by the parsers of its own library."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics_parser
from prometheus_client.parser import text_string_to_metric_families as plain_parser

from penstock.metrics.exposition import (
    MetricFamily,
    bucket_samples,
    histogram_samples,
    labels,
    merged,
    text_of,
    wants_open_metrics,
)
from penstock.metrics.histogram import Histogram

Parser = Callable[[str], Iterable[Any]]
FORMATS = pytest.mark.parametrize(
    ("parse", "open_metrics"),
    [(plain_parser, False), (open_metrics_parser, True)],
    ids=["plain", "OpenMetrics"],
)
AWKWARD = 'a "quoted" \\ name\nof two lines, {with} = and é'


def families() -> list[MetricFamily]:
    durations = Histogram((0.5, 2.0))
    for seconds in (0.1, 0.2, 1, 7):
        durations.observe(seconds)
    return [
        MetricFamily(
            "t_things",
            "counter",
            "Things.",
            "",
            [("", labels(queue=AWKWARD), 3), ("", labels(queue="b"), 4.5)],
        ),
        MetricFamily("t_size_bytes", "gauge", 'How "large"\\.', "bytes", [("", "", -1)]),
        MetricFamily(
            "t_time_seconds", "histogram", "How long.", "seconds", histogram_samples(durations, labels(a="b"))
        ),
        MetricFamily(
            "t_work_seconds", "summary", "Work.", "seconds", [("_sum", "", 1e-7), ("_count", "", 2)]
        ),
        MetricFamily("t_nothing", "gauge", "Not shown.", "", []),
    ]


def text(found: list[MetricFamily], *, open_metrics: bool) -> str:
    return "".join(text_of(found, open_metrics=open_metrics))


@FORMATS
def test_the_text_is_what_the_library_of_prometheus_reads(parse: Parser, open_metrics: bool) -> None:
    found = {family.name: family for family in parse(text(families(), open_metrics=open_metrics))}
    things = found["t_things"]
    assert (things.type, things.documentation) == ("counter", "Things.")
    assert [(sample.name, sample.labels, sample.value) for sample in things.samples] == [
        ("t_things_total", {"queue": AWKWARD}, 3),
        ("t_things_total", {"queue": "b"}, 4.5),
    ]
    assert found["t_size_bytes"].samples[0].value == -1
    durations = {
        (sample.name, sample.labels.get("le")): sample.value for sample in found["t_time_seconds"].samples
    }
    assert durations == {
        ("t_time_seconds_bucket", "0.5"): 2,
        ("t_time_seconds_bucket", "2.0"): 3,
        ("t_time_seconds_bucket", "+Inf"): 4,
        ("t_time_seconds_sum", None): pytest.approx(8.3),
        ("t_time_seconds_count", None): 4,
    }
    assert found["t_work_seconds"].samples[0].value == 1e-7
    assert "t_nothing" not in found


def test_open_metrics_has_units_and_an_end() -> None:
    written = text(families(), open_metrics=True)
    assert written.endswith("# EOF\n")
    assert "# UNIT t_size_bytes bytes\n" in written
    assert "# UNIT" not in text(families(), open_metrics=False)


def test_families_of_several_processes_are_written_in_one_place() -> None:
    one = MetricFamily("t_things", "counter", "Things.", "", [("", labels(process="1"), 1)])
    two = MetricFamily("t_things", "counter", "Things.", "", [("", labels(process="2"), 2)])
    other = MetricFamily("t_other", "gauge", "Other.", "", [("", "", 1)])
    (things, _) = open_metrics_parser(text(merged([one, other, two]), open_metrics=True))
    assert [sample.value for sample in things.samples] == [1, 2]
    assert len(one.samples) == 1


def test_buckets_are_cumulated() -> None:
    assert [value for _, _, value in bucket_samples((1, 2), [5, 3, 1], 9.0)] == [5, 8, 9, 9.0, 9]


def test_histograms_add_up() -> None:
    one, two = Histogram(), Histogram()
    one.observe(0.001)
    two.observe(100)
    one.add(two)
    assert one.count == 2 and one.sum == pytest.approx(100.001)


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        ("application/openmetrics-text;version=1.0.0;q=0.8,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", True),
        ("text/plain", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_which_format_a_client_wants(accept: str, expected: bool) -> None:
    assert wants_open_metrics(accept) is expected
