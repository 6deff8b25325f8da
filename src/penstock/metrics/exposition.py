"""Metrics as text for Prometheus, in its own format and in OpenMetrics.

A sample is a suffix, its labels as text, and a number: labels are made once for all samples of a queue, and a scrape
of thousands of queues is mostly the joining of texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Literal

import msgspec

from penstock.metrics.histogram import Histogram

PLAIN_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS_TYPE = b"application/openmetrics-text; version=1.0.0; charset=utf-8"

_SAMPLES_PER_PIECE = 2000
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, str, float]
"""Suffix of the name, labels, value."""


class MetricFamily(msgspec.Struct, frozen=True, array_like=True):
    """All samples of one name. That of a counter is without ``_total``; ``unit`` is its last word, or empty."""

    name: str
    kind: Literal["counter", "gauge", "histogram", "summary"]
    help: str
    unit: str
    samples: list[Sample]


def labels(**values: str) -> str:
    """``queue="orders",state="visible"``"""
    return ",".join(f'{name}="{escaped(value)}"' for name, value in values.items())


def escaped(value: str) -> str:
    return value.translate(_ESCAPES)


def joined(*parts: str) -> str:
    """Several labels, of which some may be empty."""
    return ",".join(part for part in parts if part)


def histogram_samples(histogram: Histogram, labels: str = "") -> list[Sample]:
    return bucket_samples(histogram.limits, histogram.counts, histogram.sum, labels)


def bucket_samples(
    limits: Sequence[float], counts: Sequence[int], total: float, labels: str = ""
) -> list[Sample]:
    """``counts``: by limits, not cumulated, and one more for what is beyond."""
    texts = [*(repr(float(limit)) for limit in limits), "+Inf"]
    sums = list(accumulate(counts))
    found: list[Sample] = [
        ("_bucket", joined(labels, f'le="{text}"'), count) for text, count in zip(texts, sums, strict=True)
    ]
    return [*found, ("_sum", labels, total), ("_count", labels, sums[-1])]


def merged(families: Iterable[MetricFamily]) -> list[MetricFamily]:
    """Families of one name become one, as those of several processes: each is written in one place."""
    found: dict[str, MetricFamily] = {}
    for family in families:
        present = found.get(family.name)
        if present is None:
            found[family.name] = msgspec.structs.replace(family, samples=list(family.samples))
        else:
            present.samples.extend(family.samples)
    return list(found.values())


def text_of(families: Iterable[MetricFamily], *, open_metrics: bool) -> Iterator[str]:
    """Returns the text in pieces. Families without samples are left out."""
    for family in families:
        if not family.samples:
            continue
        yield _head(family, open_metrics=open_metrics)
        name = f"{family.name}_total" if family.kind == "counter" else family.name
        samples = family.samples
        for start in range(0, len(samples), _SAMPLES_PER_PIECE):
            yield "".join([
                f"{name}{suffix}{{{labels}}} {value!r}\n" if labels else f"{name}{suffix} {value!r}\n"
                for suffix, labels, value in samples[start : start + _SAMPLES_PER_PIECE]
            ])  # fmt: skip
    if open_metrics:
        yield "# EOF\n"


def _head(family: MetricFamily, *, open_metrics: bool) -> str:
    """A name in OpenMetrics is that of the family, which for a counter is not the one of its samples."""
    is_total = family.kind == "counter" and not open_metrics
    name = f"{family.name}_total" if is_total else family.name
    help = family.help.translate(_ESCAPES) if open_metrics else family.help
    unit = f"# UNIT {name} {family.unit}\n" if open_metrics and family.unit else ""
    return f"# HELP {name} {help}\n# TYPE {name} {family.kind}\n{unit}"


def wants_open_metrics(accept: str) -> bool:
    """Whether the Accept header asks for OpenMetrics."""
    return "application/openmetrics-text" in accept
