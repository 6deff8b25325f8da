"""What the process measures of itself: memory, connections, commits, syncs, the store, shards and passed requests."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import __version__
from penstock.clock import real_s
from penstock.errors import StoreError
from penstock.metrics.exposition import MetricFamily, histogram_samples, joined, labels
from penstock.metrics.histogram import Histogram
from penstock.store.port import StoreStatus

if TYPE_CHECKING:
    from penstock.server.compose import Parts

_STARTED_S = real_s()
_PAGE_BYTES = resource.getpagesize()


async def process_families(parts: Parts, about: str) -> list[MetricFamily]:
    """``about``: labels of the process among others."""
    statuses = await _store_statuses(parts)
    return [*_system(about), *_http(parts, about), *_broker(parts, about), *_store(parts, statuses, about)]


def _gauge(name: str, help: str, value: float, about: str, unit: str = "") -> MetricFamily:
    return MetricFamily(name, "gauge", help, unit, [("", about, value)])


def _counter(name: str, help: str, value: float, about: str) -> MetricFamily:
    return MetricFamily(name, "counter", help, "", [("", about, value)])


def _histogram(name: str, help: str, histogram: Histogram, about: str) -> MetricFamily:
    return MetricFamily(name, "histogram", help, "seconds", histogram_samples(histogram, about))


# -- the system --------------------------------------------------------------------------------------------------


def _system(about: str) -> list[MetricFamily]:
    """Returns the metrics of the process under the names that Prometheus' own libraries use."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    started = joined(labels(version=__version__, python=sys.version.partition(" ")[0]), about)
    found = [
        _gauge("penstock_build_info", "The version of Penstock and of Python.", 1, started),
        _gauge("process_start_time_seconds", "When the process was started.", _STARTED_S, about, "seconds"),
        _counter("process_cpu_seconds", "Processor time.", usage.ru_utime + usage.ru_stime, about),
    ]
    if (resident := _resident_bytes()) is not None:
        found.append(_gauge("process_resident_memory_bytes", "Memory in use.", resident, about, "bytes"))
    if (descriptors := _open_descriptors()) is not None:
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        found.append(_gauge("process_open_fds", "Open file descriptors.", descriptors, about))
        found.append(_gauge("process_max_fds", "File descriptors that may be open.", limit, about))
    return found


def _resident_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None  # not Linux


def _open_descriptors() -> int | None:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return None


# -- HTTP, and requests of other processes -------------------------------------------------------------------------


def _http(parts: Parts, about: str) -> list[MetricFamily]:
    listener = parts.listener
    refused = MetricFamily(
        "penstock_connections_refused", "counter", "Connections refused because there were too many.", "", [
            ("", joined(labels(how="answered"), about), listener.refused_total),
            ("", joined(labels(how="displaced"), about), listener.displaced_total),
        ],
    )  # fmt: skip
    found = [
        _gauge("penstock_connections", "Open connections.", listener.open_connections, about),
        _gauge("penstock_connections_max", "Connections that may be open.", listener.limits.connections_max, about),
        _counter("penstock_connections_accepted", "Connections accepted.", listener.accepted_total, about),
        refused,
        _gauge(
            "penstock_buffered_request_bytes", "Requests that are arriving or wait.", listener.buffered_bytes, about,
            "bytes",
        ),
    ]  # fmt: skip
    if parts.links is not None:
        forwarder = parts.links.forwarder
        found.append(MetricFamily(
            "penstock_forwarded_requests", "counter",
            "Requests passed on to the owner of their shard (out), or served for another process (in).", "", [
                ("", joined(labels(direction="out"), about), forwarder.passed_on),
                ("", joined(labels(direction="in"), about), forwarder.served),
            ],
        ))  # fmt: skip
    return found


# -- the broker ----------------------------------------------------------------------------------------------------


def _broker(parts: Parts, about: str) -> list[MetricFamily]:
    broker = parts.broker
    shards = [partition.shard for partition in broker.partitions]
    refused = sum(shard.refused_commits for shard in shards)
    return [
        _gauge("penstock_ready", "Whether requests are served.", int(parts.health.ready), about),
        _gauge("penstock_sends_accepted", "Whether sends are accepted.", int(broker.sends_refused is None), about),
        _gauge("penstock_shards_owned", "Shards of this process.", len(shards), about),
        _gauge("penstock_shards", "Shards of the store.", broker.shards, about),
        _gauge("penstock_message_memory_bytes", "Memory of waiting messages.", broker.budget.used, about, "bytes"),
        _gauge(
            "penstock_message_memory_max_bytes", "Memory that waiting messages may take.", broker.budget.bytes_max,
            about, "bytes",
        ),
        _counter("penstock_commits", "Commits written.", sum(shard.commits for shard in shards), about),
        _counter("penstock_commits_refused", "Commits that the store refused.", refused, about),
        _histogram("penstock_commit_duration_seconds", "Time of a commit.", parts.commit_times, about),
    ]  # fmt: skip


# -- the store -----------------------------------------------------------------------------------------------------


async def _store_statuses(parts: Parts) -> list[StoreStatus]:
    found: list[StoreStatus] = []
    for partition in parts.broker.partitions:
        try:
            found.append(await partition.shard.read(partition.shard.store.status))
        except StoreError:
            continue  # other metrics say so
    return found


def _store(parts: Parts, statuses: list[StoreStatus], about: str) -> list[MetricFamily]:
    syncs = Histogram()
    for status in statuses:
        if status.sync_times is not None:
            syncs.add(status.sync_times)
    used = [status.used_bytes for status in statuses if status.used_bytes is not None]
    logs = [status.log_bytes for status in statuses if status.log_bytes is not None]
    free = [status.free_bytes for status in statuses if status.free_bytes is not None]
    found = []
    if syncs.count:
        found.append(
            _histogram("penstock_sync_duration_seconds", "Time of a sync of the disk.", syncs, about)
        )
    if used:
        found.append(
            _gauge("penstock_store_bytes", "Data in the files of the store.", sum(used), about, "bytes")
        )
    if logs:
        found.append(_gauge("penstock_store_log_bytes", "Write-ahead logs.", sum(logs), about, "bytes"))
    if free:
        found.append(
            _gauge("penstock_disk_free_bytes", "Free on the disk of the data.", min(free), about, "bytes")
        )
    return found
