"""A broker with metrics and alarms under a clock that tests turn, and real clients of botocore that talk to it.

Nothing goes over a network: what a client would send is handed to the dispatcher, and time stands still meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config

from penstock.auth.authorize import authorize
from penstock.auth.principal import Principal
from penstock.broker.broker import Broker
from penstock.errors import JobFailed
from penstock.limits import MINUTE, SECOND
from penstock.monitoring.limits import MonitoringLimits
from penstock.monitoring.measured import ServiceNamespace
from penstock.monitoring.monitoring import Monitoring
from penstock.monitoring.reading import MetricNamespace
from penstock.names import Space
from penstock.promise import Promise
from penstock.services import cloudwatch, sqs
from penstock.testing.runtime import SimulatedRuntime
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from support.http_requests import PlainRequest
from support.shards import ShardsWorld
from support.world import ROOMY

ACCOUNT, REGION = "000000000000", "eu-west-1"
SPACE = Space(ACCOUNT, REGION)
URL = "http://localhost:9324"

_session = boto3.session.Session()  # knows the models once it has read them


class MonitoringWorld(ShardsWorld):
    def __init__(
        self,
        shards: int = 1,
        limits: MonitoringLimits | None = None,
        *,
        is_secured: bool = False,
        webhooks: tuple[str, ...] = (),
        namespaces: Sequence[MetricNamespace | ServiceNamespace] = (),
    ) -> None:
        """``namespaces``: those of services beside SQS."""
        queues: Any = sqs.SERVICE.metric_namespaces
        self.namespaces: Sequence[MetricNamespace | ServiceNamespace] = (*queues, *namespaces)
        self.monitoring_limits = limits or MonitoringLimits()
        self.posted: list[tuple[str, str]] = []
        self.post_failures: list[JobFailed] = []
        self.published: list[tuple[str, str, str]] = []  # topic, subject, message
        self.publish_failures: list[JobFailed] = []
        self.hanging: dict[
            str, Promise[None]
        ] = {}  # web hooks of an account do not answer before this is done
        self.is_secured = is_secured
        self.webhooks = webhooks
        self.principal: Principal | None = None
        super().__init__(ROOMY, shards=shards)

    def _open(self) -> None:
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.broker = Broker(self.limits, self.shards, clock=self.clock)
        self.monitoring = Monitoring(
            self.broker,
            cloudwatch.CloudWatchTexts(is_secured=self.is_secured),
            self._post,
            self._publish,
            self.namespaces,
            self.monitoring_limits,
        )
        context = cloudwatch.CloudWatch(
            self.monitoring, self.broker, cloudwatch.ACTIONS, lambda url: url.startswith(self.webhooks or "-")
        )
        services = [
            cloudwatch.SERVICE.with_context(context),
            sqs.SERVICE.with_context(sqs.Sqs(self.broker, sqs.ACTIONS)),
        ]
        self.dispatcher = Dispatcher(services, authorize=authorize)
        self.stores = {}
        for index in range(self.shards):
            self.open_shard(index)

    async def _publish(self, topic: str, alarm: str, account: str, subject: str, body: str) -> None:
        if self.publish_failures:
            raise self.publish_failures.pop(0)
        self.published.append((topic, subject, body))

    async def _post(self, account: str, url: str, body: str) -> None:
        if account in self.hanging:
            await self.hanging[account]
        if self.post_failures:
            raise self.post_failures.pop(0)
        self.posted.append((url, body))

    # -- clients ---------------------------------------------------------------------------------------------

    def client(self, service: str = "cloudwatch", region: str = REGION, account: str = ACCOUNT) -> Any:
        """One of boto3."""
        config = Config(retries={"total_max_attempts": 1})
        made = _session.client(
            service, endpoint_url=URL, region_name=region, config=config,
            aws_access_key_id=account, aws_secret_access_key="any",
        )  # fmt: skip
        space = Space(account, region)
        made.meta.events.register("before-send.*", lambda request, **_: self._send(request, space))
        return made

    def _send(self, request: AWSPreparedRequest, space: Space) -> AWSResponse:
        headers = {
            name.lower().encode(): value if isinstance(value, bytes) else str(value).encode()
            for name, value in request.headers.items()
        }
        body = request.body or b""
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else body.read()
        response = self.answer(PlainRequest(request.method.encode(), b"/", headers, body), space)
        shown = {name.decode(): value.decode() for name, value in response.headers}
        return AWSResponse(request.url, response.status, shown, _Raw(response.body))

    def begin(self, request: PlainRequest, space: Space = SPACE) -> list[Response]:
        """The list gets the response."""
        call = Call(request_id="rid", space=space, sender="SENDER", base_url=URL, principal=self.principal)
        responses: list[Response] = []
        self.last_request = request
        self.dispatcher.answer(request, call, responses.append)
        return responses

    def answer(self, request: PlainRequest, space: Space = SPACE) -> Response:
        responses = self.begin(request, space)
        self.run()
        (response,) = responses
        return response

    # -- time ------------------------------------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return datetime.fromtimestamp(self.clock.wall_ms() / SECOND, UTC)

    def after_look(self) -> None:
        """Go to where alarms were just looked at, a few seconds after a full minute."""
        self.advance(MINUTE - self.clock.wall_ms() % MINUTE + 6 * SECOND)

    def minutes(self, count: int = 1, each: Callable[[], None] = lambda: None) -> None:
        """Let this many minutes pass, with a look at alarms at the end of each and ``each`` at its beginning."""
        for _ in range(count):
            each()
            self.advance(MINUTE)


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._body

    def read(self, *_: Any) -> bytes:
        body, self._body = self._body, b""
        return body
