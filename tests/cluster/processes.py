"""Three ``penstock serve`` processes on one PostgreSQL, under the load and the ledger of the crash tests."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

import psycopg

from cluster.network import Cable
from penstock.names import QueueName, shard_of
from penstock.store.leases import ClusterView
from penstock.store.postgres.leases import PostgresLeases
from penstock.store.postgres.site import PostgresSite
from penstock.topics.names import TopicName
from support.ledger import Ledger
from support.load import DEAD, FIFO, PLAIN, Broken, Client, Load, Refused, ServerAddress
from support.loaded_queues import make_queues, remaining
from support.postgres import PostgresServer
from support.process import ServerProcess, free_port

SHARDS = 6  # the three queues of the load are in three of them
SERVED_WITHIN_S = 10.0
QUEUES = (PLAIN, DEAD, FIFO)


class ClusterAddress(ServerAddress):
    """The nodes that clients may connect to; a client takes any of them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.parts_may_die = True
        self._random = random.Random(seed)
        self._ports: list[int] = []

    def open(self, port: int) -> None:
        self._ports = [*self._ports, port]
        super().open(port)

    def leave(self, port: int) -> None:
        """Clients that connect from now on choose others."""
        self._ports = [each for each in self._ports if each != port]

    def port(self) -> int:
        super().port()
        return self._random.choice(self._ports)


