"""What the supervisor and a process say to each other: one JSON object a line, over a pair of sockets.

A process that is started reports ``Prepared`` and waits. The supervisor lets it ``Take`` its shards; it reports
``Ready`` when the others may pass requests on to it. A process that is replaced has to ``Release`` its shards, its
successor takes them, and then it may ``Retire``. In a stop every process has to ``Stop`` and reports ``Quiet`` when
its clients are answered; only when all are may they ``Close`` their stores: until then they answer each other.

A process that serves reports once a second that it is ``Alive``: the supervisor kills and restarts one that hangs. A
process learns from the end of the stream that the supervisor has died.
"""

from __future__ import annotations

import msgspec

from penstock.server.settings.config import Config


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is started with."""

    config: Config  # its own share of the limits
    number: int  # from 1
    processes: int
    shards: int  # of the store
    address: str  # path of the Unix socket on which it has to take requests of the other processes
    listening: list[list[int]]  # descriptors of the listening sockets, for each address
    rates: int  # descriptors of shared memory: allowances of callers,
    usage: int  # and what accounts hold
    key: bytes  # of the table of allowances
    at_once: bool
    """Accept connections from the beginning, to answer health checks during a long start. Otherwise they wait until
    the shards are open."""

    @property
    def descriptors(self) -> list[int]:
        return [self.rates, self.usage, *(each for sockets in self.listening for each in sockets)]


# -- from the supervisor to a process -------------------------------------------------------------------------


class Take(msgspec.Struct, frozen=True, tag=True):
    """Open the shards and serve."""


class Release(msgspec.Struct, frozen=True, tag=True):
    """Close the shards and accept no more connections; requests for the shards go to the successor from now on."""


class Retire(msgspec.Struct, frozen=True, tag=True):
    """Exit when the open connections have got their last response."""


class Reload(msgspec.Struct, frozen=True, tag=True):
    """Read settings, declared queues, certificates, credentials and keys again."""


class Stop(msgspec.Struct, frozen=True, tag=True):
    """Accept nothing new, answer long polls, finish running requests."""


class Close(msgspec.Struct, frozen=True, tag=True):
    """Close the store and exit."""


class ProcessState(msgspec.Struct, frozen=True):
    address: str | None  # where requests can be passed on to it; None while it is not there
    ready: bool
    sends: str  # as on the health page


class Processes(msgspec.Struct, frozen=True, tag=True):
    """All processes, as the supervisor sees them now."""

    states: list[ProcessState]


Command = Take | Release | Retire | Reload | Stop | Close | Processes


# -- from a process to the supervisor -------------------------------------------------------------------------


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """Settings and files are in order; the shards are not open yet."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Requests for the shards are answered. What was recovered, and a line for the report of the start."""

    queues: int
    messages: int
    size: int
    seconds: float  # that it took
    encryption: str


class Serving(msgspec.Struct, frozen=True, tag=True):
    """This process has learned that all processes are ready, and answers requests for all shards."""


class Alive(msgspec.Struct, frozen=True, tag=True):
    """The event loop runs: reported once a second, from when the shards are open."""

    sends: str  # whether sends are accepted, as on the health page


class ReloadAll(msgspec.Struct, frozen=True, tag=True):
    """A client of this process has requested a reload: all processes have to."""


class Released(msgspec.Struct, frozen=True, tag=True):
    """The files of the shards are closed."""


class Quiet(msgspec.Struct, frozen=True, tag=True):
    """All clients are answered."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """One line for the operator. The process ends."""

    text: str
    store: bool = False  # the store can no longer be trusted: all must stop
    temporary: bool = False  # the same start may succeed later


Report = Prepared | Ready | Serving | Alive | ReloadAll | Released | Quiet | Failed
