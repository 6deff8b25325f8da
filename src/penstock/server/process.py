"""What a process of this kind asks of the interpreter and the system, before and after its start."""

from __future__ import annotations

import gc
import resource
import sys

# A commit runs in a thread beside the busy loop, and each time it wants the interpreter back it may wait a
# whole switch interval. The default of 5 ms would be most of a commit's time.
_SWITCH_INTERVAL_S = 0.0005

# A request leaves nothing for the collector, and entries of messages are outside its sight: looking seldom loses
# nothing, and looking often costs milliseconds when many objects live long.
_GC_THRESHOLDS = (50_000, 20, 50)

# What the process opens beside connections: the data file and its siblings, the listening socket, logs.
_FILES_BESIDE = 64


def prepare(connections_max: int) -> int:
    """Answers how many connections the system lets us have."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.set_threshold(*_GC_THRESHOLDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections_max + _FILES_BESIDE
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return connections_max if soft == resource.RLIM_INFINITY else min(connections_max, soft - _FILES_BESIDE)


def started() -> None:
    """Modules and tables live as long as the process: the collector need not look at them ever again."""
    gc.collect()
    gc.freeze()
