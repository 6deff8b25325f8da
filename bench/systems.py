"""What is measured: each system can be started with empty queues, and then has an endpoint and a process to watch."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from bench.credentials import make_credentials
from bench.load_client import Connection, connect
from bench.peers import Peer
from bench.process import HERE, Checkout, Process, Server, free_port, memory_mb

T = TypeVar("T")

IN_MEMORY = "in memory"


class System(ABC):
    """``start_seconds`` is from the start of the process to its first answer over HTTP."""

    version = ""
    durability = IN_MEMORY
    is_echo = False  # knows sends only, and keeps nothing
    is_penstock = False
    is_variant = False  # the same system with other settings: for the central cases only
    is_peer = False
    has_topics = True
    before: str | None = None  # the name of the same system from another checkout
    start_seconds: float | None = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.url = ""
        self.pid: int | None = None
        self._next = 0

    @abstractmethod
    def start(self) -> None:
        """Raises Absent or RuntimeError."""

    @abstractmethod
    def stop(self) -> None: ...

    @property
    @abstractmethod
    def is_running(self) -> bool: ...

    def restart(self) -> None:
        self.stop()
        self.start()

    def numbers(self, count: int) -> int:
        """The first of ``count`` message numbers that were not used before."""
        self._next += count
        return self._next - count

    def memory_mb(self) -> float:
        if self.pid is None:
            raise RuntimeError("its process is unknown: give it with pid=")
        return memory_mb(self.pid)

    def call(self, action: str, request: dict[str, Any], limit_s: float = 30) -> dict[str, Any]:
        return self._once(lambda connection: connection.call(action, request), limit_s)

    def query(self, action: str, parameters: Mapping[str, str], limit_s: float = 30) -> str:
        """Calls an action of SNS. Returns the XML."""
        return self._once(lambda connection: connection.query(action, parameters), limit_s)

    def _once(self, ask: Callable[[Connection], Awaitable[T]], limit_s: float) -> T:
        async def once() -> T:
            async with asyncio.timeout(limit_s):
                connection = await connect(self.url)
                try:
                    return await ask(connection)
                finally:
                    connection.close()

        return asyncio.run(once())

    def create(self, name: str, **attributes: str) -> str:
        return str(self.call("CreateQueue", {"QueueName": name, "Attributes": attributes})["QueueUrl"])


class _Started(System):
    """A system whose process is ours."""

    _process: Process | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.is_running

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None
        self.pid = None


class Penstock(_Started):
    """Secured, as a server with credentials is: signatures are verified, policies enforced, messages encrypted on
    disk, changes of queues and refused requests written to the audit log. Or open, as on a laptop."""

    is_penstock = True

    def __init__(
        self, name: str, home: Path | None, *flags: str, secured: bool = False, checkout: Checkout = HERE,
        is_variant: bool = False,
    ) -> None:  # fmt: skip
        """``home`` is where its data goes; None for a broker in memory."""
        super().__init__(name)
        self._home = home
        self._flags = flags
        self._secured = secured
        self._checkout = checkout
        self.is_variant = is_variant
        self.has_topics = checkout.has_topics
        self.data: Path | None = None
        self._keys: Path | None = None

    def start(self) -> None:
        self.version = self.version or self._checkout.version()
        if self._home is not None:
            self._home.mkdir(parents=True, exist_ok=True)
            self.data = Path(tempfile.mkdtemp(prefix="data-", dir=self._home))
        if self._secured:
            self._keys = Path(tempfile.mkdtemp(prefix="keys-", dir=self._home))
            self._credentials = make_credentials(self._keys, self._checkout)
        self._serve()

    def start_again(self) -> None:
        """Starts with the data of before, after a clean stop."""
        assert isinstance(self._process, Server)
        self._process.stop()
        self._serve()

    def _serve(self) -> None:
        # The default admits 10,000 connections: the case of 10,000 polls needs one more to send.
        flags = ["--max-connections", "11000", *self._flags]
        if self._secured:
            flags += ["--credentials", str(self._credentials)]
        self._process = server = Server(self.data, *flags, checkout=self._checkout)
        self.start_seconds = server.await_answer(f"{server.url}/health/ready")
        self.url, self.pid, self.durability = server.url, server.pid, server.guarantees

    def stop(self) -> None:
        super().stop()
        for folder in (self.data, self._keys):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)


class Echo(_Started):
    """A module of the benchmark that serves, and prints its port."""

    is_echo = True
    has_topics = False
    version = "uvloop, httptools, msgspec"
    durability = "keeps nothing"

    def __init__(self, name: str, module: str) -> None:
        super().__init__(name)
        self._module = module

    def start(self) -> None:
        self._process = Process([sys.executable, "-m", self._module])
        port = int(next(self._process.lines()))
        self.start_seconds = time.perf_counter() - self._process.begun
        self.url, self.pid = f"http://127.0.0.1:{port}", self._process.pid


class Installed(_Started):
    is_peer = True

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer.name)
        self._peer = peer
        self.has_topics = peer.has_topics

    def start(self) -> None:
        port = free_port()
        command = self._peer.prepare(port)
        self.version = command.version
        self._process = Process(command.words, command.environment)
        self.url, self.pid = f"http://127.0.0.1:{port}", self._process.pid
        self.start_seconds = self._process.await_answer(self.url)


class Endpoint(System):
    """A server that runs already."""

    is_peer = True
    durability = "as it was started"

    def __init__(self, name: str, url: str, pid: int | None) -> None:
        super().__init__(name)
        self.url, self.pid = url, pid

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    @property
    def is_running(self) -> bool:
        return True