class Proxy:
    """Between a node and the database. While it is cut, nothing passes in either direction and nothing is closed."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._passes = threading.Event()
        self._passes.set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._passes.clear()

    def join(self) -> None:
        self._passes.set()

    def close(self) -> None:
        self._listener.close()
        self._passes.set()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self._passes.wait()
        try:
            server = socket.create_connection(("127.0.0.1", self._target))
        except OSError:
            client.close()
            return
        for source, target in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, target), daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._passes.wait()
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class Node:
    """One of the processes. It keeps its address over restarts."""

    def __init__(self, url: str, secret: Path, host: str = "127.0.0.1", prefix: Sequence[str] = ()) -> None:
        self.address = f"{host}:{free_port()}"
        self._prefix = prefix
        self._arguments = (
            "--store", url, "--shards", str(SHARDS), "--advertise", self.address, "--cluster-listen", self.address,
            "--cluster-secret-file", str(secret),
        )  # fmt: skip
        self.log: list[str] = []
        self.start()

    def kill(self) -> None:
        self.process.kill()
        self.log += self.process.log

    def stop(self) -> int:
        code = self.process.stop()
        self.log += self.process.log
        return code

    def start(self) -> None:
        self.process = ServerProcess(*self._arguments, prefix=self._prefix)

    def signal(self, number: signal.Signals) -> None:
        self.process.process.send_signal(number)


class Cluster:
    """Nodes, clients and the ledger. ``with`` ends all of them."""

    def __init__(
        self,
        database: PostgresServer,
        directory: Path,
        seed: int,
        *,
        entries: int = 3,
        cable: Cable | None = None,
    ) -> None:
        """``entries``: how many of the nodes clients connect to. ``cable``: to the namespace of the last node, which
        reaches the database through the proxy otherwise."""
        self.database = database
        self.url = database.url(database.new_database())
        secret = directory / "cluster.secret"
        secret.touch(0o600)
        secret.write_text("a secret for tests only\n")
        self.random = random.Random(seed)
        self.proxy = Proxy(database.port)
        if cable is None:
            self.nodes = [Node(self.url, secret) for _ in range(2)]
            self.nodes.append(Node(self.url.replace(f":{database.port}/", f":{self.proxy.port}/"), secret))
        else:
            self.nodes = [Node(self.url, secret, cable.outside) for _ in range(2)]
            url = self.url.replace("127.0.0.1", cable.outside)
            self.nodes.append(Node(url, secret, cable.inside, cable.prefix))
        self.address = ClusterAddress(seed)
        for node in self.nodes[:entries]:
            self.address.open(node.process.port)
        self.wait_until_balanced()
        make_queues(Client(self.address))
        self.ledger = Ledger()
        self.load = Load(self.address, self.ledger, seed)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.address.finish()
        for node in self.nodes:
            if node.process.process.poll() is None:
                node.signal(signal.SIGCONT)
                node.kill()
        self.proxy.close()
        if error is not None:
            for node in self.nodes:
                print(f"---- log of {node.address}", *node.log[-40:], sep="\n")

    # -- what can happen -------------------------------------------------------------------------------------

    def kill(self, node: Node) -> float:
        """Returns after how many seconds all queues were served again by the others."""
        self.address.leave(node.process.port)
        node.kill()
        return self.wait_until_served(self.others(node))

    def restart(self, node: Node) -> None:
        node.start()
        self.address.open(node.process.port)

    def drain(self, node: Node) -> None:
        with self.leases() as leases:
            assert leases.drain(node.address, is_draining=True)
        while self.shards_of(node):
            time.sleep(0.05)

    def undrain(self, node: Node) -> None:
        with self.leases() as leases:
            assert leases.drain(node.address, is_draining=False)

    def others(self, node: Node) -> list[Node]:
        return [each for each in self.nodes if each is not node]

    # -- how it is -------------------------------------------------------------------------------------------

    def view(self) -> ClusterView:
        with self.leases() as leases:
            return leases.view()

    @contextmanager
    def leases(self) -> Iterator[PostgresLeases]:
        """On a new connection: the database may have been restarted."""
        leases = PostgresLeases(PostgresSite(self.url).database, SHARDS)
        try:
            yield leases
        finally:
            leases.close()

    def owner_of(self, queue: str) -> Node:
        return self._owner_of(shard_of(QueueName("000000000000", "us-east-1", queue), SHARDS))

    def owner_of_topic(self, topic: str) -> Node:
        return self._owner_of(TopicName("000000000000", "us-east-1", topic).home.shard(SHARDS))

    def _owner_of(self, shard: int) -> Node:
        view = self.view()
        owner = view.node(view.leases[shard].owner)
        assert owner is not None
        return next(node for node in self.nodes if node.address == owner.address)

    def shards_of(self, node: Node) -> set[int]:
        view = self.view()
        ids = {each.id for each in view.nodes if each.address == node.address}
        return {lease.shard for lease in view.leases if lease.owner in ids}

    def journal_owners(self) -> dict[int, bytes]:
        """Which process opened each shard last: its commits are accepted, and no others."""
        with psycopg.connect(self.url) as connection:
            return dict(connection.execute("SELECT id, owner FROM penstock.shard").fetchall())

    def is_served_through(self, node: Node, queue: str) -> bool:
        address = ServerAddress()
        address.open(node.process.port)
        try:
            Client(address).ask("GetQueueAttributes", QueueUrl=queue, AttributeNames=["QueueArn"])
        except (Broken, Refused):
            return False
        return True

    def wait_until_served(self, through: list[Node]) -> float:
        """Waits until every queue is reached through each of these nodes, and returns the seconds."""
        started = time.monotonic()
        for node in through:
            for queue in QUEUES:
                while not self.is_served_through(node, queue):
                    assert time.monotonic() < started + 60, f"{queue} is not served through {node.address}"
                    time.sleep(0.02)
        return time.monotonic() - started

    def wait_until_balanced(self) -> None:
        deadline = time.monotonic() + 60
        while not self._is_balanced():
            assert time.monotonic() < deadline, self.view()
            time.sleep(0.05)

    def _is_balanced(self) -> bool:
        view = self.view()
        shares = [sum(lease.owner == node.id for lease in view.leases) for node in view.nodes]
        return (
            len(shares) == len(self.nodes)
            and max(shares) - min(shares) <= 1
            and sum(shares) == SHARDS
            and all(lease.is_serving for lease in view.leases)
        )

    # -- the end ---------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """End the load, stop all nodes but one, and compare what is left with what was acknowledged."""
        self.load.finish()
        assert not self.ledger.violations, self.ledger.violations[:5]
        last, *others = self.nodes
        for node in others:
            assert node.stop() == 0
        promised, left = remaining(last.process.port)
        assert last.stop() == 0
        print(dict(self.ledger.counted), f"left: {len(left)}")
        wrong = self.ledger.settle(left)
        assert not wrong, wrong[:5]
        assert promised == len(left), "the counts are what can be received"
        bugs = [line for node in self.nodes for line in node.log if "Traceback" in line]
        assert not bugs, bugs[:3]
