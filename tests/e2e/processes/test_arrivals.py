"""Two processes: a dead letter is in its queue when the answer to the move leaves, whichever process serves it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.arrivals import MOVES, Clients, Move
from support.process import ServerProcess
from support.raw import Raw

SHARDS = 8
DISTANCES = (0, 1, 4)  # queues of one shard, of neighbours, and of the two halves of all shards


@pytest.fixture
def clients(server: ServerProcess, account: str) -> Iterator[Clients]:
    """A connection to each process."""
    assert server.facts["processes"] == f"2 processes, {SHARDS} shards"
    raws: dict[str, Raw] = {}
    while len(raws) < 2:
        raw = Raw(server.port, account)
        process = raw.get("/health").json()["process"]
        if process in raws:
            raw.close()
        raws.setdefault(process, raw)
    clients = Clients(list(raws.values()), server.url, account)
    yield clients
    clients.close()


@pytest.mark.parametrize("ending", ["", ".fifo"], ids=["standard", "fifo"])
@pytest.mark.parametrize("move", MOVES, ids=[move.__name__ for move in MOVES])
def test_the_first_receive_finds_the_dead_letter(clients: Clients, move: Move, ending: str) -> None:
    pairs = clients.make_pairs(SHARDS, DISTANCES, ending)
    assert clients.found_by_each(move, pairs) == {}
