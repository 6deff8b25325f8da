"""Every refusal of the specification that one request can bring about, as a table.

A row says which rule it is, what is asked, and what is answered. Queues are given by name and created
first: ``std``, ``small`` (1,024 bytes a message), ``f.fifo``, ``content.fifo`` (content-based
deduplication), ``dead`` (the dead-letter queue of ``source``), ``closed`` (allows no dead letters),
``purged`` (a moment ago) and ``gone`` (deleted a moment ago).
"""

from __future__ import annotations

from e2e.errors.attributes import ATTRIBUTES
from e2e.errors.batches import BATCHES
from e2e.errors.dead_letters import DEAD_LETTERS
from e2e.errors.messages import MESSAGES
from e2e.errors.permissions import PERMISSIONS
from e2e.errors.queues import QUEUES
from e2e.errors.wire import RESOLUTION, WIRE

ROWS = [
    *WIRE,
    *RESOLUTION,
    *QUEUES,
    *MESSAGES,
    *ATTRIBUTES,
    *BATCHES,
    *DEAD_LETTERS,
    *PERMISSIONS,
]
