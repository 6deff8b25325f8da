"""The page /metrics, on the port of the server or on a port of its own.

One scrape shows all processes of a server. A node of a cluster shows itself: each node is a target of its own.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.auth.secret_files import NotPrivate, read_private
from penstock.broker.partition import Partition
from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.broker.queue_figures import QueueFigures, all_figures
from penstock.errors import PenstockError
from penstock.metrics.exposition import (
    OPEN_METRICS_TYPE,
    PLAIN_TYPE,
    MetricFamily,
    labels,
    merged,
    text_of,
    wants_open_metrics,
)
from penstock.names import QueueName
from penstock.promise import Promise
from penstock.server.client_addresses import is_within
from penstock.server.health import Health
from penstock.server.http.limits import HttpLimits
from penstock.server.http.listener import Listener, open_sockets
from penstock.server.http.request import HttpError, Request
from penstock.server.http.response import REQUEST_ID
from penstock.server.metrics.process import process_families
from penstock.server.metrics.queues import queue_families
from penstock.server.metrics.shown import ShownNames
from penstock.server.metrics.topics import topic_families
from penstock.server.origin import Origins
from penstock.server.routes import answer_with
from penstock.server.settings.address import Address
from penstock.topics.names import TopicName
from penstock.wire.service import Response

if TYPE_CHECKING:
    from penstock.broker.broker import Broker
    from penstock.server.compose import Parts

log = logging.getLogger("penstock.server")

PATH = b"/metrics"
_BEARER = b"Bearer "
_TOKEN_BYTES_MAX = 4096
_PIECES_PER_TURN = 5
_CONNECTIONS_MAX = 64  # of the port of its own


class ScrapeQuestion(ShardQuestion[list[MetricFamily]], frozen=True):
    """What every process measures."""

    kind: ClassVar[str] = "scrape"
    is_of_process: ClassVar[bool] = True

    async def answer(self, partition: Partition) -> list[MetricFamily]:
        return await partition.part(ProcessMetrics).families()

    def merge(self, answers: list[list[MetricFamily]]) -> list[MetricFamily]:
        return merged(family for of_process in answers for family in of_process)


class ProcessMetrics(Part):
    """What a shard says of the process that owns it."""

    def __init__(self, families: Callable[[], Coroutine[Any, None, list[MetricFamily]]]) -> None:
        self.families = families


class MetricsPage:
    def __init__(self, parts: Parts, broker: Broker, origins: Origins, process: int | None) -> None:
        """``process``: its number, if the server has several. Every shard of the broker answers for this process."""
        self._parts = parts
        self._broker = broker
        self._origins = origins
        self._about = "" if process is None else labels(process=str(process))
        self._asks_processes = process is not None
        self._shown_queues: ShownNames[QueueName] = ShownNames(parts.config.metrics_queues)
        self._shown_topics: ShownNames[TopicName] = ShownNames(parts.config.metrics_queues)
        broker.extend(lambda partition: ProcessMetrics(self.families), [ScrapeQuestion])

    # -- what is measured --------------------------------------------------------------------------------------

    async def text(self, *, open_metrics: bool) -> bytes:
        """Raises Unreachable if a process does not answer: a scrape is complete, or it fails."""
        if self._asks_processes:
            families = await self._broker.ask(ScrapeQuestion())
        else:
            families = merged(await self.families())
        pieces: list[str] = []
        for number, piece in enumerate(text_of(families, open_metrics=open_metrics)):
            pieces.append(piece)
            if number % _PIECES_PER_TURN == 0:
                await _turn()
        return "".join(pieces).encode()

    async def families(self) -> list[MetricFamily]:
        """Returns the metrics of this process."""
        parts = self._parts
        return [
            *await process_families(parts, self._about),
            *parts.early.meter.families(self._about),
            *await queue_families(self._figures(), self._shown_queues, self._about),
            *await topic_families(self._broker.partitions, self._shown_topics, self._about),
        ]

    async def _figures(self) -> AsyncIterator[list[QueueFigures]]:
        for partition in self._broker.partitions:
            async for figures in all_figures(partition):
                yield figures

    # -- who may read it -----------------------------------------------------------------------------------------

    def accepts(self, request: Request) -> bool:
        """Whether the page answers by itself. If not, the request is one for the action GetMetrics, which needs a
        signature and a permission."""
        if self._parts.security.credentials is None or self._has_bearer(request):
            return True
        return is_within(self._origins.source_ip(request), self._parts.config.metrics_networks)

    async def page(self, request: Request) -> Response:
        _check(request)
        if self._parts.security.credentials is not None and self._has_bearer(request):
            self._check_token(request)
        return await self.answer(request)

    async def answer(self, request: Request) -> Response:
        """Responds to a client that may read the page."""
        open_metrics = wants_open_metrics(request.headers.get(b"accept", b"").decode("latin-1"))
        try:
            body = await self.text(open_metrics=open_metrics)
        except PenstockError as error:
            raise HttpError(503, str(error)) from None
        content_type = OPEN_METRICS_TYPE if open_metrics else PLAIN_TYPE
        return Response(200, [(b"Content-Type", content_type), (REQUEST_ID, request.id.encode())], body)

    def _has_bearer(self, request: Request) -> bool:
        return request.headers.get(b"authorization", b"").startswith(_BEARER)

    def _check_token(self, request: Request) -> None:
        """Raises HttpError."""
        file = self._parts.config.metrics_token_file
        expected = None if file is None else read_token(file)
        given = request.headers[b"authorization"][len(_BEARER) :].strip()
        if expected is None or not hmac.compare_digest(given, expected):
            raise HttpError(401, "The token is not that of metrics_token_file.")


def _check(request: Request) -> None:
    """Raises HttpError."""
    if request.path.rstrip(b"/") != PATH:
        raise HttpError(404, "There is nothing here: metrics are at /metrics.")
    if request.method not in (b"GET", b"HEAD"):
        raise HttpError(405, "Metrics are read with GET.")


def read_token(file: Path) -> bytes | None:
    """Reads the token; None, with a warning, if it cannot be used."""
    try:
        return read_private(file, _TOKEN_BYTES_MAX).strip() or None
    except (OSError, NotPrivate) as error:
        log.warning("%s cannot be used: %s", file, error.strerror if isinstance(error, OSError) else error)
        return None


async def _turn() -> None:
    """Let other requests have their turn."""
    turned: Promise[None] = Promise()
    asyncio.get_running_loop().call_soon(turned.resolve, None)
    await turned


class MetricsPort:
    """A port for metrics and health checks only, without authentication: who reaches it may read them."""

    def __init__(self, health: Health) -> None:
        self._page: MetricsPage | None = None
        self._health = health
        self._listener = Listener(self._serve, HttpLimits(connections_max=_CONNECTIONS_MAX))

    async def open(self, address: Address, *, shared: bool) -> Address:
        """``shared``: with the successor of this process. Returns the address with its port. Raises OSError."""
        sockets = await open_sockets(address.host, address.port, reuse_port=shared)
        self._listener.accept(sockets, None)
        return Address(address.host, sockets[0].getsockname()[1])

    def show(self, page: MetricsPage) -> None:
        """Show this page from now on: the store is open. Before, there is nothing to measure."""
        self._page = page

    def close(self) -> None:
        self._listener.stop_accepting()

    def _serve(self, request: Request) -> None:
        is_health = request.path[1:].partition(b"/")[0] == b"health"
        answer_with(self._health.page(request) if is_health else self._open_page(request), request)

    async def _open_page(self, request: Request) -> Response:
        _check(request)
        if self._page is None:
            raise HttpError(503, "The server is starting.")
        return await self._page.answer(request)
